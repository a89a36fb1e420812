"""Channel selectors: choose the consumers of a batch of records (Flink: StreamPartitioner and
ChannelSelector). Randomness and user functions are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from flinknet.errors import ConfigError

from .result_partition import BROADCAST

DEFAULT_MAX_PARALLELISM = 128
"""Key groups of a consumer with up to 85 subtasks, if no maximum parallelism is set."""


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: 31-polynomial over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def key_groups(key_hashes: NDArray[np.int64], max_parallelism: int) -> NDArray[np.int64]:
    """Key group of each 32-bit key hash (Flink: KeyGroupRangeAssignment)."""
    return murmur_hash(key_hashes) % max_parallelism


def murmur_hash(key_hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flink's murmur hash of 32-bit ints (MathUtils.murmurHash): never negative."""
    code = key_hashes.astype(np.uint32)
    code *= np.uint32(0xCC9E2D51)
    code = (code << np.uint32(15)) | (code >> np.uint32(17))
    code *= np.uint32(0x1B873593)
    code = (code << np.uint32(13)) | (code >> np.uint32(19))
    code = code * np.uint32(5) + np.uint32(0xE6546B64)
    code ^= np.uint32(4)
    code ^= code >> np.uint32(16)
    code *= np.uint32(0x85EBCA6B)
    code ^= code >> np.uint32(13)
    code *= np.uint32(0xC2B2AE35)
    code ^= code >> np.uint32(16)
    signed = code.view(np.int32).astype(np.int64)
    return np.where(signed == -(2**31), 0, np.abs(signed))


def default_max_parallelism(parallelism: int) -> int:
    """Key groups by default (Flink: KeyGroupRangeAssignment.computeDefaultMaxParallelism)."""
    wished = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(wished, DEFAULT_MAX_PARALLELISM), 1 << 15)


Indices = slice | NDArray[np.intp]
"""Records of a batch for a channel; a slice indexes an array without a copy."""

Split = list[tuple[int, Indices]]
"""For each channel that gets any records: these, in order."""


class ChannelSelector:
    """Chooses the channel of each record of a batch (Flink: ChannelSelector)."""

    __slots__ = ()
    needs_keys: ClassVar[bool] = False

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """The records of each channel that gets any of the next ones; `keys` are 32-bit hashes."""
        raise NotImplementedError


@dataclass(slots=True)
class ForwardSelector(ChannelSelector):
    """Sends all records to the only channel (Flink: ForwardPartitioner)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        return [(0, slice(0, records))]


@dataclass(slots=True)
class GlobalSelector(ForwardSelector):
    """Sends all records to the first channel (Flink: GlobalPartitioner)."""


@dataclass(slots=True)
class BroadcastSelector(ChannelSelector):
    """Sends every record to every channel, in one shared buffer (Flink: BroadcastPartitioner)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        return [(BROADCAST, slice(0, records))]


@dataclass(slots=True)
class RebalanceSelector(ChannelSelector):
    """Sends in turn to all channels (Flink: RebalancePartitioner); `last_channel` is any."""

    channels: int
    last_channel: int

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        channels, first = self.channels, self.last_channel + 1
        self.last_channel = (self.last_channel + records) % channels
        return [
            ((first + offset) % channels, slice(offset, records, channels))
            for offset in range(min(channels, records))
        ]


@dataclass(slots=True)
class RescaleSelector(RebalanceSelector):
    """Sends in turn to the producer's own channels, from 0 on (Flink: RescalePartitioner)."""

    last_channel: int = -1


@dataclass(slots=True)
class KeyGroupSelector(ChannelSelector):
    """Sends by key group, murmur of the key's hash (Flink: KeyGroupStreamPartitioner)."""

    channels: int
    max_parallelism: int = DEFAULT_MAX_PARALLELISM
    needs_keys: ClassVar[bool] = True

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        if keys is None:
            raise ValueError("hash partitioning needs keys")
        groups = key_groups(keys, self.max_parallelism)
        return _by_channel(groups * self.channels // self.max_parallelism, self.channels)


@dataclass(slots=True)
class ShuffleSelector(ChannelSelector):
    """Sends each record to a random channel (Flink: ShufflePartitioner), as `draw` returns them."""

    channels: int
    draw: Callable[[int], NDArray[np.int64]]

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        return _by_channel(self.draw(records), self.channels)


@dataclass(slots=True)
class CustomSelector(ChannelSelector):
    """Sends to `partition(key, channels)` of the program (Flink: CustomPartitionerWrapper)."""

    channels: int
    partition: Callable[[int, int], int]
    needs_keys: ClassVar[bool] = True

    def split(self, records: int, keys: NDArray[np.int64] | None) -> Split:
        """Raises: ConfigError if the function returns a channel that does not exist."""
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
