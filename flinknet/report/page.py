"""A page (HTML) that works without any network: its data, style and script are in it.

A command describes its result in `page_parts`. The folder `page` next to this module holds the
frame, the style, and the scripts that draw the parts, in the order of `_SCRIPTS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from importlib.resources import files
from itertools import groupby
from typing import Any, get_args

from flinknet.plain_values import to_plain
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from .charts import AnyChart
from .page_parts import Lines, Page, Pairs, Part, Section, Sentence, Table, View

_SCRIPTS = (
    *("format", "dom", "axes", "charts", "lines", "timeline"),
    *("grid", "places", "messages", "parts", "page"),
)


def page_of(page: Page) -> str:
    """The text of a page."""
    text = _part("page.html")
    data = json.dumps(_plain(page), separators=(",", ":"), allow_nan=False)
    parts = {
        "/*STYLE*/": _part("page.css"),
        "/*SCRIPT*/": "\n".join(_part(f"{name}.js") for name in _SCRIPTS),
        "/*DATA*/": data.replace("<", "\\u003c"),  # intact in a script element
    }
    for mark, content in parts.items():
        before, after = text.split(mark)
        text = before + content + after
    return text


_OF_TERMINAL = {"group": "", "is_text": False, "tone": "", "keys": 1}
"""Fields that terminals use, with their defaults."""

_KINDS = {
    each: re.sub("(?<=[a-z])(?=[A-Z])", "_", each.__name__).lower()
    for each in (*get_args(Part), Section)
}
"""Names of parts in the script."""


def _plain(value: Any) -> Any:
    """Plain data with the kind of each part, without fields that only a terminal needs."""
    if isinstance(value, View):
        return {
            **{"name": value.name, "title": value.title},
            "parts": [*_answer(value.headline), *map(_plain, _in_order(value))],
            **{"lead": value.lead, "meaning": value.meaning},
        }
    if is_dataclass(value):
        kind = _KINDS.get(type(value))
        found = {} if kind is None else {"kind": kind}
        for each in fields(value):
            own = getattr(value, each.name)
            if _OF_TERMINAL.get(each.name, value) != own:
                found[each.name] = _plain(own)
        return found
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return [*map(_plain, value)] if isinstance(value, tuple | list) else to_plain(value)


_IN_CARDS = (Table, Pairs, *get_args(AnyChart))


def _in_order(view: View) -> Iterator[Part | Section]:
    """The parts of a view as a page shows them: tables and charts that follow each other share a
    card."""
    parts = [
        each
        for each in (*view.parts, *view.page, *view.details)
        if not isinstance(each, Lines) or each.lines
    ]
    for is_in_card, own in groupby(parts, lambda each: isinstance(each, _IN_CARDS)):
        if is_in_card:
            yield Section(parts=[*own])  # type: ignore[list-item]
        else:
            yield from own


def _answer(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """The headline as a part, without what only a terminal can do; nothing without one."""
    own = [
        replace(each, clauses=[x for x in each.clauses if not x.startswith("--")])
        for each in sentences
    ]
    known = [(each.name, each.text) for each in own if each.clauses]
    return [{"kind": "headline", "sentences": known}] if known else []


def write_page(path: AnyPath, page: Page) -> None:
    """Put a page into a file."""
    with whole_file(path) as file:
        file.write(page_of(page).encode())


def _part(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")
