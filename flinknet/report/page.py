"""A replay as one page (HTML) that works without any network: its data, style and script are in it.

Takes the JSON-ready answers of `trace replay` with their `details`. What is drawn stands in the
folder `page` next to this module: the frame, the style, and the script in the order of `_SCRIPTS`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from .advice_lines import is_on_frontier, marks_of
from .prediction_notes import notes_of
from .settings_in_words import settings_of, what_varies

Answer = dict[str, Any]

_SCRIPTS = (
    "format",
    "dom",
    "axes",
    "charts",
    "timeline",
    "trade_offs",
    "answer_card",
    "sections",
    "page",
)


def page_of(answers: Sequence[Answer]) -> str:
    """The page for some runs, each with `details`."""
    page = _part("page.html")
    parts = {
        "/*STYLE*/": _part("page.css"),
        "/*SCRIPT*/": "\n".join(_part(f"{name}.js") for name in _SCRIPTS),
        "/*DATA*/": _embedded({"replays": [_with_settings(each) for each in answers]}),
    }
    for mark, content in parts.items():
        before, after = page.split(mark)
        page = before + content + after
    return page


def _with_settings(answer: Answer) -> Answer:
    """The answer with each setting in words and marked, as in the terminal, what varies, and the
    notes of the predictions."""
    points = answer["trade_offs"]
    return answer | {
        "varies": what_varies(points),
        "notes": notes_of(answer),
        "trade_offs": [
            point
            | {
                "setting": settings_of(point),
                "marks": marks_of(answer, index),
                "is_on_frontier": is_on_frontier(answer, index),
            }
            for index, point in enumerate(points)
        ],
    }


def _embedded(document: Any) -> str:
    """JSON that stays what it is inside a script element, whatever texts it holds."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _part(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")
