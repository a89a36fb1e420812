"""Local channels and relays in virtual time: the same records, whoever sits where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig
from flinknet.simulator.cluster import Cluster
from tests.checkers import run_checked
from tests.protocol_checker import ProtocolChecker
from tests.simulation import FREE, MS, NEVER, received_records, scenario


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
    cluster = Cluster.of_scenario(drawn, FREE, probes=(checker,) * task_managers)
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
    readers = [len(connection.opened_readers) for connection in cluster.producer_connections]
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
