"""Events: elements of a subpartition other than records (Flink: EventSerializer).

An event is an i32 tag and a body. Its content determines its size; bytes after it are ignored,
because pipelined partitions send the whole array that the event was written into
(`encode_pipelined`), and all others the exact size (`encode`).

| tag | event | body | since |
|---|---|---|---|
| 0 | EndOfPartitionEvent | | |
| 1 | CheckpointBarrier | see `checkpoint_barrier` | |
| 2 | EndOfSuperstepEvent | | |
| 3 | OtherEvent | utf class name, content written by the class | |
| 4 | CancelCheckpointMarker | i64 checkpoint id | |
| 5 | EndOfOutputChannelStateEvent (until 2.1: EndOfChannelStateEvent) | | |
| 6 | EventAnnouncement | i32 sequence number, a whole event | |
| 7 | SubtaskConnectionDescriptor | i32 input, i32 output subtask index | |
| 8 | EndOfData | i8 stop mode | |
| 9 | EndOfSegmentEvent | | |
| 10 | RecoveryMetadata | i32 subpartition of the last buffer | |
| 11 | WatermarkEvent | see there | 2.0 |
| 12 | EndOfInputChannelStateEvent | | 2.2 |
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self, get_args

from flinknet.core.buffers.data_type import DataType
from flinknet.errors import FrameCorruptedError, LocalProtocolError

from .checkpoint_barrier import AlignmentType, CheckpointBarrier
from .ids import Bytes, Packed
from .java_errors import decode_modified_utf8, encode_modified_utf8

SERIALIZER_INITIAL_BYTES: Final = 128
"""Initial array size of a DataOutputSerializer: the least that is sent for tags 3 and 11."""

_TAG = struct.Struct(">i")
_TAG_AND_I32 = struct.Struct(">ii")
_U16 = struct.Struct(">H")
_I32 = struct.Struct(">i")
_ALIGNED_AND_KIND = struct.Struct(">?i")
_I64 = struct.Struct(">q")


class StopMode(IntEnum):
    """How a stopping job treats its windows and timers."""

    DRAIN = 0
    NO_DRAIN = 1


@dataclass(frozen=True, slots=True)
class EndOfPartitionEvent(Packed):
    """The end of the subpartition."""

    TAG: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class EndOfSuperstepEvent(Packed):
    """The end of one round of a batch iteration."""

    TAG: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class OtherEvent:
    """An event of any other class; `body` is what the class wrote, padding included.

    | i32 tag | u16 length, class name in modified UTF-8 | body |
    """

    class_name: str
    body: bytes = b""

    TAG: ClassVar[int] = 3

    def encode(self) -> bytes:
        return _TAG.pack(self.TAG) + _encode_utf(self.class_name) + self.body

    @classmethod
    def decode(cls, data: bytes) -> Self:
        class_name, at = _decode_utf(data, _TAG.size)
        return cls(class_name, data[at:])


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker(Packed):
    """The checkpoint will not complete; alignment for it ends."""

    checkpoint_id: int

    TAG: ClassVar[int] = 4
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">iq")


@dataclass(frozen=True, slots=True)
class EndOfOutputChannelStateEvent(Packed):
    """The end of recovered in-flight data; the first event of most streaming channels."""

    TAG: ClassVar[int] = 5


@dataclass(frozen=True, slots=True)
class SubtaskConnectionDescriptor(Packed):
    """The former pair of subtasks of the recovered data that follows."""

    input_subtask_index: int
    output_subtask_index: int

    TAG: ClassVar[int] = 7
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">iii")


@dataclass(frozen=True, slots=True)
class EndOfData(Packed):
    """The end of user records of the subpartition; barriers may follow."""

    mode: StopMode = StopMode.DRAIN

    TAG: ClassVar[int] = 8
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">ib")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(StopMode(cls.LAYOUT.unpack_from(data)[1]))


@dataclass(frozen=True, slots=True)
class EndOfSegmentEvent(Packed):
    """The end of a segment in hybrid shuffle; the next one may be in another tier."""

    TAG: ClassVar[int] = 9


@dataclass(frozen=True, slots=True)
class RecoveryMetadata(Packed):
    """The subpartition of the last buffer; only in checkpoint files."""

    final_buffer_subpartition_id: int

    TAG: ClassVar[int] = 10
    LAYOUT: ClassVar[struct.Struct] = _TAG_AND_I32


@dataclass(frozen=True, slots=True)
class WatermarkEvent:
    """A generalized watermark; a `bool` value is a boolean watermark, an `int` a long one.

    | i32 tag | u16 length, identifier in modified UTF-8 | bool aligned | i32 0 long, 1 boolean |
    | i64 or bool value |
    """

    identifier: str
    value: int | bool
    is_aligned: bool

    TAG: ClassVar[int] = 11

    def encode(self) -> bytes:
        is_bool = isinstance(self.value, bool)
        return b"".join(
            (
                _TAG.pack(self.TAG),
                _encode_utf(self.identifier),
                _ALIGNED_AND_KIND.pack(self.is_aligned, int(is_bool)),
                bytes((self.value,)) if is_bool else _I64.pack(self.value),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        identifier, at = _decode_utf(data, _TAG.size)
        is_aligned, kind = _ALIGNED_AND_KIND.unpack_from(data, at)
        at += _ALIGNED_AND_KIND.size
        if kind == 0:
            return cls(identifier, _I64.unpack_from(data, at)[0], is_aligned)
        if kind == 1:
            return cls(identifier, bool(data[at]), is_aligned)
        raise FrameCorruptedError(f"a watermark event of kind {kind}")


@dataclass(frozen=True, slots=True)
class EndOfInputChannelStateEvent(Packed):
    """Created and read only inside the consumer."""

    TAG: ClassVar[int] = 12


_PlainEvent = (
    EndOfPartitionEvent
    | CheckpointBarrier
    | EndOfSuperstepEvent
    | OtherEvent
    | CancelCheckpointMarker
    | EndOfOutputChannelStateEvent
    | SubtaskConnectionDescriptor
    | EndOfData
    | EndOfSegmentEvent
    | RecoveryMetadata
    | WatermarkEvent
    | EndOfInputChannelStateEvent
)


@dataclass(frozen=True, slots=True)
class EventAnnouncement:
    """A barrier that may time out is queued at `sequence_number`. Created by the consumer for
    itself.

    An announcement of an announcement is rejected: no peer sends one, and nesting stays bounded.
    """

    announced_event: _PlainEvent
    sequence_number: int

    TAG: ClassVar[int] = 6

    def encode(self) -> bytes:
        return _TAG_AND_I32.pack(self.TAG, self.sequence_number) + self.announced_event.encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        _, sequence_number = _TAG_AND_I32.unpack_from(data)
        announced_event = decode_event(data[_TAG_AND_I32.size :])
        if isinstance(announced_event, EventAnnouncement):
            raise FrameCorruptedError("an event announcement inside an event announcement")
        return cls(announced_event, sequence_number)


Event = _PlainEvent | EventAnnouncement

EVENT_CLASSES: Final[dict[int, type[Event]]] = {cls.TAG: cls for cls in get_args(Event)}
"""Classes by tag."""


def decode_event(data: Bytes) -> Event:
    """Decode the event at the start of `data`. Raises: FrameCorruptedError."""
    data = bytes(data)
    if len(data) < _TAG.size:
        raise FrameCorruptedError(f"an event of {len(data)} bytes")
    (tag,) = _TAG.unpack_from(data)
    if tag not in EVENT_CLASSES:
        raise FrameCorruptedError(f"event tag {tag} is not known")
    event_class = EVENT_CLASSES[tag]
    try:
        return event_class.decode(data)
    except (struct.error, IndexError, ValueError) as error:
        raise FrameCorruptedError(f"{event_class.__name__}: {error}") from error


def encode_pipelined(event: Event) -> bytes:
    """Encode an event with the unused end of its array, as pipelined partitions send it.

    Barriers are written into an array of 38 bytes plus their location, whether they need them or
    not. Tags 3 and 11 use a DataOutputSerializer, whose array starts with 128 bytes and at least
    doubles when a write does not fit.
    """
    encoded = event.encode()
    if isinstance(event, EventAnnouncement):
        return encoded[: _TAG_AND_I32.size] + encode_pipelined(event.announced_event)
    if isinstance(event, CheckpointBarrier):
        return encoded.ljust(38 + len(event.location or b""), b"\0")
    if isinstance(event, OtherEvent):
        writes = [_TAG.size, _U16.size + len(encode_modified_utf8(event.class_name))]
        return encoded.ljust(_serializer_bytes([*writes, *[1] * len(event.body)]), b"\0")
    if isinstance(event, WatermarkEvent):
        value_bytes = 1 if isinstance(event.value, bool) else _I64.size
        identifier_bytes = _U16.size + len(encode_modified_utf8(event.identifier))
        writes = [_TAG.size, identifier_bytes, 1, _I32.size, value_bytes]
        return encoded.ljust(_serializer_bytes(writes), b"\0")
    return encoded


def data_type_of(event: Event, priority: bool = False) -> DataType:
    """The data type of a sent event (Flink: Buffer.DataType.getDataType)."""
    if priority:
        return DataType.PRIORITIZED_EVENT_BUFFER
    if isinstance(event, CheckpointBarrier):
        if event.is_timeoutable:
            return DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
        if event.alignment in (AlignmentType.ALIGNED, AlignmentType.FORCED_ALIGNED):
            return DataType.ALIGNED_CHECKPOINT_BARRIER
    if isinstance(event, WatermarkEvent) and event.is_aligned:
        return DataType.ALIGNED_WATERMARK_EVENT
    return _DATA_TYPES.get(type(event), DataType.EVENT_BUFFER)


_DATA_TYPES: Final[dict[type[Event], DataType]] = {
    EndOfOutputChannelStateEvent: DataType.RECOVERY_COMPLETION,
    EndOfData: DataType.END_OF_DATA,
    EndOfPartitionEvent: DataType.END_OF_PARTITION,
    WatermarkEvent: DataType.UNALIGNED_WATERMARK_EVENT,
}


def _serializer_bytes(writes: list[int]) -> int:
    """The length of a DataOutputSerializer's array after writes of these sizes."""
    capacity, position = SERIALIZER_INITIAL_BYTES, 0
    for write_bytes in writes:
        if position + write_bytes > capacity:
            capacity = max(2 * capacity, capacity + write_bytes)
        position += write_bytes
    return capacity


def _encode_utf(text: str) -> bytes:
    encoded = encode_modified_utf8(text)
    if len(encoded) > 0xFFFF:
        raise LocalProtocolError(f"{len(encoded)} bytes of text do not fit behind a u16 length")
    return _U16.pack(len(encoded)) + encoded


def _decode_utf(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _U16.unpack_from(data, at)
    start = at + _U16.size
    if length > len(data) - start:
        raise FrameCorruptedError(f"text of {length} bytes is truncated")
    return decode_modified_utf8(data[start : start + length]), start + length
