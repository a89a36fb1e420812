"""Bytes of a link arrive in order, when it allows; local channels bring the same records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import InvariantViolatedError, TransportError
from flinknet.simulator.cluster import Cluster
from flinknet.simulator.link import LinkEnd, LinkSettings, SimulatedLink
from tests.checkers import run_checked
from tests.faults import DrawnLinkFaults, FaultPlan, Interval
from tests.protocol_checker import ProtocolChecker
from tests.simulated_scenario import cluster_of
from tests.simulation import FREE, MS, NEVER, received_records, scenario


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
    costs: tuple[float, float] = (0.0, 0.0),
    faults: DrawnLinkFaults | None = None,
) -> tuple[LinkEnd, LinkEnd, list[int]]:
    """Both ends, and the instants at which the right one is woken."""
    woken: list[int] = []
    ends = (
        LinkEnd(left, settings, lambda _at_ns: None, faults, costs),
        LinkEnd(right, settings, woken.append),
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
    near, far, _ = link_of(left, right, LinkSettings(latency_ns=0), (1000.0, 2.0))
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
    near = LinkEnd(left, settings, woken.append)
    far = LinkEnd(right, settings, lambda _at_ns: None)
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


def run(
    task_managers: int,
    placement: str,
    *,
    timeout_ns: int = MS,
    records: int = 2000,
    **workload: object,
) -> tuple[Cluster, ProtocolChecker]:
    drawn = replace(
        scenario(timeout_ns, records=records, **workload),  # type: ignore[arg-type]
        task_managers=task_managers,
        placement=placement,
    )
    checker = ProtocolChecker(1)
    cluster = cluster_of(drawn, FREE, probes=(checker,) * task_managers)
    run_checked(cluster, checker)
    return cluster, checker


@pytest.mark.row("S044")
@pytest.mark.row("S045")
@pytest.mark.parametrize("partitioner", ["rebalance", "hash", "broadcast", "forward"])
@pytest.mark.parametrize("relays", [0, 2])
def test_the_same_job_over_one_and_over_two_task_managers_has_the_same_result(
    partitioner: str, relays: int
) -> None:
    results = []
    for task_managers in (1, 2):
        cluster, checker = run(
            *(task_managers, "spread"),
            rate_per_s=100_000.0,
            producers=3,
            consumers=3,
            relays=relays,
            partitioner=partitioner,
        )
        results.append([received_records(cluster, consumer) for consumer in range(3)])
        is_local = {
            channel.index: channel.is_local
            for subtask in cluster.job.subtasks
            for described in subtask.inputs
            for channel in described.channels
        }
        is_all_local = task_managers == 1 or partitioner == "forward"
        assert len(cluster.links) == (0 if is_all_local else 2)
        for gate in cluster.gates:
            for channel in gate.channels:
                assert channel.is_local is is_local[channel.index]
        # one request for each remote channel, none for the local ones
        requested = {index for index, view in checker.channels.items() if view.is_requested}
        remote = {index for index, is_inside in is_local.items() if not is_inside}
        assert requested == remote
    assert results[0] == results[1]


@pytest.mark.row("S079")
@pytest.mark.row("S080")
def test_four_subtasks_over_two_task_managers_share_one_connection_each_way() -> None:
    cluster, _ = run(2, "spread", producers=4, consumers=4, rate_per_s=50_000.0)
    assert sorted(cluster.links) == [(0, 1, 0), (1, 0, 0)]
    readers = [
        len(connection.opened_readers) for connection in cluster.channels.producer_connections
    ]
    assert readers == [4, 4]
    for gate in cluster.gates:
        assert [channel.is_local for channel in gate.channels].count(True) == 2


@pytest.mark.row("S079")
def test_a_second_edge_between_the_same_task_managers_adds_no_connection() -> None:
    cluster, _ = run(2, "spread", producers=2, consumers=2, relays=1, rate_per_s=50_000.0)
    assert sorted(cluster.links) == [(0, 1, 0), (1, 0, 0)]


@pytest.mark.parametrize("timeout_ns", [0, MS, NEVER])
@pytest.mark.parametrize("exclusive_buffers", [0, 2])
@pytest.mark.parametrize(
    ("task_managers", "placement"), [(1, "spread"), (3, "spread"), (4, "split")]
)
def test_relays_pass_everything_on_whatever_the_settings(
    timeout_ns: int, exclusive_buffers: int, task_managers: int, placement: str
) -> None:
    cluster, _ = run(
        *(task_managers, placement),
        timeout_ns=timeout_ns,
        records=600,
        producers=2,
        consumers=2,
        relays=2,
        relay_delay_ns_per_record=(500,),
        size_bytes=300,
        network=NetworkConfig(segment_size_bytes=1024, exclusive_buffers=exclusive_buffers),
    )
    assert sum(received_records(cluster, consumer) for consumer in range(2)) == 1200


def test_relays_deal_records_out_by_the_keys_of_the_workload() -> None:
    cluster, _ = run(1, "spread", consumers=3, relays=1, partitioner="hash", keys=1)
    assert sorted(received_records(cluster, consumer) for consumer in range(3)) == [0, 0, 2000]


def test_latency_counts_from_the_first_producer() -> None:
    """Each relay works on a record for 5 ms; flushing is immediate."""
    cluster, _ = run(
        *(4, "split"),
        timeout_ns=0,
        records=200,
        relays=2,
        relay_delay_ns_per_record=(5 * MS,),
        rate_per_s=10.0,
    )
    for sink in cluster.sinks[0].receivers:
        sink.settle()
        assert (sink.latency.summary().min or 0) >= 10 * MS
        assert (sink.latency.summary().max or 0) < 11 * MS
