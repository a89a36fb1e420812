"""Consoles that results are printed on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from .plain_text import printable

WIDTH_OFF_TERMINAL = 140


class TerminalConsole(Console):
    """A console that prints its own control sequences, and removes those in printed texts, which
    come from files of others.

    Attributes:
        has_any_width: it is neither a terminal nor is its width asked for, so a table may be as
            wide as it needs.
    """

    has_any_width = False

    def on_broken_pipe(self) -> None:
        """Let the command line decide on the exit code; rich exits with 1, a failed check."""
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Take control characters, which have no width, out of every piece of text."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def console_for(stream: IO[str]) -> Console:
    """A console that does not squeeze tables into 80 columns where there is no terminal, unless
    COLUMNS sets its width."""
    console = TerminalConsole(file=stream, highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return console
    console = TerminalConsole(file=stream, highlight=False, width=WIDTH_OFF_TERMINAL)
    console.has_any_width = True
    return console


def print_line(console: Console, line: Text | str, *, indent: int = 0) -> None:
    """Print a sentence: whole off a terminal, between words on one.

    Args:
        indent: spaces before it, and before the rest of it on further lines.
    """
    text = Text(line) if isinstance(line, str) else line
    if console.is_terminal:
        console.print(Padding.indent(text, indent) if indent else text)
    else:
        console.print(Text.assemble(" " * indent, text), soft_wrap=True)
