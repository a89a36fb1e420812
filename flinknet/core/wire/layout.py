# mypyc
"""Frame headers, the header of a BufferResponse in each layout, and the most frequent messages as
bytes.

| offset | type | field |
|---|---|---|
| 0 | i32 | length of the whole frame, these four bytes included |
| 4 | i32 | magic, `ba dc 0f fe` |
| 8 | i8 | message id |
| 9 | | body |

The layout of BufferResponse is the only difference on the wire between releases of Flink. flinknet
writes layout "2.x" (2.0 to 2.3) and reads "1.20", too; there is no version on the wire.

Core and capture use the header of a BufferResponse as a tuple with named positions: for layout
"2.x" as on the wire, for "1.20" with 0 for the missing number of partial buffers. A tuple rather
than a NamedTuple, because there is one per buffer; the names cost nothing in compiled code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final

from flinknet.core.buffers.data_type import IS_BUFFER, DataType
from flinknet.errors import FrameCorruptedError

from .ids import Bytes

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
        data_type_max: the largest ordinal of Buffer.DataType.

    Attributes:
        header_bytes: size of both headers.
        header: the message header alone.
        has_partial_buffers: whether the header counts partial buffers.
    """

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


_pack = WHOLE_HEADER.pack
_unpack_from = WHOLE_HEADER.unpack_from

_NUMBER_START: Final = struct.calcsize(">i5s16sii")
"""Bytes of a header before the sequence number."""

_BACKLOG_END: Final = _NUMBER_START + struct.calcsize(">ii")

_RUN_HEADER = struct.Struct(f">{_NUMBER_START}sii{BUFFER_RESPONSE_HEADER_BYTES - _BACKLOG_END}s")
"""A header, split at the fields that differ within a run: number and backlog."""


def encode_buffer_response_header(
    receiver_id: bytes,
    subpartition_id: int,
    sequence_number: int,
    backlog: int,
    data_type: int,
    is_compressed: int,
    size: int,
) -> bytes:
    """Encode the header of a payload without partial buffers, in layout "2.x"."""
    return _pack(
        BUFFER_RESPONSE_HEADER_BYTES + size,
        BUFFER_RESPONSE_START,
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
    """Decode the complete header at `offset`, in layout "2.x"; the sizes of partial buffers and the
    payload follow. Raises: FrameCorruptedError for one that a Flink consumer would reject.
    """
    header: Header = _unpack_from(view, offset)
    start = header[MAGIC_AND_ID]
    if start != BUFFER_RESPONSE_START:
        raise FrameCorruptedError(f"{start.hex()} where a BufferResponse should start")
    if header[FRAME_BYTES] < 0:
        raise FrameCorruptedError(f"frame length {header[FRAME_BYTES]} is negative")
    data_type, partial_buffers, size = header[DATA_TYPE], header[PARTIAL_BUFFERS], header[SIZE]
    if data_type > 13 or size <= 0 or partial_buffers < 0:
        check_header(LAYOUT_2_X, partial_buffers, data_type, size)
    return header


def alike(header: Header) -> tuple[bytes, bytes]:
    """The common bytes of all headers of a run: before the sequence number, after the backlog."""
    _, _, receiver_id, subpartition_id, _, number, backlog, data_type, is_compressed, size = header
    whole = encode_buffer_response_header(
        receiver_id, subpartition_id, number, backlog, data_type, is_compressed, size
    )
    return whole[:_NUMBER_START], whole[_BACKLOG_END:]


def decode_backlogs(
    headers: memoryview, common: tuple[bytes, bytes], sequence_number: int
) -> list[int]:
    """The backlogs of a run of adjacent headers, up to the first one that differs from the others,
    is out of sequence or has no backlog.

    Args:
        common: their common bytes (`alike`).
        sequence_number: expected number of the first one.
    """
    start, end = common
    backlogs = []
    for before, number, backlog, behind in _RUN_HEADER.iter_unpack(headers):
        if number != sequence_number or before != start or behind != end or backlog < 0:
            break
        backlogs.append(backlog)
        sequence_number += 1
    return backlogs


def check_header(layout: Layout, partial_buffers: int, data_type: int, size: int) -> None:
    """Raise if a Flink consumer would close the connection because of this header.

    Type 0 with bytes is decoded, as in Flink; the channel then treats it as an invalid event.
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


_ADD_CREDIT = struct.Struct(">i5si16s")

ADD_CREDIT_BYTES: Final = _ADD_CREDIT.size
_ADD_CREDIT_MAGIC_AND_ID = MAGIC + bytes((ADD_CREDIT_ID,))
_pack_add_credit = _ADD_CREDIT.pack


def decode_add_credits(view: memoryview) -> list[tuple[int, bytes]] | None:
    """(credit, receiver id) of each frame, if `view` consists of whole AddCredit frames; else None.

    For the hot path: usually a consumer sends nothing else while data flows (0.3 µs per frame,
    against 2.5 µs with a FrameDecoder).
    """
    if len(view) % ADD_CREDIT_BYTES:
        return None
    found = []
    for length, magic_and_id, credit, receiver_id in _ADD_CREDIT.iter_unpack(view):
        if magic_and_id != _ADD_CREDIT_MAGIC_AND_ID or length != ADD_CREDIT_BYTES or credit <= 0:
            return None
        found.append((credit, receiver_id))
    return found


def encode_add_credit(receiver_id: bytes, credit: int) -> bytes:
    return _pack_add_credit(29, _ADD_CREDIT_MAGIC_AND_ID, credit, receiver_id)
