"""How large the pools of gates and partitions are: Flink's formulas, as functions of numbers.

For n channels with E exclusive and F floating buffers, a gate without a limit has E buffers for
each channel outside its pool and a pool of 1 to F; a bounded partition of s subpartitions has a
pool of s + 1 to s x E + F.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.errors import ConfigError

from .local_buffer_pool import UNLIMITED_BUFFERS

REQUIRED_PER_GATE_MAX_UNPIPELINED = 1000
"""Limit of what a gate requires where none is configured and its partition need not be read while
it is made (Flink: InputGateSpecUtils).
"""


@dataclass(frozen=True, slots=True)
class PoolSize:
    """What a pool can always get, and what it may grow to."""

    required_buffers: int
    max_buffers: int


@dataclass(frozen=True, slots=True)
class GateBuffers:
    """Buffers of an input gate: those each channel has to itself, and the pool of the gate."""

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

    Where the limit leaves no room for them, channels have fewer exclusive buffers and the pool of
    the gate more; a total of n x E + F stays the aim.

    Args:
        channels: of the gate, local ones too.
        exclusive_buffers: wanted for each channel.
        floating_buffers: wanted for the gate.
        required_max: buffers that the gate may require; None: no limit, or the one of partitions
            that need not be pipelined.
        must_be_pipelined: whether the partition is read while it is made, and only then.
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
    """Buffers of a gate without credit, as Flink 1.5 to 1.8 set it up (Flink:
    NetworkEnvironment.setupInputGate): all are in the pool for its channels to share, one for each
    of them required.
    """
    most = channels * exclusive_buffers + floating_buffers if is_bounded else UNLIMITED_BUFFERS
    return GateBuffers(0, PoolSize(channels, max(channels, most)))


def output_pool_size(
    subpartitions: int, exclusive_buffers: int, floating_buffers: int, *, is_bounded: bool = True
) -> PoolSize:
    """Pool of a partition that keeps its subpartitions apart."""
    required = subpartitions + 1
    most = subpartitions * exclusive_buffers + floating_buffers if is_bounded else UNLIMITED_BUFFERS
    return PoolSize(required, max(required, most))


@dataclass(frozen=True, slots=True)
class SortShuffle:
    """When a blocking partition sorts its records by subpartition in memory, and in how much.

    Attributes:
        min_buffers: `taskmanager.network.sort-shuffle.min-buffers`.
        min_parallelism: `taskmanager.network.sort-shuffle.min-parallelism`: partitions of fewer
            subpartitions keep them apart instead. Flink 2.x has no such partitions.
    """

    min_buffers: int = 512
    min_parallelism: int = 1

    def is_used_by(self, subpartitions: int, *, is_blocking: bool) -> bool:
        """Whether a partition sorts."""
        return is_blocking and subpartitions >= self.min_parallelism

    def pool_size(self, subpartitions: int) -> PoolSize:
        """Pool of a partition that sorts (Flink: SortMergeResultPartition).

        Raises: ConfigError for fewer than 2 buffers.
        """
        if self.min_buffers < 2:
            raise ConfigError(
                f"taskmanager.network.sort-shuffle.min-buffers: {self.min_buffers} is too little"
                " for a blocking exchange; give 2 or more"
            )
        return PoolSize(self.min_buffers, max(self.min_buffers, 4 * subpartitions))


def partition_pool_size(
    subpartitions: int,
    exclusive_buffers: int,
    floating_buffers: int,
    sort_shuffle: SortShuffle,
    *,
    is_bounded: bool,
    is_blocking: bool,
) -> PoolSize:
    """Pool of a partition of any type (Flink:
    NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition).

    Raises: ConfigError.
    """
    if sort_shuffle.is_used_by(subpartitions, is_blocking=is_blocking):
        return sort_shuffle.pool_size(subpartitions)
    return output_pool_size(
        subpartitions, exclusive_buffers, floating_buffers, is_bounded=is_bounded
    )
