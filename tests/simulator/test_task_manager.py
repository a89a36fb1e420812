"""In which order one turn of a simulated TaskManager does things; virtual time; preemptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from flinknet.config import WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.probe import NullProbe
from flinknet.core.producer import OutputFlusher, RecordWriter
from flinknet.errors import TransportError
from flinknet.job.load.arrivals import RecordedArrivals
from flinknet.job.load.outputs import RecordBatcher
from flinknet.job.selectors import create_selector
from flinknet.simulator.cost_model import Preemptions
from flinknet.simulator.link import LinkEnd, LinkSettings
from flinknet.simulator.task_manager import Scheduler, SimulatedSource, SimulatedTaskManager
from tests.load_tasks import source_task
from tests.pair import partition_of

WORK_NS = 100
END_NS = 10_000
"""When the source ends; nobody looks any more."""


class Noting:
    """A connection that notes when it receives and when it is asked for something to send."""

    is_closing = False
    is_ready = False
    wants_data = True

    def __init__(self, done: list[str]) -> None:
        self.wake: Callable[[int], None] = lambda at_ns: None
        self._done = done

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        self._done.append(f"receives at {now_ns}")
        self.wake(now_ns)

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        raise AssertionError("nobody closes")

    def data_to_send(self, *, now_ns: int, **_: int) -> Sequence[bytes]:
        self._done.append("sends")
        return ()

    def next_deadline_ns(self) -> int | None:
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        raise AssertionError("there is no deadline")


def working(done: list[str], *instants_ns: int) -> SimulatedSource:
    """A source that is stepped in each turn, and works for WORK_NS on each record that is due."""
    flusher = OutputFlusher(-1, start_ns=0)
    partition, _ = partition_of(segment_size_bytes=1024)
    writer = RecordWriter(partition, create_selector("forward", 1, 1), buffer_timeout_ns=-1)
    arrivals = RecordedArrivals(np.array(instants_ns, np.int64), END_NS)
    batcher = RecordBatcher(WorkloadConfig(rate_per_s=1.0), (0,), epoch_ns=0, seed=1)
    task = source_task(writer, batcher, flusher, NullProbe(), 1, arrivals=arrivals)

    def idle_ns() -> int:
        done.append("works")
        return 0

    return SimulatedSource(
        task, writer, flusher, arrivals, None, END_NS, emit_ns_per_record=WORK_NS, idle_ns=idle_ns
    )


def turns(*arrivals_ns: int, is_woken_meanwhile: bool = False) -> list[str]:
    """What a TaskManager does when bytes come at those instants."""
    done: list[str] = []
    scheduler = Scheduler(start_ns=0)
    pool = NetworkBufferPool(4, 1024)
    each = SimulatedTaskManager("tm-0", scheduler, pool)
    connection, settings = Noting(done), LinkSettings(latency_ns=0)
    end, peer = (LinkEnd(connection, settings, lambda at_ns: None) for _ in range(2))
    end.join(peer)
    for at_ns in arrivals_ns:
        peer.inject(b"x", now_ns=at_ns)
    if is_woken_meanwhile:
        connection.wake = each.wake
    each.ends, each.tasks = [end], [working(done, arrivals_ns[0])]
    each.wake(arrivals_ns[0])
    while (next_ns := scheduler.next_ns) is not None and next_ns < END_NS:
        scheduler.step()
    assert each.idle_ns >= 0
    return done


def test_everything_is_sent_in_each_turn() -> None:
    assert turns(10, 60) == [
        *("receives at 10", "works", "sends"),
        *("receives at 110", "works", "sends"),
    ]


def test_a_turn_that_is_asked_for_in_the_middle_of_another_begins_behind_it() -> None:
    assert turns(10, 60, is_woken_meanwhile=True) == [
        *("receives at 10", "works", "sends"),
        *("receives at 110", "works", "sends"),
        *("works", "sends"),
    ]


class Waiting(Noting):
    """A connection that another one lets go on."""

    def data_to_send(self, *, now_ns: int, **_: int) -> Sequence[bytes]:
        self._done.append(f"goes on at {now_ns}" if self.is_ready else "waits")
        self.is_ready = False
        return ()


class LettingGo(Noting):
    """A connection whose first sending lets another one go on."""

    def __init__(self, done: list[str], other: Waiting) -> None:
        super().__init__(done)
        self._other = other

    def data_to_send(self, *, now_ns: int, **_: int) -> Sequence[bytes]:
        self._other.is_ready = "sends" not in self._done
        return super().data_to_send(now_ns=now_ns)


def test_a_connection_that_a_later_one_lets_go_on_is_asked_again_at_once() -> None:
    done: list[str] = []
    scheduler = Scheduler(start_ns=0)
    pool = NetworkBufferPool(4, 1024)
    each = SimulatedTaskManager("tm-0", scheduler, pool)
    waiting = Waiting(done)
    for connection in (waiting, LettingGo(done, waiting)):
        ends = [
            LinkEnd(one, LinkSettings(), lambda at_ns: None) for one in (connection, Noting([]))
        ]
        ends[0].join(ends[1])
        each.ends.append(ends[0])
    each.wake(10)
    while scheduler.step():
        pass
    assert done == ["waits", "sends", "goes on at 10", "sends"]


MS = 1_000_000


def test_a_shorter_time_has_the_same_share_of_preemptions() -> None:
    starts_ns = np.arange(1_000) * 5 * MS
    lengths_ns = np.where(starts_ns < 2_500 * MS, MS, 3 * MS)
    part = Preemptions(starts_ns, lengths_ns).condensed(10)
    assert part.starts_ns.max() < 500 * MS
    assert part.lengths_ns.sum() == pytest.approx(lengths_ns.sum() / 10, rel=0.02)


def test_the_same_over_and_over() -> None:
    once = Preemptions(np.array([1 * MS]), np.array([2 * MS]))
    again = once.repeated(3, 10 * MS)
    assert again.starts_ns.tolist() == [1 * MS, 11 * MS, 21 * MS]
    assert again.lengths_ns.tolist() == [2 * MS] * 3


def test_actions_run_by_instant_and_then_in_the_order_they_came() -> None:
    scheduler = Scheduler()
    seen: list[tuple[str, int]] = []
    for name, at_ns in (("c", 20), ("a", 10), ("b", 10), ("d", 30)):
        scheduler.at(at_ns, lambda name=name: seen.append((name, scheduler.now_ns)))  # type: ignore[misc]
    while scheduler.step():
        pass
    assert seen == [("a", 10), ("b", 10), ("c", 20), ("d", 30)]


def test_an_instant_that_has_passed_means_now() -> None:
    scheduler = Scheduler(start_ns=100)
    seen: list[int] = []
    scheduler.at(50, lambda: seen.append(scheduler.now_ns))
    assert scheduler.next_ns == 100
    assert scheduler.step()
    assert seen == [100]
    assert not scheduler.step()


def test_what_an_action_schedules_for_now_runs_behind_what_was_there() -> None:
    scheduler = Scheduler()
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        scheduler.at(0, lambda: seen.append("third"))

    scheduler.at(5, first)
    scheduler.at(5, lambda: seen.append("second"))
    while scheduler.step():
        pass
    assert seen == ["first", "second", "third"]


def test_time_does_not_pass_for_what_was_cancelled() -> None:
    scheduler = Scheduler()
    seen: list[str] = []
    for name in "abc":
        planned = scheduler.at(10, lambda name=name: seen.append(name))  # type: ignore[misc]
        if name != "b":
            scheduler.cancel(planned)
    scheduler.cancel(scheduler.at(99, lambda: seen.append("d")))
    assert scheduler.next_ns == 10
    assert scheduler.step()
    assert not scheduler.step()
    assert scheduler.next_ns is None
    assert (seen, scheduler.now_ns) == (["b"], 10)
