"""SimulatedTaskManager: in which order one turn does things, as the runtime's loop has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flinknet.config import WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.probe import NullProbe
from flinknet.core.producer import OutputFlusher, RecordWriter
from flinknet.errors import TransportError
from flinknet.job.load.arrivals import RecordedArrivals
from flinknet.job.load.outputs import RecordBatcher
from flinknet.job.selectors import create_selector
from flinknet.simulator.link import LinkEnd, LinkSettings, SendCosts
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
        task,
        writer,
        flusher,
        arrivals,
        None,
        END_NS,
        emit_ns_per_record=WORK_NS,
        idle_ns=idle_ns,
    )


def turns(*arrivals_ns: int, is_woken_meanwhile: bool = False) -> list[str]:
    """What a TaskManager does when bytes come at those instants."""
    done: list[str] = []
    scheduler = Scheduler(start_ns=0)
    pool = NetworkBufferPool(4, 1024)
    each = SimulatedTaskManager("tm-0", scheduler, pool)
    connection, settings = Noting(done), LinkSettings(latency_ns=0)
    end, peer = (LinkEnd(connection, settings, SendCosts(), lambda at_ns: None) for _ in range(2))
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
            LinkEnd(one, LinkSettings(), SendCosts(), lambda at_ns: None)
            for one in (connection, Noting([]))
        ]
        ends[0].join(ends[1])
        each.ends.append(ends[0])
    each.wake(10)
    while scheduler.step():
        pass
    assert done == ["waits", "sends", "goes on at 10", "sends"]
