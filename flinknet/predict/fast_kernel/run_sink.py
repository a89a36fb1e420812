"""A sink whose records take next to no time of their own: what lies end to end is read at once."""

from __future__ import annotations

from . import loop_words as lw
from . import words as w
from .alignment import time_alignment_out
from .compiling import compiled
from .debloating import resume
from .input_channel import give_back, notify_credit
from .latencies import take_records
from .loop_jitter import jitter_ns
from .segments import add_free, take_last
from .sink import has_barriers, is_available, poll_gate, take_event, take_priority_barriers
from .words import Numbers, Words


@compiled
def _message(m: Words, channel: int, number: int) -> int:
    return m[channel + w.RING] + (number & m[w.RING_MASK]) * w.MESSAGE_WORDS


@compiled
def _run_length(m: Words, channel: int, number: int) -> int:
    """RemoteInputChannel.take_run: how many messages are read at once, from one that was taken."""
    message = _message(m, channel, number)
    if m[message + 5] != m[w.SEGMENT_BYTES]:
        return 1
    count, most = 1, m[m[w.LOOP] + lw.READ_BUFFERS]
    while count < most and number + count < m[channel + w.RECEIVED]:
        following = _message(m, channel, number + count)
        is_data = m[following] == w.DATA and m[following + 5] == m[w.SEGMENT_BYTES]
        if not is_data or m[following + 4] or m[following + 3] != m[message + 3] + count:
            break
        count += 1
    return count


@compiled
def _take_back(m: Words, channel: int, segment: int) -> int:
    """BufferManager._take_back. Returns: the new credit."""
    add_free(m, channel, segment)
    m[channel + w.FREE_EXCLUSIVE] += 1
    free = m[channel + w.FREE_FLOATING] + m[channel + w.FREE_EXCLUSIVE]
    if m[channel + w.FREE_FLOATING] == 0 or free <= m[channel + w.REQUIRED]:
        return 1
    m[channel + w.FREE_FLOATING] -= 1
    give_back(m, m[channel + w.SINK], take_last(m, channel))
    return 0


@compiled
def _recycle_run(m: Words, channel: int, number: int, count: int) -> None:
    """BufferManager.recycle_run, or the recycling of one buffer."""
    sink, credit = m[channel + w.SINK], 0
    first = m[sink + w.LISTENERS_BEGIN]
    is_offered = m[channel + w.IS_WAITING] > 0 and m[sink + w.LISTENERS_END] - first == 1
    if is_offered:
        is_offered = m[m[sink + w.LISTENERS] + (first & m[sink + w.GATE_MASK])] == channel
    for place in range(count):
        message = _message(m, channel, number + place)
        segment = m[message + 3]
        free = m[channel + w.FREE_FLOATING] + m[channel + w.FREE_EXCLUSIVE]
        if not m[message + 2]:
            credit += _take_back(m, channel, segment)
        elif count == 1:
            give_back(m, sink, segment)
        elif is_offered and m[channel + w.REQUIRED] - free > 1:
            add_free(m, channel, segment)
            m[channel + w.FREE_FLOATING] += 1
            credit += 1
        else:
            add_free(m, channel, segment)
            give_back(m, sink, take_last(m, channel))
    if credit:
        notify_credit(m, channel, credit)


@compiled
def _take_run(
    m: Words, f: Numbers, slopes: int, sink: int, channel: int, message: int, now: int
) -> int:
    """Read a buffer, and what lies behind it. Returns: the records."""
    number, count = m[channel + w.CONSUMED] - 1, 1
    if number < 0:  # nothing is under way
        number = (message - m[channel + w.RING]) // w.MESSAGE_WORDS
    if m[sink + w.READY_END] - m[sink + w.READY_BEGIN] == 1 and m[channel + w.IS_QUEUED]:
        count = _run_length(m, channel, number)
    records = size = 0
    for place in range(count):
        taken = _message(m, channel, number + place)
        records += m[taken + 1]
        size += m[taken + 5]
    m[sink + w.READ_BYTES] += size
    m[channel + w.CHANNEL_BYTES] += size
    if records:
        take_records(m, f, slopes, channel, records, now, 0)
    _recycle_run(m, channel, number, count)
    if count > 1:
        m[channel + w.CONSUMED] = number + count
        if m[channel + w.CONSUMED] == m[channel + w.RECEIVED]:
            m[sink + w.READY_BEGIN] = m[sink + w.READY_END]
            m[channel + w.IS_QUEUED] = 0
        if m[channel + w.CONSUMED] == m[channel + w.SENT]:
            m[channel + w.CONSUMED] = m[channel + w.RECEIVED] = m[channel + w.SENT] = 0
    return records


@compiled
def step_run_sink(
    m: Words, f: Numbers, slopes: int, task_manager: int, sink: int, now: int
) -> tuple[int, int]:
    """SimulatedRunSink.step. Returns: when the loop is done with that, and when to step again."""
    pool = m[sink + w.POOL_MEMORY]
    fixed_ns = f[m[m[w.LOOP] + lw.COSTS] + lw.READ]
    for _ in range(m[w.STEPS_PER_TURN]):
        if has_barriers(m, sink) or now >= m[sink + w.DEADLINE_NS]:
            time_alignment_out(m, sink, now)
            take_priority_barriers(m, f, sink, now)
        if m[pool + lw.TASK_STATE] == w.AWAITING_ACKNOWLEDGEMENT:
            m[pool + lw.TASK_STATE] = w.FINISHED
        channel, message = poll_gate(m, sink, now)
        records = 0
        if channel:
            resume(m, sink, now)
            if m[message] == w.DATA:
                records = _take_run(m, f, slopes, sink, channel, message, now)
            else:
                m[pool + lw.ENDED_DATA] += 1 if m[message] == w.END_OF_DATA else 0
                take_event(m, f, channel, message, now)
        has_ended = m[pool + lw.ENDED_DATA] == m[sink + w.INPUTS_COUNT]
        is_ending = has_ended and m[pool + lw.TASK_STATE] == w.RUNNING
        if is_ending and channel == 0:
            m[pool + lw.TASK_STATE] = w.AWAITING_ACKNOWLEDGEMENT
        next_ns = min(
            now if is_ending or is_available(m, sink) else w.NEVER, m[sink + w.DEADLINE_NS]
        )
        is_due = next_ns == now
        if records:
            took_ns = int(fixed_ns + f[m[pool + lw.CONSUME_AT]] * records)
            if fixed_ns != 0.0:
                took_ns = max(0, took_ns + jitter_ns(m, task_manager, lw.READ_JITTER))
            now += took_ns
            fixed_ns = 0.0
        if not is_due:
            return now, max(next_ns, now)
    return now, now
