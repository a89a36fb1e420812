"""CountingLine: how much of some work is done, in a line that is written over."""

from __future__ import annotations

import sys

import click


class CountingLine:
    """A line on stderr that is written over, for a person only."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> CountingLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, count: int) -> None:
        """Say how many were done."""
        if self._is_shown:
            click.echo(f"\r\x1b[Kflinknet: {count:,} {self._noun} …", nl=False, err=True)
