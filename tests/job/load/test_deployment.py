"""Which task runs where, and what cannot be deployed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario, SlowConsumer, WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import UnionInputGate
from flinknet.core.producer import ResultPartitionManager
from flinknet.errors import ConfigError
from flinknet.job.barriers import task_names
from flinknet.job.gates import create_gate, create_partition, input_of, segments_of
from flinknet.job.load.deployment import DeployedEdge, DeployedVertex, deploy, pointwise, wire


def scenario_of(task_managers: int = 2, placement: str = "split", **workload: object) -> Scenario:
    return Scenario(
        workload=replace(WorkloadConfig(), **workload),  # type: ignore[arg-type]
        task_managers=task_managers,
        placement=placement,
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


def test_tasks_are_named_by_what_they_do_relays_by_their_vertex_too() -> None:
    deployment = deploy(scenario_of(4, producers=2, consumers=1, relays=2))
    names = [
        deployment.task_name(index, subtask)
        for index, vertex in enumerate(deployment.vertices)
        for subtask in range(vertex.parallelism)
    ]
    relays = ["relay 1.0", "relay 1.1", "relay 2.0", "relay 2.1"]
    assert names == ["source 0", "source 1", *relays, "sink 0"]
    assert task_names(deployment) == names


def test_split_stages_share_out_the_task_managers_the_first_ones_having_more() -> None:
    deployment = deploy(scenario_of(5, producers=4, consumers=2, relays=1))
    assert [vertex.task_managers for vertex in deployment.vertices] == [
        (0, 1, 0, 1),
        (2, 3, 2, 3),
        (4, 4),
    ]
    assert not any(map(deployment.is_local, deployment.channels))


def test_relays_are_joined_one_by_one_and_the_partitioner_is_that_of_the_last_edge() -> None:
    deployment = deploy(scenario_of(4, producers=2, consumers=3, relays=2))
    assert [(edge.source, edge.target, edge.partitioner) for edge in deployment.edges] == [
        (0, 1, "forward"),
        (1, 2, "forward"),
        (2, 3, "rebalance"),
    ]
    assert [(each.edge, each.producer, each.consumer) for each in deployment.channels] == [
        *[(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)],
        *[(2, producer, consumer) for producer in (0, 1) for consumer in (0, 1, 2)],
    ]
    assert [each.index for each in deployment.channels] == list(range(10))
    assert [each.index for each in deployment.channels_of_producer(1, 2)] == [7, 8, 9]
    assert [deployment.is_last(each) for each in deployment.channels] == [False] * 4 + [True] * 6
    ids = {deployment.partition_id(producer, edge) for producer in (0, 1) for edge in (0, 1, 2)}
    assert len(ids) == 6


@pytest.mark.row("S045")
@pytest.mark.row("S080")
def test_a_channel_is_local_where_its_producer_sits_in_the_consumers_task_manager() -> None:
    """Four subtasks of A and of B over two TaskManagers: the 2x2 block table."""
    deployment = deploy(scenario_of(2, placement="spread", producers=4, consumers=4))
    first, second = deployment.vertices
    assert first.task_managers == second.task_managers == (0, 1, 0, 1)
    for channel in deployment.channels:
        is_together = (
            first.task_managers[channel.producer] == second.task_managers[channel.consumer]
        )
        assert deployment.is_local(channel) is is_together
    local = [each for each in deployment.channels if deployment.is_local(each)]
    assert (len(deployment.channels), len(local)) == (16, 8)
    pairs = [
        (deployment.producer_task_manager(each), deployment.consumer_task_manager(each))
        for each in deployment.channels
    ]
    assert [pairs.count(pair) for pair in ((0, 0), (1, 1), (0, 1), (1, 0))] == [4, 4, 4, 4]
    for consumer in range(4):
        gate = deployment.channels_of_consumer(consumer)
        assert sum(map(deployment.is_local, gate)) == 2
        assert len(gate) == 4


@pytest.mark.row("S040")
def test_a_consumer_with_two_inputs_has_a_gate_for_each_with_a_channel_for_each_producer() -> None:
    vertices = [
        DeployedVertex("three", (0, 1, 0)),
        DeployedVertex("two", (0, 1)),
        DeployedVertex("consumers", (1, 1)),
    ]
    edges = [DeployedEdge(0, 0, 2, "rebalance"), DeployedEdge(1, 1, 2, "forward")]
    deployment = wire(scenario_of(2), vertices, edges)
    memory, partitions = NetworkBufferPool(100, 16), ResultPartitionManager()
    consumer = 1
    gates = [
        create_gate(
            *(deployment, consumer, memory), edge=edge.index, index=index, partitions=partitions
        )
        for index, edge in enumerate(deployment.inputs_of(2))
    ]
    assert [len(gate.channels) for gate in gates] == [3, 1]
    assert [(c.partition_id, c.subpartition) for c in gates[0].channels] == [
        (deployment.partition_id(producer, 0), consumer) for producer in range(3)
    ]
    assert [(c.partition_id, c.subpartition) for c in gates[1].channels] == [
        (deployment.partition_id(consumer, 1), 0)
    ]
    assert [c.is_local for c in gates[0].channels] == [False, True, False]
    both = input_of(gates)
    assert isinstance(both, UnionInputGate)
    assert len(both.channels) == 4

    all_to_all = wire(scenario_of(2), vertices, [edges[0], replace(edges[1], partitioner="hash")])
    gate = create_gate(all_to_all, consumer, memory, edge=1, partitions=partitions)
    assert [(c.partition_id, c.subpartition) for c in gate.channels] == [
        (all_to_all.partition_id(producer, 1), consumer) for producer in range(2)
    ]


def test_one_task_manager_has_local_channels_only() -> None:
    deployment = deploy(scenario_of(1, placement="spread", producers=2, consumers=3))
    assert all(map(deployment.is_local, deployment.channels))


@pytest.mark.parametrize(
    ("producers", "consumers", "joined"),
    [
        (5, 2, {0: [(0, 0), (1, 0)], 1: [(2, 0), (3, 0), (4, 0)]}),
        (2, 5, {0: [(0, 0)], 1: [(0, 1)], 2: [(0, 2)], 3: [(1, 1)], 4: [(1, 0)]}),
        (3, 5, {0: [(0, 0)], 1: [(0, 1)], 2: [(1, 0)], 3: [(1, 1)], 4: [(2, 0)]}),
        (
            *(3, 7),
            {
                **{0: [(0, 0)], 1: [(0, 1)], 2: [(0, 2)], 3: [(1, 1)]},
                **{4: [(1, 0)], 5: [(2, 1)], 6: [(2, 0)]},
            },
        ),
        (
            *(4, 6),
            {0: [(0, 0)], 1: [(0, 1)], 2: [(1, 0)], 3: [(2, 1)], 4: [(2, 0)], 5: [(3, 0)]},
        ),
        (3, 3, {0: [(0, 0)], 1: [(1, 0)], 2: [(2, 0)]}),
    ],
)
def test_pointwise_edges_have_flinks_tables(
    producers: int, consumers: int, joined: dict[int, list[tuple[int, int]]]
) -> None:
    """Golden: consumer -> (partition, subpartition)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for producer, consumer, subpartition in pointwise(producers, consumers):
        found.setdefault(consumer, []).append((producer, subpartition))
    assert found == joined


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
        (scenario_of(partitioner="random"), "'random'.*rebalance"),
        (scenario_of(1), "--task-managers 2.*--placement spread"),
        (scenario_of(2, relays=1), "3 stages.*--task-managers 3"),
        (scenario_of(2, "heap"), "'heap'.*split, spread"),
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
    partition = create_partition(deployment, 0, memory, ResultPartitionManager())
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


def test_memory_holds_whole_segments() -> None:
    assert segments_of(NetworkConfig()) == 2048
    assert segments_of(NetworkConfig(segment_size_bytes=4096, network_memory_bytes=10_000)) == 2
