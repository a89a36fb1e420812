"""Views for the cells of a notebook: tables, pictures, and whole pages in a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from flinknet.results import ReplayAnswer
from flinknet.results.figures import named

from .charts import Chart
from .model_error import model_error_text
from .plot import draw, write_chart
from .trade_words import settings_of, what_varies

if TYPE_CHECKING:
    from flinknet.storage import AnyPath

FRAME_HEIGHT_PX = 800

_FIGURES = named(["latency_p50_ns", "latency_p99_ns", "throughput_records_per_s", "buffers_per_s"])


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart; shown as SVG."""

    chart: Chart
    title: str

    def _repr_svg_(self) -> str:
        return draw(self.chart, "svg", self.title).decode()

    def save(self, path: AnyPath) -> None:
        """Write it as .svg or .png."""
        write_chart(path, self.chart, self.title)


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole page, with its own styles and scripts."""

    html: str

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" width="100%" height="{FRAME_HEIGHT_PX}"'
            ' style="border: 0"></iframe>'
        )


def html_table(names: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table under its caption."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<p>{escape(caption)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )


def answers_html(answers: Sequence[ReplayAnswer]) -> str:
    """The observed figures of each run, and its predicted settings, as HTML."""
    return "".join(
        _verdict_html(answer)
        + html_table(
            [*what_varies(answer.trade_offs), *(each.name for each in _FIGURES)],
            _rows(answer),
            f"{answer.trace.path}: observed, and predicted",
        )
        for answer in answers
    )


def _verdict_html(answer: ReplayAnswer) -> str:
    """How far the model is off, and whether to rely on the predictions."""
    found = model_error_text(answer)
    figures = "unknown" if found.figures is None else found.figures
    verdict = f"Do not rely on the predictions: {found.consequence}."
    advice = (
        f"<strong>{escape(verdict)}</strong>" if found.is_doubtful else escape(found.consequence)
    )
    return f"<p>Model error: {escape(figures)} ({escape(found.used)}).<br>{advice}</p>"


def _rows(answer: ReplayAnswer) -> Iterator[list[str]]:
    names = what_varies(answer.trade_offs)
    yield ["observed" for _ in names] + [each.text(answer.observed) for each in _FIGURES]
    for point in answer.trade_offs:
        settings = settings_of(point)
        note = " (as recorded)" if point.is_recorded else ""
        yield [settings[name] + note for name in names] + [each.text(point) for each in _FIGURES]
