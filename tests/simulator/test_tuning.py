"""What exclusive and floating buffers are good for: a burst over a link with a delay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.buffers import LocalBufferPool
from flinknet.core.consumer import RemoteInputChannel
from flinknet.simulator.cluster import START_NS, Cluster
from tests.simulation import FREE, MS, finished, scenario

DELAY = replace(FREE, transit_ns=10 * MS)
RECORDS = 4000
CHANNELS = 2


def burst(**network: int) -> tuple[Cluster, float]:
    """The cluster of a burst, and its throughput in records per second."""
    drawn = scenario(
        records=RECORDS,
        network=NetworkConfig(segment_size_bytes=4096, **network),  # type: ignore[arg-type]
        consumers=CHANNELS,
        warmup_ns=0,
    )
    cluster = finished(Cluster.of_scenario(drawn, DELAY))
    taken = sum(sink.records for task in cluster.sinks for sink in task.receivers)
    assert taken == RECORDS
    return cluster, RECORDS / (cluster.now_ns - START_NS) * 1e9


@pytest.mark.row("S114")
@pytest.mark.parametrize(
    ("name", "exclusive", "output_pools", "gate_pools"),
    [
        ("exclusive_buffers", (1, 2, 8), [(3, 10), (3, 12), (3, 24)], [(1, 8)] * 3),
        ("floating_buffers", (2, 2, 2), [(3, 5), (3, 6), (3, 12)], [(1, 1), (1, 2), (1, 8)]),
    ],
)
def test_a_burst_over_a_slow_link_is_faster_with_more_buffers(
    name: str,
    exclusive: tuple[int, ...],
    output_pools: list[tuple[int, int]],
    gate_pools: list[tuple[int, int]],
) -> None:
    throughputs = []
    for index, count in enumerate((1, 2, 8)):
        cluster, throughput = burst(**{name: count})
        throughputs.append(throughput)
        (partition,) = cluster.partitions
        assert sizes_of(partition.pool) == output_pools[index]
        for gate in cluster.gates:
            (channel,) = gate.channels
            assert isinstance(channel, RemoteInputChannel)
            assert channel.initial_credit == exclusive[index]
            assert sizes_of(channel.buffers.pool) == gate_pools[index]
    assert throughputs[0] * 1.1 < throughputs[1]
    assert throughputs[1] * 1.1 < throughputs[2]


def sizes_of(pool: LocalBufferPool) -> tuple[int, int]:
    """Required and largest size of a pool."""
    return pool.required_buffers, pool.max_buffers
