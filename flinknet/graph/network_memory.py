"""Network memory: the demand of tasks, summed per TaskManager, and whether it is met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flinknet.config import NetworkConfig
from flinknet.core.buffers.pool_sizes import GateBuffers, PoolSize
from flinknet.units import format_size_bytes


@dataclass(frozen=True, slots=True)
class TaskBuffers:
    """Network buffers of one task, by kind as in TaskManagerBuffers."""

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
        task_manager: its number; -1 for any.
        total_buffers: available buffers.
        exclusive_buffers: reserved by remote channels at setup.
        required_buffers: guaranteed to the pools of partitions and gates.
        optional_buffers: used by these pools in addition, if available.
        overdraft_buffers: borrowed by partitions beyond that, to complete a record.
    """

    task_manager: int
    stage: int
    total_buffers: int
    exclusive_buffers: int
    required_buffers: int
    optional_buffers: int
    overdraft_buffers: int

    @property
    def name(self) -> str:
        return "a TaskManager" if self.task_manager < 0 else f"TaskManager {self.task_manager}"

    @property
    def needed_buffers(self) -> int:
        """Buffers without which the tasks do not start."""
        return self.exclusive_buffers + self.required_buffers

    @property
    def spare_buffers(self) -> int:
        """Buffers left for pools to grow; negative if there are too few."""
        return self.total_buffers - self.needed_buffers

    @property
    def wanted_buffers(self) -> int:
        """Buffers with which no task ever waits for lack of them."""
        return self.needed_buffers + self.optional_buffers

    @property
    def most_buffers(self) -> int:
        return self.wanted_buffers + self.overdraft_buffers


def segments_of(network: NetworkConfig) -> int:
    return network.network_memory_bytes // network.segment_size_bytes


def task_buffers(
    task_manager: int,
    stage: int,
    partitions: Iterable[tuple[PoolSize, int]],
    gates: Iterable[tuple[int, GateBuffers]],
) -> TaskBuffers:
    """The demand of one task.

    Args:
        partitions: pool size and overdraft buffers of each.
        gates: number of remote channels and buffers of each.
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
    """The demand of each TaskManager, in its most demanding stage."""
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
    """Why tasks would not start with the given memory, and the remedy; None if they would."""
    worst = min(buffers, key=lambda each: each.spare_buffers)
    if worst.spare_buffers >= 0:
        return None
    return (
        f"insufficient number of network buffers: {worst.name} requires"
        f" {worst.needed_buffers} ({worst.exclusive_buffers} exclusive ones of channels and"
        f" {worst.required_buffers} of pools), but has {worst.total_buffers} of"
        f" {format_size_bytes(network.segment_size_bytes)};"
        f" {_more_memory(worst.needed_buffers, network)}, raise taskmanager.memory.network.fraction"
        " of a given total, use more TaskManagers, or take a smaller"
        " taskmanager.memory.segment-size"
    )


def below_full_speed(buffers: Sequence[TaskManagerBuffers], network: NetworkConfig) -> str | None:
    """Why tasks may wait for buffers with the given memory, and the remedy; None if they have all
    that their pools would use.
    """
    worst = max(buffers, key=lambda each: each.wanted_buffers - each.total_buffers)
    if worst.wanted_buffers <= worst.total_buffers:
        return None
    return (
        f"{worst.name} has {worst.total_buffers} buffers of"
        f" {format_size_bytes(network.segment_size_bytes)}, and its pools would use"
        f" {worst.wanted_buffers} at full speed; {_more_memory(worst.wanted_buffers, network)}"
    )


def _more_memory(buffers: int, network: NetworkConfig) -> str:
    size = format_size_bytes(buffers * network.segment_size_bytes)
    return (
        f"set taskmanager.memory.network.min to {size} or more (and"
        " taskmanager.memory.network.max to no less)"
    )
