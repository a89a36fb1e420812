"""Pool sizes of gates and partitions: Flink's formulas, as pure functions.

For n channels with E exclusive and F floating buffers, a gate without a limit has E buffers per
channel outside its pool and a pool of 1 to F; a bounded partition of s subpartitions has a pool of
s + 1 to s x E + F.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.errors import ConfigError

from .local_buffer_pool import UNLIMITED_BUFFERS

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
        exclusive_buffers: wanted per channel.
        floating_buffers: wanted for the gate.
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
    """Buffers of a gate without credit, as in Flink 1.5 to 1.8 (Flink:
    NetworkEnvironment.setupInputGate): all are in the pool, shared by the channels; one per channel
    is required.
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


@dataclass(frozen=True, slots=True)
class SortShuffle:
    """Settings of sort shuffle, in which a blocking partition sorts its records by subpartition.

    Attributes:
        min_buffers: `taskmanager.network.sort-shuffle.min-buffers`.
        min_parallelism: `taskmanager.network.sort-shuffle.min-parallelism`: partitions with fewer
            subpartitions keep them separate. Flink 2.x has no such partitions.
    """

    min_buffers: int = 512
    min_parallelism: int = 1

    def is_used_by(self, subpartitions: int, *, is_blocking: bool) -> bool:
        """Whether a partition uses sort shuffle."""
        return is_blocking and subpartitions >= self.min_parallelism

    def pool_size(self, subpartitions: int) -> PoolSize:
        """Pool size of a sorting partition (Flink: SortMergeResultPartition).

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
    """Pool size of a partition of any type (Flink:
    NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition).

    Raises: ConfigError.
    """
    if sort_shuffle.is_used_by(subpartitions, is_blocking=is_blocking):
        return sort_shuffle.pool_size(subpartitions)
    return output_pool_size(
        subpartitions, exclusive_buffers, floating_buffers, is_bounded=is_bounded
    )
