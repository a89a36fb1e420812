"""BufferResponse (id 0): one buffer or one event for one receiver.

Offsets from the start of the frame, layout "2.x" (in "1.20" the third row is missing and all later
offsets are four less):

| offset | type | field |
|---|---|---|
| 9 | id16 | receiver_id |
| 25 | i32 | subpartition_id, -1 if not tracked |
| 29 | i32 | number of partial buffers (n); 0: the payload is one buffer |
| 33 | i32 | sequence_number of the buffer, or of the first of the n |
| 37 | i32 | backlog, in data buffers |
| 41 | i8 | data_type |
| 42 | bool | is_compressed |
| 43 | i32 | size of the payload |
| 47 | i32 * n | partial_buffer_sizes; their sum is size |
| 47 + 4n | | payload |

A peer goes by `size`, not by the length of the frame. The hot path creates no objects of this
class: see `layout`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from flinknet.core.buffers.data_type import DataType
from flinknet.errors import FrameCorruptedError

from .ids import Bytes, InputChannelID
from .layout import (
    BUFFER_RESPONSE_ID,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    LAYOUTS,
    MAGIC,
    Direction,
    Layout,
    check_header,
)


@dataclass(frozen=True, slots=True)
class BufferResponse:
    """One buffer, several partial buffers of one type, or one event.

    Invariant: partial_buffer_sizes is empty or sums to buffer_size.
    """

    receiver_id: InputChannelID
    subpartition_id: int
    sequence_number: int
    backlog: int
    data_type: DataType
    is_compressed: bool
    buffer: bytes
    partial_buffer_sizes: tuple[int, ...] = ()

    ID: ClassVar[int] = BUFFER_RESPONSE_ID
    DIRECTION: ClassVar[Direction] = Direction.PRODUCER_TO_CONSUMER

    @property
    def buffer_size(self) -> int:
        return len(self.buffer)

    def pieces(self) -> list[bytes]:
        """The partial buffers, or else the only buffer."""
        pieces = []
        start = 0
        for size in self.partial_buffer_sizes or (self.buffer_size,):
            pieces.append(self.buffer[start : start + size])
            start += size
        return pieces

    def encode(self, layout: str = "2.x") -> bytes:
        """Encode the whole frame. Layout "1.20" has no partial buffers; their sizes are lost."""
        chosen = LAYOUTS[layout]
        sizes = self.partial_buffer_sizes if chosen.has_partial_buffers else ()
        header = chosen.header.pack(
            self.receiver_id,
            self.subpartition_id,
            *((len(sizes),) if chosen.has_partial_buffers else ()),
            self.sequence_number,
            self.backlog,
            self.data_type,
            self.is_compressed,
            self.buffer_size,
        )
        body = header + struct.pack(f">{len(sizes)}i", *sizes) + self.buffer
        return FRAME_HEADER.pack(FRAME_HEADER_BYTES + len(body), MAGIC, self.ID) + body

    @classmethod
    def decode(cls, body: Bytes, layout: str = "2.x") -> Self:
        """Decode a body. Raises: FrameCorruptedError for one that a Flink consumer would reject."""
        chosen = LAYOUTS[layout]
        needed_bytes = body_bytes(body, chosen)
        if needed_bytes is None or len(body) < needed_bytes:
            raise FrameCorruptedError("the BufferResponse is truncated")
        receiver_id, subpartition_id, *rest = chosen.header.unpack_from(body)
        partial_buffers = rest.pop(0) if chosen.has_partial_buffers else 0
        sequence_number, backlog, data_type, is_compressed, size = rest
        sizes = struct.unpack_from(f">{partial_buffers}i", body, chosen.header.size)
        if sizes and (sum(sizes) != size or min(sizes) < 0):
            raise FrameCorruptedError(f"partial buffers {sizes} in a payload of {size} bytes")
        return cls(
            InputChannelID(receiver_id),
            subpartition_id,
            sequence_number,
            backlog,
            DataType(data_type),
            bool(is_compressed),
            bytes(body[needed_bytes - size : needed_bytes]),
            sizes,
        )


def body_bytes(body: Bytes, layout: Layout) -> int | None:
    """Length of the BufferResponse at the start of `body`, from its own sizes; None if more bytes
    are needed. Raises: FrameCorruptedError for a header that a Flink consumer would reject.
    """
    if len(body) < layout.header.size:
        return None
    fields = layout.header.unpack_from(body)
    partial_buffers = fields[2] if layout.has_partial_buffers else 0
    data_type, _, size = fields[-3:]
    check_header(layout, partial_buffers, data_type, size)
    length: int = layout.header.size + 4 * partial_buffers + size
    return length


STORED_HEADER: Final = struct.Struct("=hhi")
"""Header of a buffer in a file: whether it is an event, whether it is compressed, its bytes."""

INDEX_ENTRY: Final = struct.Struct("=qq")
"""Offset and bytes of a subpartition's part of a region in a file."""
