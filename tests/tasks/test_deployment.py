"""Which task runs where, and what cannot be deployed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario, SlowConsumer, WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import (
    BroadcastSelector,
    ForwardSelector,
    KeyGroupSelector,
    RebalanceSelector,
)
from flinknet.errors import ConfigError
from flinknet.tasks.assembly import create_gate, create_partition, create_selector, segments_of
from flinknet.tasks.deployment import deploy


def scenario_of(task_managers: int = 2, **workload: object) -> Scenario:
    return Scenario(
        workload=replace(WorkloadConfig(), **workload),  # type: ignore[arg-type]
        task_managers=task_managers,
    )


@pytest.mark.parametrize("partitioner", ["rebalance", "hash", "broadcast"])
def test_every_producer_has_a_channel_to_every_consumer(partitioner: str) -> None:
    deployment = deploy(scenario_of(producers=2, consumers=3, partitioner=partitioner))
    pairs = [(each.producer, each.consumer) for each in deployment.channels]
    assert pairs == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [each.index for each in deployment.channels] == list(range(6))
    assert all(each.subpartition == each.consumer for each in deployment.channels)
    assert [each.index for each in deployment.channels_of_producer(1)] == [3, 4, 5]
    assert [each.index for each in deployment.channels_of_consumer(1)] == [1, 4]


def test_forward_joins_each_producer_to_its_own_consumer() -> None:
    deployment = deploy(scenario_of(producers=3, consumers=3, partitioner="forward"))
    channels = [(each.producer, each.consumer, each.subpartition) for each in deployment.channels]
    assert channels == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]


def test_producers_and_consumers_sit_in_different_task_managers() -> None:
    deployment = deploy(scenario_of(5, producers=4, consumers=3))
    assert deployment.producer_task_managers == (0, 1, 2, 0)
    assert deployment.consumer_task_managers == (3, 4, 3)
    assert deployment.producers_on(0) == [0, 3]
    assert deployment.consumers_on(3) == [0, 2]
    assert deployment.consumers_on(0) == []


def test_ids_follow_from_the_seed_and_are_each_their_own() -> None:
    scenario = scenario_of(producers=3, consumers=4)
    first, again = deploy(scenario), deploy(scenario)
    other = deploy(replace(scenario, seed=2))
    ids = [each.receiver_id for each in first.channels]
    assert ids == [each.receiver_id for each in again.channels]
    assert len(set(ids)) == 12
    assert not set(ids) & {each.receiver_id for each in other.channels}
    partitions = [first.partition_id(producer) for producer in range(3)]
    assert len(set(partitions)) == 3


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (scenario_of(partitioner="shuffle"), "'shuffle'.*rebalance"),
        (scenario_of(1), "--task-managers 2"),
        (scenario_of(producers=2, consumers=3, partitioner="forward"), "2 and 3"),
        (scenario_of(slow_consumers=(SlowConsumer(1, 5),)), "no consumer 1.*0 to 0"),
        (scenario_of(slow_consumers=(SlowConsumer(-1, 5),)), "no consumer -1"),
        (scenario_of(slow_consumers=(SlowConsumer(0, -1),), records=5), "--duration"),
        (scenario_of(record_size=RecordSize(7, 100)), "7 bytes"),
    ],
    ids=str,
)
def test_what_cannot_be_deployed_says_which_value_and_what_would_do(
    scenario: Scenario, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        deploy(scenario)


def test_a_paused_consumer_is_fine_where_the_run_has_an_end() -> None:
    slow = (SlowConsumer(0, -1),)
    deploy(scenario_of(slow_consumers=slow, duration_ns=5))
    deploy(scenario_of(slow_consumers=slow, records=5, rate_per_s=10.0))


@pytest.mark.row("S005")
@pytest.mark.parametrize(("consumers", "size"), [(1, 10), (2, 12), (4, 16), (100, 208)])
def test_pools_have_the_sizes_of_flinks_formula(consumers: int, size: int) -> None:
    deployment = deploy(scenario_of(producers=1, consumers=consumers))
    memory = NetworkBufferPool(1000, 16)
    partition = create_partition(deployment, 0, memory)
    pool = partition.pool
    assert (pool.required_buffers, pool.max_buffers) == (consumers + 1, size)
    assert (pool.max_buffers_per_channel, pool.max_overdraft_buffers) == (10, 20)
    assert len(partition.subpartitions) == consumers


@pytest.mark.row("S006")
def test_a_gate_has_a_channel_for_each_producer_with_exclusive_buffers_of_its_own() -> None:
    deployment = deploy(scenario_of(producers=4, consumers=2))
    memory = NetworkBufferPool(100, 16)
    gate = create_gate(deployment, 1, memory)
    assert [channel.subpartition for channel in gate.channels] == [1] * 4
    assert [channel.partition_id for channel in gate.channels] == [
        deployment.partition_id(producer) for producer in range(4)
    ]
    assert [channel.buffers.available_buffers for channel in gate.channels] == [2] * 4
    assert memory.available_buffers == 92
    (pool,) = memory.pools
    assert (pool.required_buffers, pool.size_buffers) == (1, 8)


def test_each_partitioner_has_its_selector() -> None:
    assert isinstance(create_selector("forward", 1, 0), ForwardSelector)
    assert isinstance(create_selector("broadcast", 3, 0), BroadcastSelector)
    assert create_selector("hash", 3, 0) == KeyGroupSelector(3)
    assert create_selector("rebalance", 3, 5) == RebalanceSelector(3, 2)
    with pytest.raises(ConfigError, match="random"):
        create_selector("random", 3, 0)


def test_memory_holds_whole_segments() -> None:
    assert segments_of(NetworkConfig()) == 2048
    assert segments_of(NetworkConfig(segment_size_bytes=4096, network_memory_bytes=10_000)) == 2
