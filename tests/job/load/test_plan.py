"""Which task runs where, what cannot be deployed, and channels that a peer has named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario, SlowConsumer, WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import ResultPartitionManager
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError
from flinknet.job.load.plan import LoadPlan, listed_load_plan, load_plan_of, task_name
from flinknet.runtime.cluster.peer import consumer_plan, producers_plan
from tests.load_tasks import gates_of, partitions_of


def places_of(load: LoadPlan) -> list[tuple[int, ...]]:
    """TaskManagers of each vertex."""
    return [vertex.task_managers for vertex in load.plan.vertices]


def scenario_of(task_managers: int = 2, placement: str = "split", **workload: object) -> Scenario:
    return Scenario(
        workload=replace(WorkloadConfig(), **workload),  # type: ignore[arg-type]
        task_managers=task_managers,
        placement=placement,
    )


@pytest.mark.parametrize("partitioner", ["rebalance", "hash", "broadcast"])
def test_every_producer_has_a_channel_to_every_consumer(partitioner: str) -> None:
    load = load_plan_of(scenario_of(producers=2, consumers=3, partitioner=partitioner))
    pairs = [(each.producer, each.consumer) for each in load.channels]
    assert pairs == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [each.index for each in load.channels] == list(range(6))
    assert all(each.subpartition == each.consumer for each in load.channels)
    assert load.sources[1].outputs[0].channels == (3, 4, 5)
    assert [each.index for each in load.sinks[1].inputs[0].channels] == [1, 4]


def test_forward_joins_each_producer_to_its_own_consumer() -> None:
    load = load_plan_of(scenario_of(producers=3, consumers=3, partitioner="forward"))
    channels = [(each.producer, each.consumer, each.subpartition) for each in load.channels]
    assert channels == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]


def test_producers_and_consumers_sit_in_different_task_managers() -> None:
    load = load_plan_of(scenario_of(5, producers=4, consumers=3))
    assert places_of(load) == [(0, 1, 2, 0), (3, 4, 3)]
    assert [each.key for each in load.tasks_on(0)] == [(0, 0), (0, 3)]
    assert [each.key for each in load.tasks_on(3)] == [(1, 0), (1, 2)]
    assert [each.slot for each in load.tasks_on(3)] == [0, 1]


@pytest.mark.parametrize(
    ("network", "workload", "buffers"),
    [
        (NetworkConfig(), {}, 10),
        (NetworkConfig(floating_buffers=64), {}, 12),  # the backlog is never more than 10
        (NetworkConfig(floating_buffers=0), {}, 3),  # Flink gives a gate one at least
        (NetworkConfig(), {"producers": 3, "consumers": 2}, 28),
        (NetworkConfig(), {"consumers": 2, "relays": 1, "relay_parallelism": (1,)}, 10),
    ],
)
def test_credit_is_that_of_the_gates_of_the_exchange_that_has_least(
    network: NetworkConfig, workload: dict[str, object], buffers: int
) -> None:
    scenario = scenario_of(2 + ("relays" in workload), **workload)
    assert load_plan_of(replace(scenario, network=network)).credit_buffers() == buffers


def test_credit_is_unknown_where_channels_are_local() -> None:
    scenario = scenario_of(placement="spread", producers=2, consumers=2)
    assert load_plan_of(scenario).credit_buffers() is None


def test_tasks_are_named_by_what_they_do_relays_by_their_vertex_too() -> None:
    load = load_plan_of(scenario_of(4, producers=2, consumers=1, relays=2))
    names = [task_name(each) for each in load.tasks]
    relays = ["relay 1.0", "relay 1.1", "relay 2.0", "relay 2.1"]
    assert names == ["source 0", "source 1", *relays, "sink 0"]


def test_split_stages_share_out_the_task_managers_the_first_ones_having_more() -> None:
    load = load_plan_of(scenario_of(5, producers=4, consumers=2, relays=1))
    assert places_of(load) == [(0, 1, 0, 1), (2, 3, 2, 3), (4, 4)]
    assert not any(each.is_local for each in load.channels)


def test_relays_are_joined_one_by_one_and_the_partitioner_is_that_of_the_last_edge() -> None:
    load = load_plan_of(scenario_of(4, producers=2, consumers=3, relays=2))
    assert [(e.source, e.target, e.partitioner) for e in load.plan.edges] == [
        (0, 1, "forward"),
        (1, 2, "forward"),
        (2, 3, "rebalance"),
    ]
    assert [(each.edge, each.producer, each.consumer) for each in load.channels] == [
        *[(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)],
        *[(2, producer, consumer) for producer in (0, 1) for consumer in (0, 1, 2)],
    ]
    assert [each.index for each in load.channels] == list(range(10))
    assert load.tasks[5].outputs[0].channels == (7, 8, 9)
    assert [load.is_last(each) for each in load.channels] == [False] * 4 + [True] * 6
    ids = {each.partition_id for each in load.channels}
    assert len(ids) == 6


def test_relays_can_have_parallelisms_and_delays_of_their_own() -> None:
    scenario = scenario_of(
        5,
        producers=2,
        consumers=1,
        relays=3,
        relay_parallelism=(2, 4, 4),
        relay_delay_ns_per_record=(0, 5, 7),
        partitioner="hash",
    )
    load = load_plan_of(scenario)
    assert [each.parallelism for each in load.plan.vertices] == [2, 2, 4, 4, 1]
    assert [each.partitioner for each in load.plan.edges] == [
        *("forward", "rebalance", "forward", "hash")
    ]
    assert scenario.workload.relay_delays_ns == [0, 5, 7]
    one_for_all = replace(scenario.workload, relay_parallelism=(3,), relay_delay_ns_per_record=(9,))
    assert one_for_all.parallelisms == [2, 3, 3, 3, 1]
    assert one_for_all.relay_delays_ns == [9, 9, 9]


@pytest.mark.row("S045")
@pytest.mark.row("S080")
def test_a_channel_is_local_where_its_producer_sits_in_the_consumers_task_manager() -> None:
    """Four subtasks of A and of B over two TaskManagers: the 2x2 block table."""
    load = load_plan_of(scenario_of(2, placement="spread", producers=4, consumers=4))
    first, second = places_of(load)
    assert first == second == (0, 1, 0, 1)
    for channel in load.channels:
        assert channel.is_local is (first[channel.producer] == second[channel.consumer])
    local = [each for each in load.channels if each.is_local]
    assert (len(load.channels), len(local)) == (16, 8)
    pairs = [(each.producer_task_manager, each.consumer_task_manager) for each in load.channels]
    assert [pairs.count(pair) for pair in ((0, 0), (1, 1), (0, 1), (1, 0))] == [4, 4, 4, 4]
    assert load.connections() == {"tm-0->tm-1": 4, "tm-1->tm-0": 4}
    for sink in load.sinks:
        assert [each.is_local for each in sink.inputs[0].channels].count(True) == 2


def test_one_task_manager_has_local_channels_only() -> None:
    load = load_plan_of(scenario_of(1, placement="spread", producers=2, consumers=3))
    assert all(each.is_local for each in load.channels)


def test_ids_follow_from_the_seed_and_are_each_their_own() -> None:
    scenario = scenario_of(producers=3, consumers=4)
    first, again = load_plan_of(scenario), load_plan_of(scenario)
    other = load_plan_of(replace(scenario, seed=2))
    ids = [each.receiver_id for each in first.channels]
    assert ids == [each.receiver_id for each in again.channels]
    assert len(set(ids)) == 12
    assert not set(ids) & {each.receiver_id for each in other.channels}
    assert len({each.partition_id for each in first.channels}) == 3


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (scenario_of(1), "--task-managers 2.*--placement spread"),
        (scenario_of(2, relays=1), "3 stages.*--task-managers 3"),
        (scenario_of(partitioner="random"), "partitioner 'random'.*rebalance"),
        (scenario_of(2, "heap"), "placement 'heap'.*split, spread"),
        (scenario_of(scheduling="soon"), "scheduling 'soon' is not known; choose from all-at-once"),
        (replace(scenario_of(), flow_control="none"), "flow control 'none'.*credit, tcp"),
        (scenario_of(producers=2, consumers=3, partitioner="forward"), "2 and 3"),
        (scenario_of(slow_consumers=(SlowConsumer(1, 5),)), "no consumer 1.*0 to 0"),
        (scenario_of(slow_consumers=(SlowConsumer(-1, 5),)), "no consumer -1"),
        (scenario_of(slow_consumers=(SlowConsumer(0, -1),), records=5), "--duration"),
        (scenario_of(record_size=RecordSize(7, 100)), "7 bytes"),
        (scenario_of(keys=1 << 63), r"--keys: \d+ is out of range; use 1 to"),
        (scenario_of(keys=1 << 25, key_skew=1.0), "--keys: .*with a skew, use 1 to 16777216"),
    ],
    ids=str,
)
def test_what_cannot_be_deployed_says_which_value_and_what_would_do(
    scenario: Scenario, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        load_plan_of(scenario)


def test_a_paused_consumer_is_fine_where_the_run_has_an_end() -> None:
    slow = (SlowConsumer(0, -1),)
    load_plan_of(scenario_of(slow_consumers=slow, duration_ns=5))
    load_plan_of(scenario_of(slow_consumers=slow, records=5, rate_per_s=10.0))


@pytest.mark.row("S005")
@pytest.mark.parametrize(("consumers", "size"), [(1, 10), (2, 12), (4, 16), (100, 208)])
def test_pools_have_the_sizes_of_flinks_formula(consumers: int, size: int) -> None:
    load = load_plan_of(scenario_of(producers=1, consumers=consumers))
    memory = NetworkBufferPool(1000, 16)
    (partition,) = partitions_of(load.sources[0], memory, ResultPartitionManager())
    pool = partition.pool
    assert load.sources[0].outputs[0].pool.max_buffers == size
    assert (pool.required_buffers, pool.max_buffers) == (consumers + 1, size)
    assert (pool.max_buffers_per_channel, pool.max_overdraft_buffers) == (10, 20)
    assert len(partition.subpartitions) == consumers


@pytest.mark.row("S006")
def test_a_gate_has_a_channel_for_each_producer_with_exclusive_buffers_of_its_own() -> None:
    load = load_plan_of(scenario_of(producers=4, consumers=2))
    memory = NetworkBufferPool(100, 16)
    (gate,) = gates_of(load.sinks[1], memory)
    assert [channel.subpartition for channel in gate.channels] == [1] * 4
    assert [channel.partition_id for channel in gate.channels] == [
        each.outputs[0].partition_id for each in load.sources
    ]
    assert [channel.buffers.available_buffers for channel in gate.channels] == [2] * 4
    assert memory.available_buffers == 92
    (pool,) = memory.pools
    assert (pool.required_buffers, pool.size_buffers) == (1, 8)


def test_everything_of_a_blocking_load_is_there_from_the_beginning() -> None:
    load = load_plan_of(scenario_of(3, partition_type="blocking", relays=1))
    assert {each.stage for each in load.tasks} == {0}
    assert {each.outputs[0].partition_type.label for each in load.tasks[:-1]} == {"blocking"}


def test_channels_that_were_laid_elsewhere_keep_their_numbers_and_what_their_tasks_need() -> None:
    listed = {7: (0, 1, 0), 3: (1, 1, 0), 5: (1, 0, 1)}
    load = listed_load_plan(scenario_of(), ((0, 0), (1, 0)), listed)
    assert [each.index for each in load.channels] == [3, 5, 7]
    assert [each.outputs[0].channels for each in load.sources] == [(7,), (3, 5)]
    assert [[c.index for c in each.inputs[0].channels] for each in load.sinks] == [[5], [7, 3]]
    assert [each.is_local for each in load.channels] == [True, False, True]
    assert [each.outputs[0].pool.max_buffers for each in load.sources] == [10, 12]
    assert [each.exclusive_buffers for each in load.buffers()] == [0, 2]


def test_memory_holds_whole_segments() -> None:
    assert NetworkConfig().segments == 2048
    assert NetworkConfig(segment_size_bytes=4096, network_memory_bytes=10_000).segments == 2


FIRST, SECOND = (ResultPartitionID.decode(bytes(19) + bytes([i]) + bytes(40)) for i in (1, 2))


def test_a_consumer_reads_each_subpartition_of_each_partition() -> None:
    load = consumer_plan(Scenario(), [FIRST, SECOND], [4, 0])
    (sink,) = load.sinks
    channels = sink.inputs[0].channels
    read = [(each.partition_id, each.subpartition) for each in channels]
    assert read == [(FIRST, 4), (FIRST, 0), (SECOND, 4), (SECOND, 0)]
    assert [each.index for each in channels] == [0, 1, 2, 3]
    assert len({each.receiver_id for each in channels}) == 4
    assert not any(each.is_local for each in channels)
    assert sink.inputs[0].buffers.pool.max_buffers == 8


def test_a_producer_has_a_subpartition_for_each_consumer() -> None:
    scenario = Scenario(workload=WorkloadConfig(producers=2, consumers=3, partitioner="rescale"))
    load = producers_plan(scenario, [FIRST, SECOND])
    output = load.sources[1].outputs[0]
    assert (output.partition_id, output.channels) == (SECOND, (3, 4, 5))
    assert output.partitioner == "rescale"
    assert output.pool.max_buffers == 3 * 2 + 8
    found = load.channels[5]
    assert (found.partition_id, found.subpartition) == (SECOND, 2)


def test_what_is_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--partition: .* is given twice"):
        producers_plan(Scenario(), [FIRST, FIRST])
    with pytest.raises(ConfigError, match="--subpartition: 3 is given twice"):
        consumer_plan(Scenario(), [FIRST], [3, 3])
