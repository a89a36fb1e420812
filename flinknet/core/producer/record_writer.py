"""RecordWriter: chooses channels, keeps what did not fit, and flushes by the rule of the buffer
timeout.

The batch path: records come as one numpy batch for each channel, already serialised. A batch that
meets an exhausted pool waits here with the position it reached, and the task must not bring more
until it is through: that is back pressure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .result_partition import BROADCAST, PipelinedResultPartition

Indices = slice | NDArray[np.intp]
"""Which records of a batch go to a channel; indexes an array without a copy where it is a slice."""


class SerializedRecords:
    """Records back to back, all of one length or of many, with their intended instants (implements
    RecordBytes).

    `data` is a memoryview of bytes; `instants_ns` an int64 array with one entry a record, or one
    int for all.
    """

    __slots__ = ("_ends", "_instants", "data", "record_bytes")

    def __init__(
        self,
        data: memoryview,
        instants_ns: NDArray[np.int64] | int,
        *,
        record_bytes: int = 0,
        ends: NDArray[np.int64] | None = None,
    ) -> None:
        self.data = data
        self.record_bytes = record_bytes
        self._ends = ends
        self._instants = instants_ns

    def locate(self, position: int) -> tuple[int, int]:
        """How far `position` lies inside its record (0: a record begins there), and where that
        record ends.
        """
        ends = self._ends
        if ends is None:
            into = position % self.record_bytes
            return into, position - into + self.record_bytes
        index = int(np.searchsorted(ends, position, side="right"))
        return position - (int(ends[index - 1]) if index else 0), int(ends[index])

    def ended_between(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Records whose last byte lies in [start, end): their number, first and last intended
        instant in ns.
        """
        if self._ends is None:
            first, last = start // self.record_bytes, end // self.record_bytes
        else:
            first, last = np.searchsorted(self._ends, (start, end), side="right").tolist()
        if first == last:
            return None
        instants = self._instants
        if isinstance(instants, int):
            return last - first, instants, instants
        return last - first, int(instants[first]), int(instants[last - 1])


class ChannelSelector(Protocol):
    """Which channel each record of a batch goes to (Flink: ChannelSelector)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> list[tuple[int, Indices]]:
        """For each channel that gets any of the next `records` records: which of them, in order."""


@dataclass(slots=True)
class ForwardSelector:
    """All to the one channel (Flink: ForwardPartitioner)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> list[tuple[int, Indices]]:
        """Everything to channel 0."""
        return [(0, slice(0, records))]


@dataclass(slots=True)
class BroadcastSelector:
    """Every record to every channel, in one shared buffer (Flink: BroadcastPartitioner)."""

    def split(self, records: int, keys: NDArray[np.int64] | None) -> list[tuple[int, Indices]]:
        """Everything to the shared buffer."""
        return [(BROADCAST, slice(0, records))]


@dataclass(slots=True)
class RebalanceSelector:
    """Round robin (Flink: RebalancePartitioner): `last_channel` starts anywhere, and each record
    takes the next.
    """

    channels: int
    last_channel: int

    def split(self, records: int, keys: NDArray[np.int64] | None) -> list[tuple[int, Indices]]:
        """Every n-th record to each channel, beginning behind the last one used."""
        channels, first = self.channels, self.last_channel + 1
        self.last_channel = (self.last_channel + records) % channels
        return [
            ((first + offset) % channels, slice(offset, records, channels))
            for offset in range(min(channels, records))
        ]


@dataclass(slots=True)
class KeyGroupSelector:
    """By key group (Flink: KeyGroupStreamPartitioner): murmur of the key's hash, modulo the maximum
    parallelism.
    """

    channels: int
    max_parallelism: int = 128

    def split(self, records: int, keys: NDArray[np.int64] | None) -> list[tuple[int, Indices]]:
        """Each record to the channel that owns its key group. `keys` are 32-bit hashes, as Java's
        hashCode.
        """
        if keys is None:
            raise ValueError("hash partitioning needs keys")
        channel_of = key_groups(keys, self.max_parallelism) * self.channels // self.max_parallelism
        return [
            (channel, picked)
            for channel in range(self.channels)
            if len(picked := np.flatnonzero(channel_of == channel))
        ]


def key_groups(key_hashes: NDArray[np.int64], max_parallelism: int) -> NDArray[np.int64]:
    """Key group of each 32-bit key hash (Flink: KeyGroupRangeAssignment)."""
    return murmur_hash(key_hashes) % max_parallelism


def murmur_hash(key_hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flink's murmur of 32-bit ints (MathUtils.murmurHash): never negative."""
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


class RecordWriter:
    """The writing end of one output edge (Flink: RecordWriter with its ChannelSelector)."""

    def __init__(
        self,
        partition: PipelinedResultPartition,
        selector: ChannelSelector,
        *,
        buffer_timeout_ns: int,
    ) -> None:
        self.partition = partition
        self.selector = selector
        self._flushes_each_record = buffer_timeout_ns == 0
        self._waiting: deque[tuple[int, SerializedRecords, int]] = deque()

    @property
    def is_available(self) -> bool:
        """Whether new records may be brought: nothing waits and the pool is available."""
        return not self._waiting and self.partition.pool.is_available

    @property
    def is_waiting(self) -> bool:
        """Whether records wait for buffers."""
        return bool(self._waiting)

    def emit(self, channel: int, records: SerializedRecords) -> None:
        """Write records to a channel (or BROADCAST); what finds no buffer waits.

        The memory of `records` must stay as it is until `is_waiting` is false.
        """
        if self._waiting:
            self._waiting.append((channel, records, 0))
            return
        self._write(channel, records, 0)

    def resume(self) -> bool:
        """Go on with what waits. Returns: whether all of it is written."""
        waiting, self._waiting = self._waiting, deque()
        for channel, records, position in waiting:
            if self._waiting:
                self._waiting.append((channel, records, position))
            else:
                self._write(channel, records, position)
        return not self._waiting

    def _write(self, channel: int, records: SerializedRecords, position: int) -> None:
        reached = self.partition.emit(channel, records, position)
        if reached < len(records.data):
            self._waiting.append((channel, records, reached))
        if self._flushes_each_record:
            if channel == BROADCAST:
                self.partition.flush_all()
            else:
                self.partition.flush(channel)
