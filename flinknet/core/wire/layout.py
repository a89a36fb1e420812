"""Layouts of BufferResponse: the only difference on the wire between releases of Flink.

flinknet writes layout "2.x" (2.0 to 2.3) and reads "1.20", too. There is no version on the wire;
`detect_layout` recognises the layout of a BufferResponse.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final

from flinknet.core.buffers.data_type import IS_BUFFER, DataType

from .header import (
    BUFFER_RESPONSE_START,
    DATA_TYPE,
    FRAME_BYTES,
    IS_COMPRESSED,
    MAGIC_AND_ID,
    PARTIAL_BUFFERS,
    PARTIAL_SIZE_BYTES,
    SIZE,
    WHOLE_HEADER,
    WHOLE_HEADER_1_20,
    Header,
)
from .ids import Bytes

PLAUSIBLE_BYTES_MAX: Final = 64 << 20
"""Largest plausible message: no segment, event or exception comes near."""


class Direction(Enum):
    """Which half of a connection sent the bytes; roles never change on a connection."""

    PRODUCER_TO_CONSUMER = "producer->consumer"
    CONSUMER_TO_PRODUCER = "consumer->producer"


class Layout:
    """The BufferResponse of one series of releases.

    Args:
        whole: frame header and message header, without the sizes of partial buffers.

    Attributes:
        header_bytes: size of both headers.
        header: the message header alone.
        has_partial_buffers: whether the header counts partial buffers, whose sizes precede the
            payload.
        data_type_max: the largest ordinal of Buffer.DataType.
        read: reads both headers at an offset with at least `header_bytes` bytes.
    """

    __slots__ = ("data_type_max", "has_partial_buffers", "header", "header_bytes", "name", "read")

    def __init__(self, name: str, whole: struct.Struct, data_type_max: int) -> None:
        self.name = name
        self.header = struct.Struct(whole.format.replace("i5s", "", 1))
        self.has_partial_buffers = whole is WHOLE_HEADER
        self.data_type_max = data_type_max
        self.header_bytes = whole.size
        self.read: Callable[[Bytes, int], Header] = (
            whole.unpack_from if self.has_partial_buffers else _read_1_20
        )

    def is_plausible(self, header: Header) -> bool:
        """Whether a Flink consumer would accept it."""
        data_type, size = header[DATA_TYPE], header[SIZE]
        return (
            header[MAGIC_AND_ID] == BUFFER_RESPONSE_START
            and header[FRAME_BYTES] >= 0
            and 1 <= data_type <= self.data_type_max
            and 0 <= header[PARTIAL_BUFFERS] <= PLAUSIBLE_BYTES_MAX // PARTIAL_SIZE_BYTES
            and 0 <= size <= PLAUSIBLE_BYTES_MAX
            and (size > 0 or data_type in IS_BUFFER)
        )

    def is_consistent(self, header: Header) -> bool:
        """Whether it is plausible and the frame length matches the sizes inside. That holds in one
        layout only, except for rare cases, which the compression flag decides.
        """
        sizes_bytes = PARTIAL_SIZE_BYTES * header[PARTIAL_BUFFERS]
        return (
            self.is_plausible(header)
            and header[IS_COMPRESSED] <= 1
            and header[FRAME_BYTES] == self.header_bytes + sizes_bytes + header[SIZE]
        )


def _read_1_20(view: Bytes, offset: int) -> Header:
    length, start, receiver, subpartition, *rest = WHOLE_HEADER_1_20.unpack_from(view, offset)
    header: Header = (length, start, receiver, subpartition, 0, *rest)
    return header


LAYOUT_2_X: Final = Layout("2.x", WHOLE_HEADER, DataType.UNALIGNED_WATERMARK_EVENT)
LAYOUT_1_20: Final = Layout("1.20", WHOLE_HEADER_1_20, DataType.RECOVERY_METADATA)
LAYOUTS: Final = {layout.name: layout for layout in (LAYOUT_2_X, LAYOUT_1_20)}


def detect_layout(
    start: Bytes, test: Callable[[Layout, Header], bool] = Layout.is_consistent
) -> Layout | None:
    """The first layout in which the given BufferResponse passes the test; None if there is none."""
    for layout in LAYOUTS.values():
        if len(start) >= layout.header_bytes and test(layout, layout.read(start, 0)):
            return layout
    return None
