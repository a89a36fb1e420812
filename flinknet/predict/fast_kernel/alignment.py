"""Barriers at the sinks: aligned, or overtaking the data before them, at once or when an alignment
takes too long.
"""

from __future__ import annotations

from . import words as w
from .acknowledgements import NS_PER_MS, confirm, count_time, counts, timeout_ns
from .compiling import compiled
from .input_channel import queue_barrier
from .subpartition import resume_consumption
from .words import Numbers, Words


@compiled
def _begin(m: Words, sink: int, now: int) -> None:
    """A sink hears of a checkpoint for the first time."""
    m[sink + w.IS_ALIGNING] = 1
    m[sink + w.TO_ALIGN] = m[sink + w.OPEN_INPUTS]
    m[sink + w.ALIGNED] = m[sink + w.COUNTED_BYTES] = m[sink + w.HAS_BARRIER] = 0
    m[sink + w.IS_OVERTAKING] = m[sink + w.IS_TRIGGERED] = 0
    if m[w.ALIGNED_TIMEOUT_NS]:
        m[sink + w.DEADLINE_NS] = max(now, timeout_ns(m))
    for place in range(m[sink + w.INPUTS], m[sink + w.INPUTS] + m[sink + w.INPUTS_COUNT]):
        m[m[place] + w.IS_MISSING] = 1
        m[m[place] + w.IS_COUNTED] = 0


@compiled
def _mark_aligned(m: Words, channel: int, now: int) -> None:
    """The barrier of a channel has come, or never will."""
    sink = m[channel + w.SINK]
    m[channel + w.IS_MISSING] = 0
    m[sink + w.ALIGNED] += 1
    if m[sink + w.ALIGNED] == 1:
        m[sink + w.BEGUN_NS] = now
        m[sink + w.START_DELAY_NS] = max(now - m[w.BEGAN_NS] // NS_PER_MS * NS_PER_MS, 0)


@compiled
def _trigger(m: Words, sink: int, now: int) -> None:
    """A task takes the checkpoint, and passes the barrier on; note when, where that is wanted."""
    m[sink + w.IS_TRIGGERED] = 1
    barrier = m[sink + w.ALIGNMENTS]
    if barrier < m[sink + w.ALIGNMENTS_END]:
        m[barrier] = now
        m[barrier + 1] = m[w.BEGAN_NS]
        m[barrier + 2] = m[sink + w.IS_OVERTAKING]
        m[sink + w.ALIGNMENTS] += w.BARRIER_WORDS


@compiled
def _count_overtaken(m: Words, channel: int, until: int) -> None:
    """InFlightData.receive_barrier: what a channel's task has read since the checkpoint was taken,
    and what waits for it before a message.
    """
    if not m[channel + w.IS_COUNTED]:
        return
    m[channel + w.IS_COUNTED] = 0
    size = m[channel + w.CHANNEL_BYTES] - m[channel + w.COUNTED_FROM_BYTES]
    if m[channel + w.CONNECTION]:
        for number in range(m[channel + w.CONSUMED], until):
            message = m[channel + w.RING] + (number & m[w.RING_MASK]) * w.MESSAGE_WORDS
            if m[message] == w.DATA:
                size += m[message + 5]
    m[m[channel + w.SINK] + w.COUNTED_BYTES] += size


@compiled
def _take_unaligned(m: Words, sink: int, channel: int, until: int, now: int) -> None:
    """SingleCheckpointBarrierHandler._start_unaligned: from now on what channels bring before their
    barriers belongs to the checkpoint; that of one has come with so many messages before it.
    """
    for place in range(m[sink + w.INPUTS], m[sink + w.INPUTS] + m[sink + w.INPUTS_COUNT]):
        m[m[place] + w.IS_COUNTED] = 1
        m[m[place] + w.COUNTED_FROM_BYTES] = m[m[place] + w.CHANNEL_BYTES]
    if channel:
        _count_overtaken(m, channel, until)
    _trigger(m, sink, now)


@compiled
def _prioritize(m: Words, channel: int) -> None:
    """RemoteInputChannel.convert_to_priority_event: a barrier that was announced is read before the
    data that it came behind. Nothing has come behind it: its producer waits.
    """
    sink = m[channel + w.SINK]
    m[m[sink + w.BLOCKED] + m[sink + w.BLOCKED_COUNT]] = channel
    m[sink + w.BLOCKED_COUNT] += 1
    m[channel + w.RECEIVED] -= 1
    m[channel + w.SENT] -= 1
    if m[channel + w.CONSUMED] == m[channel + w.SENT]:
        m[channel + w.CONSUMED] = m[channel + w.RECEIVED] = m[channel + w.SENT] = 0
    m[channel + w.BARRIER_BEHIND] = m[channel + w.RECEIVED]
    queue_barrier(m, channel)


@compiled
def _time_out(m: Words, sink: int, channel: int, until: int, now: int) -> None:
    """SingleCheckpointBarrierHandler._time_out: from now on barriers overtake data."""
    m[sink + w.DEADLINE_NS] = w.NEVER
    m[sink + w.IS_OVERTAKING] = 1
    announced = m[sink + w.ANNOUNCED]
    for place in range(announced, announced + m[sink + w.ANNOUNCED_COUNT]):
        _prioritize(m, m[place])
    m[sink + w.ANNOUNCED_COUNT] = 0
    if m[sink + w.ALIGNED] > 0:
        _take_unaligned(m, sink, channel, until, now)


@compiled
def time_alignment_out(m: Words, sink: int, now: int) -> None:
    """An alignment has taken too long."""
    if now >= m[sink + w.DEADLINE_NS]:
        _time_out(m, sink, 0, 0, now)


@compiled
def _forget_announcement(m: Words, channel: int) -> None:
    sink = m[channel + w.SINK]
    announced, count = m[sink + w.ANNOUNCED], m[sink + w.ANNOUNCED_COUNT]
    place = announced
    while place < announced + count and m[place] != channel:
        place += 1
    if place == announced + count:
        return
    m[sink + w.ANNOUNCED_COUNT] -= 1
    while place < announced + count - 1:
        m[place] = m[place + 1]
        place += 1


@compiled
def receive_announcement(m: Words, channel: int, now: int) -> None:
    """A barrier that may time out has come behind data."""
    sink = m[channel + w.SINK]
    if not m[sink + w.IS_ALIGNING]:
        _begin(m, sink, now)
    if m[sink + w.IS_OVERTAKING]:
        _prioritize(m, channel)
        return
    m[m[sink + w.ANNOUNCED] + m[sink + w.ANNOUNCED_COUNT]] = channel
    m[sink + w.ANNOUNCED_COUNT] += 1


@compiled
def receive_barrier(
    m: Words, f: Numbers, channel: int, is_unaligned: bool, until: int, now: int
) -> None:
    """SingleCheckpointBarrierHandler.receive_barrier: the channel of one that is aligned waits for
    those of the others; CheckpointBarrierTracker's, if it does not.

    Args:
        until: the number of the messages that came before it.
    """
    sink = m[channel + w.SINK]
    if not m[sink + w.IS_ALIGNING]:
        _begin(m, sink, now)
    if not m[sink + w.HAS_BARRIER]:
        m[sink + w.HAS_BARRIER] = 1
        m[sink + w.BEGUN_BYTES] = m[sink + w.READ_BYTES]
    _count_overtaken(m, channel, until)
    if m[w.IS_PENDING]:
        m[channel + w.TRAVELLED] = 1 + now - m[m[channel + w.SOURCE] + w.WRITTEN_NS]
    _mark_aligned(m, channel, now)
    if m[w.ALIGNED_TIMEOUT_NS]:
        _forget_announcement(m, channel)
    if m[w.IS_BLOCKING] and not is_unaligned:
        m[m[sink + w.BLOCKED] + m[sink + w.BLOCKED_COUNT]] = channel
        m[sink + w.BLOCKED_COUNT] += 1
    is_complete = m[sink + w.ALIGNED] >= m[sink + w.TO_ALIGN]
    if not m[sink + w.IS_OVERTAKING]:
        is_late = m[w.ALIGNED_TIMEOUT_NS] > 0 and now > timeout_ns(m) and not is_complete
        if is_unaligned or is_late:
            _time_out(m, sink, channel, until, now)
        elif is_complete:
            _trigger(m, sink, now)
    if m[sink + w.IS_OVERTAKING] and not m[sink + w.IS_TRIGGERED]:
        _take_unaligned(m, sink, channel, until, now)
    _finish_if_aligned(m, f, sink, now)


@compiled
def _finish_if_aligned(m: Words, f: Numbers, sink: int, now: int) -> None:
    """With the last barrier all channels go on, in the order in which theirs came."""
    if m[sink + w.ALIGNED] < m[sink + w.TO_ALIGN]:
        return
    m[sink + w.IS_ALIGNING] = 0
    m[sink + w.FINISHED_ALIGNMENTS] += 1
    m[sink + w.DEADLINE_NS] = w.NEVER
    blocked = m[sink + w.BLOCKED]
    for place in range(blocked, blocked + m[sink + w.BLOCKED_COUNT]):
        resume_consumption(m, m[place])
    m[sink + w.BLOCKED_COUNT] = 0
    count_time(m, f, w.ALIGNMENT, now - m[sink + w.BEGUN_NS])
    if m[w.IS_PENDING]:
        count_time(m, f, w.START_DELAY, m[sink + w.START_DELAY_NS])
        if counts(m):
            m[w.PROCESSED_BYTES] += m[sink + w.READ_BYTES] - m[sink + w.BEGUN_BYTES]
        if m[sink + w.IS_OVERTAKING]:
            m[w.WAS_UNALIGNED] = 1
            m[w.OVERTAKEN_BYTES] += m[sink + w.COUNTED_BYTES]
        confirm(m, f, sink)


@compiled
def end_input(m: Words, f: Numbers, channel: int, now: int) -> None:
    """A channel has ended: its barrier is not waited for any more, and who has no other channel
    confirms every checkpoint.
    """
    sink = m[channel + w.SINK]
    _count_overtaken(m, channel, 0)
    m[sink + w.OPEN_INPUTS] -= 1
    if m[sink + w.IS_ALIGNING] and m[channel + w.IS_MISSING]:
        _mark_aligned(m, channel, now)
        if m[sink + w.IS_OVERTAKING]:
            if not m[sink + w.IS_TRIGGERED]:
                _take_unaligned(m, sink, 0, 0, now)
        elif m[sink + w.ALIGNED] >= m[sink + w.TO_ALIGN]:
            _trigger(m, sink, now)
        _finish_if_aligned(m, f, sink, now)
    is_over = m[sink + w.OPEN_INPUTS] == 0 and m[sink + w.CONFIRMED] != m[w.CHECKPOINT]
    if m[w.IS_PENDING] and is_over:
        confirm(m, f, sink)
