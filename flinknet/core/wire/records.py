"""Records in data buffers: a stream of length-prefixed elements, split anywhere by the buffers.

The concatenated payloads of the data buffers of one receiver and one subpartition are

| i32 | size of the element, without these four bytes |
| | element |

and an element of a streaming program (Flink: StreamElementSerializer) is

| tag (i8) | element | body |
|---|---|---|
| 0 | Record with a timestamp | i64 timestamp, value to the end |
| 1 | Record | value to the end |
| 2 | Watermark | i64 timestamp |
| 3 | LatencyMarker | i64 marked time, id16 operator, i32 subtask index |
| 4 | WatermarkStatus | i32, 0 active, -1 idle |
| 5 | RecordAttributes | bool backlog |
| 6 | InternalWatermark | i32 subpartition index, i64 timestamp |

Timestamps are event time in ms. The value is written by the serializer of the job's type
(`job.serializers`). Batch jobs use tag 6 instead of 2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from flinknet.errors import FrameCorruptedError

from .ids import Bytes

LENGTH_PREFIX_BYTES: Final = 4
TAG_BYTES: Final = 1
OVERHEAD_BYTES: Final = LENGTH_PREFIX_BYTES + TAG_BYTES
"""Bytes that the stream adds to each value without timestamp."""

TAG_REC_WITH_TIMESTAMP: Final = 0
TAG_REC_WITHOUT_TIMESTAMP: Final = 1
TAG_WATERMARK: Final = 2
TAG_LATENCY_MARKER: Final = 3
TAG_STREAM_STATUS: Final = 4
TAG_RECORD_ATTRIBUTES: Final = 5
TAG_INTERNAL_WATERMARK: Final = 6

RECORD_BYTES_MAX: Final = 256 << 20

_LENGTH = struct.Struct(">i")
_TAG_AND_I64 = struct.Struct(">bq")
_TAG_AND_I32 = struct.Struct(">bi")
_TAG_AND_BOOL = struct.Struct(">b?")
_LATENCY_MARKER = struct.Struct(">bq16si")
_INTERNAL_WATERMARK = struct.Struct(">biq")


@dataclass(frozen=True, slots=True)
class Record:
    """A value, with its event time if it has one (Flink: StreamRecord)."""

    value: bytes
    timestamp_ms: int | None = None

    def encode(self) -> bytes:
        if self.timestamp_ms is None:
            return bytes((TAG_REC_WITHOUT_TIMESTAMP,)) + self.value
        return _TAG_AND_I64.pack(TAG_REC_WITH_TIMESTAMP, self.timestamp_ms) + self.value

    @classmethod
    def decode(cls, element: bytes) -> Self:
        if element[0] == TAG_REC_WITHOUT_TIMESTAMP:
            return cls(element[1:])
        return cls(element[_TAG_AND_I64.size :], _TAG_AND_I64.unpack_from(element)[1])


@dataclass(frozen=True, slots=True)
class Watermark:
    """No element with a smaller timestamp follows."""

    timestamp_ms: int

    TAG: ClassVar[int] = TAG_WATERMARK

    def encode(self) -> bytes:
        return _TAG_AND_I64.pack(self.TAG, self.timestamp_ms)

    @classmethod
    def decode(cls, element: bytes) -> Self:
        return cls(_TAG_AND_I64.unpack(element)[1])


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """Measures the latency from a source. `marked_time_ms` is wall-clock time."""

    marked_time_ms: int
    operator_id: bytes
    subtask_index: int

    TAG: ClassVar[int] = TAG_LATENCY_MARKER

    def encode(self) -> bytes:
        return _LATENCY_MARKER.pack(
            self.TAG, self.marked_time_ms, self.operator_id, self.subtask_index
        )

    @classmethod
    def decode(cls, element: bytes) -> Self:
        _, marked_time_ms, operator_id, subtask_index = _LATENCY_MARKER.unpack(element)
        return cls(marked_time_ms, operator_id, subtask_index)


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """Whether the channel's watermarks count."""

    status: int

    TAG: ClassVar[int] = TAG_STREAM_STATUS
    ACTIVE: ClassVar[int] = 0
    IDLE: ClassVar[int] = -1

    def encode(self) -> bytes:
        return _TAG_AND_I32.pack(self.TAG, self.status)

    @classmethod
    def decode(cls, element: bytes) -> Self:
        status = _TAG_AND_I32.unpack(element)[1]
        if status not in (cls.ACTIVE, cls.IDLE):
            raise FrameCorruptedError(f"watermark status {status} is neither active nor idle")
        return cls(status)


@dataclass(frozen=True, slots=True)
class RecordAttributes:
    """Attributes of the records that follow."""

    is_backlog: bool

    TAG: ClassVar[int] = TAG_RECORD_ATTRIBUTES

    def encode(self) -> bytes:
        return _TAG_AND_BOOL.pack(self.TAG, self.is_backlog)

    @classmethod
    def decode(cls, element: bytes) -> Self:
        return cls(_TAG_AND_BOOL.unpack(element)[1])


@dataclass(frozen=True, slots=True)
class InternalWatermark:
    """A watermark with its subpartition."""

    subpartition_index: int
    timestamp_ms: int

    TAG: ClassVar[int] = TAG_INTERNAL_WATERMARK

    def encode(self) -> bytes:
        return _INTERNAL_WATERMARK.pack(self.TAG, self.subpartition_index, self.timestamp_ms)

    @classmethod
    def decode(cls, element: bytes) -> Self:
        _, subpartition_index, timestamp_ms = _INTERNAL_WATERMARK.unpack(element)
        return cls(subpartition_index, timestamp_ms)


StreamElement = (
    Record | Watermark | LatencyMarker | WatermarkStatus | RecordAttributes | InternalWatermark
)

ELEMENT_CLASSES: Final[dict[int, type[StreamElement]]] = {
    TAG_REC_WITH_TIMESTAMP: Record,
    TAG_REC_WITHOUT_TIMESTAMP: Record,
    TAG_WATERMARK: Watermark,
    TAG_LATENCY_MARKER: LatencyMarker,
    TAG_STREAM_STATUS: WatermarkStatus,
    TAG_RECORD_ATTRIBUTES: RecordAttributes,
    TAG_INTERNAL_WATERMARK: InternalWatermark,
}


def encode_record(element: StreamElement) -> bytes:
    """Encode an element with its length prefix."""
    encoded = element.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def decode_element(element: Bytes) -> StreamElement:
    """Decode one element, without its length prefix.

    Raises: FrameCorruptedError if it is invalid.
    """
    element = bytes(element)
    if not element or element[0] not in ELEMENT_CLASSES:
        raise FrameCorruptedError(f"no stream element starts with {element[:1].hex() or 'nothing'}")
    element_class = ELEMENT_CLASSES[element[0]]
    try:
        return element_class.decode(element)
    except struct.error as error:
        raise FrameCorruptedError(f"{element_class.__name__}: {error}") from error
