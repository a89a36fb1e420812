"""A result as one page (HTML) that works without any network: its data, style and script are in it.

Takes the answers of `trace replay` with their `details`, or what another command has described in
`page_parts`. What is drawn stands in the folder `page` next to this module: the frame, the style,
and the script in the order of `_SCRIPTS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from flinknet.plain_values import to_plain
from flinknet.results import JobAnswer, ReplayAnswer
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from .advice_lines import (
    FRONTIER,
    is_on_frontier,
    job_recommendation,
    marks_of,
    recommendations,
)
from .export import answer_document
from .job_answer_console import job_lines, job_marks, job_trades, setting_of
from .model_error import doubts_of, model_error_text
from .page_parts import Page
from .prediction_notes import notes_of
from .price_cells import trades
from .recording_lines import recording_lines
from .replay_headline import replay_sentences
from .settings_in_words import settings_of, what_varies

_SCRIPTS = (
    "format",
    "dom",
    "axes",
    "charts",
    "timeline",
    "trade_offs",
    "answer_card",
    "job",
    "sections",
    "flink",
    "lines",
    "places",
    "parts",
    "page",
)


def page_of(answers: Sequence[ReplayAnswer], jobs: Sequence[JobAnswer] = ()) -> str:
    """The page for some runs, each with `details`, and for jobs of several exchanges."""
    whole = {job.path for job in jobs}
    return _page_with(
        {
            "command": "replay",
            "replays": [
                _with_settings(each)
                | {"headline": [] if each.trace.path in whole else _lines([each])}
                for each in answers
            ],
            "jobs": [_job_in_words(each, answers) for each in jobs],
        }
    )


def page_of_parts(page: Page) -> str:
    """The page for a result that is described by parts."""
    return _page_with(to_plain(page))


def write_page(path: AnyPath, page: Page) -> None:
    """Put a page into a file."""
    with whole_file(path) as file:
        file.write(page_of_parts(page).encode())


def _page_with(document: Mapping[str, Any]) -> str:
    page = _part("page.html")
    parts = {
        "/*STYLE*/": _part("page.css"),
        "/*SCRIPT*/": "\n".join(_part(f"{name}.js") for name in _SCRIPTS),
        "/*DATA*/": _embedded(document),
    }
    for mark, content in parts.items():
        before, after = page.split(mark)
        page = before + content + after
    return page


def _with_settings(answer: ReplayAnswer) -> dict[str, Any]:
    """The answer with the sentences of the terminal, and each setting in words and marked."""
    document, points = answer_document(answer), answer.trade_offs
    return document | {
        "model_error_text": to_plain(model_error_text(answer)),
        "doubts": [*recording_lines(answer.trace), *doubts_of(answer)],
        "trades": [each.text for each in trades(answer)],
        "recommendations": [to_plain(each) for each in recommendations(answer)],
        "frontier_meaning": FRONTIER,
        "varies": what_varies(points),
        "notes": notes_of(points),
        "trade_offs": [
            plain
            | {
                "setting": settings_of(point),
                "marks": marks_of(answer, index),
                "is_on_frontier": is_on_frontier(answer, index),
            }
            for index, (plain, point) in enumerate(zip(document["trade_offs"], points, strict=True))
        ],
    }


def _job_in_words(answer: JobAnswer, replays: Sequence[ReplayAnswer]) -> dict[str, Any]:
    """The answer about a job with what the terminal says of it as a whole and of each setting."""
    own = [each for each in replays if each.trace.path == answer.path]
    document: dict[str, Any] = to_plain(answer)
    points = zip(document["points"], answer.points, strict=True)
    advised = job_recommendation(answer)
    return document | {
        "lines": job_lines(answer),
        "trades": [each.text for each in job_trades(answer)],
        "recommendations": [to_plain(advised)] if advised is not None else [],
        "headline": _lines(own, answer),
        "points": [
            plain | {"setting": setting_of(answer, point), "marks": job_marks(answer, place)}
            for place, (plain, point) in enumerate(points)
        ],
    }


def _lines(own: Sequence[ReplayAnswer], job: JobAnswer | None = None) -> list[tuple[str, str]]:
    """The sentences of the answer, whole, each with its name."""
    return [(each.name, each.text) for each in replay_sentences(own, job) if each.clauses]


def _embedded(document: Any) -> str:
    """JSON that stays intact inside a script element, whatever texts it holds."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _part(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")
