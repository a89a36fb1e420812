"""What a load needs of network memory, what it is given, and what comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.core.buffers import UNLIMITED_BUFFERS, LocalBufferPool, NetworkBufferPool
from flinknet.core.buffers.pool_sizes import PoolSize, TaskManagerBuffers
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from flinknet.core.producer import ResultPartitionManager
from flinknet.errors import ConfigError, ExclusiveBuffersTimeoutError, InsufficientBuffersError
from flinknet.job.load.plan import LoadPlan, load_plan_of
from tests.load_tasks import gates_of, partitions_of
from tests.simulated_scenario import cluster_of

SEGMENT_BYTES = 4096


def scenario_of(
    *,
    segments: int = 1000,
    flow_control: str = "credit",
    required_max: int | None = None,
    **workload: object,
) -> Scenario:
    """A scenario whose TaskManagers have so many segments."""
    return Scenario(
        network=NetworkConfig(
            segment_size_bytes=SEGMENT_BYTES,
            network_memory_bytes=segments * SEGMENT_BYTES,
            required_buffers_per_gate_max=required_max,
        ),
        workload=replace(WorkloadConfig(warmup_ns=0), **workload),  # type: ignore[arg-type]
        flow_control=flow_control,
    )


def gate_of(scenario: Scenario, memory: NetworkBufferPool) -> SingleInputGate:
    return gates_of(load_plan_of(scenario).sinks[0], memory)[0]


def pool_of(gate: SingleInputGate) -> LocalBufferPool:
    channel = gate.channels[0]
    assert isinstance(channel, RemoteInputChannel)
    return channel.buffers.pool


@pytest.mark.row("S001")
@pytest.mark.parametrize(("producers", "consumers"), [(4, 4), (6, 4), (4, 5)])
def test_a_task_manager_has_one_pool_for_all_its_tasks_and_gets_everything_back(
    producers: int, consumers: int
) -> None:
    cluster = cluster_of(
        scenario_of(segments=64, producers=producers, consumers=consumers, records=2000)
    )
    memories = [task_manager.memory for task_manager in cluster.task_managers]
    assert [memory.total_buffers for memory in memories] == [64, 64]
    upstream, downstream = memories
    # all segments are there before a task runs: free, or in the hands of a channel
    assert upstream.available_buffers == 64
    assert downstream.available_buffers == 64 - producers * consumers * 2
    assert set(upstream.pools) == {partition.pool for partition in cluster.partitions}
    assert set(downstream.pools) == {pool_of(gate) for gate in cluster.gates}
    left = 64 - sum(pool.required_buffers for pool in upstream.pools)
    with pytest.raises(InsufficientBuffersError) as raised:
        upstream.create_buffer_pool(left + 1, left + 1)
    for words in (f"required {left + 1}", f"only {left} of 64"):
        assert words in str(raised.value)
    cluster.run_until_idle()
    assert cluster.error is None
    for pool in downstream.pools:
        pool.destroy()
    assert [memory.available_buffers for memory in memories] == [64, 64]


@pytest.mark.row("S002")
def test_five_tasks_have_five_pools_of_one_global_pool() -> None:
    load = load_plan_of(scenario_of(producers=5, consumers=2))
    memory = NetworkBufferPool(200, 1)
    manager = ResultPartitionManager()
    pools = [partitions_of(each, memory, manager)[0].pool for each in load.sources]
    assert tuple(memory.pools) == tuple(pools)
    taken = []
    for pool in pools:
        free = memory.available_buffers
        while (buffer := pool.try_request(len(taken) % 2)) is not None:
            taken.append(buffer)
        assert pool.used_buffers == pool.size_buffers + pool.max_overdraft_buffers == 12 + 20
        assert free - memory.available_buffers == 32
    for buffer in taken:
        buffer.recycle()
    for pool in pools:
        pool.destroy()
    assert memory.available_buffers == 200


@pytest.mark.row("S006")
def test_where_nothing_waits_buffers_that_are_missing_are_told_with_a_timeout_of_0() -> None:
    load, memory = load_plan_of(scenario_of(producers=2, consumers=1)), NetworkBufferPool(16, 1)
    taken = [memory.try_request_segment() for _ in range(16)]
    with pytest.raises(ExclusiveBuffersTimeoutError, match="the timeout which is 0ms"):
        gates_of(load.sinks[0], memory)
    assert taken.count(None) == 0


@pytest.mark.row("S006")
def test_remote_channels_have_exclusive_buffers_and_local_ones_have_none() -> None:
    spread = replace(scenario_of(producers=2, consumers=2), placement="spread")
    memory = NetworkBufferPool(100, 1)
    gate = gate_of(spread, memory)
    local, remote = gate.channels
    assert (local.is_local, remote.is_local) == (True, False)
    assert isinstance(remote, RemoteInputChannel)
    assert remote.buffers.available_buffers == 2
    assert memory.available_buffers == 100 - 2
    taken = remote.buffers.take()
    assert taken is not None
    assert remote.buffers.available_buffers == 1
    taken.recycle()
    assert remote.buffers.available_buffers == 2
    outstanding = remote.buffers.take()
    assert outstanding is not None
    remote.release()
    assert memory.available_buffers == 99
    outstanding.recycle()
    assert memory.available_buffers == 100


@pytest.mark.row("S012")
@pytest.mark.parametrize(
    ("flow_control", "exclusive", "required", "most"), [("credit", 2, 1, 8), ("tcp", 0, 4, 16)]
)
def test_a_gate_of_four_channels_is_set_up_by_its_flow_control(
    flow_control: str, exclusive: int, required: int, most: int
) -> None:
    memory = NetworkBufferPool(100, 1)
    gate = gate_of(scenario_of(producers=4, flow_control=flow_control), memory)
    pool = pool_of(gate)
    assert (pool.required_buffers, pool.max_buffers) == (required, most)
    for channel in gate.channels:
        assert isinstance(channel, RemoteInputChannel)
        assert channel.initial_credit == channel.buffers.available_buffers == exclusive
    assert memory.available_buffers == 100 - 4 * exclusive


@pytest.mark.row("S012")
def test_unbounded_partitions_have_unlimited_pools() -> None:
    unbounded = scenario_of(partition_type="pipelined", producers=4, consumers=4)
    assert load_plan_of(unbounded).sources[0].outputs[0].pool == PoolSize(5, UNLIMITED_BUFFERS)
    tcp = load_plan_of(replace(unbounded, flow_control="tcp"))
    assert tcp.sinks[0].inputs[0].buffers.pool == PoolSize(4, UNLIMITED_BUFFERS)
    blocking = load_plan_of(scenario_of(partition_type="blocking", producers=600, consumers=4))
    assert blocking.sinks[0].inputs[0].buffers.pool.required_buffers == 1000 - 600
    assert blocking.sources[0].outputs[0].pool == PoolSize(512, 512)


@pytest.mark.parametrize(
    ("required_max", "exclusive", "size"),
    [(1, 0, (1, 16)), (4, 0, (4, 16)), (5, 1, (1, 12)), (9, 2, (1, 8))],
)
def test_a_limit_takes_exclusive_buffers_from_the_channels_and_the_run_goes_on(
    required_max: int, exclusive: int, size: tuple[int, int]
) -> None:
    cluster = cluster_of(scenario_of(producers=4, records=500, required_max=required_max))
    (gate,) = cluster.gates
    pool = pool_of(gate)
    assert (pool.required_buffers, pool.max_buffers) == size
    channel = gate.channels[0]
    assert isinstance(channel, RemoteInputChannel)
    assert channel.initial_credit == exclusive
    cluster.run_until_idle()
    assert cluster.error is None
    assert sum(sink.records for task in cluster.sinks for sink in task.receivers) == 2000


def needs(load: LoadPlan) -> list[tuple[int, int]]:
    return [(each.exclusive_buffers, each.required_buffers) for each in load.buffers()]


def test_needs_are_counted_for_each_task_manager() -> None:
    assert needs(load_plan_of(scenario_of(producers=4, consumers=2))) == [(0, 12), (16, 2)]
    tcp = scenario_of(producers=4, consumers=2, flow_control="tcp")
    assert needs(load_plan_of(tcp)) == [(0, 12), (0, 8)]
    limited = scenario_of(producers=4, consumers=2, required_max=1)
    assert needs(load_plan_of(limited)) == [(0, 12), (0, 2)]
    assert TaskManagerBuffers(0, 0, 16, 2, 0, 0, 20).spare_buffers == 2


def test_local_channels_take_no_exclusive_buffers() -> None:
    spread = replace(scenario_of(producers=2, consumers=2), placement="spread")
    # each TaskManager: a partition of 2 subpartitions, and a gate of a local and a remote channel
    assert needs(load_plan_of(spread)) == [(2, 3 + 1), (2, 3 + 1)]


def test_what_is_needed_just_fits_and_one_buffer_less_is_refused() -> None:
    workload = {"producers": 4, "consumers": 2}
    load_plan_of(scenario_of(segments=18, **workload)).check_memory()
    cluster_of(scenario_of(segments=18, **workload, records=1)).run_until_idle()
    short = load_plan_of(scenario_of(segments=17, **workload))
    with pytest.raises(ConfigError) as raised:
        short.check_memory()
    for words in (
        "TaskManager 1 requires 18 (16 exclusive ones of channels and 2 of pools)",
        "has 17 of 4kb",
        "taskmanager.memory.network.min to 72kb or more",
        "taskmanager.memory.network.max",
        "taskmanager.memory.network.fraction",
        "taskmanager.memory.segment-size",
    ):
        assert words in str(raised.value)


def test_every_kind_of_buffer_counts_towards_the_most_that_can_be_taken() -> None:
    upstream, downstream = load_plan_of(scenario_of(producers=4, consumers=2)).buffers()
    assert upstream.most_buffers == 4 * (2 * 2 + 8 + 20)
    assert downstream.most_buffers == 2 * (4 * 2 + 8)
