"""PipelinedSubpartition: what waits to be sent, and whether its reader may."""

from __future__ import annotations

from . import words as w
from .buffer_pool import charge
from .compiling import compiled
from .input_channel import queue_barrier, queue_channel, say
from .timetable import set_due
from .words import Words


@compiled
def _count_segments(m: Words, channel: int) -> int:
    """Data buffers of a subpartition, the open one too."""
    if m[channel + w.BOUNDARIES_BEGIN] == m[channel + w.BOUNDARIES_END]:
        size = m[channel + w.EMITTED] - m[channel + w.SEGMENTS_FROM]
        return _segments(m, size) - m[channel + w.HEAD]
    open_bytes = m[channel + w.EMITTED] - m[channel + w.OPEN_FROM]
    return m[channel + w.CLOSED_SEGMENTS] + _segments(m, open_bytes)


@compiled
def _segments(m: Words, size: int) -> int:
    """Segments that so many bytes take."""
    return (size + m[w.SEGMENT_BYTES] - 1) >> m[w.SEGMENT_BITS]


@compiled
def open_end(m: Words, channel: int) -> int:
    """The byte up to which the open segment of a channel goes; the next one, if none is open."""
    emitted, open_from = m[channel + w.EMITTED], m[channel + w.OPEN_FROM]
    if m[w.DEBLOAT_NS]:
        return emitted if emitted == open_from else m[channel + w.OPEN_UNTIL]
    return open_from + (_segments(m, emitted - open_from) << m[w.SEGMENT_BITS])


@compiled
def close_buffer(m: Words, channel: int) -> None:
    """What is written next begins another segment."""
    emitted = m[channel + w.EMITTED]
    if emitted == m[channel + w.OPEN_FROM]:
        return
    segments = _count_segments(m, channel)
    m[channel + w.OPEN_FROM] = emitted
    if segments == 0:
        m[channel + w.SEGMENTS_FROM] = emitted
        m[channel + w.HEAD] = 0
        return
    place = m[channel + w.BOUNDARIES_END] & m[w.BOUNDARIES_MASK]
    m[m[channel + w.BOUNDARIES] + place] = emitted
    m[channel + w.BOUNDARIES_END] += 1
    m[channel + w.CLOSED_SEGMENTS] = segments


@compiled
def _fill_buffers(m: Words, channel: int, end: int) -> None:
    """Write up to a byte into buffers of the size that the consumer wants, or as long as it takes
    to end a record.
    """
    while m[channel + w.EMITTED] < end:
        emitted = m[channel + w.EMITTED]
        if emitted == m[channel + w.OPEN_FROM]:
            rest = m[w.RECORD_BYTES] - emitted % m[w.RECORD_BYTES]
            capacity = min(max(rest, m[channel + w.BUFFER_BYTES]), m[w.SEGMENT_BYTES])
            m[channel + w.OPEN_UNTIL] = emitted + capacity
        m[channel + w.EMITTED] = min(end, m[channel + w.OPEN_UNTIL])
        if m[channel + w.EMITTED] == m[channel + w.OPEN_UNTIL]:
            close_buffer(m, channel)


@compiled
def note(m: Words, channel: int) -> None:
    """Count what there is in a subpartition, also for its source; to be called after each change:
    SEGMENTS are data buffers, the open one too, ELEMENTS these and events.
    """
    source, segments = m[channel + w.SOURCE], _count_segments(m, channel)
    elements = segments + m[channel + w.FRONT_EVENT] + m[channel + w.TAIL_EVENT]
    elements += m[channel + w.HAS_PRIORITY_BARRIER]
    if m[channel + w.BARRIER_PLACE]:
        elements += 1
    is_available = 0
    if not m[channel + w.IS_BLOCKED]:
        has_whole = elements > 1 or (elements == 1 and segments == 0)
        is_available = 1 if has_whole or m[channel + w.FLUSH_REQUESTED] else 0
    m[source + w.ALL_SEGMENTS] += segments - m[channel + w.SEGMENTS]
    m[source + w.ALL_ELEMENTS] += elements - m[channel + w.ELEMENTS]
    m[source + w.AVAILABLE] += is_available - m[channel + w.IS_AVAILABLE]
    if m[w.MAY_WAIT] and segments != m[channel + w.SEGMENTS]:
        charge(m, channel, segments - m[channel + w.SEGMENTS])
    m[channel + w.SEGMENTS] = segments
    m[channel + w.ELEMENTS] = elements
    m[channel + w.IS_AVAILABLE] = is_available


@compiled
def notify(m: Words, channel: int) -> None:
    """Tell the connection that a reader may have something to send; the gate, of a local channel
    that it may be read.
    """
    connection = m[channel + w.CONNECTION]
    if connection == 0:
        if m[channel + w.HAS_PRIORITY_BARRIER]:
            queue_barrier(m, channel)
        elif not m[channel + w.IS_QUEUED] and not m[channel + w.IS_RELEASED]:
            queue_channel(m, channel)
    elif not m[channel + w.IS_NOTIFIED]:
        m[channel + w.IS_NOTIFIED] = 1
        m[m[connection + w.NOTIFIED] + m[connection + w.NOTIFIED_COUNT]] = channel
        m[connection + w.NOTIFIED_COUNT] += 1
        set_due(m, m[m[connection + w.UPSTREAM] + w.UNSENT], m[connection + w.UPSTREAM_PLACE], 0)


@compiled
def write_barrier(m: Words, channel: int, is_unaligned: bool) -> None:
    """Close the open buffer, and append an aligned barrier, or put an unaligned one in front."""
    close_buffer(m, channel)
    if is_unaligned:
        m[channel + w.HAS_PRIORITY_BARRIER] = 1
        note(m, channel)
        notify(m, channel)
        return
    m[channel + w.SEGMENTS_BEFORE] = _count_segments(m, channel)
    m[channel + w.BYTES_BEFORE] = m[channel + w.EMITTED]
    is_last = m[channel + w.TAIL_EVENT] == 0
    m[channel + w.BARRIER_PLACE] = w.BEFORE_TAIL if is_last else w.BEHIND_TAIL
    note(m, channel)
    notify_of_event(m, channel)


@compiled
def time_barrier_out(m: Words, channel: int) -> int:
    """PipelinedSubpartition.alignment_timeout: a barrier overtakes the data before it. Returns: the
    bytes of these.
    """
    m[channel + w.BARRIER_PLACE] = w.NOWHERE
    m[channel + w.HAS_PRIORITY_BARRIER] = 1
    note(m, channel)
    notify(m, channel)
    return m[channel + w.BYTES_BEFORE] - m[channel + w.POLLED]


@compiled
def notify_of_event(m: Words, channel: int) -> None:
    """Tell the reader of an event that was appended, unless it knows that there is something."""
    is_told = m[channel + w.FLUSH_REQUESTED] or m[channel + w.ELEMENTS] > 2
    if not is_told and not m[channel + w.IS_BLOCKED]:
        notify(m, channel)


@compiled
def resume_consumption(m: Words, channel: int) -> None:
    """Let the producer of a channel go on behind an event that blocks it."""
    if m[channel + w.CONNECTION]:
        say(m, channel, w.RESUME)
        return
    m[channel + w.IS_BLOCKED] = 0
    note(m, channel)
    if m[channel + w.IS_AVAILABLE]:
        notify(m, channel)


@compiled
def emit(m: Words, channel: int, records: int) -> None:
    """Write records: the reader is told when a second buffer is opened."""
    before = m[channel + w.ELEMENTS]
    if m[w.DEBLOAT_NS]:
        _fill_buffers(m, channel, m[channel + w.EMITTED] + records * m[w.RECORD_BYTES])
    else:
        m[channel + w.EMITTED] += records * m[w.RECORD_BYTES]
    note(m, channel)
    may_tell = before < 2 and not m[channel + w.FLUSH_REQUESTED] and not m[channel + w.IS_BLOCKED]
    if may_tell and m[channel + w.ELEMENTS] >= 2:
        notify(m, channel)


@compiled
def flush(m: Words, channel: int) -> None:
    """PipelinedSubpartition.flush."""
    elements = m[channel + w.ELEMENTS]
    if elements == 0 or m[channel + w.FLUSH_REQUESTED]:
        return
    is_fresh = elements == 1 and (
        m[channel + w.EMITTED] > m[channel + w.POLLED] or m[channel + w.SEGMENTS] == 0
    )
    if is_fresh or elements > 1:
        m[channel + w.FLUSH_REQUESTED] = 1
        note(m, channel)
    if is_fresh and not m[channel + w.IS_BLOCKED]:
        notify(m, channel)


@compiled
def may_send(m: Words, channel: int) -> bool:
    if m[channel + w.CREDIT] > 0:
        return m[channel + w.IS_AVAILABLE] > 0
    if m[channel + w.IS_BLOCKED]:
        return m[channel + w.HAS_PRIORITY_BARRIER] > 0
    return m[channel + w.ELEMENTS] > 0 and _is_event_next(m, channel, m[channel + w.SEGMENTS])


@compiled
def _is_event_next(m: Words, channel: int, segments: int) -> bool:
    """Whether an event comes first, of what there is, with so many data buffers."""
    if m[channel + w.FRONT_EVENT] or m[channel + w.HAS_PRIORITY_BARRIER]:
        return True
    if m[channel + w.BARRIER_PLACE] == w.BEFORE_TAIL and m[channel + w.SEGMENTS_BEFORE] == 0:
        return True
    return segments == 0


@compiled
def append_reader(m: Words, connection: int, channel: int) -> None:
    m[channel + w.IS_ENQUEUED] = 1
    place = m[connection + w.READERS_END] & m[connection + w.WIDTH_MASK]
    m[m[connection + w.READERS] + place] = channel
    m[connection + w.READERS_END] += 1
    set_due(m, m[m[connection + w.UPSTREAM] + w.UNSENT], m[connection + w.UPSTREAM_PLACE], 0)


@compiled
def poll(m: Words, channel: int) -> tuple[int, int, int, int]:
    """PipelinedSubpartition.poll.

    Returns: kind (NOTHING for none), bytes, backlog, and what may follow: 0 nothing, 1 data, 2 an
        event.
    """
    polled = _poll(m, channel)
    note(m, channel)
    return polled


@compiled
def _poll(m: Words, channel: int) -> tuple[int, int, int, int]:
    if m[channel + w.IS_BLOCKED] and not m[channel + w.HAS_PRIORITY_BARRIER]:
        return w.NOTHING, 0, 0, 0
    count, segments = m[channel + w.ELEMENTS], m[channel + w.SEGMENTS]
    if count == 0:
        m[channel + w.FLUSH_REQUESTED] = 0
        return w.NOTHING, 0, 0, 0
    while True:
        if count == 1:
            m[channel + w.FLUSH_REQUESTED] = 0
        if m[channel + w.HAS_PRIORITY_BARRIER]:
            m[channel + w.HAS_PRIORITY_BARRIER] = 0
            count -= 1
            kind, size = w.PRIORITY_BARRIER, m[w.BARRIER_BYTES]
            break
        if m[channel + w.FRONT_EVENT]:
            m[channel + w.FRONT_EVENT] = 0
            m[channel + w.IS_BLOCKED] = 1
            count -= 1
            kind, size = w.RECOVERY, m[w.RECOVERY_BYTES]
            break
        is_before_tail = m[channel + w.BARRIER_PLACE] == w.BEFORE_TAIL
        if is_before_tail and m[channel + w.SEGMENTS_BEFORE] == 0:
            m[channel + w.BARRIER_PLACE] = w.NOWHERE
            m[channel + w.IS_BLOCKED] = m[w.IS_BLOCKING]
            count -= 1
            kind, size = w.BARRIER, m[w.BARRIER_BYTES]
            break
        if segments == 0:
            m[channel + w.TAIL_EVENT] = 0
            if m[channel + w.BARRIER_PLACE]:
                m[channel + w.BARRIER_PLACE] = w.BEFORE_TAIL
            count -= 1
            if m[channel + w.IS_FINISHED]:
                kind, size = w.END_OF_PARTITION, m[w.END_OF_PARTITION_BYTES]
            else:
                kind, size = w.END_OF_DATA, m[w.END_OF_DATA_BYTES]
            break
        kind = w.DATA
        is_closed, end = m[channel + w.TAIL_EVENT] == 1, m[channel + w.EMITTED]
        has_boundary = m[channel + w.BOUNDARIES_BEGIN] < m[channel + w.BOUNDARIES_END]
        if has_boundary:
            place = m[channel + w.BOUNDARIES_BEGIN] & m[w.BOUNDARIES_MASK]
            is_closed, end = True, m[m[channel + w.BOUNDARIES] + place]
        stretch = _segments(m, end - m[channel + w.SEGMENTS_FROM]) - m[channel + w.HEAD]
        whole = m[channel + w.SEGMENTS_FROM] + ((m[channel + w.HEAD] + 1) << m[w.SEGMENT_BITS])
        reached = min(whole, end)
        size = reached - m[channel + w.POLLED]
        m[channel + w.POLLED] = reached
        m[channel + w.IS_TAKEN_WHOLE] = 0
        if reached == whole or (is_closed and stretch == 1):
            m[channel + w.IS_TAKEN_WHOLE] = 1
            m[channel + w.HEAD] += 1
            count -= 1
            segments -= 1
            m[channel + w.SEGMENTS_BEFORE] = max(m[channel + w.SEGMENTS_BEFORE] - 1, 0)
            if has_boundary:
                m[channel + w.CLOSED_SEGMENTS] -= 1
            if has_boundary and stretch == 1:
                m[channel + w.BOUNDARIES_BEGIN] += 1
                m[channel + w.SEGMENTS_FROM] = end
                m[channel + w.HEAD] = 0
        elif size == 0:
            return w.NOTHING, 0, 0, 0
        if size > 0:
            break
        if count == 0:
            return w.NOTHING, 0, 0, 0
    backlog = following = 0
    if count and not m[channel + w.IS_BLOCKED]:
        is_all = m[channel + w.FLUSH_REQUESTED] or m[channel + w.TAIL_EVENT]
        if m[channel + w.BARRIER_PLACE] and segments == m[channel + w.SEGMENTS_BEFORE]:
            is_all = 1  # the barrier is last
        backlog = segments if is_all else max(segments - 1, 0)
        if count > 1 or m[channel + w.FLUSH_REQUESTED] or segments == 0:
            following = 2 if _is_event_next(m, channel, segments) else 1
    return kind, size, backlog, following
