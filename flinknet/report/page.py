"""A page (HTML) that works without any network: its data, style and script are in it; and pages,
pictures and tables for cells of a notebook.

A command describes its result in `page_parts`. The folder `page` next to this module holds the
frame, the style, and the scripts that draw the parts, in the order of `_SCRIPTS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any, get_args

from flinknet.plain_values import to_plain
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from .charts import AnyChart, Chart
from .page_parts import Code, Lines, Page, Pairs, Part, Section, Table, Text, View, off_terminal
from .plot import draw, write_chart

_SCRIPTS = (
    *("format", "dom", "axes", "charts", "lines", "timeline"),
    *("grid", "places", "messages", "parts", "page"),
)


def page_of(page: Page) -> str:
    text = text_of_file("page", "page.html")
    data = json.dumps(_plain(page), separators=(",", ":"), allow_nan=False)
    parts = {
        "/*STYLE*/": text_of_file("page", "page.css"),
        "/*SCRIPT*/": "\n".join(text_of_file("page", f"{name}.js") for name in _SCRIPTS),
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
        known = [(each.name, each.text) for each in off_terminal(value.headline)]
        answer = [{"kind": "headline", "sentences": known}] if known else []
        return {
            **{"name": value.name, "title": value.title},
            "parts": [*answer, *map(_plain, _in_order(value))],
            **{"lead": value.lead, "meaning": value.meaning},
        }
    if is_dataclass(value):
        value = _capitalised(value)
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


def _capitalised(value: Any) -> Any:
    if isinstance(value, Lines):
        return replace(value, lines=[*map(capital, value.lines)])
    if not isinstance(value, Text):
        return value
    name, text = (capital(value.name), value.text) if value.name else ("", capital(value.text))
    return replace(value, name=name, text=text, notes=[*map(capital, value.notes)])


def capital(text: str) -> str:
    """The text with a capital letter, unless it begins with a metric, file or name like tm-0."""
    return re.sub(r"^[a-z]+\b(?![\w-]*(\s*[<>_=]|-\d)|[.]\w)", lambda x: x[0].capitalize(), text)


_IN_CARDS = (Table, Code, Pairs, *get_args(AnyChart))


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


def write_page(path: AnyPath, page: Page) -> None:
    with whole_file(path) as file:
        file.write(page_of(page).encode())


def text_of_file(folder: str, name: str) -> str:
    return files(__package__).joinpath(folder, name).read_text(encoding="utf-8")


FRAME_HEIGHT_PX = 800


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole page in a cell of a notebook, with its own styles and scripts."""

    page: Page

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(page_of(self.page))}" width="100%"'
            f' height="{FRAME_HEIGHT_PX}" style="border: 0"></iframe>'
        )


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart in a cell of a notebook, as SVG."""

    chart: Chart
    title: str

    def _repr_svg_(self) -> str:
        return draw(self.chart, "svg", self.title).decode()

    def save(self, path: AnyPath) -> None:
        write_chart(path, self.chart, self.title)


def table_html(table: Table) -> str:
    heads = "".join(
        f"<th>{escape(f'{each.group} {each.name}'.strip())}</th>" for each in table.heads
    )
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in each.cells) for each in table.rows)
    body = "".join(f"<tr>{each}</tr>" for each in rows)
    return (
        f"<p>{escape(table.title)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
