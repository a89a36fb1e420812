"""Headers looked at in passing, for who listens and is not a peer: nothing is taken for granted,
nothing raises, no payload is touched.

A listener may begin anywhere, so that bytes which are no header are normal; it needs to know
whether a header could be one (`is_plausible`), and how long its message is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flinknet.core.buffers.data_type import IS_BUFFER

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
from .layout import (
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    LAYOUT_1_20,
    LAYOUT_2_X,
    MAGIC,
    Direction,
)
from .messages import MESSAGE_CLASSES

__all__ = [
    "BUFFER_RESPONSE_START",
    "FRAME_HEADER_BYTES",
    "MAGIC",
    "MAGIC_OFFSET",
    "PEEK_LAYOUTS",
    "PLAUSIBLE_BYTES_MAX",
    "PeekLayout",
    "is_usual",
    "peek_frame",
    "peek_sizes",
]

PLAUSIBLE_BYTES_MAX: Final = 64 << 20
"""A message that claims more is not believed: no segment, event or exception comes near."""

MAGIC_OFFSET: Final = 4
"""Bytes of a frame before the magic number."""


@dataclass(frozen=True, slots=True)
class PeekLayout:
    """How to look at the BufferResponses of one line of releases.

    Attributes:
        header_bytes: of a BufferResponse, frame header included, partial sizes not.
        read: header at an offset where `header_bytes` bytes are.
    """

    name: str
    header_bytes: int
    data_type_max: int
    read: Callable[[Bytes, int], Header]

    def is_plausible(self, header: Header) -> bool:
        """Whether a Flink consumer would take it; such a message has `message_bytes`."""
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
        """Whether it is plausible and the length of the frame agrees with the sizes inside, as it
        does in one layout only.
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


PEEK_LAYOUTS: Final = {
    LAYOUT_2_X.name: PeekLayout(
        LAYOUT_2_X.name, WHOLE_HEADER.size, LAYOUT_2_X.data_type_max, WHOLE_HEADER.unpack_from
    ),
    LAYOUT_1_20.name: PeekLayout(
        LAYOUT_1_20.name, WHOLE_HEADER_1_20.size, LAYOUT_1_20.data_type_max, _read_1_20
    ),
}

_USUAL_BYTES: Final = {2: 97, 4: 25, 5: 9, 6: 29, 7: 25, 8: 25, 9: 29, 10: 29, 11: 33}
"""Bytes of the frames whose length is always the same, by message id."""

_LEAST_BYTES: Final = {1: 16, 3: 93}
"""At least, of those that carry something."""

_IDS_OF = {
    direction: frozenset(
        each for each, cls in MESSAGE_CLASSES.items() if cls.DIRECTION is direction
    )
    for direction in Direction
}


def peek_frame(view: Bytes, offset: int, direction: Direction) -> tuple[int, int, bool] | None:
    """Length, message id and whether the id belongs in this direction; None if the 9 bytes at
    `offset` are no frame header.
    """
    length, magic, message_id = FRAME_HEADER.unpack_from(view, offset)
    if magic != MAGIC or not FRAME_HEADER_BYTES <= length <= PLAUSIBLE_BYTES_MAX:
        return None
    return length, message_id, message_id in _IDS_OF[direction]


def is_usual(length: int, message_id: int) -> bool:
    """Whether a frame that is no BufferResponse has the length that Flink gives it."""
    usual_bytes = _USUAL_BYTES.get(message_id)
    return length == usual_bytes if usual_bytes else length >= _LEAST_BYTES.get(message_id, 9)


def peek_sizes(view: Bytes, offset: int, count: int) -> tuple[int, ...]:
    """The sizes of partial buffers."""
    return struct.unpack_from(f">{count}i", view, offset)
