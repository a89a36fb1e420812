"""What tasks say of a checkpoint, and what is counted of it: those that have done their part, until
it is complete.
"""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .latencies import bucket
from .subpartition import time_barrier_out, write_barrier
from .timetable import set_due
from .words import Numbers, Words
from .writer import is_inside_record, next_record_ns

NS_PER_MS = 1_000_000


@compiled
def counts(m: Words) -> bool:
    """Whether the checkpoint that is under way began in the time that counts."""
    return m[w.COUNTED_FROM_NS] <= m[w.BEGAN_NS] < m[w.COUNTED_TO_NS]


@compiled
def count_time(m: Words, f: Numbers, kind: int, time_ns: int) -> None:
    """Count a duration of its kind, of a checkpoint that counts."""
    if not counts(m):
        return
    buckets = (m[w.TIMES] - w.COUNTS) // 4
    f[m[w.TIMES] + kind * buckets + bucket(time_ns)] += 1.0
    sums = m[w.TIME_SUMS] + kind * w.TIME_WORDS
    m[sums + 2] = min(m[sums + 2], time_ns) if m[sums] else time_ns
    m[sums + 3] = max(m[sums + 3], time_ns)
    m[sums] += 1
    m[sums + 1] += time_ns


@compiled
def plan(m: Words, at_ns: int) -> None:
    """Let the coordinator have a turn, as a TaskManager behind the others."""
    place = m[w.TASK_MANAGERS]
    m[w.TURNS_ASKED] += 1
    m[m[w.FIRST_TASK_MANAGER] + place * w.TASK_MANAGER_WORDS + w.ASKED] = m[w.TURNS_ASKED]
    set_due(m, m[w.WAKES], place, at_ns)


@compiled
def complete(m: Words, f: Numbers) -> None:
    """All have confirmed the checkpoint."""
    m[w.IS_PENDING] = 0
    if counts(m):
        m[w.COMPLETED] += 1
        m[w.UNALIGNED_TOTAL] += m[w.WAS_UNALIGNED]
        m[w.OVERTAKEN_TOTAL] += m[w.OVERTAKEN_BYTES]
        m[w.OVERTAKEN_MAX] = max(m[w.OVERTAKEN_MAX], m[w.OVERTAKEN_BYTES])
    count_time(m, f, w.CHECKPOINT_TIME, m[w.TURN_NS] - m[w.BEGAN_NS])
    _count_travels(m, f)
    plan(m, max(m[w.NEXT_CHECKPOINT_NS], m[w.TURN_NS]))


@compiled
def _count_travels(m: Words, f: Numbers) -> None:
    """How long barriers travelled, from when they were written. A source that ended while its own
    were watched says that only when they have left, which may be too late: the run ends.
    """
    for number in range(m[w.CHANNELS]):
        channel = m[w.FIRST_CHANNEL] + number * w.CHANNEL_WORDS
        source, travelled = m[channel + w.SOURCE], m[channel + w.TRAVELLED]
        m[channel + w.TRAVELLED] = 0
        if travelled > 0:
            count_time(m, f, w.TRAVEL, travelled - 1)
            if m[source + w.STATE] == w.FINISHED and m[source + w.IS_WATCHED]:
                m[w.ENDED] = w.ANSWER_MISSING


@compiled
def confirm(m: Words, f: Numbers, sink: int) -> None:
    """A sink has done its part of the checkpoint that is under way."""
    m[sink + w.CONFIRMED] = m[w.CHECKPOINT]
    _acknowledge(m, f)


@compiled
def _acknowledge(m: Words, f: Numbers) -> None:
    if not m[w.IS_PENDING]:  # what is behind another exchange is asked from there
        return
    m[w.UNCONFIRMED] -= 1
    if m[w.UNCONFIRMED] == 0:
        complete(m, f)


@compiled
def timeout_ns(m: Words) -> int:
    """When the barriers of the checkpoint that is under way are to overtake data, if they are still
    on their way; NEVER if they are aligned for good. Timestamps are whole milliseconds.
    """
    if m[w.ALIGNED_TIMEOUT_NS] == 0:
        return w.NEVER
    return m[w.BEGAN_NS] // NS_PER_MS * NS_PER_MS + m[w.ALIGNED_TIMEOUT_NS]


@compiled
def _write_barriers(m: Words, source: int, is_unaligned: bool) -> None:
    """Behind what was written to each channel comes the barrier of a checkpoint; the next record
    opens a segment.
    """
    outputs = m[source + w.OUTPUTS]
    for place in range(m[source + w.OUTPUTS_COUNT]):
        channel = m[outputs + place]
        write_barrier(m, channel, is_unaligned)
        if m[w.CATCHES_UP]:
            emitted = m[channel + w.EMITTED]
            taken = max(emitted, m[channel + w.WAITING_UNTIL]) // m[w.RECORD_BYTES]
            m[channel + w.OPENS_RAMP] = m[channel + w.RAMP]
            m[channel + w.OPENS_BASE] = taken - m[channel + w.POSITION]
            m[channel + w.OPENS_RECORD] = emitted // m[w.RECORD_BYTES]
            set_due(m, m[source + w.SEGMENTS_DUE], place, next_record_ns(m, channel))


@compiled
def write_checkpoint(m: Words, source: int, now: int) -> None:
    """OutputCheckpoints.write: barriers that may time out are watched until they have left."""
    m[w.OVERTAKEN_BYTES] += _unsent_bytes(m, source) if m[w.IS_UNALIGNED] else 0
    _write_barriers(m, source, m[w.IS_UNALIGNED] > 0)
    m[source + w.WRITTEN_NS] = now
    if m[w.ALIGNED_TIMEOUT_NS]:
        _watch(m, source)
        m[w.UNCONFIRMED] += 1


@compiled
def pass_barriers(m: Words, source: int, barrier: int) -> None:
    """BranchingCheckpoints.trigger_checkpoint: barriers that have overtaken data go on doing so,
    where the data of an edge may be overtaken; others may time out.
    """
    m[w.BEGAN_NS] = max(m[w.BEGAN_NS], m[barrier + 1])
    has_overtaken = m[barrier + 2] > 0 and m[w.ALIGNED_TIMEOUT_NS] > 0
    is_unaligned = m[w.IS_UNALIGNED] > 0 or has_overtaken
    _write_barriers(m, source, is_unaligned)
    if m[w.ALIGNED_TIMEOUT_NS] and not is_unaligned:
        _watch(m, source)


@compiled
def _watch(m: Words, source: int) -> None:
    m[source + w.IS_WATCHED] = 1
    m[source + w.TIMES_OUT_NS] = timeout_ns(m)


@compiled
def _unsent_bytes(m: Words, source: int) -> int:
    """What unaligned barriers of a source overtake in its subpartitions."""
    low, size = m[source + w.OUTPUTS], 0
    for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
        size += m[m[place] + w.EMITTED] - m[m[place] + w.POLLED]
    return size


@compiled
def watch_barriers(m: Words, f: Numbers, source: int, now: int) -> None:
    """OutputCheckpoints.advance: barriers that waited for the end of a record are written. A source
    has done its part when those that may time out have left; those that are late overtake data.
    """
    if m[source + w.HAS_TO_CHECKPOINT] and not is_inside_record(m, source):
        m[source + w.HAS_TO_CHECKPOINT] = 0
        write_checkpoint(m, source, now)
        _acknowledge(m, f)
    if not m[source + w.IS_WATCHED]:
        return
    low, high = m[source + w.OUTPUTS], m[source + w.OUTPUTS] + m[source + w.OUTPUTS_COUNT]
    if now >= m[source + w.TIMES_OUT_NS]:
        for place in range(low, high):
            if m[m[place] + w.BARRIER_PLACE]:
                size = time_barrier_out(m, m[place])
                m[w.OVERTAKEN_BYTES] += 0 if m[source + w.STATE] == w.FINISHED else size
    for place in range(low, high):
        if m[m[place] + w.BARRIER_PLACE]:
            return
    m[source + w.IS_WATCHED] = 0
    m[source + w.TIMES_OUT_NS] = w.NEVER
    if m[source + w.STATE] != w.FINISHED:
        _acknowledge(m, f)


@compiled
def end_source(m: Words, f: Numbers, source: int) -> None:
    """A source that ends has done its part of the checkpoint that is under way; its barriers may
    time out all the same.
    """
    m[source + w.STATE] = w.FINISHED
    if m[source + w.IS_WATCHED]:
        _acknowledge(m, f)
