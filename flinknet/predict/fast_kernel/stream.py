"""A connection of event loops whose parts have costs: what is sent is on its way in parts, and read
as bytes, wherever messages end.
"""

from __future__ import annotations

from . import loop_words as lw
from . import words as w
from .compiling import compiled
from .connection import (
    announce,
    hand_over,
    queue_message,
    receive_backlog,
    receive_barrier_before_all,
    receive_up,
    take_free,
    wake,
)
from .loop_jitter import jitter_ns
from .segments import add_from_pool, line_up, take_first
from .timetable import set_due
from .words import Numbers, Words

_LENGTH_BYTES, _ID_FROM, _ID_BYTES = 4, 9, 16
"""Of a header: its first bytes are the length of the message; where the receiver's id stands."""


@compiled
def pump_parts(m: Words, f: Numbers, connection: int, now: int) -> int:
    """LinkEnd.pump of a producer. Returns: when it is done with that."""
    stream, sender = m[connection + w.STREAM], m[connection + w.UPSTREAM]
    while True:
        end = m[connection + w.SENT_BYTES]
        messages, left = hand_over(m, connection, now)
        if messages == 0:
            return now
        handed_over_ns = now
        now += max(0, m[m[w.LOOP] + lw.SEND_NS] + jitter_ns(m, sender, lw.SEND_JITTER))
        while left > 0:
            size = min(left, m[m[w.LOOP] + lw.PART_BYTES])
            took_ns = int(f[w.SEND_NS_PER_MESSAGE] * messages + f[w.SEND_NS_PER_BYTE] * size)
            messages = 0
            now += took_ns
            handed_over_ns += took_ns
            end += size
            left -= size
            part = _part(m, stream, m[stream + lw.PARTS_END])
            m[stream + lw.PARTS_END] += 1
            m[part] = end
            m[part + 1] = handed_over_ns + m[w.LATENCY_NS]
        first_ns = m[_part(m, stream, m[stream + lw.PARTS_BEGIN]) + 1]
        announce(m, m[connection + w.DOWNSTREAM], m[connection + w.DOWNSTREAM_PLACE], first_ns)


@compiled
def receive_credit(m: Words, connection: int, now: int) -> int:
    """LinkEnd.receive of a producer. Returns: when it is done with that."""
    receiver = m[connection + w.UPSTREAM]
    now += m[m[w.LOOP] + lw.TAKE_CREDIT_NS]
    next_ns = receive_up(m, connection, now)
    set_due(m, m[receiver + w.ARRIVALS], m[connection + w.UPSTREAM_PLACE], next_ns)
    return now + max(0, m[m[w.LOOP] + lw.PICK_NS] + jitter_ns(m, receiver, lw.PICK_JITTER))


@compiled
def receive_parts(m: Words, f: Numbers, connection: int, now: int) -> int:
    """LinkEnd.receive of a consumer: one read of its runtime. Returns: when that is done."""
    stream, receiver = m[connection + w.STREAM], m[connection + w.DOWNSTREAM]
    costs = m[m[w.LOOP] + lw.COSTS]
    now += m[m[w.LOOP] + lw.RECEIVE_NS]
    was_full = m[connection + w.UNREAD_BYTES] >= m[w.LINK_BYTES]
    room = _room(m, connection)
    size = _take(m, connection, room if room else m[w.RECEIVE_BYTES], now)
    now += int(f[costs + lw.RECEIVE_PER_BYTE] * size)
    before = m[connection + w.DOWN_BEGIN]
    if room:
        _fill(m, connection, size)
    else:
        _decode(m, connection, size)
    messages = m[connection + w.DOWN_BEGIN] - before
    if was_full:
        wake(m, m[connection + w.UPSTREAM], now)
    took_ns = int(f[costs + lw.DECODE] + f[costs + lw.DECODE_PER_BUFFER] * messages)
    now += max(0, took_ns + jitter_ns(m, receiver, lw.DECODE_JITTER))
    next_ns = w.NEVER
    if m[stream + lw.PARTS_BEGIN] < m[stream + lw.PARTS_END]:
        next_ns = m[_part(m, stream, m[stream + lw.PARTS_BEGIN]) + 1]
    else:
        m[stream + lw.PARTS_BEGIN] = m[stream + lw.PARTS_END] = 0
        if m[connection + w.DOWN_BEGIN] == m[connection + w.DOWN_END]:
            m[connection + w.DOWN_BEGIN] = m[connection + w.DOWN_END] = 0
    set_due(m, m[receiver + w.ARRIVALS], m[connection + w.DOWNSTREAM_PLACE], next_ns)
    return now


@compiled
def _part(m: Words, stream: int, number: int) -> int:
    return m[stream + lw.PARTS] + (number & m[stream + lw.PARTS_MASK]) * lw.PART_WORDS


@compiled
def _take(m: Words, connection: int, most: int, now: int) -> int:
    """Direction.take. Returns: bytes read."""
    stream = m[connection + w.STREAM]
    first = m[connection + w.SENT_BYTES] - m[connection + w.UNREAD_BYTES]
    read = first
    while m[stream + lw.PARTS_BEGIN] < m[stream + lw.PARTS_END] and read < first + most:
        part = _part(m, stream, m[stream + lw.PARTS_BEGIN])
        if m[part + 1] > now:
            break
        read = min(m[part], first + most)
        if read == m[part]:
            m[stream + lw.PARTS_BEGIN] += 1
    m[connection + w.UNREAD_BYTES] -= read - first
    return read - first


@compiled
def _entry(m: Words, connection: int) -> int:
    """The first message that is not whole."""
    place = m[connection + w.DOWN_BEGIN] & m[connection + w.SLOTS_MASK]
    return m[connection + w.DOWN] + place * w.DOWN_WORDS


@compiled
def _room(m: Words, connection: int) -> int:
    """ResponseDecoder.memory_to_fill. Returns: its bytes; 0 if it is unknown what comes next."""
    stream, header = m[connection + w.STREAM], m[w.HEADER_BYTES]
    run, size, into = m[stream + lw.RUN], m[stream + lw.RUN_BYTES], m[stream + lw.INTO]
    if run == 0:
        return 0
    buffers = 0
    if size == m[w.SEGMENT_BYTES] and not m[run + w.IS_RELEASED]:
        if m[m[run + w.SINK] + w.POOL_MEMORY]:
            line_up(m, run, m[stream + lw.FILLED] if into >= header else -1)
        free = m[run + w.FREE_FLOATING] + m[run + w.FREE_EXCLUSIVE]
        buffers = min(free, m[m[w.LOOP] + lw.FILL_BUFFERS])
    room = buffers * (header + size)
    if into >= header:
        return room + m[_entry(m, connection) + 2] - into
    return room - into if buffers else 0


@compiled
def _begin_message(m: Words, connection: int) -> None:
    """The header of a message is there: find a buffer for the rest."""
    entry, stream = _entry(m, connection), m[connection + w.STREAM]
    if m[entry + 5] == w.DATA:
        channel = m[entry]
        m[stream + lw.IS_FILLED_FLOATING] = take_free(m, channel)
        if m[m[channel + w.SINK] + w.POOL_MEMORY]:
            m[stream + lw.FILLED] = take_first(m, channel)


@compiled
def _end_message(m: Words, connection: int) -> None:
    """A message is whole: hand it to its channel. The number of its buffer stands with it, and
    whether a barrier that has overtaken it separates it from the one before.
    """
    entry, stream = _entry(m, connection), m[connection + w.STREAM]
    m[connection + w.DOWN_BEGIN] += 1
    m[stream + lw.INTO] = 0
    channel = m[entry]
    memory = m[channel + w.MEMORY]
    if m[entry + 5] == w.PRIORITY_BARRIER:
        m[memory + lw.IS_BROKEN] = 1
        receive_barrier_before_all(m, channel)
    else:
        slot = m[channel + w.RECEIVED] & m[w.RING_MASK]
        message = m[channel + w.RING] + slot * w.MESSAGE_WORDS
        m[message + 2] = m[stream + lw.IS_FILLED_FLOATING]
        m[message + 3] = m[stream + lw.FILLED]
        m[message + 4] = m[memory + lw.IS_BROKEN]
        m[memory + lw.IS_BROKEN] = 0
        queue_message(m, channel, m[entry + 5])
    gained = receive_backlog(m, channel, m[entry + 1])
    if gained and m[m[channel + w.SINK] + w.POOL_MEMORY]:
        add_from_pool(m, channel, gained)


@compiled
def _decode(m: Words, connection: int, left: int) -> None:
    """ResponseDecoder.receive of so many bytes: a run is begun if the last two messages whose
    headers came whole are alike.
    """
    stream, header = m[connection + w.STREAM], m[w.HEADER_BYTES]
    before = last = before_bytes = last_bytes = 0
    while left > 0:
        entry, into = _entry(m, connection), m[stream + lw.INTO]
        until = m[entry + 2]
        if into == 0 and left >= header:
            before, before_bytes = last, last_bytes
            last, last_bytes = m[entry] if m[entry + 5] == w.DATA else 0, until - header
            _begin_message(m, connection)
        elif into < header:
            until = header
        size = min(until - into, left)
        left -= size
        into += size
        m[stream + lw.INTO] = into
        if into == m[entry + 2]:
            _end_message(m, connection)
        elif into == header and until == header:
            _begin_message(m, connection)
    m[stream + lw.RUN] = last if before == last and before_bytes == last_bytes else 0
    m[stream + lw.RUN_BYTES] = last_bytes


@compiled
def _fill(m: Words, connection: int, left: int) -> None:
    """ResponseDecoder.memory_filled, with so many bytes."""
    stream, header = m[connection + w.STREAM], m[w.HEADER_BYTES]
    frame = header + m[stream + lw.RUN_BYTES]
    if m[stream + lw.INTO] >= header:
        missing = m[_entry(m, connection) + 2] - m[stream + lw.INTO]
        if left < missing:
            m[stream + lw.INTO] += left
            return
        _end_message(m, connection)
        left -= missing
    left += m[stream + lw.INTO]
    m[stream + lw.INTO] = 0
    while left >= header and _is_alike(m, connection):
        _begin_message(m, connection)
        if left < frame:
            m[stream + lw.INTO] = left
            return
        _end_message(m, connection)
        left -= frame
    if left >= header or not _may_be_alike(m, connection, left):
        m[stream + lw.RUN] = 0
        _decode(m, connection, left)
    else:
        m[stream + lw.INTO] = left


@compiled
def _is_alike(m: Words, connection: int) -> bool:
    """Whether the next message goes on with the run."""
    entry, stream = _entry(m, connection), m[connection + w.STREAM]
    is_of_run = m[entry] == m[stream + lw.RUN] and m[entry + 5] == w.DATA
    return is_of_run and m[entry + 2] == m[w.HEADER_BYTES] + m[stream + lw.RUN_BYTES]


@compiled
def _may_be_alike(m: Words, connection: int, begun: int) -> bool:
    """Whether so many bytes of the next message, less than a header, may begin one of the run."""
    if begun == 0 or _is_alike(m, connection):
        return True
    entry, stream = _entry(m, connection), m[connection + w.STREAM]
    length, alike = m[entry + 2], m[w.HEADER_BYTES] + m[stream + lw.RUN_BYTES]
    for place in range(min(begun, _LENGTH_BYTES)):
        bits = 8 * (_LENGTH_BYTES - 1 - place)
        if (length >> bits) & 255 != (alike >> bits) & 255:
            return False
    ours, other = m[m[entry] + w.MEMORY], m[m[stream + lw.RUN] + w.MEMORY]
    for place in range(min(begun - _ID_FROM, _ID_BYTES)):
        word, bits = lw.ID_HIGH + place // 8, 8 * (7 - place % 8)
        if (m[ours + word] >> bits) & 255 != (m[other + word] >> bits) & 255:
            return False
    return True
