"""What every driver of a Connection owes it, over loopback TCP and over a simulated link alike."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

from flinknet.core.connection import Connection
from flinknet.errors import RemoteProtocolError, TransportError
from flinknet.job.times import TaskTimes
from flinknet.options import network_config
from flinknet.runtime.event_loop import EventLoop
from flinknet.runtime.tls import Tls, create_tls
from flinknet.simulator.link import LinkEnd, LinkSettings
from tests.certificate_set import generate, settings_for

SIZES = (1, 7, 100, 3000, 40_000, 0, 300_000)


class Endless:
    """A connection with so many bytes to send, out of one block of memory that it uses again.

    Invariant: what it handed out last is overwritten when it is asked for more, as recycled
    buffers would be; a driver that asks too early sends the wrong bytes.
    """

    def __init__(self, total_bytes: int = 0) -> None:
        self.left_bytes = total_bytes
        self.received = bytearray()
        self.ends = 0
        self.is_closing = False
        self.is_ready = False
        self.wants_data = True
        self.deadline_ns: int | None = None
        self.deadlines_ns: list[int] = []
        self.instants_ns: list[int] = []
        self.fails_at: int | None = None
        self.stops_at: int | None = None
        self._memory = bytearray(max(SIZES))
        self._sent = 0
        self._turn = 0

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        self.instants_ns.append(now_ns)
        self.received += data
        if self.fails_at is not None and len(self.received) >= self.fails_at:
            raise RemoteProtocolError("garbage")
        if self.stops_at is not None and len(self.received) >= self.stops_at:
            self.wants_data = False

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        self.instants_ns.append(now_ns)
        self.ends += 1

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, **_: int
    ) -> Sequence[bytes | memoryview]:
        self.instants_ns.append(now_ns)
        if unsent_bytes:
            return []
        self._memory[:] = b"\xee" * len(self._memory)
        pieces: list[bytes | memoryview] = []
        at = 0
        while at < len(self._memory) // 2 and self.left_bytes:
            size = min(SIZES[self._turn % len(SIZES)], self.left_bytes, len(self._memory) - at)
            self._turn += 1
            if not size:
                continue
            expected = expected_bytes(self._sent, size)
            self._memory[at : at + size] = expected
            pieces.append(memoryview(self._memory)[at : at + size])
            at += size
            self._sent += size
            self.left_bytes -= size
        return pieces

    def next_deadline_ns(self) -> int | None:
        return self.deadline_ns

    def handle_deadline(self, *, now_ns: int) -> None:
        self.deadlines_ns.append(now_ns)
        self.deadline_ns = None
        self.stops_at = None
        self.wants_data = True


PATTERN = bytes(range(251)) * 5000


def expected_bytes(start: int, size: int) -> bytes:
    at = start % 251
    return PATTERN[at : at + size]


class Driver(Protocol):
    """Drives two connections joined to each other."""

    def turn(self, *, only: int | None = None) -> None:
        """Give both sides (or one) a turn."""

    def close(self, side: int) -> None:
        """Let one side close."""


class TcpDriver:
    """Two event loops in one process, over loopback."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self.loops = (EventLoop(may_spin=False), EventLoop(may_spin=False))
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname())
            accepted, _ = server.accept()
        self.transports = tuple(
            loop.add_transport(sock, connection)
            for loop, sock, connection in zip(
                self.loops, (client, accepted), connections, strict=True
            )
        )

    def turn(self, *, only: int | None = None) -> None:
        for side, loop in enumerate(self.loops):
            if only in (None, side):
                loop.run_once(until_ns=time.monotonic_ns() + 1_000_000)

    def close(self, side: int) -> None:
        self.transports[side].close()

    def end(self) -> None:
        for loop in self.loops:
            loop.close()


class TlsDriver(TcpDriver):
    """The same with TLS around both connections, its handshake done."""

    def __init__(self, connections: tuple[Endless, Endless]) -> None:
        ends = tuple(
            tls_of_a_test_set().around(connection, is_server=is_server)
            for connection, is_server in zip(connections, (False, True), strict=True)
        )
        super().__init__(ends)
        for _ in range(100):
            if all(end.is_established for end in ends):
                return
            self.turn()
        raise AssertionError("the handshake does not end")


@cache
def tls_of_a_test_set() -> Tls:
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory) / "set", "a secret")
        network, _ = network_config(settings_for(Path(directory) / "set", "a secret"))
        return create_tls(network)


class LinkDriver:
    """Two ends of a simulated link and a hand-held clock."""

    def __init__(self, connections: tuple[Endless, Endless]) -> None:
        self.now_ns = 0
        settings = LinkSettings(latency_ns=10, capacity_bytes=100_000)
        self.ends = tuple(
            LinkEnd(connection, settings, lambda _: None) for connection in connections
        )
        self.ends[0].join(self.ends[1])

    def turn(self, *, only: int | None = None) -> None:
        self.now_ns += 5
        for side, end in enumerate(self.ends):
            if only in (None, side):
                end.receive(now_ns=self.now_ns)
                end.pump(now_ns=self.now_ns)
                deadline_ns = end.connection.next_deadline_ns()
                if deadline_ns is not None and deadline_ns <= self.now_ns:
                    end.connection.handle_deadline(now_ns=self.now_ns)

    def close(self, side: int) -> None:
        for end in (self.ends[side], self.ends[1 - side]):
            end.close(now_ns=self.now_ns)

    def end(self) -> None:
        """Nothing to give back."""


Joined = Callable[[Endless, Endless], Driver]


@pytest.fixture(
    params=[
        pytest.param(TcpDriver, marks=pytest.mark.socket),
        pytest.param(TlsDriver, marks=[pytest.mark.socket, pytest.mark.row("S072")]),
        LinkDriver,
    ],
    ids=["tcp", "tls", "link"],
)
def join(request: pytest.FixtureRequest) -> Iterator[Joined]:
    drivers = []

    def joined(first: Endless, second: Endless) -> Driver:
        drivers.append(request.param((first, second)))
        driver: Driver = drivers[-1]
        return driver

    yield joined
    for driver in drivers:
        driver.end()


def drive(driver: Driver, is_done: Callable[[], bool], limit: int = 20_000) -> None:
    for _ in range(limit):
        if is_done():
            return
        driver.turn()
    raise AssertionError(f"not done after {limit} turns")


def test_bytes_arrive_whole_and_in_order_in_both_directions(join: Joined) -> None:
    total = 3_000_000
    first, second = Endless(total), Endless(total // 3)
    driver = join(first, second)
    drive(driver, lambda: len(second.received) == total and len(first.received) == total // 3)
    assert bytes(second.received) == (PATTERN * 3)[:total]
    assert bytes(first.received) == PATTERN[: total // 3]


@pytest.mark.row("S090")
def test_a_connection_is_asked_for_more_only_when_its_last_bytes_were_taken(join: Joined) -> None:
    total = 20_000_000
    first, second = Endless(total), Endless()
    driver = join(first, second)
    for _ in range(50):
        driver.turn(only=0)  # nobody reads: the sockets fill up
    assert 0 < first.left_bytes < total
    left = first.left_bytes
    for _ in range(10):
        driver.turn(only=0)
    assert first.left_bytes == left
    drive(driver, lambda: len(second.received) == total)
    for start in range(0, total, 251 * 4000):
        size = min(251 * 4000, total - start)
        assert second.received[start : start + size] == expected_bytes(start, size)


@pytest.mark.row("S074")
def test_a_connection_that_wants_no_data_is_not_read_until_it_does_again(join: Joined) -> None:
    total = 20_000_000
    first, second = Endless(total), Endless(1000)
    second.stops_at = 500_000
    driver = join(first, second)
    drive(driver, lambda: not second.wants_data)
    stopped_at = len(second.received)
    for _ in range(100):
        driver.turn()
    assert len(second.received) == stopped_at
    left = first.left_bytes
    assert left > 0  # both sockets are full, and the sender has stopped
    driver.turn()
    assert first.left_bytes == left
    assert len(first.received) == 1000  # the other direction goes on
    second.deadline_ns = 0
    drive(driver, lambda: len(second.received) == total)
    assert second.received[-1000:] == expected_bytes(total - 1000, 1000)


def test_the_clock_never_goes_back(join: Joined) -> None:
    first, second = Endless(100_000), Endless(100_000)
    driver = join(first, second)
    drive(driver, lambda: len(second.received) == len(first.received) == 100_000)
    for connection in (first, second):
        assert connection.instants_ns == sorted(connection.instants_ns)


@pytest.mark.parametrize("side", [0, 1])
def test_both_sides_hear_of_the_end_once(join: Joined, side: int) -> None:
    first, second = Endless(1000), Endless(1000)
    driver = join(first, second)
    drive(driver, lambda: len(second.received) == len(first.received) == 1000)
    driver.close(side)
    driver.close(side)
    drive(driver, lambda: bool(first.ends and second.ends))
    for _ in range(3):
        driver.turn()
    assert (first.ends, second.ends) == (1, 1)


# TCP alone: deadlines and errors are the business of the event loop


@pytest.fixture
def tcp() -> Iterator[tuple[Endless, Endless, TcpDriver]]:
    first, second = Endless(), Endless()
    driver = TcpDriver((first, second))
    yield first, second, driver
    driver.end()


def test_a_connection_that_is_closing_is_closed_when_all_is_sent(
    tcp: tuple[Endless, Endless, TcpDriver],
) -> None:
    first, second, driver = tcp
    first.left_bytes = 1000
    first.is_closing = True
    drive(driver, lambda: bool(first.ends and second.ends))
    assert len(second.received) == 1000


@pytest.mark.socket
def test_a_deadline_is_handled_when_it_has_come_and_not_before(
    tcp: tuple[Endless, Endless, TcpDriver],
) -> None:
    first, _, driver = tcp
    due_ns = time.monotonic_ns() + 3_000_000
    first.deadline_ns = due_ns
    drive(driver, lambda: bool(first.deadlines_ns))
    assert len(first.deadlines_ns) == 1
    assert first.deadlines_ns[0] >= due_ns


@pytest.mark.socket
def test_what_is_left_to_send_goes_out_before_a_broken_connection_is_closed(
    tcp: tuple[Endless, Endless, TcpDriver],
) -> None:
    first, second, driver = tcp
    first.left_bytes = 100
    second.fails_at = 100
    for _ in range(20):
        driver.turn(only=0)
    second.left_bytes = 50
    drive(driver, lambda: bool(first.ends and second.ends))
    assert bytes(first.received) == PATTERN[:50]


@pytest.mark.socket
def test_a_peer_that_vanishes_while_bytes_wait_is_an_end() -> None:
    first, second = Endless(50_000_000), Endless()
    driver = TcpDriver((first, second))
    for _ in range(20):
        driver.turn(only=0)
    driver.close(1)
    for _ in range(100):
        driver.turn(only=0)
        if first.ends:
            break
    assert first.ends == 1
    driver.end()
    assert first.ends == 1


@pytest.mark.socket
def test_a_reader_that_is_no_transport_is_called_back_until_it_is_removed() -> None:
    loop = EventLoop(may_spin=True)
    mine, other = socket.socketpair()
    heard: list[bytes] = []
    loop.add_reader(mine, lambda: heard.append(mine.recv(10)))
    other.send(b"one")
    loop.run_once()
    loop.remove(mine)
    other.send(b"two")
    loop.run_once(until_ns=time.monotonic_ns())
    assert heard == [b"one"]
    loop.close()
    mine.close()
    other.close()


class Counting:
    """A task that wants to be stepped so often at once, then at an instant."""

    is_blocked = False
    is_ready = False

    def __init__(self, at_once: int, wake_ns: int | None) -> None:
        self.steps_ns: list[int] = []
        self.rests_ns: list[int] = []
        self.times = TaskTimes(start_ns=0)
        self._at_once = at_once
        self._wake_ns = wake_ns

    def rest(self, *, now_ns: int) -> None:
        self.rests_ns.append(now_ns)
        self.times.wait(self.times.idle, now_ns=now_ns)

    def step(self, *, now_ns: int) -> int | None:
        self.steps_ns.append(now_ns)
        return now_ns if len(self.steps_ns) < self._at_once else self._wake_ns


@pytest.mark.socket
@pytest.mark.parametrize("may_spin", [False, True])
def test_tasks_are_stepped_in_turns_and_woken_when_they_asked(may_spin: bool) -> None:
    loop = EventLoop(may_spin=may_spin)
    eager, other = Counting(50, None), Counting(0, None)
    loop.tasks = (eager, other)
    loop.run_once()
    assert len(eager.steps_ns) < 10  # it gets its turn, not the whole loop
    while len(eager.steps_ns) < 50:
        loop.run_once()
    assert len(other.steps_ns) <= 50
    wake_ns = time.monotonic_ns() + 100_000_000  # longer than the machine keeps a process waiting
    patient = Counting(0, wake_ns)
    loop.tasks = (eager, patient)
    loop.run_once()
    while patient.steps_ns[-1] < wake_ns:
        loop.run_once()
    before = [instant for instant in patient.steps_ns if instant < wake_ns]
    assert len(before) <= 50
    assert loop.waited_ns >= loop.slept_ns > 0 or may_spin
    loop.close()


@pytest.mark.socket
def test_a_busy_task_is_told_once_that_there_is_nothing_to_do_at_once() -> None:
    loop = EventLoop(may_spin=False)
    task = Counting(7, None)
    loop.tasks = (task,)
    while len(task.steps_ns) < 20:
        loop.run_once(until_ns=0)
    (rest_ns,) = task.rests_ns
    assert task.steps_ns[6] <= rest_ns <= task.steps_ns[7]
    loop.close()


class LettingGo(Endless):
    """A connection that lets somebody else go on: once its bytes are sent, or since it fails and
    has nothing to say.
    """

    def __init__(self, total_bytes: int, other: Endless | Counting, *, fails: bool = False) -> None:
        super().__init__(total_bytes)
        self._other = other
        self._fails = fails

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, **_: int
    ) -> Sequence[bytes | memoryview]:
        pieces = super().data_to_send(now_ns=now_ns, unsent_bytes=unsent_bytes)
        self._other.is_ready = self._other.is_ready or bool(pieces) or self._fails
        return pieces


@pytest.mark.socket
@pytest.mark.parametrize(
    ("total_bytes", "fails"), [(0, False), (1000, False), (0, True)], ids=["idle", "sends", "fails"]
)
def test_a_connection_that_a_later_one_lets_go_on_is_asked_again_at_once(
    total_bytes: int, fails: bool
) -> None:
    goes_on = bool(total_bytes) or fails
    waiting = Endless()
    loop = EventLoop(may_spin=False)
    drivers = []
    for connection in (waiting, LettingGo(total_bytes, waiting, fails=fails)):
        drivers.append(TcpDriver((Endless(), Endless())))
        loop.add_transport(drivers[-1].transports[0].sock.dup(), connection)
    loop.run_once()
    # Nothing comes back from the other side, so a loop whose connections have nothing to do sleeps.
    assert waiting.is_ready is goes_on
    assert (loop.slept_ns == 0) is goes_on
    for driver in drivers:
        driver.end()
    loop.close()


@pytest.mark.socket
@pytest.mark.parametrize(
    ("is_blocked", "is_local", "total_bytes", "fails", "goes_on"),
    [
        (False, False, 1000, False, False),
        (True, False, 1000, False, True),  # it waits for the buffers that were sent
        (True, False, 0, True, True),  # or for those of a connection that fails
        (True, False, 0, False, False),
        (False, True, 1000, False, True),  # what it reads came back to its own host
        (False, True, 0, False, False),
    ],
)
def test_a_task_is_stepped_again_at_once_when_what_it_waits_for_has_happened(
    is_blocked: bool, is_local: bool, total_bytes: int, fails: bool, goes_on: bool
) -> None:
    task = Counting(0, None)
    task.is_blocked = is_blocked
    driver = TcpDriver((LettingGo(total_bytes, task, fails=fails), Endless()))
    (loop, _) = driver.loops
    loop.tasks, loop.has_local_channels = (task,), is_local
    loop.run_once()
    # Nothing comes back from the other side, so a loop whose task has nothing to do sleeps.
    assert (loop.slept_ns == 0) is goes_on
    driver.end()


@pytest.mark.socket
def test_tasks_have_a_turn_at_once_after_a_deadline(
    tcp: tuple[Endless, Endless, TcpDriver],
) -> None:
    first, _, driver = tcp
    turns = []

    class Task:
        is_blocked = False
        times = TaskTimes(start_ns=0)

        def rest(self, *, now_ns: int) -> None:
            pass

        def step(self, *, now_ns: int) -> int | None:
            turns.append(len(first.deadlines_ns))
            return None

    loop = driver.loops[0]
    loop.tasks = (Task(),)
    first.deadline_ns = 0
    loop.run_once(until_ns=None)  # with nothing to wait for it would sleep
    begun = loop.slept_ns
    loop.run_once(until_ns=0)
    assert begun == 0
    assert turns == [0, 1]
