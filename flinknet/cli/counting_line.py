"""CountingLine: a progress line that counts and overwrites itself."""

from __future__ import annotations

import sys

import click


class CountingLine:
    """A progress line on stderr that overwrites itself; shown only on a terminal."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> CountingLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, count: int) -> None:
        if self._is_shown:
            click.echo(f"\r\x1b[Kflinknet: {count:,} {self._noun} …", nl=False, err=True)
