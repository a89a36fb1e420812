"""The emulated link: its wires with a clock passed in, and its process with real sockets."""

from __future__ import annotations

import socket
from itertools import pairwise

import pytest

from flinknet.config import Link, NetworkConfig, Scenario, WorkloadConfig
from flinknet.errors import RunFailedError
from flinknet.runtime.link import HELD_MAX_BYTES, Flow, Wire
from flinknet.runtime.link_process import LinkEmulator
from tests.runtime.runs import run

MS = 1_000_000
MBIT = 125_000


def arrivals(flow: Flow) -> list[tuple[int, int]]:
    """The arrival and size of each piece, in the order of the flow."""
    found = []
    while (at_ns := flow.next_ns) is not None:
        pieces = flow.due(at_ns, 1)
        found.append((at_ns, len(pieces[0])))
        if pieces[0]:
            flow.delivered(len(pieces[0]))
        else:
            flow.drop_end()
    return found


def test_bytes_arrive_half_a_round_trip_after_they_were_sent() -> None:
    flow = Flow(Wire(Link(rtt_ns=10 * MS), seed=1))
    flow.add(bytes(100), 3 * MS)
    flow.add(bytes(200), 4 * MS)
    assert arrivals(flow) == [(8 * MS, 100), (9 * MS, 200)]


def test_a_bandwidth_spreads_bytes_over_time_and_is_shared_by_all_connections() -> None:
    wire = Wire(Link(rtt_ns=2 * MS, bandwidth_bytes_per_s=8 * MBIT, queue_bytes=1 << 20), seed=1)
    first, second = Flow(wire), Flow(wire)
    first.add(bytes(3000), 0)
    second.add(bytes(1500), 0)
    assert arrivals(first) == [(2_500_000, 1500), (4 * MS, 1500)]
    assert arrivals(second) == [(5_500_000, 1500)]


def test_an_idle_wire_saves_no_bandwidth_for_later() -> None:
    wire = Wire(Link(bandwidth_bytes_per_s=8 * MBIT, queue_bytes=1 << 20), seed=1)
    flow = Flow(wire)
    flow.add(bytes(1000), 0)
    flow.add(bytes(1000), 50 * MS)
    assert arrivals(flow) == [(1 * MS, 1000), (51 * MS, 1000)]


def test_jitter_is_within_its_bound_repeats_by_seed_and_never_reorders() -> None:
    link = Link(rtt_ns=10 * MS, jitter_ns=2 * MS)
    found = []
    for seed in (1, 1, 2):
        flow = Flow(Wire(link, seed))
        for number in range(200):
            flow.add(bytes(10), number * MS // 4)
        found.append(arrivals(flow))
    delays_ns = [at_ns - number * MS // 4 for number, (at_ns, _) in enumerate(found[0])]
    assert min(delays_ns) >= 3 * MS
    assert max(delays_ns) <= 7 * MS
    assert len({*delays_ns}) > 20
    assert all(one[0] <= other[0] for one, other in pairwise(found[0]))
    assert found[0] == found[1] != found[2]


def test_a_full_queue_takes_bytes_again_when_the_wire_has_carried_some() -> None:
    wire = Wire(Link(bandwidth_bytes_per_s=8 * MBIT, queue_bytes=8000), seed=1)
    flow = Flow(wire)
    flow.add(bytes(8000), 0)
    assert wire.room_bytes(0) == 0
    flow.delivered(3000)
    assert wire.room_bytes(3 * MS) == 3000
    room_ns = wire.room_at_ns()
    assert room_ns is not None
    assert wire.room_bytes(room_ns - 2000) < wire.step_bytes <= wire.room_bytes(room_ns)


@pytest.mark.parametrize("bandwidth_bytes_per_s", [0.0, 100.0 * MBIT])
def test_a_receiver_that_takes_nothing_holds_its_sender_up(bandwidth_bytes_per_s: float) -> None:
    wire = Wire(Link(rtt_ns=MS, bandwidth_bytes_per_s=bandwidth_bytes_per_s), seed=1)
    flow, now_ns = Flow(wire), 0
    while (room_bytes := wire.room_bytes(now_ns)) > 0:
        flow.add(bytes(min(room_bytes, 65536)), now_ns)
        now_ns += 10 * MS
    assert wire.held_bytes <= HELD_MAX_BYTES
    assert wire.room_at_ns() is None
    flow.clear()
    assert wire.room_bytes(now_ns) > 0


def test_the_end_of_a_connection_arrives_after_all_of_its_bytes() -> None:
    wire = Wire(Link(rtt_ns=4 * MS, bandwidth_bytes_per_s=8 * MBIT, queue_bytes=1 << 20), seed=1)
    flow = Flow(wire)
    flow.add(bytes(1500), 0)
    flow.add(b"", 1)
    assert flow.is_ended
    assert arrivals(flow) == [(3_500_000, 1500), (3_500_000, 0)]


def test_a_partly_delivered_piece_goes_on_where_the_socket_stopped() -> None:
    flow = Flow(Wire(Link(), seed=1))
    flow.add(b"abcdef", 0)
    flow.delivered(4)
    assert b"".join(flow.due(0, 9)) == b"ef"
    assert flow.wire.held_bytes == 2


@pytest.mark.socket
def test_the_process_forwards_all_bytes_and_the_end_in_both_directions() -> None:
    emulator = LinkEmulator(Link(rtt_ns=MS, bandwidth_bytes_per_s=800.0 * MBIT), 2, seed=1)
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            emulator.set_target(1, server.getsockname()[:2])
            sent = bytes(range(256)) * 400
            with socket.create_connection(emulator.address_of(1, 0), timeout=20) as client:
                accepted, _ = server.accept()
                with accepted:
                    accepted.settimeout(20)
                    client.sendall(sent)
                    client.shutdown(socket.SHUT_WR)
                    assert b"".join(iter(lambda: accepted.recv(65536), b"")) == sent
                    accepted.sendall(sent)
                    accepted.shutdown(socket.SHUT_WR)
                    assert b"".join(iter(lambda: client.recv(65536), b"")) == sent
        emulator.check()
    finally:
        emulator.close()
    with pytest.raises(RunFailedError, match="emulated link"):
        emulator.check()


@pytest.mark.socket
@pytest.mark.slow("real processes, for rules tested without")
def test_a_run_over_a_link_takes_a_round_trip_for_its_credit() -> None:
    scenario = Scenario(
        network=NetworkConfig(exclusive_buffers=2, floating_buffers=1),
        workload=WorkloadConfig(duration_ns=1_000 * MS, warmup_ns=200 * MS),
        link=Link(rtt_ns=40 * MS),
    )
    result = run(scenario)
    assert result.link_records_per_s == pytest.approx(3 * 32768 / 0.04 / 105)
    assert 0 < (result.measured.throughput_records_per_s or 0) < 1.2 * result.link_records_per_s
    assert (result.measured.latency_ns.p50 or 0) > 20 * MS
    assert result.workload["link"] == "rtt=40ms"
