"""The pool of a source's partition: LocalBufferPool, as far as it counts buffers that are out."""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .words import Words


@compiled
def charge(m: Words, channel: int, buffers: int) -> None:
    """Count a channel that comes to its quota of buffers, or below it."""
    count, quota = m[channel + w.SEGMENTS] + m[channel + w.LENT_BUFFERS], m[w.QUOTA_BUFFERS]
    if count < quota <= count + buffers:
        m[m[channel + w.SOURCE] + w.AT_QUOTA] += 1
    elif count + buffers < quota <= count:
        m[m[channel + w.SOURCE] + w.AT_QUOTA] -= 1


@compiled
def lend(m: Words, channel: int, buffers: int) -> None:
    """A local consumer takes a buffer out of the subpartition, or is done with it."""
    charge(m, channel, buffers)
    m[channel + w.LENT_BUFFERS] += buffers
    m[m[channel + w.SOURCE] + w.LENT] += buffers


@compiled
def is_pool_available(m: Words, source: int) -> bool:
    """LocalBufferPool.is_available: whether a new record may be begun."""
    used = m[source + w.ALL_SEGMENTS] + m[source + w.LENT]
    return m[source + w.AT_QUOTA] == 0 and used < m[source + w.POOL_BUFFERS]
