"""Checkpoints: the coordinator begins them, and sources write their barriers."""

from __future__ import annotations

from . import words as w
from .acknowledgements import complete, counts, plan, write_checkpoint
from .compiling import compiled
from .connection import wake
from .timetable import set_due
from .words import Numbers, Words
from .writer import is_inside_record


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
    m[w.OVERTAKEN_BYTES] = m[w.WAS_UNALIGNED] = 0
    m[w.UNCONFIRMED] = m[w.ANSWERS_BEHIND]
    for number in range(m[w.SINKS]):
        if m[m[w.FIRST_SINK] + number * w.SINK_WORDS + w.OPEN_INPUTS] > 0:
            m[w.UNCONFIRMED] += 1
    for number in range(m[w.SOURCES]):
        source = m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS
        if m[source + w.STATE] != w.FINISHED:
            if is_inside_record(m, source):
                m[source + w.HAS_TO_CHECKPOINT] = 1
                m[w.UNCONFIRMED] += 1
            else:
                write_checkpoint(m, source, now)
    for number in range(m[w.TASK_MANAGERS]):
        wake(m, m[w.FIRST_TASK_MANAGER] + number * w.TASK_MANAGER_WORDS, now)
    if m[w.UNCONFIRMED] == 0:
        complete(m, f)
    else:
        plan(m, now + m[w.EXPIRES_NS])
