"""Inspects frames as a third party: assumes nothing, raises nothing, touches no payload."""

from __future__ import annotations

import struct
from typing import Final

from .header import FRAME_HEADER, FRAME_HEADER_BYTES, MAGIC
from .ids import Bytes
from .layout import PLAUSIBLE_BYTES_MAX, Direction
from .messages import MESSAGE_CLASSES

MAGIC_OFFSET: Final = 4
"""Bytes of a frame before the magic number."""


_USUAL_BYTES: Final = {2: 97, 4: 25, 5: 9, 6: 29, 7: 25, 8: 25, 9: 29, 10: 29, 11: 33}
"""Frame lengths of the messages of constant size, by message id."""

_LEAST_BYTES: Final = {1: 16, 3: 93}
"""Smallest frame lengths of the other messages."""

_IDS_OF = {
    direction: frozenset(
        each for each, cls in MESSAGE_CLASSES.items() if cls.DIRECTION is direction
    )
    for direction in Direction
}


def peek_frame(view: Bytes, offset: int, direction: Direction) -> tuple[int, int, bool] | None:
    """Length, message id and whether the id belongs to this direction; None if the 9 bytes at
    `offset` are not a frame header.
    """
    length, magic, message_id = FRAME_HEADER.unpack_from(view, offset)
    if magic != MAGIC or not FRAME_HEADER_BYTES <= length <= PLAUSIBLE_BYTES_MAX:
        return None
    return length, message_id, message_id in _IDS_OF[direction]


def is_usual(length: int, message_id: int) -> bool:
    """Whether a frame other than a BufferResponse has the length that Flink gives it."""
    usual_bytes = _USUAL_BYTES.get(message_id)
    return length == usual_bytes if usual_bytes else length >= _LEAST_BYTES.get(message_id, 9)


def peek_sizes(view: Bytes, offset: int, count: int) -> tuple[int, ...]:
    """The sizes of partial buffers."""
    return struct.unpack_from(f">{count}i", view, offset)
