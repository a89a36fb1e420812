# mypyc
"""The header of a frame, and the header of a BufferResponse as a tuple with named positions.

| offset | type | field |
|---|---|---|
| 0 | i32 | length of the whole frame, these four bytes included |
| 4 | i32 | magic, `ba dc 0f fe` |
| 8 | i8 | message id |
| 9 | | body |

Core and capture use the same tuple: for layout "2.x" as on the wire, for "1.20" with 0 for the
missing number of partial buffers. A tuple rather than a NamedTuple, because there is one per
buffer; the names cost nothing in compiled code.
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = b"\xba\xdc\x0f\xfe"
FRAME_HEADER: Final = struct.Struct(">i4sB")
FRAME_HEADER_BYTES: Final = 9
BUFFER_RESPONSE_ID: Final = 0
ADD_CREDIT_ID: Final = 6

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

WHOLE_HEADER: Final = struct.Struct(">i5s16siiiiBBi")
"""Frame header and message header in layout "2.x", without the sizes of partial buffers."""

WHOLE_HEADER_1_20: Final = struct.Struct(">i5s16siiiBBi")

BUFFER_RESPONSE_HEADER_BYTES: Final = WHOLE_HEADER.size

PARTIAL_SIZE_BYTES: Final = 4
"""Bytes per partial buffer, between header and payload."""
