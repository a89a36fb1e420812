"""Which buffers of a consumer's memory are free, by number: those that lie end to end, and are
filled one after the other, are read at once.
"""

from __future__ import annotations

from . import loop_words as lw
from . import words as w
from .compiling import compiled
from .words import Words


@compiled
def add_free(m: Words, channel: int, segment: int) -> None:
    """A buffer becomes free for a channel, behind the others."""
    memory = m[channel + w.MEMORY]
    if m[memory + lw.FREE_END] == m[memory + lw.FREE_ROOM]:
        _move(m, memory)
    m[m[memory + lw.FREE] + m[memory + lw.FREE_END]] = segment
    m[memory + lw.FREE_END] += 1


@compiled
def _move(m: Words, memory: int) -> None:
    """Let the free buffers of a channel begin at the first place again."""
    free, begin = m[memory + lw.FREE], m[memory + lw.FREE_BEGIN]
    for place in range(m[memory + lw.FREE_END] - begin):
        m[free + place] = m[free + begin + place]
    m[memory + lw.FREE_END] -= begin
    m[memory + lw.FREE_BEGIN] = 0


@compiled
def take_first(m: Words, channel: int) -> int:
    """Returns: the first free buffer of a channel."""
    memory = m[channel + w.MEMORY]
    segment = m[m[memory + lw.FREE] + m[memory + lw.FREE_BEGIN]]
    m[memory + lw.FREE_BEGIN] += 1
    return segment


@compiled
def take_end(m: Words, channel: int) -> int:
    """Returns: the last free buffer of a channel."""
    memory = m[channel + w.MEMORY]
    m[memory + lw.FREE_END] -= 1
    return m[m[memory + lw.FREE] + m[memory + lw.FREE_END]]


@compiled
def _sort(m: Words, first: int, end: int) -> None:
    for place in range(first + 1, end):
        segment, before = m[place], place - 1
        while before >= first and m[before] > segment:
            m[before + 1] = m[before]
            before -= 1
        m[before + 1] = segment


@compiled
def line_up(m: Words, channel: int, after: int) -> None:
    """BufferManager.line_up: free buffers are taken in the order of their numbers, from the one
    behind this number on.
    """
    memory = m[channel + w.MEMORY]
    _move(m, memory)
    free, count = m[memory + lw.FREE], m[memory + lw.FREE_END]
    _sort(m, free, free + count)
    smaller = 0
    while smaller < count and m[free + smaller] <= after:
        smaller += 1
    if 0 < smaller < count:
        for place in range(smaller):
            m[free + count + place] = m[free + place]
        m[memory + lw.FREE_BEGIN] = smaller
        m[memory + lw.FREE_END] = count + smaller


@compiled
def take_last(m: Words, channel: int) -> int:
    """BufferManager._take_last. Returns: the free buffer of a channel with the highest number."""
    memory = m[channel + w.MEMORY]
    free = m[memory + lw.FREE]
    _sort(m, free + m[memory + lw.FREE_BEGIN], free + m[memory + lw.FREE_END])
    return take_end(m, channel)


@compiled
def keep(m: Words, sink: int, segment: int) -> None:
    """A buffer goes back to the pool of a gate."""
    pool = m[sink + w.POOL_MEMORY]
    m[m[pool + lw.KEPT] + (m[pool + lw.KEPT_END] & m[pool + lw.KEPT_MASK])] = segment
    m[pool + lw.KEPT_END] += 1


@compiled
def add_from_pool(m: Words, channel: int, buffers: int) -> None:
    """Buffers that a channel has got from the pool: those that came back first, then new ones."""
    pool = m[m[channel + w.SINK] + w.POOL_MEMORY]
    for _ in range(buffers):
        if m[pool + lw.KEPT_BEGIN] < m[pool + lw.KEPT_END]:
            place = m[pool + lw.KEPT_BEGIN] & m[pool + lw.KEPT_MASK]
            m[pool + lw.KEPT_BEGIN] += 1
            add_free(m, channel, m[m[pool + lw.KEPT] + place])
        else:
            segment = m[m[pool + lw.NEXT_NEW]]
            m[m[pool + lw.NEXT_NEW]] = segment + 1
            add_free(m, channel, segment)
