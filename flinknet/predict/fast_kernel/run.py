"""A run: TaskManagers and the coordinator take turns, whichever has something to do first."""

from __future__ import annotations

from . import joint_words as joint
from . import words as w
from .checkpoints import take_coordinators_turn
from .compiling import compiled, kept_on_disk, pointer
from .connection import pump_down, pump_up, receive_down, receive_up, wake
from .debloating import rest, take_debloaters_turn, timed_task_manager
from .full_speed import held_up_until, step_at_max_rate
from .quiet_turns import catch_up, count_turn, next_record_ns, next_watched_ns
from .relays import (
    ask_tasks_behind,
    memory_of,
    next_exchange,
    numbers_of,
    pass_on,
    write_before,
)
from .sink import step_sink
from .source import is_any_blocked, may_any_go_on, start_source, step_source
from .subpartition import notify
from .tcp_mode import deliver_waiting
from .timetable import earliest_ns, next_due, set_due
from .words import Floats, Ints, Numbers, Words


@compiled
def _receive_all(m: Words, task_manager: int, now: int) -> None:
    """Read what has come to the ends of connections."""
    ends, arrivals = m[task_manager + w.ENDS], m[task_manager + w.ARRIVALS]
    place = next_due(m, arrivals, 0, now)
    while place >= 0:
        end = ends + place * w.END_WORDS
        next_ns = receive_up(m, m[end], now) if m[end + 1] else receive_down(m, m[end], now)
        set_due(m, arrivals, place, next_ns)
        place = next_due(m, arrivals, place + 1, now)


@compiled
def _pump_all(m: Words, f: Numbers, task_manager: int, now: int) -> int:
    """Send what waits at the ends of connections. Returns: when that is done."""
    ends, unsent = m[task_manager + w.ENDS], m[task_manager + w.UNSENT]
    place = next_due(m, unsent, 0, 0)
    while place >= 0:
        end = ends + place * w.END_WORDS
        if m[end + 1]:
            now = pump_up(m, f, m[end], now)
        else:
            pump_down(m, m[end], now)
            if m[w.WITHOUT_CREDIT] and m[m[end] + w.IS_DUE]:
                deliver_waiting(m, m[end])
        if not m[m[end] + w.IS_PRESSED] or not m[end + 1]:
            set_due(m, unsent, place, w.NEVER)
        place = next_due(m, unsent, place + 1, 0)
    return now


@compiled
def _turn(m: Words, f: Numbers, slopes: int, task_manager: int, now: int) -> None:
    """SimulatedTaskManager's turn."""
    m[w.TURN_NS] = now
    set_due(m, m[w.WAKES], m[task_manager + w.NUMBER], w.NEVER)
    m[task_manager + w.IDLE_NS] += now - m[task_manager + w.FREE_SINCE_NS]
    if m[w.IS_DISTURBED]:
        now = held_up_until(m, task_manager, now)
    _receive_all(m, task_manager, now)
    next_ns = earliest_ns(m, m[task_manager + w.ARRIVALS])
    sources = m[task_manager + w.OWN_SOURCES]
    sources_end = sources + m[task_manager + w.OWN_SOURCES_COUNT]
    for place in range(sources, sources_end):
        if m[w.IS_MAX_RATE]:
            now, again_ns = step_at_max_rate(m, f, m[place], now)
        else:
            now, again_ns = step_source(m, f, m[place], now, m[task_manager + w.IDLE_NS])
        next_ns = min(next_ns, again_ns)
    sinks = m[task_manager + w.OWN_SINKS]
    for place in range(sinks, sinks + m[task_manager + w.OWN_SINKS_COUNT]):
        now, again_ns = step_sink(m, f, slopes, m[place], now)
        if m[w.DEBLOAT_NS] and again_ns > now:
            rest(m, m[place], now)
        next_ns = min(next_ns, again_ns)
    if m[task_manager + w.HAS_LOCAL_CHANNELS] and may_any_go_on(m, sources, sources_end):
        next_ns = now  # a local consumer has let it
    waiting = m[w.MAY_WAIT] and is_any_blocked(m, sources, sources_end)
    m[w.HAS_SENT] = m[w.HAS_DELIVERED] = 0
    now = _pump_all(m, f, task_manager, now)
    if m[w.HAS_DELIVERED]:
        next_ns = now
    if m[w.CATCHES_UP]:
        next_ns = min(next_ns, next_watched_ns(m, sources, sources_end))
    if waiting and (m[w.HAS_SENT] or may_any_go_on(m, sources, sources_end)):
        next_ns = now  # buffers came back to the writer
    m[task_manager + w.FREE_SINCE_NS] = now
    if next_ns != w.NEVER:
        wake(m, task_manager, next_ns)


@compiled
def _comes_until(m: Words, task_manager: int, until_ns: int) -> bool:
    """Whether a record of a TaskManager's sources comes up to an instant."""
    sources = m[task_manager + w.OWN_SOURCES]
    sources_end = sources + m[task_manager + w.OWN_SOURCES_COUNT]
    return next_record_ns(m, sources, sources_end) <= until_ns


@compiled
def _doubt(m: Words, task_manager: int, until_ns: int) -> None:
    """With quiet turns to make up for, the simulator would have asked in these for the next turn,
    behind what others asked for before."""
    if _comes_until(m, task_manager, until_ns):
        m[task_manager + w.DOUBTED] = m[w.TURNS_ASKED]


@compiled
def _doubt_all(m: Words) -> None:
    """What was asked for in a turn may be numbered otherwise than by the simulator, as its place
    among the turns of others is unknown, or it was made up for."""
    for number in range(m[w.TASK_MANAGERS]):
        m[m[w.FIRST_TASK_MANAGER] + number * w.TASK_MANAGER_WORDS + w.DOUBTED] = m[w.TURNS_ASKED]


@compiled
def _is_doubted(m: Words, task_manager: int, now: int) -> bool:
    """Whether it is unknown where a TaskManager stands among those that have a turn now."""
    if m[task_manager + w.NUMBER] >= m[w.TASK_MANAGERS]:
        return False
    is_old = m[task_manager + w.ASKED] <= m[task_manager + w.DOUBTED]
    return is_old or _comes_until(m, task_manager, now)


@compiled
def _are_apart(m: Words) -> bool:
    """Whether the order of turns of TaskManagers at one instant does not matter: what they send
    arrives later, and no source ends, whose answer to a checkpoint depends on who has answered.
    """
    running = 0
    for number in range(m[w.SOURCES]):
        if m[m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS + w.STATE] == w.RUNNING:
            running += 1
    may_answer_twice = m[w.ALIGNED_TIMEOUT_NS] > 0 and running < m[w.SOURCES]
    return min(m[w.LATENCY_NS], m[w.BACK_NS]) > 0 and not may_answer_twice


@compiled
def _is_pressed(m: Words, task_manager: int) -> bool:
    """Whether anything waits for a socket of a TaskManager, so that a turn of it sees what others
    have read by then.
    """
    unsent = m[task_manager + w.UNSENT]
    place = next_due(m, unsent, 0, 0)
    while place >= 0:
        end = m[task_manager + w.ENDS] + place * w.END_WORDS
        if m[end + 1] and m[m[end] + w.IS_PRESSED]:
            return True
        place = next_due(m, unsent, place + 1, 0)
    return False


@compiled
def _begin(m: Words, f: Numbers, task_manager: int, now: int) -> int:
    """Let a TaskManager have its quiet turns before its next one. Returns: when that begins."""
    _doubt(m, task_manager, now)
    begin_ns = catch_up(m, f, task_manager, now)
    if begin_ns > now:
        set_due(m, m[w.WAKES], m[task_manager + w.NUMBER], w.NEVER)
        wake(m, task_manager, begin_ns)
    return begin_ns


@compiled
def _late(m: Words, f: Numbers, owner: int, until_ns: int) -> tuple[int, int]:
    """Let TaskManagers have their quiet turns before one of the coordinator, or of a timer of one.
    Returns: one that has another turn before, and when; 0 if none has. The run ends if a quiet turn
    at that very instant would be before or behind it.
    """
    first, last = 0, m[w.TASK_MANAGERS]
    if m[owner + w.NUMBER] > m[w.TASK_MANAGERS]:
        first = (timed_task_manager(m, owner) - m[w.FIRST_TASK_MANAGER]) // w.TASK_MANAGER_WORDS
        last = first + 1
    for number in range(first, last if m[w.CATCHES_UP] else first):
        each = m[w.FIRST_TASK_MANAGER] + number * w.TASK_MANAGER_WORDS
        _doubt(m, each, until_ns)
        begin_ns = catch_up(m, f, each, until_ns)
        if begin_ns < until_ns:
            return each, begin_ns
        if _comes_until(m, each, until_ns):
            m[w.ENDED] = w.ORDER_UNKNOWN
    return 0, until_ns


@compiled
def _next_task_manager(m: Words, now: int) -> int:
    """Whose turn it is; of several whoever asked for it first. The run ends if that is unknown."""
    first = m[w.FIRST_TASK_MANAGER]
    place = next_due(m, m[w.WAKES], 0, now)
    found = first + place * w.TASK_MANAGER_WORDS
    place = next_due(m, m[w.WAKES], place + 1, now)
    while place >= 0:
        other = first + place * w.TASK_MANAGER_WORDS
        if m[w.CATCHES_UP] and (_is_doubted(m, found, now) or _is_doubted(m, other, now)):
            m[w.TIED_NS] = now
        is_timer = m[other + w.NUMBER] >= m[w.TASK_MANAGERS]
        if m[w.TIED_NS] == now and (is_timer or not _are_apart(m)):
            m[w.ENDED] = w.ORDER_UNKNOWN
        if m[other + w.ASKED] < m[found + w.ASKED]:
            found = other
        place = next_due(m, m[w.WAKES], place + 1, now)
    return found


@compiled
def _start(m: Words) -> None:
    """Lay down what is due first."""
    for number in range(m[w.SOURCES]):
        start_source(m, m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS)
    for number in range(m[w.CHANNELS]):
        notify(m, m[w.FIRST_CHANNEL] + number * w.CHANNEL_WORDS)


@compiled
def _take_clocks_turn(m: Words, f: Numbers, owner: int, now: int) -> None:
    """The turn of the coordinator, or of a timer."""
    m[w.TURN_NS] = m[w.PASSED_NS] = now
    m[w.PASSED_ASKED] = m[owner + w.ASKED]
    if m[owner + w.NUMBER] == m[w.TASK_MANAGERS]:
        take_coordinators_turn(m, f, now)
    else:
        take_debloaters_turn(m, f, owner, now)


@kept_on_disk
def run(memory: Ints, numbers: Floats, buckets: int, joined: Ints) -> int:
    """Run an exchange to its end, or those of a job, which wait for each other.

    There is one call of `_turn`, so that it becomes part of the loop, which saves a tenth.

    Args:
        memory: laid out by `fast_layout`.
        numbers: costs, and room for four times as many numbers as there are buckets; as much
            again for the durations of checkpoints; the buffer size of each sink.
        buckets: of a latency histogram.
        joined: how exchanges are joined whose memories lie one after the other, and so the numbers;
            laid out by `joined_run`. Zeros for one alone.

    Returns: DONE, or why it must be run otherwise: ORDER_UNKNOWN with all quiet turns, the rest by
        the simulator.
    """
    all_words: Words = pointer(memory)
    all_numbers: Numbers = pointer(numbers)
    m, f = all_words, all_numbers
    j: Words = pointer(joined)
    is_joined, exchange = j[joint.EXCHANGES] > 0, 0
    for number in range(max(j[joint.EXCHANGES], 1)):
        _start(memory_of(all_words, j, number))
    while True:
        if is_joined:
            exchange = next_exchange(all_words, j)
            m, f = memory_of(all_words, j, exchange), numbers_of(all_numbers, j, exchange)
        now = earliest_ns(m, m[w.WAKES])
        if now == w.NEVER:
            break
        count_turn(m)
        owner, is_unordered = _next_task_manager(m, now), False
        if m[w.ENDED] != w.DONE:
            break
        if m[owner + w.NUMBER] >= m[w.TASK_MANAGERS]:
            late, begin_ns = _late(m, f, owner, now)
            if m[w.ENDED] != w.DONE:
                break
            if late == 0:
                if is_joined and exchange == 0 and m[owner + w.NUMBER] == m[w.TASK_MANAGERS]:
                    ask_tasks_behind(all_words, j)
                _take_clocks_turn(m, f, owner, now)
                continue
            owner, now, is_unordered = late, begin_ns, True
        elif m[w.CATCHES_UP]:
            begin_ns = _begin(m, f, owner, now)
            if begin_ns > now:
                continue
            is_unordered = begin_ns < now or m[w.TIED_NS] == now
            now = begin_ns
        if is_unordered and _is_pressed(m, owner):
            m[w.ENDED] = w.ORDER_UNKNOWN
            break
        if is_joined:
            write_before(all_words, all_numbers, j, m, owner, now)
        _turn(m, f, w.COUNTS + buckets, owner, now)
        if is_unordered:
            _doubt_all(m)
        if is_joined:
            pass_on(all_words, all_numbers, j, exchange, owner, now)
    return m[w.ENDED]
