"""DemoShown: the view of a demo, and its JSON document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flinknet.config import WorkloadConfig
from flinknet.results import (
    CORES_SHARED,
    DISTURBED,
    DISTURBED_BY_STRANGERS,
    Progress,
    RunResult,
    RunWarning,
    Validity,
    validity_by,
)
from flinknet.units import human_bytes, human_count, without_zeros

from ..charts import Color, Messages, MessageStep, OverTime, Places, Span, TimeSeries
from ..page_parts import Lines, Page, Part, Section, Sentence, Table, View, clauses_of
from ..places import PLACES, places_run, state_lines
from ..warning_lines import doubts_of_runs, trust_words

OWN_STACK = (
    "Measured with flinknet's own network stack, which speaks Flink's protocol over real sockets"
    " between processes of this machine; it is not a Flink cluster."
)

UNEXPECTED = "Unexpected"
"""First word of the lesson of a demo that did not show its effect."""

COLORS: Sequence[Color] = ("orange", "blue", "green", "purple", "gold")

MESSAGES_LEAD = (
    "The first messages of a channel, and the first ones of the measured part, as the producer's"
    " TaskManager sends and receives them. A data buffer costs one credit and carries the backlog:"
    " the buffers that wait behind it; an event costs none."
)

_LOAD_CODES = (DISTURBED, CORES_SHARED, DISTURBED_BY_STRANGERS)


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
        setup: clauses about the runs.
        lesson: sentences about the effect, with the measured numbers; the first is the verdict.
        charts: for a terminal and a page, the one with the slider first.
        pictures: charts for a page alone.
        figures: the measured numbers, as the JSON document has them.
        unaffected: the figures that doubts leave unaffected, if the effect was shown.
        explained: an explanation below the title of a page.
        channels: names of producer and consumer of each channel whose messages are shown.
    """

    name: str
    title: str
    setup: Sequence[str]
    table: Table
    charts: Sequence[Part]
    lesson: Sequence[str]
    doubts: Sequence[str]
    runs: Sequence[DemoRun]
    figures: Mapping[str, Any] = field(default_factory=dict)
    pictures: Sequence[Part] = ()
    unaffected: str = ""
    explained: str = ""
    channels: Sequence[tuple[str, str]] = (("producer", "consumer"),)

    @property
    def view(self) -> View:
        """The verdict, the table, the charts, and what else was learnt."""
        verdict, *more = self.lesson
        doubts = list(self.doubts)
        trust = trust_words(doubts, good="no other process disturbed the runs")
        if verdict.startswith(UNEXPECTED):
            trust = ["poor: the effect did not show", *(trust if doubts else [])]
        elif self.unaffected:
            doubts = [f"{each.rstrip('.')}; {self.unaffected}" for each in doubts]
        page = f"flinknet bench demo {self.name} --report demo.html"
        return View(
            [
                Sentence("ran", self.setup, "; "),
                Sentence("verdict", clauses_of(verdict), takes_rest=True),
                Sentence("trust", trust, "; "),
                Sentence("next", [f"{page} shows it step by step"]),
            ],
            [self.table, *self.charts, Lines(more), Lines(doubts, is_doubt=True)],
            page=[*self.pictures, *self._messages(), Section("about", "What ran", OWN_STACK)],
            name=self.name,
            title=self.title,
            lead=self.explained,
        )

    @property
    def page(self) -> Page:
        view = self.view
        answer = [each for each in view.headline if each.name != "next"]  # it is this page
        return Page(f"bench demo {self.name}", [replace(view, headline=answer)])

    def document(self) -> dict[str, Any]:
        """The output as JSON-ready data."""
        return {
            "demo": self.name,
            "lesson": list(self.lesson),
            "warnings": list(self.doubts),
            "measured": {
                each.name: {
                    "validity": each.result.validity.name.lower(),
                    "warnings": [asdict(one) for one in each.result.warnings],
                    "config": dict(each.result.config),
                }
                for each in self.runs
            },
            **self.figures,
        }

    def _messages(self) -> list[Section]:
        steps = {each.name: each.messages for each in self.runs if each.messages}
        parts = [Messages(self.channels, steps)]
        return [Section("messages", "The messages", MESSAGES_LEAD, parts)] if steps else []


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


def asked_rate(workload: WorkloadConfig) -> str:
    """The requested rate as text: "10 k records/s"."""
    return f"{without_zeros(human_count(workload.rate_per_s))} records/s"


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


def doubts_of(runs: Sequence[DemoRun], codes: Sequence[str] | None = _LOAD_CODES) -> list[str]:
    """Doubts about the runs.

    Args:
        codes: of the warnings that affect a comparison: a late source that is blocked is part of a
            demo. None: all that make a run doubtful.
    """

    def is_doubt(warning: RunWarning) -> bool:
        return warning.code in codes if codes else validity_by(warning) is not Validity.VALID

    return doubts_of_runs([(x.name, [*filter(is_doubt, x.result.warnings)]) for x in runs])
