"""A page (HTML) that works without any network: its data, style and script are in it.

A command describes its result in `page_parts`. The folder `page` next to this module holds the
frame, the style, and the scripts that draw the parts, in the order of `_SCRIPTS`.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from flinknet.plain_values import to_plain
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from .page_parts import Page

_SCRIPTS = (
    *("format", "dom", "axes", "charts", "lines", "timeline"),
    *("grid", "places", "messages", "parts", "page"),
)


def page_of(page: Page) -> str:
    """The text of a page."""
    text = _part("page.html")
    data = json.dumps(_without_defaults(to_plain(page)), separators=(",", ":"), allow_nan=False)
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


def _without_defaults(value: Any) -> Any:
    """The data without fields that only a terminal needs."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if _OF_TERMINAL.get(k, value) != v}
        return {key: _without_defaults(each) for key, each in kept.items()}
    return [_without_defaults(each) for each in value] if isinstance(value, list) else value


def write_page(path: AnyPath, page: Page) -> None:
    """Put a page into a file."""
    with whole_file(path) as file:
        file.write(page_of(page).encode())


def _part(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")
