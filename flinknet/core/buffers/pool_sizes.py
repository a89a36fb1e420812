"""Pool sizes of gates and partitions: Flink's formulas, as pure functions; and the network memory
that the pools of tasks need on a TaskManager.

For n channels with E exclusive and F floating buffers, a gate without a limit has E buffers per
channel outside its pool and a pool of 1 to F; a bounded partition of s subpartitions has a pool of
s + 1 to s x E + F.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flinknet.errors import ConfigError
from flinknet.units import format_size_bytes

from .buffer_pools import UNLIMITED_BUFFERS

REQUIRED_PER_GATE_MAX_UNPIPELINED = 1000
"""Default limit of a gate's required buffers if its partition need not be read while it is produced
(Flink: InputGateSpecUtils).
"""


@dataclass(frozen=True, slots=True)
class PoolSize:
    """Guaranteed and maximum size of a pool."""

    required_buffers: int
    max_buffers: int


@dataclass(frozen=True, slots=True)
class GateBuffers:
    """Buffers of an input gate: exclusive ones per channel, and the pool."""

    exclusive_per_channel: int
    pool: PoolSize


def gate_buffers(
    channels: int,
    exclusive_buffers: int,
    floating_buffers: int,
    *,
    required_max: int | None = None,
    must_be_pipelined: bool = True,
) -> GateBuffers:
    """Buffers of a gate with credit (Flink: GateBuffersSpec).

    If the limit is too low for them, channels have fewer exclusive buffers and the pool has more;
    the target total is still n x E + F.

    Args:
        channels: number of channels, including local ones.
        required_max: most buffers that the gate may require; None: no limit, or the default for
            partitions that need not be pipelined.
        must_be_pipelined: whether the partition can be read only while it is produced.
    """
    if required_max is None and not must_be_pipelined:
        required_max = REQUIRED_PER_GATE_MAX_UNPIPELINED
    required = channels * exclusive_buffers + 1
    if required_max is not None:
        required = min(required, required_max)
    per_channel = min(exclusive_buffers, (required - 1) // channels) if channels else 0
    floating_required = required - per_channel * channels
    floating_max = channels * (exclusive_buffers - per_channel) + floating_buffers
    return GateBuffers(
        per_channel, PoolSize(floating_required, max(floating_required, floating_max))
    )


def creditless_gate_buffers(
    channels: int, exclusive_buffers: int, floating_buffers: int, *, is_bounded: bool = True
) -> GateBuffers:
    """Buffers of a gate without credit, as in Flink 1.5 to 1.8 (NetworkEnvironment.setupInputGate):
    all are in the pool, one per channel is required.
    """
    most = channels * exclusive_buffers + floating_buffers if is_bounded else UNLIMITED_BUFFERS
    return GateBuffers(0, PoolSize(channels, max(channels, most)))


def output_pool_size(
    subpartitions: int, exclusive_buffers: int, floating_buffers: int, *, is_bounded: bool = True
) -> PoolSize:
    """Pool size of a partition with separate subpartitions."""
    required = subpartitions + 1
    most = subpartitions * exclusive_buffers + floating_buffers if is_bounded else UNLIMITED_BUFFERS
    return PoolSize(required, max(required, most))


def sort_shuffle_pool_size(subpartitions: int, min_buffers: int) -> PoolSize:
    """Pool size of a blocking partition, which sorts its records by subpartition; `min_buffers` is
    `taskmanager.network.sort-shuffle.min-buffers`. Raises: ConfigError for fewer than 2.
    """
    if min_buffers < 2:
        raise ConfigError(
            f"taskmanager.network.sort-shuffle.min-buffers: {min_buffers} is too little for a"
            " blocking exchange; give 2 or more"
        )
    return PoolSize(min_buffers, max(min_buffers, 4 * subpartitions))


def partition_pool_size(
    subpartitions: int,
    exclusive_buffers: int,
    floating_buffers: int,
    sort_shuffle_min_buffers: int,
    *,
    is_bounded: bool,
    is_blocking: bool,
) -> PoolSize:
    """Pool size of a partition of any type (Flink:
    NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition). Raises: ConfigError.
    """
    if is_blocking:
        return sort_shuffle_pool_size(subpartitions, sort_shuffle_min_buffers)
    return output_pool_size(
        subpartitions, exclusive_buffers, floating_buffers, is_bounded=is_bounded
    )


@dataclass(frozen=True, slots=True)
class TaskBuffers:
    """Network buffers of one task; of any TaskManager, if that is -1.

    Attributes:
        exclusive_buffers: reserved by remote channels at setup.
        required_buffers: guaranteed to the pools of partitions and gates.
        optional_buffers: used by these pools in addition, if available.
        overdraft_buffers: borrowed by partitions beyond that, to complete a record.
    """

    task_manager: int
    stage: int
    exclusive_buffers: int
    required_buffers: int
    optional_buffers: int
    overdraft_buffers: int

    @property
    def demand(self) -> tuple[int, int, int, int]:
        required, optional = self.required_buffers, self.optional_buffers
        return self.exclusive_buffers, required, optional, self.overdraft_buffers


@dataclass(frozen=True, slots=True)
class TaskManagerBuffers(TaskBuffers):
    """Network buffers of the tasks of a TaskManager while a stage runs, and all that it has."""

    total_buffers: int

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


def task_buffers(
    task_manager: int,
    stage: int,
    partitions: Iterable[tuple[PoolSize, int]],
    gates: Iterable[tuple[int, GateBuffers]],
) -> TaskBuffers:
    """The demand of one task: of its partitions with their overdraft, of its gates with their
    remote channels.
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
    tasks: Iterable[TaskBuffers], task_managers: int, total_buffers: int
) -> list[TaskManagerBuffers]:
    """The demand of each TaskManager, in its most demanding stage."""
    nothing = 0, 0, 0, 0
    sums: list[dict[int, tuple[int, int, int, int]]] = [{0: nothing} for _ in range(task_managers)]
    for each in tasks:
        stages = sums[each.task_manager]
        pairs = zip(stages.get(each.stage, nothing), each.demand, strict=True)
        exclusive, required, optional, overdraft = map(sum, pairs)
        stages[each.stage] = exclusive, required, optional, overdraft
    return [
        max(
            (
                TaskManagerBuffers(task_manager, stage, *own, total_buffers)
                for stage, own in sorted(stages.items())
            ),
            key=lambda each: each.needed_buffers,
        )
        for task_manager, stages in enumerate(sums)
    ]


def shortage(buffers: Sequence[TaskManagerBuffers], segment_size_bytes: int) -> str | None:
    """Why tasks would not start with the given memory, and the remedy; None if they would."""
    worst = min(buffers, key=lambda each: each.spare_buffers)
    if worst.spare_buffers >= 0:
        return None
    return (
        f"insufficient number of network buffers: {worst.name} requires"
        f" {worst.needed_buffers} ({worst.exclusive_buffers} exclusive ones of channels and"
        f" {worst.required_buffers} of pools), but has {worst.total_buffers} of"
        f" {format_size_bytes(segment_size_bytes)};"
        f" {_more_memory(worst.needed_buffers, segment_size_bytes)}, raise"
        " taskmanager.memory.network.fraction within that max, use more TaskManagers, or take a"
        " smaller taskmanager.memory.segment-size"
    )


def below_full_speed(buffers: Sequence[TaskManagerBuffers], segment_size_bytes: int) -> str | None:
    """Why tasks may wait for buffers with the given memory, and the remedy; None if never."""
    worst = max(buffers, key=lambda each: each.wanted_buffers - each.total_buffers)
    if worst.wanted_buffers <= worst.total_buffers:
        return None
    return (
        f"{worst.name} has {worst.total_buffers} buffers of"
        f" {format_size_bytes(segment_size_bytes)}, and its pools would use"
        f" {worst.wanted_buffers} at full speed;"
        f" {_more_memory(worst.wanted_buffers, segment_size_bytes)}"
    )


def _more_memory(buffers: int, segment_size_bytes: int) -> str:
    size = format_size_bytes(buffers * segment_size_bytes)
    return (
        f"set taskmanager.memory.network.min to {size} or more (and"
        " taskmanager.memory.network.max to no less)"
    )
