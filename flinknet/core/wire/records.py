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

RecordTimes: the times that the stream elements in one buffer carry, in bounded space. A record may
carry a timestamp, which is event time. A sample of SAMPLES records stands for all records of a
buffer: every n-th one, n a power of two, from a start drawn at random, so that each record is as
likely as any other. A buffer with at most SAMPLES records is kept whole.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from flinknet.errors import FrameCorruptedError

from .ids import Bytes, Packed

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
class Watermark(Packed):
    """No element with a smaller timestamp follows."""

    timestamp_ms: int

    TAG: ClassVar[int] = TAG_WATERMARK
    LAYOUT: ClassVar[struct.Struct] = _TAG_AND_I64


@dataclass(frozen=True, slots=True)
class LatencyMarker(Packed):
    """Measures the latency from a source. `marked_time_ms` is wall-clock time."""

    marked_time_ms: int
    operator_id: bytes
    subtask_index: int

    TAG: ClassVar[int] = TAG_LATENCY_MARKER
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">bq16si")


@dataclass(frozen=True, slots=True)
class WatermarkStatus(Packed):
    """Whether the channel's watermarks count. Raises: FrameCorruptedError for another status."""

    status: int

    TAG: ClassVar[int] = TAG_STREAM_STATUS
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">bi")
    ACTIVE: ClassVar[int] = 0
    IDLE: ClassVar[int] = -1

    def __post_init__(self) -> None:
        if self.status not in (self.ACTIVE, self.IDLE):
            raise FrameCorruptedError(f"watermark status {self.status} is neither active nor idle")


@dataclass(frozen=True, slots=True)
class RecordAttributes(Packed):
    """Attributes of the records that follow."""

    is_backlog: bool

    TAG: ClassVar[int] = TAG_RECORD_ATTRIBUTES
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">b?")


@dataclass(frozen=True, slots=True)
class InternalWatermark(Packed):
    """A watermark with its subpartition."""

    subpartition_index: int
    timestamp_ms: int

    TAG: ClassVar[int] = TAG_INTERNAL_WATERMARK
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">biq")


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
    """Decode one element, without its length prefix. Raises: FrameCorruptedError."""
    element = bytes(element)
    if not element or element[0] not in ELEMENT_CLASSES:
        raise FrameCorruptedError(f"no stream element starts with {element[:1].hex() or 'nothing'}")
    element_class = ELEMENT_CLASSES[element[0]]
    if issubclass(element_class, Packed) and len(element) != element_class.LAYOUT.size:
        raise FrameCorruptedError(f"{element_class.__name__} of {len(element)} bytes")
    try:
        return element_class.decode(element)
    except struct.error as error:
        raise FrameCorruptedError(f"{element_class.__name__}: {error}") from error


NO_TIME: Final = -1 << 63
"""Stands for no time, in ms; Flink itself means it so (Long.MIN_VALUE)."""

WATERMARK_IDLE: Final = NO_TIME + 1
"""Stands for a channel that has become idle, in the place of a watermark."""

WATERMARK_ACTIVE: Final = NO_TIME + 2
"""Stands for a channel that is active again, in the place of a watermark."""

SAMPLES: Final = 8
"""Most timestamps that are kept of a buffer."""

TIME_BYTES: Final = 8
"""Bytes of a time, which follow the tag of its element."""

_ABSENT = (NO_TIME,) * SAMPLES
_AFTER_TAG = LENGTH_PREFIX_BYTES + 1
_LENGTHS = {TAG_WATERMARK: 9, TAG_LATENCY_MARKER: 29, TAG_STREAM_STATUS: 5}
_TIMED_RECORD_MIN = 9

read_time = struct.Struct(">q").unpack_from


class RecordTimes:
    """Collects the times in one buffer after another of one stream of records.

    Attributes:
        passes: buffers that are not sampled, from the current one on; only watermarks and latency
            markers are taken from them.
        until: records with a timestamp that are passed over before the next of the sample.
        is_used: whether the buffer has a time: `begin` must follow it.
    """

    __slots__ = (
        *("_bits", "_marker", "_samples", "_seed", "_stride", "_watermark"),
        *("is_used", "passes", "until"),
    )

    def __init__(self) -> None:
        self._seed = self._bits = 1
        self.begin()

    def begin(self, passes: int = 0) -> None:
        self._watermark = self._marker = NO_TIME
        self._samples: list[int] = []
        self._stride, self.until, self.passes = 1, 0, passes
        self.is_used = False
        self._seed = (1664525 * self._seed + 1013904223) & 0xFFFFFFFF
        self._bits = self._seed >> 8

    def expect(self, count: int) -> None:
        """Make room in the sample for the next `count` records, so that it need not be thinned
        again and again."""
        slots = len(self._samples) + (count - self.until + self._stride - 1) // self._stride
        if slots <= SAMPLES:
            return
        doublings = ((slots - 1) // SAMPLES).bit_length()
        times = 1 << doublings
        start, self._bits = self._bits % times, self._bits >> doublings
        self.until += (start - len(self._samples)) % times * self._stride
        self._samples = self._samples[start::times]
        self._stride *= times

    def add_run(self, payload: memoryview, position: int, step: int, count: int, tag: int) -> None:
        """Take adjacent elements of the same length and tag.

        Args:
            position: where the length of the first one begins.
            step: bytes of each one with its length.
        """
        if tag != TAG_REC_WITH_TIMESTAMP:
            last = position + (count - 1) * step
            self.take(tag, step - LENGTH_PREFIX_BYTES, payload[last + _AFTER_TAG : last + step])
            return
        if step < LENGTH_PREFIX_BYTES + _TIMED_RECORD_MIN:
            return
        self.is_used = True
        self.expect(count)
        until = self.until
        if until < count:
            stride = self._stride
            first, end = position + until * step + _AFTER_TAG, position + count * step
            found = [read_time(payload, at)[0] for at in range(first, end, step * stride)]
            self._samples += found
            until += len(found) * stride
        self.until = until - count

    def take(self, tag: int, length: int, body: bytes | memoryview) -> None:
        """Take one element.

        Args:
            length: bytes of the element with its tag.
            body: first bytes after the tag; where fewer than it needs are known, it is left out.
        """
        self.is_used = True
        if tag == TAG_REC_WITH_TIMESTAMP:
            if len(body) < TIME_BYTES:
                return
            self.expect(1)
            if self.until:
                self.until -= 1
                return
            self._samples.append(read_time(body)[0])
            self.until = self._stride - 1
        elif length != _LENGTHS.get(tag) or len(body) < min(length - 1, TIME_BYTES):
            return
        elif tag == TAG_STREAM_STATUS:
            if any(body[:4]):
                self._watermark = WATERMARK_IDLE
            elif self._watermark <= WATERMARK_ACTIVE:
                self._watermark = WATERMARK_ACTIVE
        elif tag == TAG_WATERMARK:
            self._watermark = read_time(body)[0]
        else:
            self._marker = read_time(body)[0]

    def found(self) -> tuple[int, ...] | None:
        """The times in this buffer, in the order of `trace.schema.TIME_COLUMNS`; None if it has
        none."""
        samples = self._samples
        if not samples and self._watermark == self._marker == NO_TIME:
            return None
        return self._watermark, self._marker, *samples, *_ABSENT[len(samples) :]
