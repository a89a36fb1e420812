"""Network memory: what tasks need of it, added up for each TaskManager, and whether it is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flinknet.config import NetworkConfig
from flinknet.core.buffers.pool_sizes import GateBuffers, PoolSize
from flinknet.units import format_size_bytes


@dataclass(frozen=True, slots=True)
class TaskBuffers:
    """Network buffers of one task, by the kinds of TaskManagerBuffers."""

    task_manager: int
    stage: int
    exclusive_buffers: int
    required_buffers: int
    optional_buffers: int
    overdraft_buffers: int


@dataclass(frozen=True, slots=True)
class TaskManagerBuffers:
    """Network buffers of a TaskManager while a stage runs.

    Attributes:
        total_buffers: what it has.
        exclusive_buffers: taken by remote channels for themselves, when they are set up.
        required_buffers: what pools of partitions and gates can always get.
        optional_buffers: what these pools use on top of that, if there is enough.
        overdraft_buffers: what partitions may borrow beyond that, to end a record.
    """

    task_manager: int
    stage: int
    total_buffers: int
    exclusive_buffers: int
    required_buffers: int
    optional_buffers: int
    overdraft_buffers: int

    @property
    def needed_buffers(self) -> int:
        """Without these its tasks do not start."""
        return self.exclusive_buffers + self.required_buffers

    @property
    def spare_buffers(self) -> int:
        """What is left for pools to grow; negative if there is too little."""
        return self.total_buffers - self.needed_buffers

    @property
    def wanted_buffers(self) -> int:
        """With these no task ever waits for want of them."""
        return self.needed_buffers + self.optional_buffers

    @property
    def most_buffers(self) -> int:
        """What its tasks can ever take."""
        return self.wanted_buffers + self.overdraft_buffers


def segments_of(network: NetworkConfig) -> int:
    """Segments of one TaskManager's network memory."""
    return network.network_memory_bytes // network.segment_size_bytes


def task_buffers(
    task_manager: int,
    stage: int,
    partitions: Iterable[tuple[PoolSize, int]],
    gates: Iterable[tuple[int, GateBuffers]],
) -> TaskBuffers:
    """What one task needs.

    Args:
        partitions: for each the size of its pool, and its overdraft buffers.
        gates: for each the number of its remote channels, and its buffers.
    """
    exclusive = required = optional = overdraft = 0
    for pool, overdraft_buffers in partitions:
        required += pool.required_buffers
        optional += pool.max_buffers - pool.required_buffers
        overdraft += overdraft_buffers
    for remote_channels, buffers in gates:
        exclusive += remote_channels * buffers.exclusive_per_channel
        required += buffers.pool.required_buffers
        optional += buffers.pool.max_buffers - buffers.pool.required_buffers
    return TaskBuffers(task_manager, stage, exclusive, required, optional, overdraft)


def buffers_by_task_manager(
    tasks: Iterable[TaskBuffers], task_managers: int, network: NetworkConfig
) -> list[TaskManagerBuffers]:
    """What each TaskManager needs, in the stage in which it needs most."""
    total = segments_of(network)
    sums: list[dict[int, list[int]]] = [{0: [0, 0, 0, 0]} for _ in range(task_managers)]
    for each in tasks:
        own = sums[each.task_manager].setdefault(each.stage, [0, 0, 0, 0])
        own[0] += each.exclusive_buffers
        own[1] += each.required_buffers
        own[2] += each.optional_buffers
        own[3] += each.overdraft_buffers
    return [
        max(
            (
                TaskManagerBuffers(task_manager, stage, total, *own)
                for stage, own in sorted(stages.items())
            ),
            key=lambda each: each.needed_buffers,
        )
        for task_manager, stages in enumerate(sums)
    ]


def shortage(buffers: Sequence[TaskManagerBuffers], network: NetworkConfig) -> str | None:
    """Why tasks would not start with the memory there is, and what would do; None: they would."""
    worst = min(buffers, key=lambda each: each.spare_buffers)
    if worst.spare_buffers >= 0:
        return None
    size = network.segment_size_bytes
    return (
        f"insufficient number of network buffers: TaskManager {worst.task_manager} requires"
        f" {worst.needed_buffers} ({worst.exclusive_buffers} exclusive ones of channels and"
        f" {worst.required_buffers} of pools), but has {worst.total_buffers} of"
        f" {format_size_bytes(size)}; set taskmanager.memory.network.min to"
        f" {format_size_bytes(worst.needed_buffers * size)} or more (and"
        " taskmanager.memory.network.max to no less), raise taskmanager.memory.network.fraction of"
        " a given total, use more TaskManagers, or take a smaller taskmanager.memory.segment-size"
    )
