"""Checkpoints: the coordinator begins them, sources write their barriers, sinks align them or, if
these are unaligned, count what they overtake.
"""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .connection import wake
from .latencies import bucket
from .source import write_barriers
from .subpartition import resume_consumption
from .timetable import set_due
from .words import Numbers, Words

_NS_PER_MS = 1_000_000


@compiled
def _counts(m: Words) -> bool:
    """Whether the checkpoint that is under way began in the time that counts."""
    return m[w.COUNTED_FROM_NS] <= m[w.BEGAN_NS] < m[w.COUNTED_TO_NS]


@compiled
def _count_time(m: Words, f: Numbers, kind: int, time_ns: int) -> None:
    """Count a duration of its kind, of a checkpoint that counts."""
    if not _counts(m):
        return
    buckets = (m[w.TIMES] - w.COUNTS) // 4
    f[m[w.TIMES] + kind * buckets + bucket(time_ns)] += 1.0
    sums = m[w.TIME_SUMS] + kind * w.TIME_WORDS
    m[sums + 2] = min(m[sums + 2], time_ns) if m[sums] else time_ns
    m[sums + 3] = max(m[sums + 3], time_ns)
    m[sums] += 1
    m[sums + 1] += time_ns


@compiled
def _plan(m: Words, at_ns: int) -> None:
    """Let the coordinator have a turn, as a TaskManager behind the others."""
    place = m[w.TASK_MANAGERS]
    m[w.TURNS_ASKED] += 1
    m[m[w.FIRST_TASK_MANAGER] + place * w.TASK_MANAGER_WORDS + w.ASKED] = m[w.TURNS_ASKED]
    set_due(m, m[w.WAKES], place, at_ns)


@compiled
def take_coordinators_turn(m: Words, f: Numbers, now: int) -> None:
    """CheckpointCoordinator.advance: begin a checkpoint, unless all sources have finished; the run
    ends if one takes too long.
    """
    set_due(m, m[w.WAKES], m[w.TASK_MANAGERS], w.NEVER)
    if m[w.IS_PENDING]:
        m[w.ENDED] = w.CHECKPOINT_EXPIRES
        return
    running = 0
    for number in range(m[w.SOURCES]):
        source = m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS
        if m[source + w.STATE] != w.FINISHED:
            running += 1
    if running == 0:
        m[w.NEXT_CHECKPOINT_NS] = w.NEVER
        return
    missed = (now - m[w.NEXT_CHECKPOINT_NS]) // m[w.INTERVAL_NS]
    m[w.NEXT_CHECKPOINT_NS] += (missed + 1) * m[w.INTERVAL_NS]
    m[w.CHECKPOINT] += 1
    m[w.IS_PENDING] = 1
    m[w.BEGAN_NS] = now
    m[w.TRIGGERED] += 1 if _counts(m) else 0
    m[w.UNCONFIRMED] = m[w.OVERTAKEN_BYTES] = m[w.WAS_UNALIGNED] = 0
    for number in range(m[w.SINKS]):
        if m[m[w.FIRST_SINK] + number * w.SINK_WORDS + w.OPEN_INPUTS] > 0:
            m[w.UNCONFIRMED] += 1
    for number in range(m[w.SOURCES]):
        source = m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS
        if m[source + w.STATE] != w.FINISHED:
            m[w.OVERTAKEN_BYTES] += _unsent_bytes(m, source) if m[w.IS_UNALIGNED] else 0
            write_barriers(m, source)
    for number in range(m[w.TASK_MANAGERS]):
        wake(m, m[w.FIRST_TASK_MANAGER] + number * w.TASK_MANAGER_WORDS, now)
    if m[w.UNCONFIRMED] == 0:
        _complete(m, f)
    else:
        _plan(m, now + m[w.EXPIRES_NS])


@compiled
def _unsent_bytes(m: Words, source: int) -> int:
    """What unaligned barriers of a source overtake in its subpartitions."""
    low, size = m[source + w.OUTPUTS], 0
    for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
        size += m[m[place] + w.EMITTED] - m[m[place] + w.POLLED]
    return size


@compiled
def _complete(m: Words, f: Numbers) -> None:
    """All have confirmed the checkpoint."""
    m[w.IS_PENDING] = 0
    if _counts(m):
        m[w.COMPLETED] += 1
        m[w.UNALIGNED_TOTAL] += m[w.WAS_UNALIGNED]
        m[w.OVERTAKEN_TOTAL] += m[w.OVERTAKEN_BYTES]
        m[w.OVERTAKEN_MAX] = max(m[w.OVERTAKEN_MAX], m[w.OVERTAKEN_BYTES])
    _count_time(m, f, w.CHECKPOINT_TIME, m[w.TURN_NS] - m[w.BEGAN_NS])
    _plan(m, max(m[w.NEXT_CHECKPOINT_NS], m[w.TURN_NS]))


@compiled
def _confirm(m: Words, f: Numbers, sink: int) -> None:
    """A sink has done its part of the checkpoint that is under way."""
    m[sink + w.CONFIRMED] = m[w.CHECKPOINT]
    m[w.UNCONFIRMED] -= 1
    if m[w.UNCONFIRMED] == 0:
        _complete(m, f)


@compiled
def _finish_if_aligned(m: Words, f: Numbers, sink: int, now: int) -> None:
    """With the last barrier all channels go on, in the order in which theirs came."""
    if m[sink + w.ALIGNED] < m[sink + w.TO_ALIGN]:
        return
    m[sink + w.IS_ALIGNING] = 0
    blocked = m[sink + w.BLOCKED]
    for place in range(blocked, blocked + m[sink + w.BLOCKED_COUNT]):
        resume_consumption(m, m[place])
    m[sink + w.BLOCKED_COUNT] = 0
    if not m[w.IS_UNALIGNED]:
        _note_passed_on(m, sink, now)
    _count_time(m, f, w.ALIGNMENT, now - m[sink + w.BEGUN_NS])
    if m[w.IS_PENDING]:
        _count_time(m, f, w.START_DELAY, m[sink + w.START_DELAY_NS])
        if _counts(m):
            m[w.PROCESSED_BYTES] += m[sink + w.READ_BYTES] - m[sink + w.BEGUN_BYTES]
        if m[w.IS_UNALIGNED]:
            m[w.WAS_UNALIGNED] = 1
            m[w.OVERTAKEN_BYTES] += m[sink + w.COUNTED_BYTES]
        _confirm(m, f, sink)


@compiled
def _note_passed_on(m: Words, sink: int, now: int) -> None:
    """Note that a task passes a barrier on, where that is wanted."""
    if m[sink + w.ALIGNMENTS] < m[sink + w.ALIGNMENTS_END]:
        m[m[sink + w.ALIGNMENTS]] = now
        m[sink + w.ALIGNMENTS] += 1


@compiled
def _begin(m: Words, sink: int, now: int) -> None:
    """The first barrier of a checkpoint has come to a sink."""
    m[sink + w.IS_ALIGNING] = 1
    m[sink + w.BEGUN_NS] = now
    m[sink + w.START_DELAY_NS] = max(now - m[w.BEGAN_NS] // _NS_PER_MS * _NS_PER_MS, 0)
    m[sink + w.BEGUN_BYTES] = m[sink + w.READ_BYTES]
    m[sink + w.TO_ALIGN] = m[sink + w.OPEN_INPUTS]
    m[sink + w.ALIGNED] = m[sink + w.COUNTED_BYTES] = 0
    for place in range(m[sink + w.INPUTS], m[sink + w.INPUTS] + m[sink + w.INPUTS_COUNT]):
        m[m[place] + w.IS_MISSING] = 1
        m[m[place] + w.COUNTED_FROM_BYTES] = m[m[place] + w.CHANNEL_BYTES]


@compiled
def _count_overtaken(m: Words, channel: int, until: int) -> None:
    """InFlightData.receive_barrier: what a channel's task has read since the checkpoint began, and
    what waits for it before a message.
    """
    if not m[channel + w.IS_MISSING]:
        return
    m[channel + w.IS_MISSING] = 0
    size = m[channel + w.CHANNEL_BYTES] - m[channel + w.COUNTED_FROM_BYTES]
    if m[channel + w.CONNECTION]:
        for number in range(m[channel + w.CONSUMED], until):
            message = m[channel + w.RING] + (number & m[w.RING_MASK]) * w.MESSAGE_WORDS
            if m[message] == w.DATA:
                size += m[message + 5]
    m[m[channel + w.SINK] + w.COUNTED_BYTES] += size


@compiled
def receive_priority_barrier(m: Words, f: Numbers, channel: int, now: int) -> None:
    """SingleCheckpointBarrierHandler.receive_barrier, of one that is unaligned: with the first one
    the checkpoint is taken, and what those of other channels overtake belongs to it.
    """
    sink = m[channel + w.SINK]
    if not m[sink + w.IS_ALIGNING]:
        _begin(m, sink, now)
        _note_passed_on(m, sink, now)
    _count_overtaken(m, channel, m[channel + w.BARRIER_BEHIND])
    if m[w.IS_PENDING]:
        _count_time(m, f, w.TRAVEL, now - m[w.BEGAN_NS])
    m[sink + w.ALIGNED] += 1
    _finish_if_aligned(m, f, sink, now)


@compiled
def receive_barrier(m: Words, f: Numbers, channel: int, now: int) -> None:
    """SingleCheckpointBarrierHandler.receive_barrier, of a barrier that is aligned: its channel
    waits for those of the others; CheckpointBarrierTracker's, if it does not.
    """
    sink = m[channel + w.SINK]
    if not m[sink + w.IS_ALIGNING]:
        _begin(m, sink, now)
    if m[w.IS_PENDING]:
        _count_time(m, f, w.TRAVEL, now - m[w.BEGAN_NS])
    m[sink + w.ALIGNED] += 1
    m[channel + w.IS_MISSING] = 0
    if m[w.IS_BLOCKING]:
        m[m[sink + w.BLOCKED] + m[sink + w.BLOCKED_COUNT]] = channel
        m[sink + w.BLOCKED_COUNT] += 1
    _finish_if_aligned(m, f, sink, now)


@compiled
def end_input(m: Words, f: Numbers, channel: int, now: int) -> None:
    """A channel has ended: its barrier is not waited for any more, and who has no other channel
    confirms every checkpoint.
    """
    sink = m[channel + w.SINK]
    is_missing = m[channel + w.IS_MISSING]
    _count_overtaken(m, channel, 0)
    m[sink + w.OPEN_INPUTS] -= 1
    if m[sink + w.IS_ALIGNING] and is_missing:
        m[sink + w.ALIGNED] += 1
        _finish_if_aligned(m, f, sink, now)
    is_over = m[sink + w.OPEN_INPUTS] == 0 and m[sink + w.CONFIRMED] != m[w.CHECKPOINT]
    if m[w.IS_PENDING] and is_over:
        _confirm(m, f, sink)
