"""The answer in at most six lines, to be pasted into an incident channel or a review.

Each command gives the sentences; this module fits them into LINES_MAX lines of WIDTH columns. What
does not fit is left out clause by clause, from the end: it stands in the tables of `--details`, on
the page and in the JSON.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from .page_parts import STOPS, Sentence

LINES_MAX, WIDTH = 6, 100
"""Lines, and columns of each, at most."""
NAME_WIDTH = 11
"""Columns for the name of a sentence, such as "verdict"."""


def headline(sentences: Iterable[Sentence], width: int = WIDTH) -> list[str]:
    """The lines of an answer; sentences without clauses are left out. On a terminal narrower than
    WIDTH each sentence takes as many lines as it needs."""
    known = [each for each in sentences if each.clauses]
    spare = LINES_MAX - len(known)
    lines_of: dict[str, list[str]] = {}
    for each in sorted(known, key=lambda sentence: not sentence.takes_rest):
        lines_of[each.name] = _fitted(each, width, 1 + spare)
        spare -= min(len(lines_of[each.name]) - 1, spare)
    return [line for each in known for line in lines_of[each.name]]


def last_part(path: str) -> str:
    """The name of a run directory without the directories above it."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def clauses_of(text: str) -> list[str]:
    """Sentences split where their clauses end, to be joined with spaces."""
    return re.split(r"(?<=;) |(?<=\.) (?=[A-Z0-9])", text)


def _fitted(sentence: Sentence, width: int, most: int) -> list[str]:
    """The lines of a sentence, `most` of them at WIDTH columns."""
    room, clauses, separator = width - NAME_WIDTH, list(sentence.clauses), sentence.separator
    most = most if width >= WIDTH else room * len(clauses)
    while len(lines := textwrap.wrap(separator.join(clauses).rstrip(STOPS), room)) > most:
        if len(clauses) == 1 and separator != ", ":  # a long clause ends at a comma
            clauses, separator = re.split(r", (?![^(]*\))", clauses[0]), ", "
        if len(clauses) == 1:
            cut = textwrap.shorten(" ".join(lines[most - 1 :]), room, placeholder=" …")
            lines = [*lines[: most - 1], cut]
            break
        clauses.pop()
    indents = [sentence.name.ljust(NAME_WIDTH), *[" " * NAME_WIDTH] * (len(lines) - 1)]
    return [indent + line for indent, line in zip(indents, lines, strict=True)]
