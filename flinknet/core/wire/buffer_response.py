"""BufferResponse (id 0): one buffer or one event for one receiver.

Offsets from the start of the frame, layout "2.x" (in "1.20" the third row is missing and the rest
moves up by four):

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

A peer goes by `size`, not by the length of the frame. The two functions on whole headers are for
the hot path: one call into struct, no objects.
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
    LAYOUT_2_X,
    LAYOUTS,
    MAGIC,
    Direction,
    Layout,
)

_MAGIC_AND_ID = MAGIC + bytes((BUFFER_RESPONSE_ID,))
_WHOLE_HEADER = struct.Struct(">i5s" + LAYOUT_2_X.header.format.removeprefix(">"))
_pack = _WHOLE_HEADER.pack
_unpack_from = _WHOLE_HEADER.unpack_from

BUFFER_RESPONSE_HEADER_BYTES: Final = _WHOLE_HEADER.size
"""47: frame header and message header in layout "2.x", without partial buffers."""

_RUN_HEADER = struct.Struct(">33sii6s")
"""The same 47 bytes as far as they differ within a run: its number and its backlog."""

Header = tuple[bytes, int, int, int, int, int, int, int]
"""receiver, subpartition, partial buffers, sequence number, backlog, type, compressed, size."""


def encode_buffer_response_header(
    receiver_id: bytes,
    subpartition_id: int,
    sequence_number: int,
    backlog: int,
    data_type: int,
    is_compressed: int,
    size: int,
) -> bytes:
    """The 47 bytes before a payload without partial buffers, in layout "2.x"."""
    return _pack(
        47 + size,
        _MAGIC_AND_ID,
        receiver_id,
        subpartition_id,
        0,
        sequence_number,
        backlog,
        data_type,
        is_compressed,
        size,
    )


def decode_buffer_response_header(view: Bytes, offset: int) -> Header:
    """Read the 47 bytes at `offset`, which must be there, in layout "2.x".

    The sizes of the partial buffers (4 bytes each) and the payload follow.

    Raises: FrameCorruptedError for what a Flink consumer does not decode.
    """
    fields = _unpack_from(view, offset)
    if fields[1] != _MAGIC_AND_ID:
        raise FrameCorruptedError(f"{fields[1].hex()} where a BufferResponse should start")
    if fields[0] < 0:
        raise FrameCorruptedError(f"frame length {fields[0]} is negative")
    header: Header = fields[2:]
    if header[5] > 13 or header[7] <= 0 or header[2] < 0:
        _check_header(LAYOUT_2_X, header[2], header[5], header[7])
    return header


def alike(header: Header) -> tuple[bytes, bytes]:
    """What all headers of a run with this one have in common: what stands before the sequence
    number, and what stands behind the backlog.
    """
    receiver_id, subpartition_id, _, number, backlog, data_type, is_compressed, size = header
    whole = encode_buffer_response_header(
        receiver_id, subpartition_id, number, backlog, data_type, is_compressed, size
    )
    return whole[:33], whole[41:]


def is_alike(begun: bytes, common: tuple[bytes, bytes]) -> bool:
    """Whether these bytes may be the beginning of a header like the others."""
    return common[0].startswith(begun[: len(common[0])])


def decode_backlogs(
    headers: memoryview, common: tuple[bytes, bytes], sequence_number: int
) -> list[int]:
    """The backlogs that a run of headers tells, up to the first header that is not like the
    others, does not have the next number or tells no backlog.

    Args:
        headers: 47 bytes each, end to end.
        common: what makes them alike (`alike`).
        sequence_number: that the first of them must have.
    """
    start, end = common
    backlogs = []
    for before, number, backlog, behind in _RUN_HEADER.iter_unpack(headers):
        if number != sequence_number or before != start or behind != end or backlog < 0:
            break
        backlogs.append(backlog)
        sequence_number += 1
    return backlogs


def _check_header(layout: Layout, partial_buffers: int, data_type: int, size: int) -> None:
    """Raise if a Flink consumer would break the connection over this header.

    Type 0 with bytes is decoded, as Flink does; the channel then treats it as an event that is
    none.
    """
    if data_type > layout.data_type_max:
        raise FrameCorruptedError(f"data type {data_type} is not known")
    if size < 0 or partial_buffers < 0:
        raise FrameCorruptedError(f"a payload of {size} bytes in {partial_buffers} partial buffers")
    if size == 0 and not DataType(data_type).is_buffer:
        raise FrameCorruptedError("an event without bytes")


def next_sequence_number(sequence_number: int, buffers: int = 1) -> int:
    """The sequence number `buffers` later; after 2147483647 comes -2147483648, as in Java."""
    return (sequence_number + buffers + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


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
        """Bytes of the payload."""
        return len(self.buffer)

    def pieces(self) -> list[bytes]:
        """The buffers inside: the partial buffers if there are any, else the one."""
        pieces = []
        start = 0
        for size in self.partial_buffer_sizes or (self.buffer_size,):
            pieces.append(self.buffer[start : start + size])
            start += size
        return pieces

    def encode(self, layout: str = "2.x") -> bytes:
        """The whole frame. Layout "1.20" has no partial buffers; their sizes are lost in it."""
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
        """Read what follows the frame header.

        Raises: FrameCorruptedError if it is cut or a Flink consumer would not decode it.
        """
        chosen = LAYOUTS[layout]
        needed_bytes = body_bytes(body, chosen)
        if needed_bytes is None or len(body) < needed_bytes:
            raise FrameCorruptedError("the BufferResponse is cut")
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
    """How long the body of the BufferResponse at the start of `body` is, by its own sizes.

    Returns: bytes behind the frame header; None if more of them are needed to tell.
    Raises: FrameCorruptedError for a header that a Flink consumer would not decode.
    """
    if len(body) < layout.header.size:
        return None
    fields = layout.header.unpack_from(body)
    partial_buffers = fields[2] if layout.has_partial_buffers else 0
    data_type, _, size = fields[-3:]
    _check_header(layout, partial_buffers, data_type, size)
    length: int = layout.header.size + 4 * partial_buffers + size
    return length
