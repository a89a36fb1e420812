"""Checkpoints: the coordinator begins them, and sources write their barriers."""

from __future__ import annotations

from . import words as w
from .acknowledgements import complete, counts, plan, timeout_ns
from .compiling import compiled
from .connection import wake
from .source import write_barriers
from .timetable import set_due
from .words import Numbers, Words


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
    m[w.TRIGGERED] += 1 if counts(m) else 0
    m[w.UNCONFIRMED] = m[w.OVERTAKEN_BYTES] = m[w.WAS_UNALIGNED] = 0
    for number in range(m[w.SINKS]):
        if m[m[w.FIRST_SINK] + number * w.SINK_WORDS + w.OPEN_INPUTS] > 0:
            m[w.UNCONFIRMED] += 1
    for number in range(m[w.SOURCES]):
        source = m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS
        if m[source + w.STATE] != w.FINISHED:
            m[w.OVERTAKEN_BYTES] += _unsent_bytes(m, source) if m[w.IS_UNALIGNED] else 0
            write_barriers(m, source)
            if m[w.ALIGNED_TIMEOUT_NS]:
                m[source + w.IS_WATCHED] = 1
                m[source + w.TIMES_OUT_NS] = timeout_ns(m)
                m[w.UNCONFIRMED] += 1
    for number in range(m[w.TASK_MANAGERS]):
        wake(m, m[w.FIRST_TASK_MANAGER] + number * w.TASK_MANAGER_WORDS, now)
    if m[w.UNCONFIRMED] == 0:
        complete(m, f)
    else:
        plan(m, now + m[w.EXPIRES_NS])


@compiled
def _unsent_bytes(m: Words, source: int) -> int:
    """What unaligned barriers of a source overtake in its subpartitions."""
    low, size = m[source + w.OUTPUTS], 0
    for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
        size += m[m[place] + w.EMITTED] - m[m[place] + w.POLLED]
    return size
