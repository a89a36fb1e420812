"""A run: TaskManagers and the coordinator take turns, in the order in which they have work."""

from __future__ import annotations

from . import DONE, NEVER, TOO_LONG
from .channel import notify
from .checkpoints import take_coordinators_turn
from .compiling import Ints, Words, compile_all, kept_on_disk, pointer
from .connection import deliver_waiting, pump_down, pump_up, receive_down, receive_up, wake
from .memory import FIRST, Exchange, Job, TaskManager
from .relays import ask_tasks_behind, next_exchange, pass_on, write_before
from .sink import rest, step_sink, take_debloaters_turn
from .source import (
    held_up_until,
    is_any_blocked,
    may_any_go_on,
    start_source,
    step_at_max_rate,
    step_source,
)
from .times import earliest_ns, next_due, set_due


def _receive_all(m: Exchange, task_manager: TaskManager, now: int) -> None:
    """Read messages that have come to the ends of connections."""
    ends, arrivals = task_manager.ends, task_manager.arrivals
    place = next_due(arrivals, 0, now)
    while place >= 0:
        end = ends[place]
        if end.is_upstream:
            next_ns = receive_up(m, end.connection, now)
        else:
            next_ns = receive_down(m, end.connection, now)
        set_due(arrivals, place, next_ns)
        place = next_due(arrivals, place + 1, now)


def _pump_all(m: Exchange, task_manager: TaskManager, now: int) -> int:
    """Send what waits at the ends of connections. Returns: when that is done."""
    ends, unsent = task_manager.ends, task_manager.unsent
    place = next_due(unsent, 0, 0)
    while place >= 0:
        end = ends[place]
        if end.is_upstream:
            now = pump_up(m, end.connection, now)
        else:
            pump_down(m, end.connection, now)
            if end.connection.is_due:
                deliver_waiting(m, end.connection)
        if not end.connection.is_pressed or not end.is_upstream:
            set_due(unsent, place, NEVER)
        place = next_due(unsent, place + 1, 0)
    return now


def _turn(m: Exchange, task_manager: TaskManager, now: int) -> None:
    """SimulatedTaskManager's turn."""
    m.turn_ns = now
    set_due(m.wakes, task_manager.number, NEVER)
    task_manager.idle_ns += now - task_manager.free_since_ns
    if m.is_disturbed:
        now = held_up_until(task_manager, now)
    _receive_all(m, task_manager, now)
    next_ns = earliest_ns(task_manager.arrivals)
    for place in range(task_manager.own_sources_count):
        source = task_manager.own_sources[place]
        if m.is_max_rate:
            now, again_ns = step_at_max_rate(m, source, now)
        else:
            now, again_ns = step_source(
                m, task_manager.own_sources[place], now, task_manager.idle_ns
            )
        next_ns = min(next_ns, again_ns)
    sinks = task_manager.own_sinks
    for place in range(task_manager.own_sinks_count):
        now, again_ns = step_sink(m, sinks[place], now)
        if m.debloat_ns and again_ns > now:
            rest(sinks[place], now)
        next_ns = min(next_ns, again_ns)
    if task_manager.has_local_channels and may_any_go_on(task_manager):
        next_ns = now  # a local consumer has let it
    waiting = is_any_blocked(task_manager)
    m.has_sent = m.has_delivered = 0
    now = _pump_all(m, task_manager, now)
    if m.has_delivered:
        next_ns = now
    if waiting and (m.has_sent or may_any_go_on(task_manager)):
        next_ns = now  # buffers came back to the writer
    task_manager.free_since_ns = now
    if next_ns != NEVER:
        wake(m, task_manager, next_ns)


def _next_task_manager(m: Exchange, now: int) -> TaskManager:
    """The next TaskManager to have a turn: the first to ask."""
    first = m.managers
    place = next_due(m.wakes, 0, now)
    found = first[place]
    place = next_due(m.wakes, place + 1, now)
    while place >= 0:
        if first[place].asked < found.asked:
            found = first[place]
        place = next_due(m.wakes, place + 1, now)
    return found


@kept_on_disk
def run(memory: Ints) -> int:
    """Run the exchanges of a job to their end; several wait for each other.

    There is one call of `_turn`, so that it becomes part of the loop, which saves a tenth.

    Args:
        memory: a Job at its first word, laid out by `fast_path`.

    Returns: DONE, or why it must be run otherwise, or by the simulator.
    """
    words: Words = pointer(memory)
    job = Job(words, FIRST)
    for number in range(job.exchanges_count):
        m = job.exchanges[number]
        for place in range(m.sources_count):
            start_source(m, m.sources[place])
        for place in range(m.channels_count):
            notify(m.channels[place])
    m, is_joined = job.exchanges[0], job.exchanges_count > 1
    while True:
        if is_joined:
            m = next_exchange(job)
        now = earliest_ns(m.wakes)
        if now == NEVER:
            break
        m.turns += 1
        if m.turns > m.turns_max:
            m.ended = TOO_LONG
        if m.ended != DONE:
            break
        owner = _next_task_manager(m, now)
        if owner.number >= m.task_managers:
            is_coordinator = owner.number == m.task_managers
            if is_joined and is_coordinator and m == job.exchanges[0]:
                ask_tasks_behind(job)
            m.turn_ns, m.passed_ns, m.passed_asked = now, now, owner.asked
            if is_coordinator:
                take_coordinators_turn(m, now)
            else:
                take_debloaters_turn(m, owner, now)
            continue
        if is_joined:
            write_before(owner, now)
        _turn(m, owner, now)
        if is_joined:
            pass_on(job, owner, now)
    return m.ended


compile_all(globals())
