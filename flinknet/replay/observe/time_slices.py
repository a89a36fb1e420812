"""Slices of time as work units: all channels of a run, from one instant to another.

What asks for the state of a channel at every instant needs both of its sides together, and what
was under way when the slice began. So a unit reads a little more than its slice on both sides,
and, for the channels where that is not enough, more and more: until every buffer that was
under way within the slice is whole, and what was sent last before it is known. The answers of
slices then add up to that of the whole run exactly, however it is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.storage import path_of
from flinknet.trace import TraceReader
from flinknet.trace.buffers import SortedEvents, data_at, events_at
from flinknet.trace.event_block import EventColumns

from ..read import RecordedRun
from ..spark.frames import Columns, map_units
from ..spark.units import UNITS_PER_CORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_PER_TIME_SLICE = 3_000_000
"""About as many events are in memory at a time, and as many more as the edges need."""

EVENTS_PER_TIME_SLICE_MIN = 100_000
"""Below that a slice costs more than it brings."""

LONGEST_LIFE_NS = 100_000_000_000
"""A buffer that lives longer is not followed across the edge of a slice."""

SLICE_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "sequence_number", "order")
"""What shows whether a channel is whole, with `first_record_ns`."""

_LIFE_COLUMNS = ("at_ns", "sequence_number")
_WIDENING = 4
_NOTHING = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """All channels of a run in [from_ns, to_ns), which lies within its measured part.

    Attributes:
        producers, consumers: subtasks at the ends of the channels, in their order.
        margin_ns: what is read more on both sides at first.
    """

    run: int
    files: list[str]
    channels: list[int]
    producers: list[int]
    consumers: list[int]
    from_ns: int
    to_ns: int
    measured_from_ns: int
    measured_to_ns: int
    margin_ns: int


TimeSliceQuestion = Callable[
    [TimeSlice, Mapping[int, EventColumns | SortedEvents]], Iterable[Columns]
]
"""Runs in an executor: the unit and the events of its channels in, rows of the answer out. The rows
of a channel are in the order of blocks: ascending by instant within each kind and point."""


def time_slices_of(
    runs: Sequence[RecordedRun], cores: int, split: int | None = None
) -> list[TimeSlice]:
    """The measured part of each run, cut into slices.

    Args:
        split: how many for each run; None for as many as suit its size.
    """
    return [
        TimeSlice(
            run.run,
            [str(file.absolute()) for file in run.files],
            [info.index for info in run.manifest.channels],
            [info.producer for info in run.manifest.channels],
            [info.consumer for info in run.manifest.channels],
            from_ns,
            to_ns,
            run.from_ns,
            run.to_ns,
            _margin_ns(run, to_ns - from_ns),
        )
        for run in runs
        for from_ns, to_ns in cuts(run.from_ns, run.to_ns, split or _parts(run, cores))
    ]


def cuts(from_ns: int, to_ns: int, parts: int) -> list[tuple[int, int]]:
    """So many slices of about equal length; fewer if there are not as many ns."""
    edges = np.unique(np.linspace(from_ns, to_ns, max(parts, 1) + 1).astype(np.int64)).tolist()
    return list(pairwise(edges))


def ask_time_slices(
    spark: SparkSession,
    units: Sequence[TimeSlice],
    question: TimeSliceQuestion,
    columns: Sequence[str],
    row: type,
) -> DataFrame:
    """Put a question to the events of each slice.

    Args:
        question: see TimeSliceQuestion.
        columns: of the trace that the question needs in addition to SLICE_COLUMNS.
        row: dataclass of the rows of the answer.
    """
    answer = partial(_answered, question=question, columns=time_slice_columns(columns))
    return map_units(spark, units, answer, row)


def _answered(
    unit: TimeSlice, *, question: TimeSliceQuestion, columns: Sequence[str]
) -> Iterable[Columns]:
    return question(unit, read_time_slice(unit, columns))


def time_slice_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """What is read of a slice for a question that needs some columns."""
    return tuple(dict.fromkeys((*SLICE_COLUMNS, "first_record_ns", *columns)))


def read_time_slice(
    unit: TimeSlice, columns: Sequence[str]
) -> dict[int, EventColumns | SortedEvents]:
    """The events of each channel that show all about it in the slice.

    Args:
        columns: wanted, SLICE_COLUMNS and first_record_ns among them.
    """
    return completed(unit, columns, {})


def completed(
    unit: TimeSlice, columns: Sequence[str], found: Mapping[int, EventColumns | SortedEvents]
) -> dict[int, EventColumns | SortedEvents]:
    """Events of each channel, read again from further away where those found are not enough.

    Args:
        found: of all channels within the margins of the slice; nothing if they are not read yet.
    """
    whole = dict(found)
    first_ns, last_ns = _span(unit.files)
    missing: Collection[int] = unit.channels
    before_ns = after_ns = unit.margin_ns
    is_read = bool(found)
    while missing:
        read_from_ns, read_to_ns = unit.from_ns - before_ns, unit.to_ns + after_ns
        if not is_read:
            whole |= _read(unit.files, columns, missing, read_from_ns, read_to_ns)
        is_read = False
        is_first = read_from_ns <= first_ns or before_ns > LONGEST_LIFE_NS
        is_last = read_to_ns > last_ns or after_ns > LONGEST_LIFE_NS
        lacking = {
            channel: (
                not is_first and not _is_begun(whole[channel], unit.from_ns),
                not is_last and not _is_done(whole[channel], unit.to_ns),
            )
            for channel in missing
        }
        missing = [channel for channel, lacks in lacking.items() if any(lacks)]
        if any(lacks[0] for lacks in lacking.values()):
            before_ns *= _WIDENING
        if any(lacks[1] for lacks in lacking.values()):
            after_ns *= _WIDENING
    return whole


def _span(files: Sequence[str]) -> tuple[int, int]:
    """The first and the last instant in some files."""
    first_ns, last_ns = [0], [0]
    for file in files:
        with TraceReader(path_of(file)) as reader:
            first_ns += [block.first_ns for block in reader.blocks()]
            last_ns += [block.last_ns for block in reader.blocks()]
    return min(first_ns[1:], default=0), max(last_ns)


def _read(
    files: Sequence[str],
    columns: Sequence[str],
    channels: Collection[int],
    from_ns: int,
    to_ns: int,
) -> dict[int, EventColumns]:
    """The events of channels from one instant to another; `place` is their order of recording."""
    parts: dict[int, list[EventColumns]] = {channel: [] for channel in channels}
    columns, recorded = (*columns, "place"), 0
    for file in files:
        with TraceReader(path_of(file)) as reader:
            for rows in reader.events(columns[:-1], channels, from_ns, to_ns):
                channel = rows["channel"]
                rows["place"] = recorded + rows["order"].astype(np.int64)
                recorded += int(rows["order"].max()) + 1
                bounds = [0, *(np.flatnonzero(np.diff(channel)) + 1).tolist(), len(channel)]
                for start, end in pairwise(bounds):
                    part = {name: values[start:end] for name, values in rows.items()}
                    parts[int(channel[start])].append(part)
    return {
        channel: {
            name: np.concatenate([part[name] for part in own]) if own else _NOTHING
            for name in columns
        }
        for channel, own in parts.items()
    }


def _is_begun(events: EventColumns | SortedEvents, from_ns: int) -> bool:
    """Whether the events of a channel show how things stood at an instant: what was sent last, and
    when everything was sent that is consumed later. Numbers and instants ascend alike."""
    left = events_at(events, MessageKind.BUFFER_RESPONSE, TracePoint.SENT, ("at_ns",))
    if not (left["at_ns"] <= from_ns).any():
        return False
    sent, consumed = (
        data_at(events, point, _LIFE_COLUMNS) for point in (TracePoint.SENT, TracePoint.CONSUMED)
    )
    later = consumed["at_ns"] > from_ns
    if not later.any():
        return True
    first = int(np.argmax(later))
    return bool(
        len(sent["at_ns"]) and sent["sequence_number"][0] <= consumed["sequence_number"][first]
    )


def _is_done(events: EventColumns | SortedEvents, to_ns: int) -> bool:
    """Whether the events of a channel show when everything was consumed whose records had come
    before an instant."""
    sent = data_at(events, TracePoint.SENT, (*_LIFE_COLUMNS, "first_record_ns"))
    consumed = data_at(events, TracePoint.CONSUMED, ("sequence_number",))
    came_ns = sent["first_record_ns"]
    if not (came_ns >= 0).any():
        came_ns = sent["at_ns"]
    came_later = came_ns >= to_ns
    if not came_later.any():
        return False
    first = int(np.argmax(came_later))
    last = sent["sequence_number"][first] - 1
    return first == 0 or bool((consumed["sequence_number"] >= last).any())


def _parts(run: RecordedRun, cores: int) -> int:
    """How many slices suit a run: so few events in each that they fit, and work for all."""
    events = events_within(run)
    parts = min(UNITS_PER_CORE * cores, events // EVENTS_PER_TIME_SLICE_MIN)
    return max(1, parts, -(-events // EVENTS_PER_TIME_SLICE))


def events_within(run: RecordedRun) -> int:
    """About how many events the measured part of a run has, by the index."""
    events = 0.0
    for file in run.files:
        with TraceReader(file) as reader:
            for block in reader.blocks():
                length_ns = max(block.last_ns - block.first_ns, 1)
                inside_ns = min(block.last_ns, run.to_ns) - max(block.first_ns, run.from_ns)
                events += block.count * min(max(inside_ns / length_ns, 0.0), 1.0)
    return int(events)


def _margin_ns(run: RecordedRun, length_ns: int) -> int:
    """Two beats of the flusher, or an eighth of the slice."""
    stated = run.manifest.scenario.get("network", {})
    timeout_ns = stated.get("buffer_timeout_ns", 0) if isinstance(stated, dict) else 0
    wanted_ns = 2 * max(timeout_ns, 0) + 20_000_000
    return min(wanted_ns, max(length_ns // 8, 1_000_000))
