"""What a deployment needs of network memory: pool sizes of its partitions and gates, and whether
each TaskManager has enough for them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from flinknet.config import TCP, NetworkConfig, Scenario
from flinknet.core.buffers.pool_sizes import (
    GateBuffers,
    PoolSize,
    SortShuffle,
    classic_gate_buffers,
    gate_buffers,
)
from flinknet.core.buffers.pool_sizes import partition_pool_size as size_of_pool
from flinknet.core.producer import partition_type_of
from flinknet.errors import ConfigError
from flinknet.units import format_size_bytes

from .deployment import Deployment


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Buffers of one TaskManager: what it has, and what must be there before its tasks start.

    Attributes:
        exclusive_buffers: taken by remote channels for themselves.
        required_buffers: those that the pools of its partitions and gates can always get.
    """

    task_manager: int
    total_buffers: int
    exclusive_buffers: int
    required_buffers: int

    @property
    def spare_buffers(self) -> int:
        """What is left for pools to grow; negative if there is too little."""
        return self.total_buffers - self.exclusive_buffers - self.required_buffers


def segments_of(network: NetworkConfig) -> int:
    """Segments of one TaskManager's network memory."""
    return network.network_memory_bytes // network.segment_size_bytes


def partition_pool_size(scenario: Scenario, subpartitions: int) -> PoolSize:
    """Size of the pool of a result partition."""
    network = scenario.network
    kind = partition_type_of(scenario.workload.partition_type)
    return size_of_pool(
        subpartitions,
        network.exclusive_buffers,
        network.floating_buffers,
        SortShuffle(network.sort_shuffle_min_buffers, network.sort_shuffle_min_parallelism),
        is_bounded=kind.is_bounded,
        is_blocking=kind.is_blocking_or_blocking_persistent,
    )


def buffers_of_gate(scenario: Scenario, channels: int) -> GateBuffers:
    """Exclusive buffers of each channel of a gate, and the size of its pool."""
    network = scenario.network
    kind = partition_type_of(scenario.workload.partition_type)
    numbers = (channels, network.exclusive_buffers, network.floating_buffers)
    if scenario.flow_control == TCP:
        return classic_gate_buffers(*numbers, has_credit=False, is_bounded=kind.is_bounded)
    return gate_buffers(
        *numbers,
        required_max=network.required_buffers_per_gate_max,
        must_be_pipelined=kind.must_be_pipelined_consumed,
    )


def memory_needs(deployment: Deployment) -> tuple[MemoryNeed, ...]:
    """What each TaskManager has and needs."""
    scenario = deployment.scenario
    subpartitions: Counter[tuple[int, int]] = Counter()
    channels: Counter[tuple[int, int]] = Counter()
    remote: Counter[tuple[int, int]] = Counter()
    for each in deployment.channels:
        subpartitions[each.edge, each.producer] += 1
        channels[each.edge, each.consumer] += 1
        remote[each.edge, each.consumer] += not deployment.is_local(each)
    exclusive: Counter[int] = Counter()
    required: Counter[int] = Counter()
    for (edge, producer), count in subpartitions.items():
        index = deployment.vertices[deployment.edges[edge].source].task_managers[producer]
        required[index] += partition_pool_size(scenario, count).required_buffers
    for (edge, consumer), count in channels.items():
        index = deployment.vertices[deployment.edges[edge].target].task_managers[consumer]
        buffers = buffers_of_gate(scenario, count)
        exclusive[index] += buffers.exclusive_per_channel * remote[edge, consumer]
        required[index] += buffers.pool.required_buffers
    total = segments_of(scenario.network)
    return tuple(
        MemoryNeed(index, total, exclusive[index], required[index])
        for index in range(scenario.task_managers)
    )


def most_buffers(deployment: Deployment, task_manager: int) -> int:
    """What the pools of a TaskManager can ever take."""
    scenario = deployment.scenario
    needed = 0
    for edge in deployment.edges:
        for producer in deployment.vertices[edge.source].subtasks_on(task_manager):
            subpartitions = len(deployment.channels_of_producer(producer, edge.index))
            needed += partition_pool_size(scenario, subpartitions).max_buffers
            needed += scenario.network.max_overdraft_buffers
        for consumer in deployment.vertices[edge.target].subtasks_on(task_manager):
            channels = len(deployment.channels_of_consumer(consumer, edge.index))
            buffers = buffers_of_gate(scenario, channels)
            needed += channels * buffers.exclusive_per_channel + buffers.pool.max_buffers
    return needed


def check_memory(deployment: Deployment) -> None:
    """Refuse a deployment whose buffers do not fit, before anything is started.

    Raises: ConfigError with the numbers, and with what would do.
    """
    network = deployment.scenario.network
    worst = min(memory_needs(deployment), key=lambda need: need.spare_buffers)
    if worst.spare_buffers >= 0:
        return
    needed = worst.exclusive_buffers + worst.required_buffers
    raise ConfigError(
        f"insufficient number of network buffers: TaskManager {worst.task_manager} requires"
        f" {needed} ({worst.exclusive_buffers} exclusive ones of channels and"
        f" {worst.required_buffers} of pools), but has {worst.total_buffers} of"
        f" {format_size_bytes(network.segment_size_bytes)}; set taskmanager.memory.network.min to"
        f" {format_size_bytes(needed * network.segment_size_bytes)} or more (and"
        " taskmanager.memory.network.max to no less), raise taskmanager.memory.network.fraction of"
        " a given total, or take a smaller taskmanager.memory.segment-size"
    )
