"""Channel selectors: choose the consumer of a record (Flink: StreamPartitioner and
ChannelSelector).

They work on batches: `split` returns the records of each channel. Randomness and user functions are
arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from flinknet.errors import ConfigError

from .key_groups import DEFAULT_MAX_PARALLELISM, key_groups
from .result_partition import BROADCAST

Indices = slice | NDArray[np.intp]
"""Records of a batch for a channel; a slice indexes an array without a copy."""

Split = list[tuple[int, Indices]]
"""For each channel that gets any records: these, in order."""


class ChannelSelector:
    """Chooses the channel of each record of a batch (Flink: ChannelSelector).

    Attributes:
        needs_keys: whether `split` requires keys.
    """

    __slots__ = ()
    needs_keys: ClassVar[bool] = False

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """The records of each channel that gets any of the next `records` records, in order.

        `keys` are 32-bit hashes, like Java's hashCode.
        """
        raise NotImplementedError


@dataclass(slots=True)
class ForwardSelector(ChannelSelector):
    """Sends all records to the only channel (Flink: ForwardPartitioner)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """All records to channel 0."""
        return [(0, slice(0, records))]


@dataclass(slots=True)
class GlobalSelector(ChannelSelector):
    """Sends all records to the first channel (Flink: GlobalPartitioner)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        return [(0, slice(0, records))]


@dataclass(slots=True)
class BroadcastSelector(ChannelSelector):
    """Sends every record to every channel, in one shared buffer (Flink: BroadcastPartitioner)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """All records to the shared buffer."""
        return [(BROADCAST, slice(0, records))]


@dataclass(slots=True)
class RebalanceSelector(ChannelSelector):
    """Sends records in turn to all channels (Flink: RebalancePartitioner); `last_channel` starts
    anywhere.
    """

    channels: int
    last_channel: int

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """Every n-th record to each channel, starting after the last one used."""
        channels, first = self.channels, self.last_channel + 1
        self.last_channel = (self.last_channel + records) % channels
        return [
            ((first + offset) % channels, slice(offset, records, channels))
            for offset in range(min(channels, records))
        ]


@dataclass(slots=True)
class RescaleSelector(RebalanceSelector):
    """Sends records in turn to the producer's own few channels, starting at channel 0 (Flink:
    RescalePartitioner).
    """

    last_channel: int = -1


@dataclass(slots=True)
class KeyGroupSelector(ChannelSelector):
    """Sends records by key group (Flink: KeyGroupStreamPartitioner): murmur of the key's hash,
    modulo the maximum parallelism.
    """

    channels: int
    max_parallelism: int = DEFAULT_MAX_PARALLELISM
    needs_keys: ClassVar[bool] = True

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """Each record to the channel of its key group."""
        if keys is None:
            raise ValueError("hash partitioning needs keys")
        groups = key_groups(keys, self.max_parallelism)
        return _by_channel(groups * self.channels // self.max_parallelism, self.channels)


@dataclass(slots=True)
class ShuffleSelector(ChannelSelector):
    """Sends each record to a random channel (Flink: ShufflePartitioner).

    `draw` returns this many channels, uniform in [0, channels).
    """

    channels: int
    draw: Callable[[int], NDArray[np.int64]]

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """Each record to its random channel."""
        return _by_channel(self.draw(records), self.channels)


@dataclass(slots=True)
class CustomSelector(ChannelSelector):
    """Sends records by a function of the program (Flink: CustomPartitionerWrapper):
    `partition(key, channels)` returns a channel.
    """

    channels: int
    partition: Callable[[int, int], int]
    needs_keys: ClassVar[bool] = True

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """Each record to the channel that the function returns.

        Raises: ConfigError if that does not exist.
        """
        if keys is None:
            raise ValueError("custom partitioning needs keys")
        chosen = [self.partition(key, self.channels) for key in keys.tolist()]
        for channel in chosen:
            if not isinstance(channel, int) or not 0 <= channel < self.channels:
                raise ConfigError(
                    f"the custom partitioner chose channel {channel!r}; it must return one of 0 to"
                    f" {self.channels - 1}"
                )
        return _by_channel(np.array(chosen, np.int64), self.channels)


def _by_channel(channel_of: NDArray[np.int64], channels: int) -> Split:
    return [
        (channel, picked)
        for channel in range(channels)
        if len(picked := np.flatnonzero(channel_of == channel))
    ]
