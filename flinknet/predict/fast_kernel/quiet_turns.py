"""Turns in which records are written into open buffers, and nothing else happens. The simulator
takes each of them; here they are made up for when something else happens in their TaskManager.
"""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .source import watches_barriers
from .timetable import earliest_ns
from .words import Numbers, Words
from .writer import emit_until, take_until, write_taken

_RECORDS_MAX = 256
"""Records that one of these turns takes at most. Where more come at once, all turns are taken."""


@compiled
def count_turn(m: Words) -> None:
    """One more turn; the run ends after too many."""
    m[w.TURNS] += 1
    if m[w.TURNS] > m[w.TURNS_MAX]:
        m[w.ENDED] = w.TOO_LONG


@compiled
def _takes_records(m: Words, source: int) -> bool:
    return m[source + w.STATE] == w.RUNNING and not m[source + w.HAS_WAITED]


@compiled
def next_record_ns(m: Words, sources: int, sources_end: int) -> int:
    """When the next record of some sources comes; NEVER if they have ended, or wait for buffers."""
    due_ns = w.NEVER
    for place in range(sources, sources_end):
        if _takes_records(m, m[place]):
            due_ns = min(due_ns, earliest_ns(m, m[m[place] + w.RECORDS_DUE]))
    return due_ns


@compiled
def next_watched_ns(m: Words, sources: int, sources_end: int) -> int:
    """When the next turn is that is not quiet because barriers are watched; NEVER if none are."""
    for place in range(sources, sources_end):
        if watches_barriers(m, m[place]):
            return next_record_ns(m, sources, sources_end)
    return w.NEVER


@compiled
def _take_turn(m: Words, f: Numbers, task_manager: int, now: int) -> int:
    """One quiet turn. Returns: when it is over."""
    m[task_manager + w.IDLE_NS] += now - m[task_manager + w.FREE_SINCE_NS]
    idle_ns = m[task_manager + w.IDLE_NS]
    sources = m[task_manager + w.OWN_SOURCES]
    for place in range(sources, sources + m[task_manager + w.OWN_SOURCES_COUNT]):
        source = m[place]
        if m[source + w.STATE] != w.RUNNING:
            continue
        first_ns = earliest_ns(m, m[source + w.RECORDS_DUE])
        if first_ns <= now and not m[source + w.HAS_WAITED]:
            cost_ns = int(take_until(m, source, now, w.NEVER) * f[w.EMIT_NS_PER_RECORD])
            spare_ns = min(idle_ns - m[source + w.IDLE_SEEN_NS], now - first_ns)
            now += max(0, cost_ns - spare_ns)
        m[source + w.IDLE_SEEN_NS] = idle_ns
    m[task_manager + w.FREE_SINCE_NS] = now
    return now


@compiled
def catch_up(m: Words, f: Numbers, task_manager: int, until_ns: int) -> int:
    """Make up for the quiet turns of a TaskManager that began before an instant.

    Returns: when its next turn begins: then, or when the last of these is over; before that, if one
        of several tasks may hold up another beyond the instant. They count as turns: after too many
        the run ends.
    """
    free_ns = m[task_manager + w.FREE_SINCE_NS]
    if free_ns >= until_ns:
        return free_ns
    sources = m[task_manager + w.OWN_SOURCES]
    sources_end = sources + m[task_manager + w.OWN_SOURCES_COUNT]
    if f[w.EMIT_NS_PER_RECORD] == 0.0:
        for place in range(sources, sources_end):
            if _takes_records(m, m[place]):
                emit_until(m, m[place], until_ns - 1)
        return until_ns
    most_ns = 0
    if sources_end - sources + m[task_manager + w.OWN_SINKS_COUNT] > 1:
        most_ns = int(_RECORDS_MAX * f[w.EMIT_NS_PER_RECORD])
    now = max(next_record_ns(m, sources, sources_end), free_ns)
    while now < until_ns - most_ns and m[w.ENDED] == w.DONE:
        count_turn(m)
        free_ns = _take_turn(m, f, task_manager, now)
        if most_ns and free_ns - now > most_ns:
            m[w.ENDED] = w.ORDER_UNKNOWN
        now = max(next_record_ns(m, sources, sources_end), free_ns)
    for place in range(sources, sources_end):
        write_taken(m, m[place])
    return now if now < until_ns else max(free_ns, until_ns)
