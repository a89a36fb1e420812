"""Times that records, watermarks and latency markers carried when they passed a tap: how old they
were by its clock, and which channel of a task's input holds its watermark back.

A timestamp is whatever the job assigned. Only where almost all of them are near the clock is their
age a latency; elsewhere nothing is derived from it. Watermarks of channels are compared with each
other, whatever they count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.core.wire.records import NO_TIME, WATERMARK_ACTIVE, WATERMARK_IDLE
from flinknet.histogram import LogLinearHistogram, encoded_by_group
from flinknet.results import ChannelWatermark, RecordTimes, WindowAge
from flinknet.trace.event_block import EventBlock
from flinknet.trace.job_names import channel_names
from flinknet.trace.schema import TIMESTAMPS

from ..read import RecordedRun
from ..spark.frames import Columns, Rows
from .question import Question, group_rows, is_measured, of_blocks, sum_by_group
from .traffic import window_width_ns
from .units import Unit

NEAR_NS: Final = (-2_000_000, 600_000_000_000)
"""Ages in ns of records whose timestamps are near the clock: they are whole milliseconds, and a
backlog may be minutes long. A host whose clock is further ahead gives no ages."""

NEAR_SHARE: Final = 0.95
"""Share of the timestamps near the clock from which on ages are derived."""

BEHIND_MIN_NS: Final = 1_000_000_000
"""Shortest distance behind its siblings, in ns, at which a channel holds a watermark back: sources
emit every 200 ms by default, and a buffer waits for its flush."""

BEHIND_OF_NS: Final = 400_000_000
"""How long ago, in ns, its siblings passed the watermark of a channel that holds them back: where
old data is read quicker than the clock runs, seconds lie between two watermarks."""

_MS = 1_000_000
_LAST_WATERMARK = (1 << 63) - 1
_FARTHEST_MS = 4_000_000_000_000
WATERMARKS = ("watermark_ms", "watermark_ns", "idle_ns", "ended_ns")


@dataclass(frozen=True, slots=True)
class TimesWindow:
    """The times that passed on a channel in a window; instants are -1 without one."""

    run: int
    channel: int
    from_ns: int  # start of the window, from the start of the measured part
    width_ns: int
    records: int  # records in buffers with timestamps
    far: int  # those of them whose timestamp is not near the clock
    watermark_ms: int  # the last watermark; NO_TIME without one
    watermark_ns: int  # instant of the last watermark
    idle_ns: int  # of the last idle status
    ended_ns: int  # of the watermark at the end of the input (Flink: Watermark.MAX_WATERMARK)
    age: bytes  # encoded LogLinearHistogram of ages in ns, where the wall clock is known
    travel: bytes  # the same of the latency markers


def record_times_in(runs: Sequence[RecordedRun]) -> Question:
    """The question about times; the wall clock of each run is in its manifest."""
    epochs = {run.run: run.manifest.clock.wall_epoch_ns for run in runs}
    return Question(
        "record_times",
        TimesWindow,
        keys=("run", "channel", "from_ns", "width_ns"),
        sums=("records", "far"),
        maxima=WATERMARKS,
        histograms=("age", "travel"),
        ask=of_blocks(_times, epochs=epochs),
    )


def _times(unit: Unit, block: EventBlock, *, epochs: Mapping[int, int | None]) -> Iterator[Columns]:
    if unit.counted_at != TracePoint.SENT:
        return
    if not block.has_times:
        return
    width_ns, epoch = window_width_ns(unit.to_ns - unit.from_ns), epochs[unit.run]
    rows = block.data_at(TracePoint.SENT)
    keep = is_measured(unit, rows["at_ns"]) & (rows["channel"] >= 0) & (rows["records"] >= 0)
    if not keep.any():
        return
    at_ns, records = rows["at_ns"][keep], rows["records"][keep].astype(np.int64)
    sample = np.stack([rows[name][keep] for name in TIMESTAMPS])
    watermark_ms, marker_ms = rows["watermark_ms"][keep], rows["marker_ms"][keep]
    (channel, window), group = group_rows(rows["channel"][keep], (at_ns - unit.from_ns) // width_ns)
    groups = len(channel)
    is_open = watermark_ms < _LAST_WATERMARK
    is_known = sample != NO_TIME
    count = is_known.sum(axis=0)
    timed = np.where(count > 0, records, 0)
    of_group, timed_of_group = (sum_by_group(group, e, groups) for e in (records, timed))
    # buffers that were passed over are taken to be as those of the sample
    factor = (of_group / np.maximum(timed_of_group, 1))[group]
    weight = np.maximum(np.rint(timed * factor / np.maximum(count, 1)), 1).astype(np.int64)
    wall_ns = at_ns - (epoch or 0)
    sample[1:] += np.where(is_known[1:], sample[0], 0)
    age_ns = wall_ns - np.clip(sample, -_FARTHEST_MS, _FARTHEST_MS) * _MS
    own = np.broadcast_to(group, sample.shape)[is_known]
    ages, weights = age_ns[is_known], np.broadcast_to(weight, sample.shape)[is_known]
    is_far = (ages < NEAR_NS[0]) | (ages > NEAR_NS[1])
    is_near = ~is_far if epoch is not None else np.zeros(len(ages), bool)
    is_marked = (marker_ms != NO_TIME) & (epoch is not None)
    travel_ns = wall_ns[is_marked] - marker_ms[is_marked] * _MS
    is_near_marker = (travel_ns >= NEAR_NS[0]) & (travel_ns <= NEAR_NS[1])

    def highest(values: IntArray, keep: np.ndarray, none: int = -1) -> IntArray:
        found = np.full(groups, none, np.int64)
        np.maximum.at(found, group[keep], values[keep])
        return found

    yield {
        "channel": channel,
        "from_ns": window * width_ns,
        "width_ns": np.full(groups, width_ns),
        "records": sum_by_group(own, weights, groups),
        "far": sum_by_group(own[is_far], weights[is_far], groups),
        "watermark_ms": highest(
            watermark_ms, is_open & (watermark_ms > WATERMARK_ACTIVE), none=NO_TIME
        ),
        "watermark_ns": highest(at_ns, is_open & (watermark_ms > WATERMARK_IDLE)),
        "idle_ns": highest(at_ns, watermark_ms == WATERMARK_IDLE),
        "ended_ns": highest(at_ns, ~is_open),
        "age": encoded_by_group(
            own[is_near], np.maximum(ages[is_near], 0), weights[is_near], groups
        ),
        "travel": encoded_by_group(
            group[is_marked][is_near_marker],
            np.maximum(travel_ns[is_near_marker], 0),
            np.ones(int(is_near_marker.sum()), np.int64),
            groups,
        ),
    }


def record_times(
    run: RecordedRun, windows: Sequence[TimesWindow], rows: Rows[TimesWindow]
) -> RecordTimes | None:
    """What the times in a recording show of an exchange, by its windows over all channels and the
    watermarks of each channel; None where there are none."""
    watermarks = _watermarks(run, windows, rows)
    records, far = sum(each.records for each in windows), sum(each.far for each in windows)
    travel = LogLinearHistogram.from_bytes(*(each.travel for each in windows))
    if not records and not travel.count and not watermarks:
        return None
    is_near = run.manifest.clock.wall_epoch_ns is not None and records > 0
    is_near &= records - far >= NEAR_SHARE * records
    ages = [(each, LogLinearHistogram.from_bytes(each.age)) for each in windows] if is_near else []
    return RecordTimes(
        records=records,
        follows_clock=is_near,
        age_ns=LogLinearHistogram.from_bytes(*(each.age for each, _ in ages)).summary(),
        travel_ns=travel.summary(),
        over_time=tuple(
            WindowAge(each.from_ns, each.width_ns, age.percentile(0.5), age.percentile(0.99))
            for each, age in ages
            if age.count
        ),
        watermarks=watermarks,
    )


def _watermarks(
    run: RecordedRun, windows: Sequence[TimesWindow], rows: Rows[TimesWindow]
) -> tuple[ChannelWatermark, ...]:
    """The watermarks of each channel that has any, and how far behind its siblings it was."""
    is_any = (rows["watermark_ms"] != NO_TIME) | (rows["idle_ns"] >= 0)
    is_any |= (rows["ended_ns"] >= 0) & np.isin(rows["channel"], rows["channel"][is_any])
    own = {name: rows[name][is_any] for name in ("channel", "from_ns", *WATERMARKS)}
    if not len(own["channel"]):
        return ()
    channels, place = np.unique(own["channel"], return_inverse=True)
    width_ns, first_ns = windows[0].width_ns, int(own["from_ns"].min())
    # windows in which no channel sent any, too: an idle channel sends none
    count = (max(each.from_ns for each in windows) - first_ns) // width_ns + 1
    window = (own["from_ns"] - first_ns) // width_ns
    columns = {}
    for name in WATERMARKS:  # a channel keeps what it had in the window before
        none = NO_TIME if name == "watermark_ms" else -1
        whole = np.full((count, len(channels)), none, np.int64)
        whole[window, place] = own[name]
        columns[name] = np.maximum.accumulate(whole, axis=0)
    watermark_ms = columns["watermark_ms"]
    is_idle = columns["idle_ns"] > columns["watermark_ns"]
    is_known = (watermark_ms != NO_TIME) & ~is_idle & (columns["ended_ns"] < 0)
    back = max(1, -(-BEHIND_OF_NS // width_ns))
    behind_ms, is_last = _behind(run, channels, watermark_ms, is_known, back)
    epoch, names = run.manifest.clock.wall_epoch_ns, channel_names(run.manifest)
    found = []
    for number, channel in enumerate(channels.tolist()):
        known, last = is_known[:, number], is_last[:, number]
        lag_ns = None
        if epoch is not None and known.any():
            wall_ns = columns["watermark_ns"][known, number] - epoch
            value = float(np.median(wall_ns / _MS - watermark_ms[known, number])) * _MS
            lag_ns = value if NEAR_NS[0] <= value <= NEAR_NS[1] else None
        found.append(
            ChannelWatermark(
                channel=channel,
                name=names.get(channel),
                lag_ns=lag_ns,
                behind_ns=float(np.median(behind_ms[last, number])) * _MS if last.any() else 0.0,
                held_share=float(last.sum() / max(int(known.sum()), 1)),
                idle_share=float(is_idle[:, number].mean()),
            )
        )
    return tuple(found)


def _behind(
    run: RecordedRun, channels: IntArray, watermark_ms: IntArray, is_known: np.ndarray, back: int
) -> tuple[np.ndarray, np.ndarray]:
    """How far each channel is behind the median of its siblings, which lead to the same task, in
    ms; and whether it is the last of them, by BEHIND_MIN_NS, and behind where they were `back`
    windows ago. By window and channel."""
    task_of = {each.index: (each.edge, each.consumer) for each in run.manifest.channels}
    tasks: dict[tuple[int, int], list[int]] = {}
    for number, channel in enumerate(channels.tolist()):
        tasks.setdefault(task_of[channel], []).append(number)
    behind, is_last = np.zeros(watermark_ms.shape), np.zeros(watermark_ms.shape, bool)
    for own in tasks.values():
        if len(own) < 2:
            continue
        values = np.where(is_known[:, own], watermark_ms[:, own].astype(float), np.nan)
        for window in np.flatnonzero(is_known[:, own].sum(axis=1) > 1).tolist():
            lowest = int(np.nanargmin(values[window]))
            others = np.delete(values[window], lowest)
            distance = float(np.nanmedian(others)) - values[window, lowest]
            behind[window, own[lowest]] = distance
            before = np.delete(values[max(window - back, 0)], lowest)
            before = before[~np.isnan(before)]
            is_last[window, own[lowest]] = distance * _MS >= BEHIND_MIN_NS and (
                not len(before) or values[window, lowest] < np.median(before)
            )
    return behind, is_last
