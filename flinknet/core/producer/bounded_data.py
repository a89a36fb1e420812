# mypyc
"""BoundedData: where the bytes of blocking partitions are; StoredBuffer: metadata of one buffer or
event there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flinknet.core.buffers import BufferSlice, DataType, MemorySegment, NetworkBuffer
from flinknet.core.buffers.buffer import Recycler
from flinknet.core.probe import FlushReason
from flinknet.core.wire.buffer_response import STORED_HEADER
from flinknet.core.wire.compression import CompressionCodec, compress
from flinknet.errors import LocalTransportError

from .data_buffer import Piece

_DATA, _EVENT = int(DataType.DATA_BUFFER), int(DataType.EVENT_BUFFER)
_FULL, _OF_EVENT = int(FlushReason.FULL), int(FlushReason.EVENT)


class BoundedData(Protocol):
    """Bytes that are written once, then read at any offset, then removed (Flink: BoundedData).
    Every method raises TransportError if the storage fails.
    """

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append bytes; the memory may be reused after the call."""

    def finish(self) -> None:
        """End writing."""

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill the memory pieces in order with the bytes from an offset on. Returns: bytes read;
        fewer than requested only at the end of the data.
        """

    def release(self) -> None:
        """Remove the bytes. Idempotent."""


class StoredBuffer:
    """Metadata of a stored buffer, for readers and for the trace; `size_bytes` is that as stored.
    As in Flink, stored events lose their type: none of them blocks or has priority.
    """

    def __init__(
        self,
        piece: BufferSlice | Piece,
        size_bytes: int,
        reason: int,
        *,
        is_event: bool,
        is_compressed: bool,
    ) -> None:
        self.size_bytes = size_bytes
        self.data_type = _EVENT if is_event else _DATA
        self.is_compressed = is_compressed
        self.records = piece.records
        self.first_record_ns = piece.first_record_ns
        self.last_record_ns = piece.last_record_ns
        self.reason = _OF_EVENT if is_event else reason or _FULL

    @property
    def is_buffer(self) -> bool:
        return self.data_type == _DATA

    def header(self) -> bytes:
        return STORED_HEADER.pack(not self.is_buffer, self.is_compressed, self.size_bytes)

    def slice_of(self, segment: MemorySegment, recycler: Recycler) -> BufferSlice:
        """The buffer to pass on to a consumer, with its bytes in `segment`."""
        buffer = NetworkBuffer(segment, recycler, self.data_type, self.size_bytes)
        buffer.is_compressed = int(self.is_compressed)
        return BufferSlice(
            buffer,
            segment.view[: self.size_bytes],
            self.size_bytes,
            self.records,
            self.first_record_ns,
            self.last_record_ns,
            self.reason,
        )


def stored(
    codec: CompressionCodec, piece: BufferSlice | Piece, reason: int, *, is_event: bool
) -> tuple[StoredBuffer, bytes | memoryview]:
    """A buffer or event and its bytes as stored: data is compressed if that makes it smaller."""
    payload = piece.payload
    compressed = None if is_event else compress(codec, payload)
    data: bytes | memoryview = payload if compressed is None else compressed
    is_compressed = compressed is not None
    found = StoredBuffer(piece, len(data), reason, is_event=is_event, is_compressed=is_compressed)
    return found, data


def read_stored(
    data: BoundedData, offset: int, run: Sequence[StoredBuffer], into: Sequence[memoryview]
) -> int:
    """Read adjacent buffers, each into its own memory. Returns: the offset of the next buffer.
    Raises: LocalTransportError if the file does not contain them.
    """
    headers = [bytearray(STORED_HEADER.size) for _ in run]
    pieces: list[memoryview] = []
    end = offset
    for header, each, memory in zip(headers, run, into, strict=True):
        pieces += (memoryview(header), memory[: each.size_bytes])
        end += STORED_HEADER.size + each.size_bytes
    read_bytes = data.read(offset, pieces)
    if read_bytes != end - offset:
        raise LocalTransportError(
            f"{read_bytes} bytes at {offset} of a spill file where {end - offset} were written; was"
            " it changed?"
        )
    for header, each in zip(headers, run, strict=True):
        if header != each.header():
            raise LocalTransportError(
                f"the header {header.hex()} in a spill file, after {offset}, where"
                f" {each.header().hex()} was written; was it changed?"
            )
    return end
