# mypyc
"""The header of a BufferResponse as a tuple, with a name for the place of each field.

Core and capture read the same tuple: that of layout "2.x" from the wire as it is, that of "1.20"
with 0 for the partial buffers it does not have. A tuple and not a NamedTuple, because there is one
for each buffer; the names cost nothing where they are compiled.
"""

from __future__ import annotations

import struct
from typing import Final

from .layout import BUFFER_RESPONSE_ID, LAYOUT_1_20, LAYOUT_2_X, MAGIC, Layout

Header = tuple[int, bytes, bytes, int, int, int, int, int, int, int]

BUFFER_RESPONSE_START: Final = MAGIC + bytes((BUFFER_RESPONSE_ID,))
"""Magic number and message id: the second field."""

FRAME_BYTES: Final = 0
MAGIC_AND_ID: Final = 1
RECEIVER: Final = 2
SUBPARTITION: Final = 3
PARTIAL_BUFFERS: Final = 4
SEQUENCE_NUMBER: Final = 5
BACKLOG: Final = 6
DATA_TYPE: Final = 7
IS_COMPRESSED: Final = 8
SIZE: Final = 9


def _whole(layout: Layout) -> struct.Struct:
    return struct.Struct(">i5s" + layout.header.format.removeprefix(">"))


WHOLE_HEADER: Final = _whole(LAYOUT_2_X)
"""Frame header and message header in layout "2.x", without the sizes of partial buffers."""

WHOLE_HEADER_1_20: Final = _whole(LAYOUT_1_20)

BUFFER_RESPONSE_HEADER_BYTES: Final = WHOLE_HEADER.size

PARTIAL_SIZE_BYTES: Final = 4
"""Of each partial buffer, between header and payload."""
