"""Demos: what `flinknet bench demo` shows of its runs. The scenarios, tables and texts of the demos
are data, in demos.toml, and the words about messages in messages.toml.

    links           head-of-line, timeout and wan: what settings do on one connection
    overload        back-pressure, unaligned and debloating: a consumer that cannot keep up
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from operator import itemgetter
from string import Formatter
from typing import Any

from flinknet import results
from flinknet.config import WorkloadConfig
from flinknet.options import BUFFER_TIMEOUT, EXCLUSIVE_BUFFERS, FLOATING_BUFFERS, SEGMENT_SIZE
from flinknet.results.figures import BACK_PRESSURED, BUSY, FIGURES, IDLE, SHOWN, Figure, reader
from flinknet.units import human_bytes, human_count, human_duration, without_zeros

from ..charts import Color, Messages, MessageStep, OverTime, Span
from ..page import text_of_file
from ..page_parts import (
    Code,
    Lines,
    Page,
    Part,
    Row,
    Section,
    Sentence,
    Table,
    View,
    clauses_of,
    heads,
    medians_of,
    table_of,
)
from ..places import QUOTA
from ..trade_words import option_texts
from ..warning_lines import doubts_of_runs, trust_words

OWN_STACK = (
    "Measured with flinknet's own network stack, which speaks Flink's protocol over real sockets"
    " between processes of this machine; it is not a Flink cluster."
)

SHOWN_EFFECT, NOT_SHOWN = "lesson", "unexpected"
"""Texts of a demo whose runs show its effect, and of one whose runs do not."""

COLORS: Sequence[Color] = ("orange", "blue", "green", "purple", "gold")

MESSAGES_LEAD = (
    "As the producer's TaskManager sends and receives them: the first ones, then {then}. A data"
    " buffer costs one credit and carries the backlog: the buffers that wait behind it; an event"
    " costs none. In Wireshark they have the same names (flinknet trace dissector)."
)
BARRIER = "CheckpointBarrier"

_MESSAGES: dict[str, dict[str, str]] = tomllib.loads(text_of_file("demos", "messages.toml"))

MEANINGS, _EVENTS = _MESSAGES["meanings"], _MESSAGES["events"]
"""The meaning of each kind of message, by words that it contains; the event of each data type."""


@cache
def _demos() -> dict[str, dict[str, Any]]:
    return tomllib.loads(text_of_file("demos", "demos.toml"))


class _Texts(Formatter):
    """Fills texts with figures, each with its unit: "{rate:count}"."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        show = SHOWN.get(format_spec)
        return super().format_field(value, format_spec) if show is None else show(value)


def texts(name: str, what: str, facts: Mapping[str, Any] | None = None) -> list[str]:
    """The texts of a demo on a subject, filled with facts; none if it has none."""
    found = _demos()[name].get(what, [])
    own = [found] if isinstance(found, str) else found
    return [_Texts().vformat(each, (), facts or {}) for each in own]


def consumer_time(name: str) -> float:
    """Time of the demo's consumer for a record, as a multiple of that in which one is made."""
    return float(_demos()[name]["consumer_time"])


def columns_of(name: str) -> list[Figure[Any]]:
    known = {**FIGURES, **{each.field: each for each in (BUSY, BACK_PRESSURED, IDLE)}}
    found: list[Figure[Any]] = []
    for each in _demos()[name].get("columns", ()):
        if isinstance(each, str):
            field, _, place = each.partition(": ")
            figure = replace(known[field], group="")
            found.append(replace(figure, read=reader(place)) if place else figure)
        else:
            group, heading, place, *more = each
            own: list[Any] = [*more, *["count", ""][len(more) :]]
            found.append(Figure(group, heading, reader(place), own[0], "", own[1]))
    return found


def _slow_words(run: results.RunResult) -> str:
    slow = [each["delay_ns_per_record"] for each in run.workload.get("slow_consumers", ())]
    return ", ".join("paused" if each < 0 else human_duration(each) for each in slow)


_SETTINGS: Mapping[str, Callable[[results.RunResult], str | None]] = {
    "records of each producer in a second": lambda x: option_texts(x.workload).get("rate_per_s"),
    "size of a record": lambda x: option_texts(x.workload).get("record_size"),
    "a slow consumer's time for a record": _slow_words,
    "exclusive buffers of a channel": lambda x: x.config.get(EXCLUSIVE_BUFFERS),
    "floating buffers of a consumer": lambda x: x.config.get(FLOATING_BUFFERS),
    "most buffers of a channel at its producer": lambda x: x.config.get(QUOTA),
    "size of a buffer": lambda x: x.config.get(SEGMENT_SIZE),
    "buffer timeout": lambda x: x.config.get(BUFFER_TIMEOUT),
}
"""Settings that a page has of the runs."""


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of a demo, with samples of its progress."""

    name: str  # the setting that distinguishes this run, such as "aligned"
    result: results.RunResult
    samples: tuple[results.Progress, ...]
    measured_from_ns: int  # bounds of the measured part, since the start of the run
    measured_to_ns: int
    segment_size_bytes: int  # largest size of a buffer
    messages: tuple[MessageStep, ...] = ()  # some between the TaskManagers, for a page

    def measured_span(self, name: str) -> Span:
        return Span(name, self.measured_from_ns, self.measured_to_ns)


@dataclass(frozen=True, slots=True)
class DemoShown:
    """The output of a demo. `verdict` is the name of the texts on the effect, the first of which is
    the verdict: SHOWN_EFFECT, or another where the effect did not show. `codes` are those of the
    warnings that affect the comparison of the runs, as a late source that is blocked is part of a
    demo; empty: of all that make a run doubtful."""

    name: str
    runs: Sequence[DemoRun]
    rows: Sequence[tuple[str, Sequence[Any]]]  # names, and what their figures are read from
    figures: Mapping[str, Any]  # the measured numbers, as the JSON document has them
    facts: Mapping[str, Any]  # figures in its texts
    verdict: str = SHOWN_EFFECT
    more: Sequence[str] = ()  # names of further texts on the effect
    notes: Sequence[str] = ()  # names of texts below the table
    columns: Sequence[Figure[Any]] = ()  # of the table, where they are not those of the data
    charts: Sequence[Part] = ()  # for a terminal and a page, the one with the slider first
    pictures: Sequence[Part] = ()  # charts for a page alone
    curves: Sequence[OverTime] = ()  # charts whose values the JSON document has
    codes: Sequence[str] = (
        *(results.DISTURBED, results.CORES_SHARED, results.DISTURBED_BY_STRANGERS),
    )
    channels: Sequence[tuple[str, str]] = (("producer", "consumer"),)  # with shown messages
    command: str = ""  # that made the output, to be copied from a page

    def texts(self, *names: str) -> list[str]:
        """Texts of the demo."""
        return [text for each in names for text in texts(self.name, each, self.facts)]

    @property
    def lesson(self) -> list[str]:
        return self.texts(self.verdict, *self.more)

    @property
    def table(self) -> Table:
        (heading,), notes = self.texts("rows"), self.texts("notes", *self.notes)
        figures = medians_of(self.columns or columns_of(self.name), itemgetter(1))
        return table_of(self.rows, {heading: itemgetter(0), **figures}, notes=notes)

    @property
    def doubts(self) -> list[str]:
        def is_doubt(warning: results.RunWarning) -> bool:
            is_valid = results.validity_by(warning) is results.Validity.VALID
            return warning.code in self.codes if self.codes else not is_valid

        return doubts_of_runs([(x.name, [*filter(is_doubt, x.result.warnings)]) for x in self.runs])

    @property
    def view(self) -> View:
        verdict, *more = self.lesson
        doubts = self.doubts
        good = "no other process disturbed the runs"
        marked = [x for x in self.runs if x.result.validity is results.Validity.DOUBTFUL]
        is_told = marked and not self.codes  # rows are marked for any doubt about their runs
        rows = [f"doubtful rows (!): {len(marked)} of {len(self.runs)}"] if is_told else []
        trust = trust_words([*rows, *doubts], good=good, says_invalid=True)
        if self.verdict != SHOWN_EFFECT:
            trust = ["poor: the effect did not show", *(trust if doubts else [])]
        else:
            for unaffected in self.texts("unaffected"):
                doubts = [f"{each.rstrip('.')}; {unaffected}" for each in doubts]
        steps = {each.name: each.messages for each in self.runs if each.messages}
        messages = [Messages(self.channels, steps, MEANINGS)] if steps else []
        has_barriers = any(BARRIER in one.text for own in steps.values() for one in own)
        then = ["those around a barrier" if has_barriers else "the first ones of the measured part"]
        lead = MESSAGES_LEAD.format(then=", then ".join([*then, *self.texts("then")]))
        return View(
            [
                Sentence("ran", self.texts("setup")),
                Sentence("verdict", clauses_of(verdict), " ", takes_rest=True),
                Sentence("trust", trust),
                Sentence("next", ["--report demo.html shows it step by step"]),
            ],
            [self.table, *self.charts, Lines(more), Lines(doubts, is_doubt=True)],
            page=[
                *self.pictures,
                *(Section("messages", "The messages", lead, [x]) for x in messages),
                Section("about", "What ran", OWN_STACK, self._ran),
            ],
            name=self.name,
            title="".join(self.texts("title")),
            lead="".join(self.texts("explained")),
        )

    @property
    def _ran(self) -> list[Part]:
        """The load and the settings, with all values that runs have, and the command."""
        rows = []
        for name, read in _SETTINGS.items():
            values = dict.fromkeys(filter(None, (read(each.result) for each in self.runs)))
            if values:
                rows.append(Row([name, "; ".join(values)]))
        ran: list[Part] = [Table(heads("setting", "value"), rows)] if rows else []
        return [*ran, *([Code("command", self.command)] if self.command else [])]

    @property
    def page(self) -> Page:
        return Page(f"bench demo {self.name}", [self.view])

    def document(self) -> dict[str, Any]:
        over_time = {
            chart.title: {
                each.name: {"at_ns": list(each.at_ns), chart.unit: list(each.values)}
                for each in chart.series
            }
            for chart in self.curves
        }
        return {
            "demo": self.name,
            "lesson": self.lesson,
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
        is_data = data_type == "DATA_BUFFER"
        what = human_bytes(size) if is_data else _EVENTS.get(data_type, data_type)
        return f"Buffer #{number} {what} backlog {backlog}"
    words = "".join(part.capitalize() for part in kind.split("_"))
    sign = {"ADD_CREDIT": "+", "PARTITION_REQUEST": "credit "}.get(kind, "")
    return f"{words} {sign}{value}" if value >= 0 else words


def asked_rate(workload: WorkloadConfig) -> str:
    """The requested rate as text: "10 k records/s"."""
    return f"{without_zeros(human_count(workload.rate_per_s))} records/s"
