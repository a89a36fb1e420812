"""DemoShown: the output of a demo: a table, charts, and two or three sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flinknet.results import CORES_SHARED, DISTURBED, DISTURBED_BY_STRANGERS, Progress, RunResult
from flinknet.units import human_bytes, human_count, without_zeros

from ..charts import Color, Messages, MessageStep, OverTime, Places, Span, TimeSeries
from ..page_parts import Lines, Page, Part, Section, Table, View
from ..places import PLACES, places_run, state_lines
from ..warning_lines import merged_text, same_but_for_numbers

OWN_STACK = (
    "Measured with flinknet's own network stack, which speaks Flink's protocol over real sockets"
    " between processes of this machine; it is not a Flink cluster."
)

UNEXPECTED = "Unexpected"
"""First word of the lesson of a demo that did not show its effect."""

DOUBTFUL = "(doubtful)"
"""End of a sentence that is based on a doubtful run."""

COLORS: Sequence[Color] = ("orange", "blue", "green", "purple", "gold")


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of a demo, with samples of its progress.

    Attributes:
        name: the setting that distinguishes this run, such as "aligned".
        measured_from_ns, measured_to_ns: bounds of the measured part, since the start of the run.
        segment_size_bytes: largest size of a buffer.
        messages: some messages between the TaskManagers, in the order of time; for a page.
    """

    name: str
    result: RunResult
    samples: tuple[Progress, ...]
    measured_from_ns: int
    measured_to_ns: int
    segment_size_bytes: int
    messages: tuple[MessageStep, ...] = ()

    def measured_span(self, name: str) -> Span:
        """The measured part, with a name."""
        return Span(name, self.measured_from_ns, self.measured_to_ns)

    def between(self, color: Color, to_ns: float = math.inf) -> TimeSeries:
        """Bytes in all six places over time."""
        buffering = self.result.buffering
        samples = [x for x in (buffering.samples if buffering else ()) if x.at_ns < to_ns]
        values = [each.levels.total_bytes for each in samples]
        return TimeSeries(self.name, [each.at_ns for each in samples], values, color)


@dataclass(frozen=True, slots=True)
class DemoShown:
    """The output of a demo.

    Attributes:
        setup: one or two sentences about the runs.
        charts: charts of the page, the one with the slider first.
        plots: charts of the terminal: those of a group stand next to each other.
        lesson: sentences about the effect, with the measured numbers; the first is the headline.
        figures: these numbers, as the JSON document has them.
        is_missed: a goal of the demo was missed, though its effect was shown.
        unaffected: a sentence about figures that the doubts leave unaffected, if the effect was
            shown; empty for none.
        explained: what a page says in addition to the setup.
        channels: names of producer and consumer of each channel whose messages are shown.
    """

    name: str
    title: str
    setup: str
    table: Table
    charts: Sequence[Part]
    lesson: Sequence[str]
    doubts: Sequence[str]
    runs: Sequence[DemoRun]
    figures: Mapping[str, Any] = field(default_factory=dict)
    plots: Sequence[Sequence[OverTime]] = ()
    is_missed: bool = False
    unaffected: str = ""
    explained: str = ""
    channels: Sequence[tuple[str, str]] = (("producer", "consumer"),)

    @property
    def _has_failed(self) -> bool:
        return any(each.startswith(UNEXPECTED) for each in self.lesson)

    @property
    def limited_doubts(self) -> list[str]:
        """The doubts, each with the figures that it leaves unaffected."""
        return [each if self._has_failed else each + self.unaffected for each in self.doubts]

    @property
    def page(self) -> Page:
        """The page: the lesson, charts and table, and the messages. Doubts follow the lesson, or
        the charts if they do not affect it."""
        has_failed = self._has_failed
        is_doubt = has_failed or any(each.endswith(DOUBTFUL) for each in self.lesson)
        taught = Lines(self.lesson, is_doubt, is_headed=True, is_plain=self.is_missed)
        warnings = [f"Warning: {each}" for each in self.limited_doubts]
        doubtful = [Lines(warnings, is_doubt=True)] if warnings else []
        effect = Section("demo", "What happens", "", [*self.charts, self.table])
        about = Section("about", "What ran", OWN_STACK)
        parts: list[Section | Lines] = [taught, *doubtful, effect]
        if self.unaffected and not has_failed:
            parts = [taught, effect, *doubtful]
        lead = f"{self.setup} {self.explained}".strip()
        shown = [*parts, *self._messages(), about]
        view = View(name=self.name, title=self.title, parts=shown, lead=lead)
        return Page(f"bench demo {self.name}", [view])

    def document(self, runs: Sequence[DemoRun]) -> dict[str, Any]:
        """The output as JSON-ready data."""
        return {
            "demo": self.name,
            "lesson": list(self.lesson),
            "warnings": list(self.doubts),
            "measured": measured_document({each.name: each.result for each in runs}),
            **self.figures,
        }

    def _messages(self) -> list[Section]:
        """The messages of each run; none if no trace was recorded."""
        recorded = [each for each in self.runs if each.messages]
        if not recorded:
            return []
        lead = (
            "The first messages of a channel, and the first ones of the measured part, as the"
            " producer's TaskManager sends and receives them. A data buffer costs one credit and"
            " carries the backlog: the buffers that wait behind it; an event costs none."
        )
        steps = {each.name: each.messages for each in recorded}
        return [Section("messages", "The messages", lead, [Messages(self.channels, steps)])]


def measured_document(runs: Mapping[str, RunResult]) -> dict[str, Any]:
    """The validity, the warnings and the configuration of each run, as JSON-ready data."""
    return {
        name: {
            "validity": result.validity.name.lower(),
            "warnings": [asdict(each) for each in result.warnings],
            "config": dict(result.config),
        }
        for name, result in runs.items()
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


def words_of(kind: str, data_type: str, number: int, size: int, backlog: int, value: int) -> str:
    """A message in the words of `trace dissector`: "Buffer #1 2.05 KiB backlog 0"."""
    if kind == "BUFFER_RESPONSE":
        what = human_bytes(size) if data_type == "DATA_BUFFER" else data_type
        return f"Buffer #{number} {what} backlog {backlog}"
    words = "".join(part.capitalize() for part in kind.split("_"))
    sign = {"ADD_CREDIT": "+", "PARTITION_REQUEST": "credit "}.get(kind, "")
    return f"{words} {sign}{value}" if value >= 0 else words


def asked_rate(per_s: float) -> str:
    """The requested rate as text: "10 k records/s"."""
    return f"{without_zeros(human_count(per_s))} records/s"


def six_places(
    runs: Sequence[DemoRun], spans: Sequence[Span], curve: OverTime | None = None
) -> list[Part]:
    """The six places of each run under one slider, above a curve, which is else that of the bytes
    in them; none if no samples were taken."""
    shown = [
        places_run(run.name, run.result.buffering, state_lines(run.result.buffering))
        for run in runs
        if run.result.buffering is not None
    ]
    if not shown:
        return []
    series = [run.between(color) for run, color in zip(runs, COLORS, strict=False)]
    meaning = "Bytes in all six places. Click to go to an instant."
    curve = curve or OverTime("Between the tasks", series, "bytes", meaning, spans)
    names, meanings = zip(*PLACES, strict=True)
    return [Places(names, meanings, shown, curve)]


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
