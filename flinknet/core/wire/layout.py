"""The frame, and what differs between releases of Flink.

| offset | type | field |
|---|---|---|
| 0 | i32 | length of the whole frame, these four bytes included |
| 4 | i32 | magic, `ba dc 0f fe` |
| 8 | i8 | message id |
| 9 | | body |

flinknet speaks the layout "2.x" (2.0 to 2.3) and reads "1.20" too. They differ in the header of
BufferResponse and in nothing else. No version travels on the wire; `detect_layout` tells them apart
by a BufferResponse.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

from flinknet.core.buffers.data_type import DataType

from .ids import Bytes

MAGIC: Final = b"\xba\xdc\x0f\xfe"
FRAME_HEADER: Final = struct.Struct(">i4sB")
FRAME_HEADER_BYTES: Final = FRAME_HEADER.size
BUFFER_RESPONSE_ID: Final = 0
ADD_CREDIT_ID: Final = 6


class Direction(Enum):
    """Which half of a connection sent the bytes; roles never change on a connection."""

    PRODUCER_TO_CONSUMER = "producer->consumer"
    CONSUMER_TO_PRODUCER = "consumer->producer"


@dataclass(frozen=True, slots=True)
class Layout:
    """The BufferResponse of one line of releases.

    Attributes:
        header: what stands between frame header and payload, without the sizes of partial buffers.
        has_partial_buffers: the header counts partial buffers, and their sizes stand before the
        payload.
        data_type_max: the largest ordinal of Buffer.DataType.
    """

    name: str
    header: struct.Struct
    has_partial_buffers: bool
    data_type_max: int


# receiver, subpartition, [partial buffers,] sequence number, backlog, type, compressed, size
LAYOUT_2_X: Final = Layout(
    "2.x", struct.Struct(">16siiiiBBi"), True, DataType.UNALIGNED_WATERMARK_EVENT
)
LAYOUT_1_20: Final = Layout("1.20", struct.Struct(">16siiiBBi"), False, DataType.RECOVERY_METADATA)
LAYOUTS: Final = {layout.name: layout for layout in (LAYOUT_2_X, LAYOUT_1_20)}


def detect_layout(frame: Bytes) -> str | None:
    """The layout of a whole frame with a BufferResponse; None if it is none, or fits no layout.

    The lengths of a frame agree in one layout only, save for rare cases which data type and
    compression flag settle.
    """
    if len(frame) < FRAME_HEADER_BYTES:
        return None
    length, magic, message_id = FRAME_HEADER.unpack_from(frame)
    if length != len(frame) or magic != MAGIC or message_id != BUFFER_RESPONSE_ID:
        return None
    for layout in LAYOUTS.values():
        header_bytes = FRAME_HEADER_BYTES + layout.header.size
        if length < header_bytes:
            continue
        fields = layout.header.unpack_from(frame, FRAME_HEADER_BYTES)
        partial_buffers = fields[2] if layout.has_partial_buffers else 0
        data_type, is_compressed, size = fields[-3:]
        if (
            length == header_bytes + 4 * partial_buffers + size
            and 1 <= data_type <= layout.data_type_max
            and is_compressed <= 1
        ):
            return layout.name
    return None
