"""SimulatedLink: bytes arrive whole and in order, when latency and bandwidth allow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flinknet.errors import InvariantViolatedError, TransportError
from flinknet.simulator.link import LinkEnd, LinkSettings, SendCosts, SimulatedLink
from tests.faults import DrawnLinkFaults, FaultPlan, Interval


class Line:
    """A Connection that says what it is given, and keeps what it hears and when."""

    def __init__(self, *to_say: bytes) -> None:
        self.to_say: list[bytes | memoryview] = list(to_say)
        self.asked = 0
        self.is_closing = False
        self.is_ready = False
        self.wants_data = True
        self.heard: list[tuple[int, bytes]] = []
        self.ended_ns: int | None = None

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        self.heard.append((now_ns, bytes(data)))

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        self.ended_ns = now_ns

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, **_: int
    ) -> Sequence[bytes | memoryview]:
        if unsent_bytes:
            return []
        self.asked += 1
        return [self.to_say.pop(0)] if self.to_say else []

    def next_deadline_ns(self) -> int | None:
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        pass


def link_of(
    left: Line,
    right: Line,
    settings: LinkSettings,
    costs: SendCosts = SendCosts(),  # noqa: B008 - frozen
    faults: DrawnLinkFaults | None = None,
) -> tuple[LinkEnd, LinkEnd, list[int]]:
    """Both ends, and the instants at which the right one is woken."""
    woken: list[int] = []
    ends = (
        LinkEnd(left, settings, costs, lambda _at_ns: None, faults),
        LinkEnd(right, settings, SendCosts(), woken.append),
    )
    ends[0].join(ends[1])
    return *ends, woken


def read_all(end: LinkEnd) -> None:
    while (arrival_ns := end.next_arrival_ns) is not None:
        end.receive(now_ns=arrival_ns)


def test_bytes_arrive_a_latency_after_they_were_sent() -> None:
    left, right = Line(b"abc"), Line()
    near, far, woken = link_of(left, right, LinkSettings(latency_ns=50))
    assert near.pump(now_ns=100) == 100
    assert woken == [150]
    far.receive(now_ns=149)
    assert right.heard == []
    far.receive(now_ns=150)
    assert right.heard == [(150, b"abc")]


def test_the_wire_carries_one_thing_after_the_other() -> None:
    left, right = Line(b"x" * 100, b"y" * 100), Line()
    near, far, _ = link_of(left, right, LinkSettings(latency_ns=0, bandwidth_bytes_per_s=1e9))
    near.pump(now_ns=0)
    read_all(far)
    assert [at_ns for at_ns, _ in right.heard] == [100, 200]


def test_sending_takes_the_senders_time() -> None:
    left, right = Line(b"x" * 100, b"y" * 100), Line()
    near, far, _ = link_of(left, right, LinkSettings(latency_ns=0), SendCosts(1000.0, 2.0))
    assert near.pump(now_ns=0) == 2400
    read_all(far)
    assert [at_ns for at_ns, _ in right.heard] == [1200, 2400]


def test_a_socket_that_is_full_is_not_fed_until_the_peer_has_read() -> None:
    left, right = Line(b"1234", b"56789", b"x"), Line()
    near, far, _ = link_of(left, right, LinkSettings(latency_ns=0, capacity_bytes=8))
    near.pump(now_ns=0)
    assert left.asked == 2
    near.pump(now_ns=1)
    assert left.asked == 2, "asked for bytes that the socket cannot take"
    far.receive(now_ns=1)
    near.pump(now_ns=1)
    read_all(far)
    assert b"".join(data for _, data in right.heard) == b"123456789x"


def test_the_sender_is_woken_when_its_full_socket_takes_bytes_again() -> None:
    left, right = Line(b"12345678"), Line()
    woken: list[int] = []
    settings = LinkSettings(latency_ns=5, capacity_bytes=8)
    near = LinkEnd(left, settings, SendCosts(), woken.append)
    far = LinkEnd(right, settings, SendCosts(), lambda _at_ns: None)
    near.join(far)
    near.pump(now_ns=0)
    far.receive(now_ns=5)
    assert woken == [5]


@pytest.mark.parametrize("seed", range(5))
def test_faults_change_when_and_in_what_pieces_but_never_what(seed: int) -> None:
    plan = FaultPlan(
        seed=seed, piece_bytes_max=3, delay_ns_max=1000, stalls=(Interval(0, 500, 5000),)
    )
    said = [bytes([65 + i]) * 20 for i in range(10)]
    left, right = Line(*said), Line()
    near, far, _ = link_of(
        left, right, LinkSettings(latency_ns=10), faults=DrawnLinkFaults(plan, 0, 0, origin_ns=0)
    )
    near.pump(now_ns=0)
    read_all(far)
    instants = [at_ns for at_ns, _ in right.heard]
    assert b"".join(data for _, data in right.heard) == b"".join(said)
    assert max(len(data) for _, data in right.heard) <= 3
    assert instants == sorted(instants)
    assert not [at_ns for at_ns in instants if 500 <= at_ns < 5000]
    assert instants[-1] == 5000, "a delay is not added to those of the pieces before"


def test_a_reset_loses_what_is_under_way_and_tells_both_sides() -> None:
    left, right = Line(b"abc"), Line()
    near, far, _ = link_of(left, right, LinkSettings(latency_ns=50))
    near.pump(now_ns=0)
    link = SimulatedLink(near, far)
    assert near.in_flight_bytes
    link.reset(now_ns=20)
    link.reset(now_ns=30)
    read_all(far)
    near.pump(now_ns=40)
    assert right.heard == []
    assert (left.ended_ns, right.ended_ns) == (20, 20)


def test_what_waits_for_the_socket_must_stay_as_it_is() -> None:
    said = bytearray(b"hello, world")
    left = Line()
    left.to_say.append(memoryview(said))
    near, far, _ = link_of(left, Line(), LinkSettings(latency_ns=0, capacity_bytes=5))
    near.pump(now_ns=0)
    near.pump(now_ns=1)
    said[0] = 0
    with pytest.raises(InvariantViolatedError, match="what waits for a socket was changed"):
        near.pump(now_ns=2)
    said[0] = ord("h")
    near.pump(now_ns=3)
    read_all(far)
    near.pump(now_ns=4)
    said[0] = 0
    near.pump(now_ns=5)
