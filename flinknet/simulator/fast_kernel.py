"""The exchange in virtual time once more, as arithmetic on one array that numba compiles.

What `cluster` does with the real core, message by message in some 20 µs each, this does in a
fraction of a microsecond for the plain case: pipelined channels over connections, credit, a rate
that the stack keeps up with, no checkpoints. `fast_path` says what is covered; property tests
compare the two. Names follow the core: a *turn* of a TaskManager, *beats* of the flusher, readers
with credit in a queue, exclusive and floating buffers.

All state lies in one int64 array, the memory `m`; a channel, connection, source, sink or
TaskManager is the address of its first word, and `m[channel + CREDIT]` is its field. This is C in
Python's clothes, for a reason: a function that is handed some eighty arrays spends a hundred times
as long on handing them over. Word 0 is never used, so that 0 is no address. Times are ns.

Records come as ramps: a number of them, evenly spaced between two instants. Imported only by
`fast_path`, when it is needed: loading the compiler takes half a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DONE, WRITER_WAITS, TOO_LONG = 0, 1, 2
"""How a run ended; anything but DONE is for the simulator to answer."""

NEVER = 2**62
_DATA, _RECOVERY, _END, _NOTHING = 0, 1, 2, -1
_RESUME = -1

# What does not change in a run: words 1 to 24.
(
    TASK_MANAGERS,
    TIMEOUT_NS,
    PERIOD_NS,
    RECORD_BYTES,
    SEGMENT_BYTES,
    SEGMENT_BITS,
    EXCLUSIVE_BUFFERS,
    QUOTA_BUFFERS,
    HEADER_BYTES,
    RECOVERY_BYTES,
    END_BYTES,
    BATCH_BYTES,
    RECEIVE_BYTES,
    STEPS_PER_TURN,
    BUSY_NS,
    LATENCY_NS,
    RECEIVE_NS,
    RING_MASK,
    TURNS_MAX,
    FIRST_TASK_MANAGER,
    CHANNELS,
    FIRST_CHANNEL,
    COUNTED_FROM_NS,
    COUNTED_TO_NS,
) = range(1, 25)
# What a run came to: words 32 to 43.
(
    RECORDS,
    LATENCY_TOTAL,
    SMALLEST,
    LARGEST,
    MESSAGES,
    BACKLOG_TOTAL,
    BACKLOG_MAX,
    LAST_NS,
    CREDITS,
    CREDIT_MESSAGES,
    TURNS,
) = range(32, 43)
HEAD_WORDS = 64

# A channel: where it belongs, its arrivals, its subpartition, its reader, its messages under way,
# its input channel.
(
    CONNECTION,
    SINK,
    RAMP_END,
    RAMP,
    POSITION,
    OPENS_RAMP,
    OPENS_BASE,
    OPENS_RECORD,
    OPENS_AT_NS,
    EMITTED,
    POLLED,
    HEAD,
    FRONT_EVENT,
    TAIL_EVENT,
    FLUSH_REQUESTED,
    IS_BLOCKED,
    CREDIT,
    IS_ENQUEUED,
    IS_NOTIFIED,
    SENT,
    RECEIVED,
    CONSUMED,
    RING,
    FREE_EXCLUSIVE,
    FREE_FLOATING,
    REQUIRED,
    IS_WAITING,
    UNANNOUNCED,
    IS_QUEUED,
    DONE_RAMP,
    DONE_POSITION,
    COUNTED_RAMP,
    COUNTED_RAMP_END,
) = range(33)
CHANNEL_WORDS = 33

RAMP_WORDS = 3  # records, first and last instant
MESSAGE_WORDS = 3  # kind, records, whether its buffer is a floating one

# A connection: its two TaskManagers; queues as address, begin and end, and how long
# they are, less one; all lengths are powers of two.
(
    UPSTREAM,
    DOWNSTREAM,
    SLOTS_MASK,
    READERS,
    READERS_BEGIN,
    READERS_END,
    NOTIFIED,
    NOTIFIED_COUNT,
    DOWN,
    DOWN_BEGIN,
    DOWN_END,
    PIECES,
    UP,
    UP_BEGIN,
    UP_END,
    CREDITORS,
    CREDITORS_COUNT,
    RESUMES,
    RESUMES_COUNT,
    WIDTH_MASK,
) = range(20)
CONNECTION_WORDS = 20
DOWN_WORDS = 5  # channel, backlog, bytes, piece, when it arrives
UP_WORDS = 3  # channel, credit, when it arrives

# A source: its channels, when its data ends, its pool, its flusher, its last step.
(OUTPUTS, OUTPUTS_COUNT, END_NS, POOL_BUFFERS, BEAT_NS, AGAIN_NS, IDLE_SEEN_NS, IS_DONE) = range(8)
SOURCE_WORDS = 8

# A sink: its channels, its work, its gate's queue, its pool of floating buffers.
(
    INPUTS,
    INPUTS_COUNT,
    CONSUME_NS,
    READY,
    READY_BEGIN,
    READY_END,
    HELD,
    IS_HELD_FLOATING,
    BUSY_UNTIL_NS,
    RECOVERED,
    POOL_FREE,
    LISTENERS,
    LISTENERS_BEGIN,
    LISTENERS_END,
    GATE_MASK,
) = range(15)
SINK_WORDS = 15

# A TaskManager: its loop, and lists of what it has.
(
    WAKE_NS,
    FREE_SINCE_NS,
    IDLE_NS,
    SOURCES,
    SOURCES_COUNT,
    SINKS,
    SINKS_COUNT,
    OUTGOING,
    OUTGOING_COUNT,
    INCOMING,
    INCOMING_COUNT,
) = range(11)
TASK_MANAGER_WORDS = 11

# The floating-point numbers: costs, then latencies by bucket, then differences of their density.
SEND_NS_PER_MESSAGE, SEND_NS_PER_BYTE, EMIT_NS_PER_RECORD, COUNTS = range(4)

_Function = TypeVar("_Function", bound=Callable[..., object])


# Without counting references to `m`, which the caller holds all the time: twice as fast.
_HOW: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def _compiled(function: _Function) -> _Function:
    return cast(_Function, numba.njit(**_HOW)(function))


def _kept_on_disk(function: _Function) -> _Function:
    """Compiled once for all processes, where there is a place to keep it."""
    try:
        return cast(_Function, numba.njit(cache=True, **_HOW)(function))
    except RuntimeError:  # no directory can be written to
        return _compiled(function)


@_compiled
def _bucket(value: int) -> int:
    """histogram.bucket_index."""
    if value < 128:
        return max(value, 0)
    mantissa, exponent = math.frexp(float(min(value, (1 << 50) - 1)))
    return ((exponent - 7) << 7) + int((2.0 * mantissa - 1.0) * 128.0)


@_compiled
def _bucket_start(index: int) -> float:
    if index < 256:
        return float(index)
    shift = index // 128 - 1
    return float((index - shift * 128) << shift)


@_compiled
def _count(m: Ints, f: Floats, slopes: int, first_ns: int, last_ns: int, records: int) -> None:
    """Count latencies that go evenly from one to another; few one by one, many by their density."""
    low, high = min(first_ns, last_ns), max(first_ns, last_ns)
    m[RECORDS] += records
    m[LATENCY_TOTAL] += (first_ns + last_ns) * records // 2
    m[SMALLEST] = min(m[SMALLEST], low)
    m[LARGEST] = max(m[LARGEST], high)
    low_bucket, high_bucket = _bucket(low), _bucket(high)
    if low_bucket == high_bucket:
        f[COUNTS + low_bucket] += records
        return
    if records <= 6:
        for each in range(records):
            at_ns = first_ns + (last_ns - first_ns) * each // (records - 1)
            f[COUNTS + _bucket(at_ns)] += 1.0
        return
    half = (high - low) / (records - 1) / 2.0
    start, end = low - half, high + half
    density = records / (end - start)
    f[COUNTS + low_bucket] += (_bucket_start(low_bucket + 1) - start) * density
    f[COUNTS + high_bucket] += (end - _bucket_start(high_bucket)) * density
    f[slopes + low_bucket + 1] += density
    f[slopes + high_bucket] -= density


@_compiled
def _instant(m: Ints, ramp: int, position: int) -> int:
    """When a record of a ramp came."""
    steps = m[ramp] - 1
    if steps < 1:
        return m[ramp + 1]  # type: ignore[no-any-return]
    return m[ramp + 1] + (m[ramp + 2] - m[ramp + 1]) * position // steps  # type: ignore[no-any-return]


@_compiled
def _records_until(m: Ints, channel: int, until_ns: int) -> int:
    """Move a channel's arrivals on. Returns: how many records came up to an instant."""
    ramp, position, end = m[channel + RAMP], m[channel + POSITION], m[channel + RAMP_END]
    count = 0
    while ramp < end:
        records, first_ns, last_ns = m[ramp], m[ramp + 1], m[ramp + 2]
        if last_ns > until_ns:
            if first_ns <= until_ns:
                reached = ((until_ns - first_ns + 1) * (records - 1) - 1) // (last_ns - first_ns)
                if reached >= position:
                    count += reached + 1 - position
                    position = reached + 1
            break
        count += records - position
        ramp += RAMP_WORDS
        position = 0
    m[channel + RAMP] = ramp
    m[channel + POSITION] = position
    return count


@_compiled
def _next_instant(m: Ints, source: int) -> int:
    """The next record of a source, then its end."""
    next_ns = NEVER
    for place in range(m[source + OUTPUTS], m[source + OUTPUTS] + m[source + OUTPUTS_COUNT]):
        channel = m[place]
        ramp = m[channel + RAMP]
        if ramp < m[channel + RAMP_END]:
            next_ns = min(next_ns, _instant(m, ramp, m[channel + POSITION]))
    return m[source + END_NS] if next_ns == NEVER else next_ns


@_compiled
def _segments(m: Ints, channel: int) -> int:
    """Data buffers of a subpartition, the open one too."""
    return ((m[channel + EMITTED] + m[SEGMENT_BYTES] - 1) >> m[SEGMENT_BITS]) - m[channel + HEAD]  # type: ignore[no-any-return]


@_compiled
def _elements(m: Ints, channel: int) -> int:
    """Buffers and events of a subpartition."""
    return m[channel + FRONT_EVENT] + m[channel + TAIL_EVENT] + _segments(m, channel)  # type: ignore[no-any-return]


@_compiled
def _notify(m: Ints, channel: int) -> None:
    """Tell the connection that a reader may have something to send."""
    if not m[channel + IS_NOTIFIED]:
        connection = m[channel + CONNECTION]
        m[channel + IS_NOTIFIED] = 1
        m[m[connection + NOTIFIED] + m[connection + NOTIFIED_COUNT]] = channel
        m[connection + NOTIFIED_COUNT] += 1


@_compiled
def _emit(m: Ints, channel: int, records: int) -> None:
    """Write records: the reader is told when a second buffer is opened."""
    before = _elements(m, channel)
    m[channel + EMITTED] += records * m[RECORD_BYTES]
    may_tell = before < 2 and not m[channel + FLUSH_REQUESTED] and not m[channel + IS_BLOCKED]
    if may_tell and _elements(m, channel) >= 2:
        _notify(m, channel)


@_compiled
def _flush(m: Ints, channel: int) -> None:
    """PipelinedSubpartition.flush."""
    elements = _elements(m, channel)
    if elements == 0 or m[channel + FLUSH_REQUESTED]:
        return
    is_fresh = elements == 1 and (
        m[channel + EMITTED] > m[channel + POLLED] or _segments(m, channel) == 0
    )
    if is_fresh or elements > 1:
        m[channel + FLUSH_REQUESTED] = 1
    if is_fresh and not m[channel + IS_BLOCKED]:
        _notify(m, channel)


@_compiled
def _is_data_available(m: Ints, channel: int) -> bool:
    if m[channel + IS_BLOCKED]:
        return False
    if m[channel + FLUSH_REQUESTED]:
        return True
    elements = _elements(m, channel)
    return elements > 1 or (elements == 1 and _segments(m, channel) == 0)


@_compiled
def _may_send(m: Ints, channel: int) -> bool:
    if m[channel + CREDIT] > 0:
        return _is_data_available(m, channel)
    if m[channel + IS_BLOCKED] or _elements(m, channel) == 0:
        return False
    return m[channel + FRONT_EVENT] > 0 or _segments(m, channel) == 0


@_compiled
def _append_reader(m: Ints, connection: int, channel: int) -> None:
    m[channel + IS_ENQUEUED] = 1
    place = m[connection + READERS_END] & m[connection + WIDTH_MASK]
    m[m[connection + READERS] + place] = channel
    m[connection + READERS_END] += 1


@_compiled
def _poll(m: Ints, channel: int) -> tuple[int, int, int, int]:
    """PipelinedSubpartition.poll.

    Returns: kind (_NOTHING for none), bytes, backlog, and what may follow: 0 nothing, 1 data, 2 an
        event.
    """
    if m[channel + IS_BLOCKED]:
        return _NOTHING, 0, 0, 0
    count = _elements(m, channel)
    if count == 0:
        m[channel + FLUSH_REQUESTED] = 0
        return _NOTHING, 0, 0, 0
    while True:
        if count == 1:
            m[channel + FLUSH_REQUESTED] = 0
        if m[channel + FRONT_EVENT]:
            m[channel + FRONT_EVENT] = 0
            m[channel + IS_BLOCKED] = 1
            count -= 1
            kind, size = _RECOVERY, m[RECOVERY_BYTES]
            break
        segments = _segments(m, channel)
        if segments == 0:
            m[channel + TAIL_EVENT] = 0
            count -= 1
            kind, size = _END, m[END_BYTES]
            break
        kind = _DATA
        whole = (m[channel + HEAD] + 1) << m[SEGMENT_BITS]
        end = min(whole, m[channel + EMITTED])
        is_closed = segments == 1 and m[channel + TAIL_EVENT] == 1
        size = end - m[channel + POLLED]
        m[channel + POLLED] = end
        if end == whole or is_closed:
            m[channel + HEAD] += 1
            if end < whole:
                m[channel + EMITTED] = m[channel + POLLED] = whole
            count -= 1
        elif size == 0:
            return _NOTHING, 0, 0, 0
        if size > 0:
            break
        if count == 0:
            return _NOTHING, 0, 0, 0
    backlog = following = 0
    if count and not m[channel + IS_BLOCKED]:
        segments = _segments(m, channel)
        is_all = m[channel + FLUSH_REQUESTED] or m[channel + TAIL_EVENT]
        backlog = segments if is_all else max(segments - 1, 0)
        if count > 1 or m[channel + FLUSH_REQUESTED] or segments == 0:
            following = 1 if segments else 2
    return kind, size, backlog, following


@_compiled
def _wake(m: Ints, task_manager: int, at_ns: int) -> None:
    at_ns = max(at_ns, m[task_manager + FREE_SINCE_NS])
    m[task_manager + WAKE_NS] = min(m[task_manager + WAKE_NS], at_ns)


@_compiled
def _pump_up(m: Ints, f: Floats, connection: int, now: int) -> int:
    """Send what the readers of a connection may. Returns: when the sender is done with it."""
    mask = m[connection + SLOTS_MASK]
    is_counted = m[COUNTED_FROM_NS] <= now < m[COUNTED_TO_NS]
    while True:
        notified = m[connection + NOTIFIED]
        for place in range(notified, notified + m[connection + NOTIFIED_COUNT]):
            channel = m[place]
            m[channel + IS_NOTIFIED] = 0
            if not m[channel + IS_ENQUEUED] and _may_send(m, channel):
                _append_reader(m, connection, channel)
        m[connection + NOTIFIED_COUNT] = 0
        left, messages, sent_bytes = m[BATCH_BYTES], 0, 0
        first = m[connection + DOWN_END]
        while left > 0 and m[connection + READERS_BEGIN] < m[connection + READERS_END]:
            place = m[connection + READERS_BEGIN] & m[connection + WIDTH_MASK]
            channel = m[m[connection + READERS] + place]
            m[connection + READERS_BEGIN] += 1
            m[channel + IS_ENQUEUED] = 0
            polled = m[channel + POLLED]
            kind, size, backlog, following = _poll(m, channel)
            if kind == _NOTHING:
                continue
            records = 0
            if kind == _DATA:
                m[channel + CREDIT] -= 1
                records = (polled + size) // m[RECORD_BYTES] - polled // m[RECORD_BYTES]
                if is_counted:
                    m[MESSAGES] += 1
                    m[BACKLOG_TOTAL] += backlog
                    m[BACKLOG_MAX] = max(m[BACKLOG_MAX], backlog)
            if following and (m[channel + CREDIT] > 0 or following == 2):
                _append_reader(m, connection, channel)
            message = m[channel + RING] + (m[channel + SENT] & m[RING_MASK]) * MESSAGE_WORDS
            m[channel + SENT] += 1
            m[message] = kind
            m[message + 1] = records
            entry = m[connection + DOWN] + (m[connection + DOWN_END] & mask) * DOWN_WORDS
            m[connection + DOWN_END] += 1
            size += m[HEADER_BYTES]
            m[entry] = channel
            m[entry + 1] = backlog
            m[entry + 2] = size
            m[entry + 3] = m[connection + PIECES]
            messages += 1
            sent_bytes += size
            left -= size
        if messages == 0:
            return now
        m[connection + PIECES] += 1
        now += int(f[SEND_NS_PER_MESSAGE] * messages + f[SEND_NS_PER_BYTE] * sent_bytes)
        arrival_ns = now + m[LATENCY_NS]
        for number in range(first, m[connection + DOWN_END]):
            m[m[connection + DOWN] + (number & mask) * DOWN_WORDS + 4] = arrival_ns
        oldest = m[connection + DOWN] + (m[connection + DOWN_BEGIN] & mask) * DOWN_WORDS
        _wake(m, m[connection + DOWNSTREAM], m[oldest + 4])


@_compiled
def _emit_until(m: Ints, source: int, until_ns: int) -> int:
    """Write all records that came up to an instant. Returns: their number."""
    emitted = 0
    for place in range(m[source + OUTPUTS], m[source + OUTPUTS] + m[source + OUTPUTS_COUNT]):
        channel = m[place]
        records = _records_until(m, channel, until_ns)
        if records:
            emitted += records
            _emit(m, channel, records)
            if m[TIMEOUT_NS] == 0:
                _flush(m, channel)
    return emitted


@_compiled
def _opens_ns(m: Ints, channel: int) -> int:
    """When a record opens the next segment of a channel."""
    emitted = m[channel + EMITTED]
    if m[channel + OPENS_RECORD] * m[RECORD_BYTES] >= emitted:
        return m[channel + OPENS_AT_NS]  # type: ignore[no-any-return]
    opens_at = (emitted + m[SEGMENT_BYTES] - 1) >> m[SEGMENT_BITS] << m[SEGMENT_BITS]
    record = opens_at // m[RECORD_BYTES]
    ramp, base, end = m[channel + OPENS_RAMP], m[channel + OPENS_BASE], m[channel + RAMP_END]
    while ramp < end and base + m[ramp] <= record:
        base += m[ramp]
        ramp += RAMP_WORDS
    m[channel + OPENS_RAMP] = ramp
    m[channel + OPENS_BASE] = base
    m[channel + OPENS_RECORD] = record
    m[channel + OPENS_AT_NS] = NEVER if ramp == end else _instant(m, ramp, record - base)
    return m[channel + OPENS_AT_NS]  # type: ignore[no-any-return]


@_compiled
def _step_source(m: Ints, f: Floats, source: int, now: int, idle_ns: int) -> tuple[int, int]:
    """SimulatedSource.step.

    Returns: when that is done, and when to step again; -1 if the writer would wait for buffers.
    """
    if m[source + IS_DONE]:
        return now, NEVER
    low = m[source + OUTPUTS]
    high = low + m[source + OUTPUTS_COUNT]
    timeout_ns = m[TIMEOUT_NS]
    if timeout_ns != 0 and now < m[source + AGAIN_NS]:
        can_leave = False
        for place in range(low, high):
            if _is_data_available(m, m[place]):
                can_leave = True
                break
        if not can_leave:
            return now, m[source + AGAIN_NS]
    first_ns = _next_instant(m, source)
    emitted = 0
    if m[source + BEAT_NS] <= now:
        emitted += _emit_until(m, source, m[source + BEAT_NS] - 1)
        for place in range(low, high):
            _flush(m, m[place])
        m[source + BEAT_NS] = now + m[PERIOD_NS]
    emitted += _emit_until(m, source, now)
    held = 0
    for place in range(low, high):
        segments = _segments(m, m[place])
        held += segments
        if segments >= m[QUOTA_BUFFERS] or held >= m[source + POOL_BUFFERS]:
            return now, -1
    next_ns = _next_instant(m, source)
    if next_ns <= now:
        m[source + IS_DONE] = 1
        next_ns = NEVER
        for place in range(low, high):
            channel = m[place]
            m[channel + TAIL_EVENT] = 1
            is_told = m[channel + FLUSH_REQUESTED] or _elements(m, channel) > 2
            if not is_told and not m[channel + IS_BLOCKED]:
                _notify(m, channel)
    elif timeout_ns != 0:
        next_ns = min(m[source + END_NS], m[source + BEAT_NS])
        for place in range(low, high):
            next_ns = min(next_ns, _opens_ns(m, m[place]))
    m[source + AGAIN_NS] = next_ns
    if emitted:
        spare_ns = min(idle_ns - m[source + IDLE_SEEN_NS], now - first_ns)
        now += max(0, int(emitted * f[EMIT_NS_PER_RECORD]) - spare_ns)
    m[source + IDLE_SEEN_NS] = idle_ns
    return now, next_ns


@_compiled
def _notify_credit(m: Ints, channel: int, credit: int) -> None:
    if m[channel + UNANNOUNCED] == 0:
        connection = m[channel + CONNECTION]
        m[m[connection + CREDITORS] + m[connection + CREDITORS_COUNT]] = channel
        m[connection + CREDITORS_COUNT] += 1
    m[channel + UNANNOUNCED] += credit


@_compiled
def _request_floating(m: Ints, channel: int) -> int:
    sink = m[channel + SINK]
    missing = m[channel + REQUIRED] - m[channel + FREE_FLOATING] - m[channel + FREE_EXCLUSIVE]
    gained = 0
    while gained < missing:
        if m[sink + POOL_FREE] == 0:
            m[channel + IS_WAITING] = 1
            place = m[sink + LISTENERS_END] & m[sink + GATE_MASK]
            m[m[sink + LISTENERS] + place] = channel
            m[sink + LISTENERS_END] += 1
            break
        m[sink + POOL_FREE] -= 1
        m[channel + FREE_FLOATING] += 1
        gained += 1
    return gained


@_compiled
def _recycle_floating(m: Ints, sink: int) -> None:
    """LocalBufferPool._recycle: to whoever waits first and still wants it."""
    while m[sink + LISTENERS_BEGIN] < m[sink + LISTENERS_END]:
        channel = m[m[sink + LISTENERS] + (m[sink + LISTENERS_BEGIN] & m[sink + GATE_MASK])]
        m[sink + LISTENERS_BEGIN] += 1
        m[channel + IS_WAITING] = 0
        missing = m[channel + REQUIRED] - m[channel + FREE_FLOATING] - m[channel + FREE_EXCLUSIVE]
        if missing > 0:
            m[channel + FREE_FLOATING] += 1
            credit = 1 + _request_floating(m, channel) if missing > 1 else 1
            _notify_credit(m, channel, credit)
            return
    m[sink + POOL_FREE] += 1


@_compiled
def _recycle_held(m: Ints, sink: int) -> None:
    """The buffer that the task is done with."""
    channel = m[sink + HELD]
    if channel == 0:
        return
    m[sink + HELD] = 0
    if m[sink + IS_HELD_FLOATING]:
        _recycle_floating(m, sink)
        return
    m[channel + FREE_EXCLUSIVE] += 1
    free = m[channel + FREE_FLOATING] + m[channel + FREE_EXCLUSIVE]
    if m[channel + FREE_FLOATING] > 0 and free > m[channel + REQUIRED]:
        m[channel + FREE_FLOATING] -= 1
        _recycle_floating(m, sink)
    else:
        _notify_credit(m, channel, 1)


@_compiled
def _queue_channel(m: Ints, channel: int) -> None:
    sink = m[channel + SINK]
    m[channel + IS_QUEUED] = 1
    m[m[sink + READY] + (m[sink + READY_END] & m[sink + GATE_MASK])] = channel
    m[sink + READY_END] += 1


@_compiled
def _receive_down(m: Ints, connection: int, now: int) -> int:
    """Read what has arrived, piece by piece. Returns: when the next piece arrives."""
    mask, left, piece = m[connection + SLOTS_MASK], m[RECEIVE_BYTES], -1
    while m[connection + DOWN_BEGIN] < m[connection + DOWN_END]:
        entry = m[connection + DOWN] + (m[connection + DOWN_BEGIN] & mask) * DOWN_WORDS
        if m[entry + 3] != piece:
            if left <= 0 or m[entry + 4] > now:
                return m[entry + 4]  # type: ignore[no-any-return]
            piece = m[entry + 3]
        m[connection + DOWN_BEGIN] += 1
        left -= m[entry + 2]
        channel = m[entry]
        message = m[channel + RING] + (m[channel + RECEIVED] & m[RING_MASK]) * MESSAGE_WORDS
        if m[message] == _DATA:
            m[channel + REQUIRED] -= 1
            m[message + 2] = 0
            if m[channel + FREE_FLOATING] > 0:
                m[channel + FREE_FLOATING] -= 1
                m[message + 2] = 1
            else:
                m[channel + FREE_EXCLUSIVE] -= 1
        m[channel + RECEIVED] += 1
        if not m[channel + IS_QUEUED]:
            _queue_channel(m, channel)
        required = m[entry + 1] + m[EXCLUSIVE_BUFFERS]
        m[channel + REQUIRED] = required
        free = m[channel + FREE_FLOATING] + m[channel + FREE_EXCLUSIVE]
        if not m[channel + IS_WAITING] and free < required:
            gained = _request_floating(m, channel)
            if gained:
                _notify_credit(m, channel, gained)
    return NEVER


@_compiled
def _take_records(
    m: Ints, f: Floats, slopes: int, channel: int, records: int, begin_ns: int, delay_ns: int
) -> None:
    """Count the latencies of the next records of a channel, ramp by ramp."""
    ramp, position = m[channel + DONE_RAMP], m[channel + DONE_POSITION]
    taken = 0
    while taken < records:
        count = min(m[ramp] - position, records - taken)
        if m[channel + COUNTED_RAMP] <= ramp < m[channel + COUNTED_RAMP_END]:
            first_ns = begin_ns + delay_ns * (taken + 1) - _instant(m, ramp, position)
            done_ns = begin_ns + delay_ns * (taken + count)
            last_ns = done_ns - _instant(m, ramp, position + count - 1)
            _count(m, f, slopes, first_ns, last_ns, count)
            m[LAST_NS] = max(m[LAST_NS], done_ns)
        taken += count
        position += count
        if position == m[ramp]:
            ramp += RAMP_WORDS
            position = 0
    m[channel + DONE_RAMP] = ramp
    m[channel + DONE_POSITION] = position


@_compiled
def _resume_all(m: Ints, sink: int) -> None:
    """Every channel of a sink has told its recovery: all may go on."""
    for place in range(m[sink + INPUTS], m[sink + INPUTS] + m[sink + INPUTS_COUNT]):
        connection = m[m[place] + CONNECTION]
        m[m[connection + RESUMES] + m[connection + RESUMES_COUNT]] = m[place]
        m[connection + RESUMES_COUNT] += 1


@_compiled
def _step_sink(m: Ints, f: Floats, slopes: int, sink: int, now: int) -> tuple[int, int]:
    """SimulatedSink.step. Returns: when the loop is done with that, and when to step again."""
    if now < m[sink + BUSY_UNTIL_NS]:
        return now, m[sink + BUSY_UNTIL_NS]
    delay_ns = m[sink + CONSUME_NS]
    for _ in range(m[STEPS_PER_TURN]):
        is_ready = m[sink + READY_BEGIN] < m[sink + READY_END]
        if is_ready:
            now += m[RECEIVE_NS]
        _recycle_held(m, sink)
        if not is_ready:
            return now, NEVER
        channel = m[m[sink + READY] + (m[sink + READY_BEGIN] & m[sink + GATE_MASK])]
        m[sink + READY_BEGIN] += 1
        m[channel + IS_QUEUED] = 0
        message = m[channel + RING] + (m[channel + CONSUMED] & m[RING_MASK]) * MESSAGE_WORDS
        m[channel + CONSUMED] += 1
        if m[channel + CONSUMED] < m[channel + RECEIVED]:
            _queue_channel(m, channel)
        done_ns = now
        if m[message] == _DATA:
            records = m[message + 1]
            if records:
                _take_records(m, f, slopes, channel, records, now, delay_ns)
            done_ns = now + delay_ns * records
            m[sink + HELD] = channel
            m[sink + IS_HELD_FLOATING] = m[message + 2]
            if done_ns == now:
                _recycle_held(m, sink)
        elif m[message] == _RECOVERY:
            m[sink + RECOVERED] += 1
            if m[sink + RECOVERED] == m[sink + INPUTS_COUNT]:
                _resume_all(m, sink)
        if done_ns == now and m[sink + READY_BEGIN] == m[sink + READY_END]:
            return now, NEVER
        if done_ns - now > m[BUSY_NS]:
            m[sink + BUSY_UNTIL_NS] = done_ns
            return now, done_ns
        now = done_ns
    return now, now


@_compiled
def _append_up(m: Ints, connection: int, channel: int, credit: int, at_ns: int) -> None:
    entry = m[connection + UP] + (m[connection + UP_END] & m[connection + SLOTS_MASK]) * UP_WORDS
    m[connection + UP_END] += 1
    m[entry] = channel
    m[entry + 1] = credit
    m[entry + 2] = at_ns


@_compiled
def _pump_down(m: Ints, connection: int, now: int) -> None:
    """Send what the consumers announce."""
    if m[connection + RESUMES_COUNT] == 0 and m[connection + CREDITORS_COUNT] == 0:
        return
    at_ns = now + m[LATENCY_NS]
    is_counted = m[COUNTED_FROM_NS] <= now < m[COUNTED_TO_NS]
    resumes, creditors = m[connection + RESUMES], m[connection + CREDITORS]
    for place in range(resumes, resumes + m[connection + RESUMES_COUNT]):
        _append_up(m, connection, m[place], _RESUME, at_ns)
    m[connection + RESUMES_COUNT] = 0
    for place in range(creditors, creditors + m[connection + CREDITORS_COUNT]):
        channel = m[place]
        credit = m[channel + UNANNOUNCED]
        m[channel + UNANNOUNCED] = 0
        _append_up(m, connection, channel, credit, at_ns)
        if is_counted:
            m[CREDITS] += credit
            m[CREDIT_MESSAGES] += 1
    m[connection + CREDITORS_COUNT] = 0
    slot = m[connection + UP_BEGIN] & m[connection + SLOTS_MASK]
    _wake(m, m[connection + UPSTREAM], m[m[connection + UP] + slot * UP_WORDS + 2])


@_compiled
def _receive_up(m: Ints, connection: int, now: int) -> int:
    """Credit comes back, and channels that were blocked go on. Returns: when the next arrives."""
    while m[connection + UP_BEGIN] < m[connection + UP_END]:
        slot = m[connection + UP_BEGIN] & m[connection + SLOTS_MASK]
        entry = m[connection + UP] + slot * UP_WORDS
        if m[entry + 2] > now:
            return m[entry + 2]  # type: ignore[no-any-return]
        m[connection + UP_BEGIN] += 1
        channel = m[entry]
        if m[entry + 1] == _RESUME:
            m[channel + IS_BLOCKED] = 0
            _notify(m, channel)
        else:
            m[channel + CREDIT] += m[entry + 1]
            if not m[channel + IS_ENQUEUED] and _may_send(m, channel):
                _append_reader(m, connection, channel)
    return NEVER


@_compiled
def _turn(m: Ints, f: Floats, slopes: int, task_manager: int, now: int) -> bool:
    """SimulatedTaskManager's turn. Returns: False if a writer would have to wait for buffers."""
    m[task_manager + WAKE_NS] = NEVER
    m[task_manager + IDLE_NS] += now - m[task_manager + FREE_SINCE_NS]
    outgoing, outgoing_count = m[task_manager + OUTGOING], m[task_manager + OUTGOING_COUNT]
    incoming, incoming_count = m[task_manager + INCOMING], m[task_manager + INCOMING_COUNT]
    next_ns = NEVER
    for place in range(outgoing, outgoing + outgoing_count):
        next_ns = min(next_ns, _receive_up(m, m[place], now))
    for place in range(incoming, incoming + incoming_count):
        next_ns = min(next_ns, _receive_down(m, m[place], now))
    sources = m[task_manager + SOURCES]
    for place in range(sources, sources + m[task_manager + SOURCES_COUNT]):
        now, again_ns = _step_source(m, f, m[place], now, m[task_manager + IDLE_NS])
        if again_ns < 0:
            return False
        next_ns = min(next_ns, again_ns)
    sinks = m[task_manager + SINKS]
    for place in range(sinks, sinks + m[task_manager + SINKS_COUNT]):
        now, again_ns = _step_sink(m, f, slopes, m[place], now)
        next_ns = min(next_ns, again_ns)
    for place in range(outgoing, outgoing + outgoing_count):
        now = _pump_up(m, f, m[place], now)
    for place in range(incoming, incoming + incoming_count):
        _pump_down(m, m[place], now)
    m[task_manager + FREE_SINCE_NS] = now
    if next_ns != NEVER:
        _wake(m, task_manager, next_ns)
    return True


@_kept_on_disk
def run(m: Ints, f: Floats, buckets: int) -> int:
    """Run an exchange to its end.

    Args:
        m: memory, laid out by `fast_path`.
        f: costs, and room for twice as many numbers as there are buckets.
        buckets: of a latency histogram.

    Returns: DONE, or why it must be run by the simulator.
    """
    for number in range(m[CHANNELS]):
        _notify(m, m[FIRST_CHANNEL] + number * CHANNEL_WORDS)
    while True:
        task_manager, now = 0, NEVER
        each = m[FIRST_TASK_MANAGER]
        for _ in range(m[TASK_MANAGERS]):
            if m[each + WAKE_NS] < now:
                task_manager, now = each, m[each + WAKE_NS]
            each += TASK_MANAGER_WORDS
        if now == NEVER:
            return DONE
        m[TURNS] += 1
        if m[TURNS] > m[TURNS_MAX]:
            return TOO_LONG
        if not _turn(m, f, COUNTS + buckets, task_manager, now):
            return WRITER_WAITS
