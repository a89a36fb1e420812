"""DemoShown: the output of a demo: one table, a few charts, and two or three sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flinknet.results import (
    CORES_SHARED,
    DISTURBED,
    DISTURBED_BY_STRANGERS,
    Progress,
    RunResult,
)
from flinknet.units import human_count, without_zeros

from ..page_parts import Lines, OverTime, Page, Part, Section, Table, View
from ..warning_lines import merged_text, same_but_for_numbers

OWN_STACK = (
    "Measured with flinknet's own network stack, which speaks Flink's protocol over real sockets"
    " between processes of this machine; it is not a Flink cluster."
)

UNEXPECTED = "Unexpected"
"""First word of the lesson of a demo that did not show its effect."""


DOUBTFUL = "(doubtful)"
"""End of a sentence that is based on a doubtful run."""


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of a demo, with samples of its progress.

    Attributes:
        name: the setting that distinguishes this run, such as "aligned".
        measured_from_ns, measured_to_ns: bounds of the measured part, since the start of the run.
        segment_size_bytes: largest size of a buffer.
    """

    name: str
    result: RunResult
    samples: tuple[Progress, ...]
    measured_from_ns: int
    measured_to_ns: int
    segment_size_bytes: int


@dataclass(frozen=True, slots=True)
class DemoShown:
    """The output of a demo.

    Attributes:
        setup: one or two sentences about the runs.
        charts: charts of the page; the terminal also shows those over time.
        lesson: sentences about the effect, with the measured numbers.
        figures: these numbers by run, as JSON-ready data.
    """

    name: str
    title: str
    setup: str
    table: Table
    charts: Sequence[Part]
    lesson: Sequence[str]
    doubts: Sequence[str]
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def page(self) -> Page:
        """The page."""
        return demo_page(
            self.name, self.title, self.setup, self.lesson, self.doubts, [*self.charts, self.table]
        )


def demo_page(
    name: str,
    title: str,
    setup: str,
    lesson: Sequence[str],
    doubts: Sequence[str],
    parts: Sequence[Part],
    *,
    spares_lesson: bool = False,
) -> Page:
    """A page with the lesson first, then the parts. Doubts follow the lesson, or the parts if they
    do not affect the lesson (`spares_lesson`).
    """
    has_failed = any(each.startswith(UNEXPECTED) for each in lesson)
    is_doubt = has_failed or any(each.endswith(DOUBTFUL) for each in lesson)
    taught = Lines(lesson, is_doubt=is_doubt, is_headed=True)
    doubtful = [Lines([f"Warning: {each}" for each in doubts], is_doubt=True)] if doubts else []
    effect, about = (
        Section("demo", "What happens", "", parts),
        Section("about", "What ran", OWN_STACK),
    )
    if spares_lesson and not has_failed:
        view = View(name, title, [taught, effect, *doubtful, about], setup)
    else:
        view = View(name, title, [taught, *doubtful, effect, about], setup)
    return Page(f"bench demo {name}", [view])


def measured_document(result: RunResult) -> dict[str, Any]:
    """The validity, the warnings and the configuration of a run, as JSON-ready data."""
    return {
        "validity": result.validity.name.lower(),
        "warnings": [asdict(each) for each in result.warnings],
        "config": dict(result.config),
    }


def over_time_document(charts: Sequence[Part]) -> dict[str, Any]:
    """The curves over time, by title of the chart and name of the curve."""
    return {
        chart.title: {
            each.name: {"at_ns": list(each.at_ns), chart.unit: list(each.values)}
            for each in chart.series
        }
        for chart in charts
        if isinstance(chart, OverTime)
    }


def asked_rate(per_s: float) -> str:
    """The requested rate as text: "10 k records/s"."""
    return f"{without_zeros(human_count(per_s))} records/s"


def doubts_of(
    runs: Sequence[tuple[str, RunResult]],
    codes: Sequence[str] = (DISTURBED, CORES_SHARED, DISTURBED_BY_STRANGERS),
) -> list[str]:
    """The first warning that affects a comparison, with the names of the runs that have it. A late
    source that is blocked is part of the demo and no warning.
    """
    found = [(name, each) for name, run in runs for each in run.warnings if each.code in codes]
    if not found:
        return []
    code = found[0][1].code
    same = {name: each.text for name, each in found if each.code == code}
    kind = same_but_for_numbers(found[0][1].text)
    alike = {name: text for name, text in same.items() if same_but_for_numbers(text) == kind}
    names = ", ".join(f'"{name}"' for name in alike)
    where = f"{'run' if len(alike) == 1 else 'runs'} {names}: " if len(alike) < len(runs) else ""
    return [f"{where}{merged_text(list(alike.values()))}"]
