# mypyc
"""PartitionedFile: the data file and the index file of a sort-merge partition.

Data is written region by region. In a region the buffers of a subpartition are adjacent; the index
has an entry per region and subpartition. Broadcast data is written once, and the entries of all
subpartitions refer to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.core.wire.stored_buffers import (
    INDEX_ENTRY_BYTES,
    STORED_HEADER_BYTES,
    decode_index_entry,
    encode_index_entry,
)
from flinknet.errors import FrameCorruptedError, LocalTransportError

from .bounded_data import BoundedData
from .stored_buffer import StoredBuffer, read_stored

_BROADCAST = 0
"""The subpartition that broadcast data is written for."""


class PartitionedFile:
    """A file that is written completely, then read by subpartition (Flink: PartitionedFile with its
    writer and reader).

    Attributes:
        regions: number of complete regions.
    """

    def __init__(self, subpartitions: int, data: BoundedData, index: BoundedData) -> None:
        self.regions = 0
        self._data = data
        self._index = index
        self._written_bytes = 0
        self._offsets = [0] * subpartitions
        self._sizes = [0] * subpartitions
        self._current = -1
        self._stored: list[dict[int, list[StoredBuffer]]] = [{}]
        self._is_shared = [False]

    def start_region(self, *, is_broadcast: bool) -> None:
        """Begin a region."""
        self._end_region()
        self._is_shared[-1] = is_broadcast

    def write(self, buffers: Sequence[tuple[int, StoredBuffer, bytes | memoryview]]) -> None:
        """Append buffers with their subpartition and bytes, whose memory may be reused afterwards.

        Raises: LocalTransportError if the file cannot be written.
        """
        region = self._stored[-1]
        pieces: list[bytes | memoryview] = []
        for subpartition, each, payload in buffers:
            if subpartition != self._current:
                assert subpartition not in region, "a subpartition's buffers lie together"
                region[subpartition] = []
                self._offsets[subpartition] = self._written_bytes
                self._current = subpartition
            region[subpartition].append(each)
            size_bytes = STORED_HEADER_BYTES + each.size_bytes
            self._sizes[subpartition] += size_bytes
            self._written_bytes += size_bytes
            pieces.append(each.header())
            pieces.append(payload)
        self._data.write(pieces)

    def finish(self) -> None:
        """End the file. Raises: LocalTransportError."""
        self._end_region()
        self._data.finish()
        self._index.finish()

    def region_of(self, region: int, subpartition: int) -> tuple[int, int, Sequence[StoredBuffer]]:
        """The offset, size in bytes and buffers of a subpartition's part of a region.

        Raises: LocalTransportError if the index file does not contain them.
        """
        entry = memoryview(bytearray(INDEX_ENTRY_BYTES))
        place = (region * len(self._sizes) + subpartition) * INDEX_ENTRY_BYTES
        read_bytes = self._index.read(place, (entry,))
        try:
            offset, size_bytes = decode_index_entry(entry[:read_bytes])
        except FrameCorruptedError as error:  # not data from a peer
            raise LocalTransportError(f"{error} at {place} of an index file") from error
        buffers = self._stored[region].get(_BROADCAST if self._is_shared[region] else subpartition)
        found: Sequence[StoredBuffer] = () if buffers is None else buffers
        written_bytes = sum([STORED_HEADER_BYTES + each.size_bytes for each in found])
        if size_bytes != written_bytes:
            raise LocalTransportError(
                f"{size_bytes} bytes by an index file, at {place}, where {written_bytes} were"
                " written; was it changed?"
            )
        return offset, size_bytes, found

    def read(self, offset: int, buffers: Sequence[StoredBuffer], into: Sequence[memoryview]) -> int:
        """Read buffers of one part of a region, each into its own memory.

        Returns: the offset of the next buffer.

        Raises: LocalTransportError if the data file does not contain them.
        """
        return read_stored(self._data, offset, buffers, into)

    def release(self) -> None:
        """Remove both files. Idempotent."""
        self._data.release()
        self._index.release()

    def _end_region(self) -> None:
        if self._current < 0:
            return
        count = len(self._sizes)
        places = [_BROADCAST] * count if self._is_shared[-1] else list(range(count))
        self._index.write(
            [encode_index_entry(self._offsets[each], self._sizes[each]) for each in places]
        )
        self.regions += 1
        self._stored.append({})
        self._is_shared.append(False)
        self._sizes = [0] * count
        self._current = -1
