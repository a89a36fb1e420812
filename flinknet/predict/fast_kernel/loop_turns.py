"""Turns of a TaskManager whose event loop has costs of its parts: what was received lets go goes
before the tasks step, and what has come meanwhile is received before anything else is sent.
"""

from __future__ import annotations

from . import loop_words as lw
from . import words as w
from .compiling import compiled
from .connection import pump_down, wake
from .debloating import rest
from .full_speed import held_up_until, step_at_max_rate
from .loop_jitter import jitter_ns
from .run_sink import step_run_sink
from .sink import step_sink
from .source import is_any_blocked, may_any_go_on
from .stream import pump_parts, receive_credit, receive_parts
from .timetable import earliest_ns, next_due, set_due
from .words import Numbers, Words


@compiled
def _pump(m: Words, f: Numbers, task_manager: int, place: int, now: int) -> int:
    """LinkEnd.pump. Returns: when that is done."""
    end = m[task_manager + w.ENDS] + place * w.END_WORDS
    connection = m[end]
    if m[end + 1]:
        now = pump_parts(m, f, connection, now)
    elif pump_down(m, connection, now):
        jitter = jitter_ns(m, task_manager, lw.ANNOUNCE_JITTER)
        now += max(0, m[m[w.LOOP] + lw.ANNOUNCE_NS] + jitter)
    if not m[connection + w.IS_PRESSED] or not m[end + 1]:
        set_due(m, m[task_manager + w.UNSENT], place, w.NEVER)
    return now


@compiled
def _receive_all(m: Words, f: Numbers, task_manager: int, now: int) -> int:
    """Read what has come to the ends of connections, and answer. Returns: when that is done."""
    arrivals = m[task_manager + w.ARRIVALS]
    place = next_due(m, arrivals, 0, now)
    while place >= 0:
        end = m[task_manager + w.ENDS] + place * w.END_WORDS
        now = receive_credit(m, m[end], now) if m[end + 1] else receive_parts(m, f, m[end], now)
        now = _pump(m, f, task_manager, place, now)
        place = next_due(m, arrivals, place + 1, now)
    return now


@compiled
def _pump_all(m: Words, f: Numbers, task_manager: int, now: int) -> int:
    """Send what waits at the ends of connections. Returns: when that is done."""
    unsent = m[task_manager + w.UNSENT]
    place = next_due(m, unsent, 0, 0)
    while place >= 0:
        now = _pump(m, f, task_manager, place, now)
        place = next_due(m, unsent, place + 1, 0)
    return now


@compiled
def _step_all(m: Words, f: Numbers, slopes: int, task_manager: int, now: int) -> tuple[int, int]:
    """Let the tasks work. Returns: when that is done, and when one of them is to step again."""
    next_ns = w.NEVER
    sources = m[task_manager + w.OWN_SOURCES]
    for place in range(sources, sources + m[task_manager + w.OWN_SOURCES_COUNT]):
        now, again_ns = step_at_max_rate(m, f, task_manager, m[place], now)
        next_ns = min(next_ns, again_ns)
    sinks = m[task_manager + w.OWN_SINKS]
    for place in range(sinks, sinks + m[task_manager + w.OWN_SINKS_COUNT]):
        if m[m[place] + w.POOL_MEMORY]:
            now, again_ns = step_run_sink(m, f, slopes, task_manager, m[place], now)
        else:
            now, again_ns = step_sink(m, f, slopes, m[place], now)
        if m[w.DEBLOAT_NS] and again_ns > now:
            rest(m, m[place], now)
        next_ns = min(next_ns, again_ns)
    return now, next_ns


@compiled
def take_loops_turn(m: Words, f: Numbers, slopes: int, task_manager: int, now: int) -> None:
    """SimulatedTaskManager's turn, where it answers at once."""
    m[w.TURN_NS] = m[w.PASSED_NS] = now
    m[w.PASSED_ASKED] = m[task_manager + w.ASKED]
    set_due(m, m[w.WAKES], m[task_manager + w.NUMBER], w.NEVER)
    if m[w.IS_DISTURBED]:
        now = held_up_until(m, task_manager, now)
    now = _receive_all(m, f, task_manager, now)
    state = m[task_manager + w.LOOP_STATE]
    if m[state + lw.IS_UNSENT]:
        m[state + lw.IS_UNSENT] = 0
        now = _pump_all(m, f, task_manager, now)
    now, next_ns = _step_all(m, f, slopes, task_manager, now)
    m[task_manager + w.FREE_SINCE_NS] = now
    if earliest_ns(m, m[task_manager + w.ARRIVALS]) <= now:
        m[state + lw.IS_UNSENT] = 1
        wake(m, task_manager, now)
        return
    sources = m[task_manager + w.OWN_SOURCES]
    sources_end = sources + m[task_manager + w.OWN_SOURCES_COUNT]
    is_waiting = is_any_blocked(m, sources, sources_end)
    m[w.HAS_SENT] = 0
    now = _pump_all(m, f, task_manager, now)
    next_ns = min(next_ns, earliest_ns(m, m[task_manager + w.ARRIVALS]))
    if is_waiting and (m[w.HAS_SENT] or may_any_go_on(m, sources, sources_end)):
        next_ns = now  # buffers came back to the writer
    m[task_manager + w.FREE_SINCE_NS] = now
    if next_ns != w.NEVER:
        wake(m, task_manager, next_ns)
