"""A run: TaskManagers and the coordinator take turns, in the order in which they have work."""

from __future__ import annotations

from . import DONE, NEVER, ORDER_UNKNOWN, RUNNING
from .channel import notify
from .checkpoints import take_coordinators_turn
from .compiling import Ints, Words, compile_all, kept_on_disk, pointer
from .connection import deliver_waiting, pump_down, pump_up, receive_down, receive_up, wake
from .memory import FIRST, NO_TASK_MANAGER, Exchange, Job, TaskManager
from .relays import ask_tasks_behind, next_exchange, pass_on, write_before
from .sink import rest, step_sink, take_debloaters_turn
from .source import (
    catch_up,
    count_turn,
    held_up_until,
    is_any_blocked,
    may_any_go_on,
    next_arrival_ns,
    next_watched_ns,
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
    waiting = m.may_wait and is_any_blocked(task_manager)
    m.has_sent = m.has_delivered = 0
    now = _pump_all(m, task_manager, now)
    if m.has_delivered:
        next_ns = now
    if m.catches_up:
        next_ns = min(next_ns, next_watched_ns(m, task_manager))
    if waiting and (m.has_sent or may_any_go_on(task_manager)):
        next_ns = now  # buffers came back to the writer
    task_manager.free_since_ns = now
    if next_ns != NEVER:
        wake(m, task_manager, next_ns)


def _doubt(m: Exchange, task_manager: TaskManager, until_ns: int) -> None:
    """With quiet turns to make up for, the simulator would have asked in these for the next turn,
    behind what others asked for before."""
    if next_arrival_ns(task_manager) <= until_ns:
        task_manager.doubted = m.turns_asked


def _is_doubted(m: Exchange, task_manager: TaskManager, now: int) -> bool:
    """Whether it is unknown where a TaskManager stands among those that have a turn now."""
    if task_manager.number >= m.task_managers:
        return False
    is_old = task_manager.asked <= task_manager.doubted
    return is_old or next_arrival_ns(task_manager) <= now


def _are_apart(m: Exchange) -> bool:
    """Whether the order of turns of TaskManagers at one instant does not matter: their messages
    arrive later, and no source ends, whose answer to a checkpoint depends on earlier answers."""
    running = 0
    for number in range(m.sources_count):
        if m.sources[number].state == RUNNING:
            running += 1
    may_answer_twice = m.aligned_timeout_ns > 0 and running < m.sources_count
    return min(m.latency_ns, m.back_ns) > 0 and not may_answer_twice


def _is_pressed(task_manager: TaskManager) -> bool:
    """Whether anything waits for a socket of a TaskManager, and so for others to read."""
    unsent = task_manager.unsent
    place = next_due(unsent, 0, 0)
    while place >= 0:
        end = task_manager.ends[place]
        if end.is_upstream and end.connection.is_pressed:
            return True
        place = next_due(unsent, place + 1, 0)
    return False


def _late(m: Exchange, owner: TaskManager, until_ns: int) -> tuple[TaskManager, int]:
    """Let TaskManagers have their quiet turns before one of the coordinator, or of a timer of one.
    The run ends if a quiet turn at that very instant would be before or behind it.

    Returns: one that has another turn before, or none; and when that begins."""
    first, last = 0, m.task_managers
    if owner.number > m.task_managers:
        first = owner.number - m.task_managers - 1
        last = first + 1
    for number in range(first, last if m.catches_up else first):
        each = m.managers[number]
        _doubt(m, each, until_ns)
        begin_ns = catch_up(m, each, until_ns)
        if begin_ns < until_ns:
            return each, begin_ns
        if next_arrival_ns(each) <= until_ns:
            m.ended = ORDER_UNKNOWN
    return NO_TASK_MANAGER, until_ns


def _next_task_manager(m: Exchange, now: int) -> TaskManager:
    """The next TaskManager to have a turn: the first to ask. The run ends if that is unknown."""
    first = m.managers
    place = next_due(m.wakes, 0, now)
    found = first[place]
    place = next_due(m.wakes, place + 1, now)
    while place >= 0:
        other = first[place]
        if m.catches_up and (_is_doubted(m, found, now) or _is_doubted(m, other, now)):
            m.tied_ns = now
        is_timer = other.number >= m.task_managers
        if m.tied_ns == now and (is_timer or not _are_apart(m)):
            m.ended = ORDER_UNKNOWN
        if other.asked < found.asked:
            found = other
        place = next_due(m.wakes, place + 1, now)
    return found


@kept_on_disk
def run(memory: Ints) -> int:
    """Run the exchanges of a job to their end; several wait for each other.

    There is one call of `_turn`, so that it becomes part of the loop, which saves a tenth.

    Args:
        memory: a Job at its first word, laid out by `fast_path`.

    Returns: DONE, or why it must be run otherwise: ORDER_UNKNOWN with all quiet turns, the rest by
        the simulator.
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
        count_turn(m)
        owner, is_unordered = _next_task_manager(m, now), False
        if m.ended != DONE:
            break
        if owner.number >= m.task_managers:
            late, begin_ns = _late(m, owner, now)
            if m.ended != DONE:
                break
            if not late:
                is_coordinator = owner.number == m.task_managers
                if is_joined and is_coordinator and m == job.exchanges[0]:
                    ask_tasks_behind(job)
                m.turn_ns, m.passed_ns, m.passed_asked = now, now, owner.asked
                if is_coordinator:
                    take_coordinators_turn(m, now)
                else:
                    take_debloaters_turn(m, owner, now)
                continue
            owner, now, is_unordered = late, begin_ns, True
        elif m.catches_up:
            _doubt(m, owner, now)
            begin_ns = catch_up(m, owner, now)
            if begin_ns > now:
                set_due(m.wakes, owner.number, NEVER)
                wake(m, owner, begin_ns)
                continue
            is_unordered = begin_ns < now or m.tied_ns == now
            now = begin_ns
        if is_unordered and _is_pressed(owner):
            m.ended = ORDER_UNKNOWN
            break
        if is_joined:
            write_before(owner, now)
        _turn(m, owner, now)
        for number in range(m.task_managers if is_unordered else 0):
            m.managers[number].doubted = m.turns_asked  # the simulator may number them otherwise
        if is_joined:
            pass_on(job, owner, now)
    return m.ended


compile_all(globals())
