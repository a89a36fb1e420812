"""Every figure of a run or a channel, once, for tables, CSV files, comparison and notebook.

A figure reads from whatever has the fields: a measurement (`Measured`), a predicted setting
(`TradeOffPoint`), a channel (`ChannelMeasured`), or their plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Any, Generic, Literal, TypeVar

from flinknet import units

from .measures import LatencySummary
from .run import RunResult

_T = TypeVar("_T")

Unit = Literal["ns", "bytes", "count", "share", "cores", "change", "level"]
"""How numbers are written: as durations, sizes, counts, in percent, or as a bar of that length."""


def share_of_core(cores: float | None) -> str:
    """CPU time as "4.2%" of one core."""
    if cores is None:
        return units.MISSING
    return f"{cores:.1%}" if cores < 0.0995 else f"{cores:.0%}"


SHOWN: Mapping[str, Callable[[float | None], str]] = {
    "ns": units.human_duration,
    "bytes": units.human_bytes,
    "count": units.human_count,
    "share": units.human_share,
    "cores": share_of_core,
    "change": units.human_change,
    "level": units.human_level,
}
"""Text of a number, by its unit."""


@dataclass(frozen=True, slots=True)
class Figure(Generic[_T]):
    """A number of each row of a table, under a name; a group stands above several names."""

    group: str
    name: str
    read: Callable[[_T], float | None]  # takes it out of a row; None where it is unknown
    unit: Unit = "count"
    field: str = ""  # its name in CSV files, with the unit last; empty where they do not have it
    meaning: str = ""  # a sentence for a person who points at it
    better: int = 0  # 1 if more of it is better, -1 if worse, 0 if neither

    @property
    def title(self) -> str:
        return f"{self.group} {self.name}".strip()

    def show(self, value: float | None) -> str:
        return SHOWN[self.unit](value)

    def text(self, row: _T) -> str:
        return self.show(self.read(row))


def reader(path: str) -> Callable[[Any], float | None]:
    """Reads a field, such as "latency_ns.p50", of an object or of plain data; None where a part of
    the path is unknown."""
    names = path.split(".")

    def read(row: Any) -> Any:
        for name in names:
            if row is None:
                return None
            row = row[name] if isinstance(row, Mapping) else getattr(row, name)
        return row

    return read


def _figure(
    group: str, name: str, read: str, field: str, unit: Unit, meaning: str = "", better: int = 0
) -> Figure[Any]:
    return Figure(group, name, reader(read), unit, field, meaning, better)


def _of_latency(
    prefix: str, group: str, read: str, meanings: Mapping[str, str]
) -> Iterator[Figure[Any]]:
    """A figure, with its meaning if there is one, for each percentile of the LatencySummary in the
    attribute `read`."""
    for name in (each.name for each in fields(LatencySummary) if each.name != "count"):
        field, title = f"{prefix}_{name}_ns", name.replace("_", ".")
        yield _figure(group, title, f"{read}.{name}", field, "ns", meanings.get(name, ""), -1)


_DUE = "records were consumed within this time after they were due."
_UNCORRECTED = "Without the time that records waited to be sent."

FIGURES: Mapping[str, Figure[Any]] = {
    each.field: each
    for each in (
        _figure("", "records", "records", "records", "count",
                "Due in the measured part, and consumed."),
        _figure("", "duration", "duration_ns", "duration_ns", "ns"),
        _figure("", "records/s", "throughput_records_per_s", "throughput_records_per_s", "count",
                "Records per second that the consumers read.", 1),
        _figure("", "bytes/s", "throughput_bytes_per_s", "throughput_bytes_per_s", "bytes",
                "Bytes of record values per second.", 1),
        _figure("", "buffers/s", "buffers_per_s", "buffers_per_s", "count",
                "Data buffers per second over all channels; each costs CPU time on both sides."),
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
        _figure("backlog", "mean", "backlog_buffers.mean", "backlog_mean_buffers", "count",
                "Data buffers still queued at the producer when one left, on average.", -1),
        _figure("backlog", "max", "backlog_buffers.max", "backlog_max_buffers", "count",
                "The longest queue of data buffers that a producer announced.", -1),
        _figure("buffers", "by timeout", "flushes.timeout", "buffers_by_timeout", "count",
                "Data buffers that the flusher sent."),
        _figure("buffers", "full", "flushes.full", "buffers_full", "count",
                "Data buffers that left because their segment was full."),
        _figure("buffers", "with event", "flushes.event", "buffers_with_event", "count",
                "Data buffers that an event, or the end, pushed out."),
        _figure("", "starved", "credits.starved_ns", "credit_starved_ns", "ns",
                "Time with a backlog and no credit.", -1),
    )
}  # fmt: skip
"""By the name in CSV files."""

CPU: Figure[RunResult] = Figure(
    "", "CPU",
    lambda run: None if run.processors is None else run.processors.cpu_cores, "cores",
    "used_cpu_cores", "Share of one core that the TaskManagers used together, without polling.",
    -1,
)  # fmt: skip


LINK_LIMIT: Figure[RunResult] = Figure(
    "", "link allows", lambda run: run.link_records_per_s, "count", "link_limit_records_per_s",
    "Records per second that the emulated link allows: its bandwidth, or the buffers of credit"
    " times their size over its round trip, if credit never waits for an announced backlog.",
)  # fmt: skip


def _of_task(name: str, field: str, meaning: str) -> Figure[Any]:
    return _figure("", name, field, field, "share", meaning)


BUSY, IDLE, BACK_PRESSURED, IN_POOL, OUT_POOL = (
    _of_task("busy", "busy", "Share of the time in which a task worked on records."),
    _of_task("idle", "idle", "Share of the time in which a task waited for input."),
    _of_task("back-pressured", "back_pressured",
             "Share of the time in which a task waited for a free output buffer."),
    _of_task("in pool", "in_pool_usage", "Usage of a task's pools of input buffers."),
    _of_task("out pool", "out_pool_usage", "Usage of a task's pools of output buffers."),
)  # fmt: skip
"""Figures of a task."""


def typical(values: Iterable[float | None]) -> float | None:
    """Median of the known values; None if there are none."""
    present = [value for value in values if value is not None]
    return median(present) if present else None


def of_run(figure: Figure[Any]) -> Figure[RunResult]:
    return replace(figure, read=lambda run: figure.read(run.measured))


def named(names: Iterable[str]) -> list[Figure[Any]]:
    return [FIGURES[name] for name in names]


def fields_of(row: object, figures: Iterable[Figure[Any]]) -> dict[str, float | None]:
    """Figures of a row by their names in CSV files."""
    return {each.field: each.read(row) for each in figures}


_BACKLOG = ("backlog_mean_buffers", "backlog_max_buffers")
_MEASURED = (
    *("throughput_records_per_s", "buffers_per_s", "latency_p50_ns", "latency_p99_ns"),
    *("latency_max_ns", "uncorrected_latency_p50_ns", "uncorrected_latency_p99_ns"),
    *(*_BACKLOG, "throughput_bytes_per_s"),
)

RUN_FIGURES: Sequence[Figure[RunResult]] = [
    *map(of_run, named(_MEASURED[:2])),
    CPU,
    *map(of_run, named(_MEASURED[2:])),
]
"""Columns of the result of a bench."""

CHANNEL_FIGURES: Sequence[Figure[Any]] = named(
    ("records", "throughput_records_per_s", "latency_p50_ns", "latency_p99_ns", *_BACKLOG)
)
"""Columns of a channel."""
