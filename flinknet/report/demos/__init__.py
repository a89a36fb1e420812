"""Demos: what `flinknet bench demo` shows of its runs. The scenarios stand in the command
(`cli/bench_demo.py`).

    links           head-of-line, timeout and wan: what settings do on one connection
    overload        back-pressure, unaligned and debloating: a consumer that cannot keep up
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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

from ..charts import Color, Lane, Messages, MessageStep, OverTime, Span
from ..page_parts import Lines, Page, Part, Section, Sentence, Table, View, clauses_of
from ..places import places_of, total_over_time
from ..warning_lines import doubts_of_runs, trust_words

OWN_STACK = (
    "Measured with flinknet's own network stack, which speaks Flink's protocol over real sockets"
    " between processes of this machine; it is not a Flink cluster."
)

UNEXPECTED = "Unexpected"
"""First word of the lesson of a demo that did not show its effect."""

COLORS: Sequence[Color] = ("orange", "blue", "green", "purple", "gold")

MESSAGES_LEAD = (
    "The first messages of a channel, and then those around a checkpoint's barrier, or else the"
    " first ones of the measured part, as the producer's TaskManager sends and receives them. The"
    " backlog of a barrier that is not aligned is what it overtakes. A data buffer costs one credit"
    " and carries the backlog: the buffers that wait behind it; an event costs none."
)


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


@dataclass(frozen=True, slots=True)
class DemoShown:
    """The output of a demo.

    Attributes:
        setup: clauses about the runs.
        lesson: sentences about the effect, with the measured numbers; the first is the verdict.
        figures: the measured numbers, as the JSON document has them.
        charts: for a terminal and a page, the one with the slider first.
        pictures: charts for a page alone.
        curves: charts whose values the JSON document has.
        codes: of the warnings that affect the comparison of the runs: a late source that is blocked
            is part of a demo. Empty: all that make a run doubtful.
        unaffected: the figures that doubts leave unaffected, if the effect was shown.
        explained: an explanation below the title of a page.
        channels: names of producer and consumer of each channel whose messages are shown.
    """

    name: str
    title: str
    setup: Sequence[str]
    table: Table
    lesson: Sequence[str]
    runs: Sequence[DemoRun]
    figures: Mapping[str, Any]
    charts: Sequence[Part] = ()
    pictures: Sequence[Part] = ()
    curves: Sequence[OverTime] = ()
    codes: Sequence[str] = (DISTURBED, CORES_SHARED, DISTURBED_BY_STRANGERS)
    unaffected: str = ""
    explained: str = ""
    channels: Sequence[tuple[str, str]] = (("producer", "consumer"),)

    @property
    def doubts(self) -> list[str]:
        """Doubts about the runs."""

        def is_doubt(warning: RunWarning) -> bool:
            is_valid = validity_by(warning) is Validity.VALID
            return warning.code in self.codes if self.codes else not is_valid

        return doubts_of_runs([(x.name, [*filter(is_doubt, x.result.warnings)]) for x in self.runs])

    @property
    def view(self) -> View:
        """The verdict, the table, the charts, and what else was learnt."""
        verdict, *more = self.lesson
        doubts = self.doubts
        trust = trust_words(doubts, good="no other process disturbed the runs")
        if verdict.startswith(UNEXPECTED):
            trust = ["poor: the effect did not show", *(trust if doubts else [])]
        elif self.unaffected:
            doubts = [f"{each.rstrip('.')}; {self.unaffected}" for each in doubts]
        steps = {each.name: each.messages for each in self.runs if each.messages}
        messages = [Messages(self.channels, steps)] if steps else []
        return View(
            [
                Sentence("ran", self.setup, "; "),
                Sentence("verdict", clauses_of(verdict), takes_rest=True),
                Sentence("trust", trust, "; "),
                Sentence("next", ["--report demo.html shows it step by step"]),
            ],
            [self.table, *self.charts, Lines(more), Lines(doubts, is_doubt=True)],
            page=[
                *self.pictures,
                *(Section("messages", "The messages", MESSAGES_LEAD, [x]) for x in messages),
                Section("about", "What ran", OWN_STACK),
            ],
            name=self.name,
            title=self.title,
            lead=self.explained,
        )

    @property
    def page(self) -> Page:
        return Page(f"bench demo {self.name}", [self.view])

    def document(self) -> dict[str, Any]:
        """The output as JSON-ready data."""
        over_time = {
            chart.title: {
                each.name: {"at_ns": list(each.at_ns), chart.unit: list(each.values)}
                for each in chart.series
            }
            for chart in self.curves
        }
        return {
            "demo": self.name,
            "lesson": list(self.lesson),
            "warnings": self.doubts,
            "measured": {
                each.name: {
                    "validity": each.result.validity.name.lower(),
                    "warnings": [asdict(one) for one in each.result.warnings],
                    "config": dict(each.result.config),
                }
                for each in self.runs
            },
            **self.figures,
            **({"over_time": over_time} if over_time else {}),
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


def in_flight(
    runs: Sequence[DemoRun], title: str, spans: Sequence[Span], to_ns: float = math.inf
) -> OverTime:
    """Bytes in the six places of each run, with its checkpoints in a lane below."""
    drawn = [*zip(runs, COLORS, strict=False)]
    series = [total_over_time(x.name, x.result.buffering, color, to_ns) for x, color in drawn]
    lanes = [Lane(x.name, color, x.result.checkpoint_spans_ns) for x, color in drawn]
    shown = [each for each in lanes if each.spans]
    return OverTime(
        title,
        series,
        "bytes",
        "Bytes in the six places between producer and consumer. Click to go to an instant.",
        spans,
        y="bytes",
        lanes=shown,
        in_lanes="checkpoints, from the trigger to the last acknowledgement" if shown else "",
    )


def six_places(runs: Sequence[DemoRun], curve: OverTime) -> list[Part]:
    """The six places of each run under one slider, above a curve; none if no samples were taken."""
    places = places_of({each.name: each.result for each in runs}, curve)
    return [places] if places.runs else []
