"""The socket of a producer's connection: what it does not take waits, and the segments with it;
above a mark nothing more is handed over until there is room again.
"""

from __future__ import annotations

from . import words as w
from .buffer_pool import lend
from .compiling import compiled
from .words import Words


@compiled
def is_narrow(m: Words, connection: int) -> bool:
    """Whether what is handed over next may have to wait for the socket, or something does."""
    room = m[w.LINK_BYTES] - m[connection + w.UNREAD_BYTES]
    return room < m[w.NARROW_BYTES] or m[connection + w.IS_PRESSED] > 0


@compiled
def settle(m: Words, connection: int) -> None:
    """WriteWaterMarks.set_pending, and ProducerConnection's recycling of what the socket has taken
    since the last hand-over."""
    unsent_bytes = max(0, m[connection + w.UNREAD_BYTES] - m[w.LINK_BYTES])
    m[w.FULL_SOCKETS] += 1 if unsent_bytes else 0
    if unsent_bytes > m[w.HIGH_BYTES]:
        m[connection + w.IS_UNWRITABLE] = 1
    elif unsent_bytes < m[w.LOW_BYTES]:
        m[connection + w.IS_UNWRITABLE] = 0
    taken_bytes = m[connection + w.SENT_BYTES] - unsent_bytes
    while m[connection + w.STAGED_BEGIN] < m[connection + w.STAGED_END]:
        entry = _staged(m, connection, m[connection + w.STAGED_BEGIN])
        if m[entry] > taken_bytes:
            break
        m[connection + w.STAGED_BEGIN] += 1
        if m[entry + 2]:
            lend(m, m[entry + 1], -m[entry + 2])
    waits = m[connection + w.STAGED_BEGIN] < m[connection + w.STAGED_END]
    m[connection + w.IS_PRESSED] = 1 if waits or m[connection + w.IS_UNWRITABLE] else 0


@compiled
def batch_limit(m: Words, connection: int) -> tuple[int, bool]:
    """Bytes after which no further buffer is handed over at once, and whether the room in the
    socket limits them: then each buffer comes by itself.
    """
    room = m[w.LINK_BYTES] - m[connection + w.UNREAD_BYTES]
    if room >= m[w.BATCH_BYTES]:
        return m[w.BATCH_BYTES], False
    return min(m[w.BATCH_BYTES], room + m[w.HIGH_BYTES] + 1), True


@compiled
def stage(
    m: Words,
    connection: int,
    channel: int,
    kind: int,
    segments: int,
    sent_bytes: int,
    is_in_run: bool,
) -> bool:
    """Keep the segments of a message that was polled until the socket has taken it.

    Args:
        segments: that left the subpartition with it: its own, and rests without bytes of such as
            wait already.
        sent_bytes: up to its end.
        is_in_run: whether it comes back together with the one before it.

    Returns: whether more may come back together with it.
    """
    own = m[channel + w.IS_TAKEN_WHOLE] if kind == w.DATA else 0
    rests = segments - own
    if rests and m[channel + w.LAST_STAGED] > m[connection + w.STAGED_BEGIN]:
        m[_staged(m, connection, m[channel + w.LAST_STAGED] - 1) + 2] += rests
        lend(m, channel, rests)
    if kind != w.DATA:
        return False
    is_in_run = is_in_run and rests == 0
    if not is_in_run:
        entry = _staged(m, connection, m[connection + w.STAGED_END])
        m[connection + w.STAGED_END] += 1
        m[entry + 1] = channel
        m[entry + 2] = 0
    entry = _staged(m, connection, m[connection + w.STAGED_END] - 1)
    m[entry] = sent_bytes
    m[entry + 2] += own
    if own:
        lend(m, channel, own)
    m[channel + w.LAST_STAGED] = m[connection + w.STAGED_END]
    m[connection + w.IS_PRESSED] = 1
    return rests == 0


@compiled
def _staged(m: Words, connection: int, number: int) -> int:
    place = number & m[connection + w.SLOTS_MASK]
    return m[connection + w.STAGED] + place * w.STAGED_WORDS
