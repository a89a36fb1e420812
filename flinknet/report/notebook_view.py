"""Views for the cells of a notebook: tables, pictures, and whole pages in a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from flinknet.results import Measured, ReplayAnswer
from flinknet.units import human_count, human_duration

from .model_error import model_error_text
from .page_parts import Chart
from .plot import draw, write_chart
from .settings_in_words import settings_of, what_varies

if TYPE_CHECKING:
    from flinknet.storage import AnyPath

FRAME_HEIGHT_PX = 800


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


def html_table(rows: Sequence[Mapping[str, str]], caption: str) -> str:
    """Rows with the same names as a table."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in rows[0]) if rows else ""
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.values())}</tr>" for row in rows
    )
    return (
        f"<p>{escape(caption)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )


def answers_html(answers: Sequence[ReplayAnswer]) -> str:
    """The observed figures of each run, and its predicted settings, as HTML."""
    return "".join(
        _verdict_html(answer)
        + html_table(list(_rows(answer)), f"{answer.trace.path}: observed, and predicted")
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


def _rows(answer: ReplayAnswer) -> Iterator[dict[str, str]]:
    names = what_varies(answer.trade_offs)
    yield dict.fromkeys(names, "observed") | _figures(answer.observed)
    for point in answer.trade_offs:
        settings = settings_of(point)
        note = " (as recorded)" if point.is_recorded else ""
        yield {name: settings[name] + note for name in names} | {
            "p50": human_duration(point.latency_ns.p50),
            "p99": human_duration(point.latency_ns.p99),
            "records/s": human_count(point.throughput_records_per_s),
            "buffers/s": human_count(point.buffers_per_s),
        }


def _figures(measured: Measured) -> dict[str, str]:
    return {
        "p50": human_duration(measured.latency_ns.p50),
        "p99": human_duration(measured.latency_ns.p99),
        "records/s": human_count(measured.throughput_records_per_s),
        "buffers/s": human_count(measured.buffers_per_s),
    }
