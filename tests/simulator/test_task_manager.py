"""SimulatedTaskManager: in which order one turn does things, as the runtime's loop has it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from flinknet.core.buffers import NetworkBufferPool
from flinknet.simulator.scheduler import Scheduler
from flinknet.simulator.task_manager import NEVER_NS, SimulatedTaskManager

WORK_NS = 100


class End:
    """A socket with bytes that come at given instants; it notes what is done with it."""

    def __init__(self, done: list[str], *arrivals_ns: int) -> None:
        self.arrivals_ns = list(arrivals_ns)
        self.sent_bytes = 0
        self.connection = SimpleNamespace(next_deadline_ns=lambda: None)
        self.wake: Callable[[int], None] = lambda at_ns: None
        self._done = done

    @property
    def next_arrival_ns(self) -> int | None:
        return self.arrivals_ns[0] if self.arrivals_ns else None

    def receive(self, *, now_ns: int) -> int:
        self._done.append(f"receives at {now_ns}")
        self.arrivals_ns.pop(0)
        self.wake(now_ns)
        return now_ns

    def pump(self, *, now_ns: int) -> int:
        self._done.append("sends")
        return now_ns


class Reader:
    """A task that works for a while in every turn."""

    def __init__(self, done: list[str]) -> None:
        self.task = SimpleNamespace(times=SimpleNamespace(is_busy=False))
        self.is_blocked = self.is_cancelled = False
        self._done = done

    def step(self, now_ns: int) -> tuple[int, int]:
        self._done.append("works")
        return now_ns + WORK_NS, NEVER_NS


def turns(*arrivals_ns: int, answers_at_once: bool, is_woken_meanwhile: bool = False) -> list[str]:
    """What a TaskManager does when bytes come at those instants."""
    done: list[str] = []
    scheduler = Scheduler(start_ns=0)
    pool = NetworkBufferPool(4, 1024)
    each = SimulatedTaskManager("tm-0", scheduler, pool, answers_at_once=answers_at_once)
    end, reader = End(done, *arrivals_ns), Reader(done)
    if is_woken_meanwhile:
        end.wake = each.wake
    each.ends, each.tasks = [end], [reader]  # type: ignore[list-item]
    each.wake(arrivals_ns[0])
    while scheduler.step():
        pass
    assert each.idle_ns >= 0
    return done


def test_what_has_come_while_tasks_worked_is_received_before_anything_is_sent() -> None:
    assert turns(10, 60, answers_at_once=True) == [
        *("receives at 10", "sends", "works"),
        *("receives at 110", "sends", "sends", "works"),
        "sends",
    ]


def test_what_comes_later_finds_all_sent() -> None:
    assert turns(10, 600, answers_at_once=True) == [
        *("receives at 10", "sends", "works", "sends"),
        *("receives at 600", "sends", "works", "sends"),
    ]


def test_where_turns_have_no_costs_of_their_own_all_is_sent_in_each() -> None:
    assert turns(10, 60, answers_at_once=False) == [
        *("receives at 10", "works", "sends"),
        *("receives at 110", "works", "sends"),
    ]


def test_a_turn_that_is_asked_for_in_the_middle_of_another_begins_behind_it() -> None:
    assert turns(10, 60, answers_at_once=False, is_woken_meanwhile=True) == [
        *("receives at 10", "works", "sends"),
        *("receives at 110", "works", "sends"),
        *("works", "sends"),
    ]
