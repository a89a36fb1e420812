"""Every figure of a run or a channel, once: name in files, heading, meaning, and how it is shown.
Terminal, page, CSV files and notebooks take it from here.

A figure reads from whatever has the fields: a measurement (`results.Measured`), a predicted
setting (`results.TradeOffPoint`), a channel (`results.ChannelMeasured`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from statistics import median
from typing import Any, Generic, TypeVar

from flinknet.results import LatencySummary, RunResult
from flinknet.units import MISSING, human_bytes, human_count, human_duration

from .page_parts import Head, Row, Table, Tone

UNNAMED_SETTING = "this configuration"
"""Name of the only setting of a call that sweeps nothing."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Figure(Generic[_T]):
    """A number of each row of a table.

    Attributes:
        group, name: the heading; the group stands above several names.
        read: takes it out of a row; None where it is unknown.
        show: writes it with its unit.
        field: its name in CSV files, with the unit last; empty where they do not have it.
        meaning: a sentence for a person who points at it.
    """

    group: str
    name: str
    read: Callable[[_T], float | None]
    show: Callable[[float | None], str]
    field: str = ""
    meaning: str = ""

    @property
    def title(self) -> str:
        """The heading with its group."""
        return f"{self.group} {self.name}".strip()


def _of_latency(
    prefix: str, group: str, read: str, meanings: Mapping[str, str]
) -> list[Figure[Any]]:
    """A figure for each percentile of a latency.

    Args:
        read: the attribute that has the LatencySummary.
        meanings: by percentile.
    """
    return [
        Figure(
            group,
            each.name.replace("_", "."),
            attrgetter(f"{read}.{each.name}"),
            human_duration,
            f"{prefix}_{each.name}_ns",
            meanings.get(each.name, ""),
        )
        for each in fields(LatencySummary)
        if each.name != "count"
    ]


_DUE = "records were consumed within this time after they were due."
_UNCORRECTED = "Without the time that records waited to be sent."

FIGURES: Mapping[str, Figure[Any]] = {
    each.field: each
    for each in (
        Figure(
            "", "records", attrgetter("records"), human_count, "records",
            "Due in the measured part, and consumed.",
        ),
        Figure("", "duration", attrgetter("duration_ns"), human_duration, "duration_ns"),
        Figure(
            "", "records/s", attrgetter("throughput_records_per_s"), human_count,
            "throughput_records_per_s", "Records per second that the consumers read.",
        ),
        Figure(
            "", "bytes/s", attrgetter("throughput_bytes_per_s"), human_bytes,
            "throughput_bytes_per_s", "Bytes of record values per second.",
        ),
        Figure(
            "", "buffers/s", attrgetter("buffers_per_s"), human_count, "buffers_per_s",
            "Data buffers per second over all channels; each costs CPU time on both sides.",
        ),
        *_of_latency(
            "latency", "latency", "latency_ns",
            {
                "mean": "Mean latency, from the instant at which a record was due.",
                "p50": f"Half of the {_DUE}",
                "p99": f"99 of 100 {_DUE}",
                "p99_9": f"999 of 1000 {_DUE}",
            },
        ),
        *_of_latency(
            "uncorrected_latency", "uncorrected", "latency_uncorrected_ns",
            {"p50": _UNCORRECTED, "p99": _UNCORRECTED},
        ),
        Figure(
            "backlog", "mean", attrgetter("backlog_buffers.mean"), human_count,
            "backlog_mean_buffers",
            "Data buffers still queued at the producer when one left, on average.",
        ),
        Figure(
            "backlog", "max", attrgetter("backlog_buffers.max"), human_count,
            "backlog_max_buffers", "The longest queue of data buffers that a producer announced.",
        ),
        Figure(
            "buffers", "by timeout", attrgetter("flushes.timeout"), human_count,
            "buffers_by_timeout",
        ),
        Figure("buffers", "full", attrgetter("flushes.full"), human_count, "buffers_full"),
        Figure(
            "buffers", "with event", attrgetter("flushes.event"), human_count, "buffers_with_event"
        ),
        Figure(
            "", "starved", attrgetter("credits.starved_ns"), human_duration, "credit_starved_ns"
        ),
    )
}  # fmt: skip
"""By the name in CSV files."""


def share_of_core(cores: float | None) -> str:
    """CPU time as a share of one core: "4.2%"."""
    if cores is None:
        return MISSING
    return f"{cores:.1%}" if cores < 0.0995 else f"{cores:.0%}"


CPU: Figure[RunResult] = Figure(
    "", "CPU",
    lambda run: None if run.processors is None else run.processors.cpu_cores, share_of_core,
    "used_cpu_cores", "Share of one core that the TaskManagers used together, without polling.",
)  # fmt: skip


def figure_table(
    heading: str,
    figures: Sequence[Figure[_T]],
    rows: Sequence[tuple[str, Sequence[_T]]],
    *,
    title: str = "",
    tones: Sequence[Tone] = (),
) -> Table:
    """A table with one row for each name, which has the medians of what belongs to it.

    Args:
        tones: of the rows; none: all are plain.
    """
    return Table(
        [Head(heading), *(Head(each.name, each.meaning, each.group) for each in figures)],
        [
            Row(
                [name, *(each.show(typical(map(each.read, values))) for each in figures)],
                tone=tones[number] if tones else "",
            )
            for number, (name, values) in enumerate(rows)
        ],
        title,
    )


def typical(values: Iterable[float | None]) -> float | None:
    """Median of the known values; None if there are none."""
    present = [value for value in values if value is not None]
    return median(present) if present else None


def of_run(figure: Figure[Any]) -> Figure[RunResult]:
    """The figure read from the result of a run."""
    return replace(figure, read=lambda run: figure.read(run.measured))


def named(names: Iterable[str]) -> list[Figure[Any]]:
    """Figures by their names in CSV files."""
    return [FIGURES[name] for name in names]


def cells_of(row: object, figures: Sequence[Figure[Any]]) -> list[str]:
    """Figures of a row as text."""
    return [each.show(each.read(row)) for each in figures]


def fields_of(row: object, figures: Iterable[Figure[Any]]) -> dict[str, float | None]:
    """Figures of a row by their names in CSV files."""
    return {each.field: each.read(row) for each in figures}


RUN_FIGURES: Sequence[Figure[RunResult]] = [
    *map(of_run, named(["throughput_records_per_s", "buffers_per_s"])),
    CPU,
    *map(
        of_run,
        named(
            [
                *(f"latency_{each}_ns" for each in ("p50", "p99", "max")),
                *(f"uncorrected_latency_{each}_ns" for each in ("p50", "p99")),
                *("backlog_mean_buffers", "backlog_max_buffers", "throughput_bytes_per_s"),
            ]
        ),
    ),
]
"""Columns of the result of a bench."""

CHANNEL_FIGURES: Sequence[Figure[Any]] = named(
    [
        *("records", "throughput_records_per_s", "latency_p50_ns", "latency_p99_ns"),
        *("backlog_mean_buffers", "backlog_max_buffers"),
    ]
)
"""Columns of a channel."""
