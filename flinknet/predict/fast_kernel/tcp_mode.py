"""The consumer's end of a connection without credit: a message for which its gate has no buffer
waits, with all that was read behind it, and the socket is not read meanwhile.
"""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .input_channel import queue_barrier, queue_channel
from .timetable import set_due
from .words import Words


@compiled
def lay_down(
    m: Words, connection: int, entry: int, records: int, now: int, longest_wait_ns: int
) -> None:
    """Note what else there is to know of a message that is sent: its channel has no room for it
    until there is a buffer. The run ends if there is no room on the way either.
    """
    m[entry + 1] = records
    stamps = m[connection + w.STAMPS]
    if stamps:
        stamp = stamps + (entry - m[connection + w.DOWN]) // w.DOWN_WORDS * w.STAMP_WORDS
        m[stamp] = now
        m[stamp + 1] = longest_wait_ns
    if m[connection + w.DOWN_END] - m[connection + w.UNDELIVERED] > m[connection + w.SLOTS_MASK]:
        m[w.ENDED] = w.ROOM_MISSING


@compiled
def is_stopped(m: Words, connection: int) -> bool:
    """Whether a message waits for a buffer, so that the socket is not read."""
    return m[connection + w.UNDELIVERED] < m[connection + w.DOWN_BEGIN]


@compiled
def receive_without_credit(m: Words, connection: int, now: int) -> int:
    """Read what has arrived, piece by piece, until a message of one has to wait. Returns: when the
    next piece arrives that is to be read.
    """
    left, piece = m[w.RECEIVE_BYTES], -1
    while m[connection + w.DOWN_BEGIN] < m[connection + w.DOWN_END]:
        entry = _entry(m, connection, m[connection + w.DOWN_BEGIN])
        if m[entry + 3] != piece:
            if is_stopped(m, connection):
                return w.NEVER
            if left <= 0 or m[entry + 4] > now:
                return m[entry + 4]
            piece = m[entry + 3]
        left -= m[entry + 2]
        m[connection + w.UNREAD_BYTES] -= m[entry + 2]
        was_stopped = is_stopped(m, connection)
        m[connection + w.DOWN_BEGIN] += 1
        if was_stopped:
            continue
        if _deliver(m, connection, entry):
            m[connection + w.UNDELIVERED] += 1
        else:
            m[w.STOPS] += 1
            if not m[w.MAY_WAIT]:
                m[w.ENDED] = w.WRITER_WAITS
    if not is_stopped(m, connection):
        _begin_anew(m, connection)
    return w.NEVER


@compiled
def deliver_waiting(m: Words, connection: int) -> None:
    """PartitionRequestClientHandler.handle_deadline: pass on what waits, until a buffer is missing
    again; after the last message the socket is read again.
    """
    m[connection + w.IS_DUE] = 0
    m[w.HAS_DELIVERED] = 1
    while is_stopped(m, connection):
        if not _deliver(m, connection, _entry(m, connection, m[connection + w.UNDELIVERED])):
            return
        m[connection + w.UNDELIVERED] += 1
    if m[connection + w.DOWN_BEGIN] == m[connection + w.DOWN_END]:
        _begin_anew(m, connection)
        return
    arrivals = m[m[connection + w.DOWNSTREAM] + w.ARRIVALS]
    arrival_ns = m[_entry(m, connection, m[connection + w.DOWN_BEGIN]) + 4]
    set_due(m, arrivals, m[connection + w.DOWNSTREAM_PLACE], arrival_ns)


@compiled
def _entry(m: Words, connection: int, number: int) -> int:
    place = number & m[connection + w.SLOTS_MASK]
    return m[connection + w.DOWN] + place * w.DOWN_WORDS


@compiled
def _begin_anew(m: Words, connection: int) -> None:
    m[connection + w.DOWN_BEGIN] = m[connection + w.DOWN_END] = m[connection + w.UNDELIVERED] = 0


@compiled
def _finds_buffer(m: Words, connection: int, sink: int) -> bool:
    """StagedBuffer.find_memory: whether there is a buffer for the first message that has none; if
    not, it is next to have one.
    """
    if m[connection + w.WAITS_FOR_BUFFER] == w.HAS_BUFFER:
        m[connection + w.WAITS_FOR_BUFFER] = 0
        return True
    if m[connection + w.WAITS_FOR_BUFFER]:
        return False
    if m[sink + w.POOL_FREE] > 0:
        m[sink + w.POOL_FREE] -= 1
        return True
    m[connection + w.WAITS_FOR_BUFFER] = w.IS_LISTENING
    place = m[sink + w.LISTENERS_END] & m[sink + w.GATE_MASK]
    m[m[sink + w.LISTENERS] + place] = connection
    m[sink + w.LISTENERS_END] += 1
    return False


@compiled
def _deliver(m: Words, connection: int, entry: int) -> bool:
    """Pass a message to its channel. Returns: False if it must wait for a buffer."""
    channel, kind = m[entry], m[entry + 5]
    if kind == w.PRIORITY_BARRIER:
        m[channel + w.BARRIER_BEHIND] = m[channel + w.RECEIVED]
        queue_barrier(m, channel)
        return True
    if kind == w.DATA and not _finds_buffer(m, connection, m[channel + w.SINK]):
        return False
    message = m[channel + w.RING] + (m[channel + w.RECEIVED] & m[w.RING_MASK]) * w.MESSAGE_WORDS
    m[message] = kind
    m[message + 1] = m[entry + 1]
    m[message + 2] = 1
    m[message + 5] = m[entry + 2] - m[w.HEADER_BYTES]
    stamps = m[connection + w.STAMPS]
    if stamps:
        stamp = stamps + (entry - m[connection + w.DOWN]) // w.DOWN_WORDS * w.STAMP_WORDS
        m[message + 3] = m[stamp]
        m[message + 4] = m[stamp + 1]
    m[channel + w.RECEIVED] += 1
    m[channel + w.SENT] = m[channel + w.RECEIVED]
    if not m[channel + w.IS_QUEUED]:
        queue_channel(m, channel)
    if kind == w.BARRIER and m[w.ALIGNED_TIMEOUT_NS]:
        m[channel + w.HAS_ANNOUNCEMENT] = 1
        queue_barrier(m, channel)
    return True
