"""The twelve messages of the data port (Flink: NettyMessage), in the version of Flink 2.3.

`encode` returns a whole frame; `decode` takes a body, after the 9 bytes of the frame header. Excess
bytes are ignored, as in Flink. All integers are big-endian. Fields are in the order of their rows;
receiver_id is the 16-byte InputChannelID.

| id | message | from | body |
|---|---|---|---|
| 0 | BufferResponse | producer | see `buffer_response` |
| 1 | ErrorResponse | producer | Java serialization stream, bool has_receiver, receiver_id if so |
| 2 | PartitionRequest | consumer | partition id (60), i32 first, i32 last, receiver_id, credit |
| 3 | TaskEventRequest | consumer | i32 size, event, partition id (60), receiver_id |
| 4 | CancelPartitionRequest | consumer | receiver_id |
| 5 | CloseRequest | consumer | |
| 6 | AddCredit | consumer | i32 credit, receiver_id |
| 7 | ResumeConsumption | consumer | receiver_id |
| 8 | AckAllUserRecordsProcessed | consumer | receiver_id |
| 9 | BacklogAnnouncement | producer | i32 backlog, receiver_id |
| 10 | NewBufferSize | consumer | i32 buffer_size, receiver_id |
| 11 | SegmentId | consumer | i32 subpartition_id, i32 segment_id, receiver_id |
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Self, get_args

from flinknet.errors import FrameCorruptedError

from . import layout
from .buffer_response import BufferResponse as BufferResponse
from .events import Event, decode_event
from .ids import Bytes, InputChannelID, ResultPartitionID, ResultSubpartitionIndexSet
from .java_errors import JavaThrowable, encode_throwable, parse_throwable
from .layout import Direction

_SIZE = struct.Struct(">i")
_RECEIVER = struct.Struct(">16s")
_CREDIT = struct.Struct(">16si")


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """A failure at the producer, of one receiver, or without receiver of the connection."""

    cause: JavaThrowable
    receiver_id: InputChannelID | None = None

    ID: ClassVar[int] = 1
    DIRECTION: ClassVar[Direction] = Direction.PRODUCER_TO_CONSUMER

    def encode(self) -> bytes:
        """Encode class and message, without causes and stack trace. Raises: LocalProtocolError for
        an exception class that we cannot write.
        """
        stream = encode_throwable(self.cause.class_name, self.cause.message)
        if self.receiver_id is None:
            return _frame(self.ID, stream, b"\0")
        return _frame(self.ID, stream, b"\1", self.receiver_id)

    @classmethod
    def decode(cls, body: Bytes) -> Self:
        data = bytes(body)
        cause, at = parse_throwable(data)
        if at == len(data):
            raise FrameCorruptedError("the ErrorResponse lacks the flag for a receiver id")
        if not data[at]:
            return cls(cause)
        (receiver_id,) = _unpack(_RECEIVER, data[at + 1 :])
        return cls(cause, InputChannelID(receiver_id))


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """Open a channel. The answer is data, an ErrorResponse, or silence."""

    partition_id: ResultPartitionID
    queue_index_set: ResultSubpartitionIndexSet
    receiver_id: InputChannelID
    credit: int

    ID: ClassVar[int] = 2
    DIRECTION: ClassVar[Direction] = Direction.CONSUMER_TO_PRODUCER

    def encode(self) -> bytes:
        return _frame(
            self.ID,
            self.partition_id.encode(),
            self.queue_index_set.encode(),
            _CREDIT.pack(self.receiver_id, self.credit),
        )

    @classmethod
    def decode(cls, body: Bytes) -> Self:
        """A negative credit is accepted here, so that it fails the request, not the connection."""
        if len(body) < 88:
            raise FrameCorruptedError(f"a PartitionRequest of {len(body)} bytes")
        receiver_id, credit = _CREDIT.unpack_from(body, 68)
        return cls(
            ResultPartitionID.decode(body[:60]),
            ResultSubpartitionIndexSet.decode(body[60:68]),
            InputChannelID(receiver_id),
            credit,
        )


@dataclass(frozen=True, slots=True)
class TaskEventRequest:
    """An event from the consuming task to the producing task; batch iterations only."""

    event: Event
    partition_id: ResultPartitionID
    receiver_id: InputChannelID

    ID: ClassVar[int] = 3
    DIRECTION: ClassVar[Direction] = Direction.CONSUMER_TO_PRODUCER

    def encode(self) -> bytes:
        event = self.event.encode()
        return _frame(
            self.ID, _SIZE.pack(len(event)), event, self.partition_id.encode(), self.receiver_id
        )

    @classmethod
    def decode(cls, body: Bytes) -> Self:
        (size,) = _unpack(_SIZE, body)
        end = 4 + size
        if size < 0 or len(body) < end + 76:
            raise FrameCorruptedError(
                f"a TaskEventRequest with an event of {size} bytes is truncated"
            )
        return cls(
            decode_event(body[4:end]),
            ResultPartitionID.decode(body[end : end + 60]),
            InputChannelID(bytes(body[end + 60 : end + 76])),
        )


@dataclass(frozen=True, slots=True)
class _PackedMessage:
    """Base of messages of fields of fixed sizes, one of which may have to be positive."""

    ID: ClassVar[int]
    DIRECTION: ClassVar[Direction] = Direction.CONSUMER_TO_PRODUCER
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">i16s")
    POSITIVE: ClassVar[str] = ""

    def encode(self) -> bytes:
        values = (getattr(self, each.name) for each in fields(self))
        return _frame(self.ID, self.LAYOUT.pack(*values))

    @classmethod
    def decode(cls, body: Bytes) -> Self:
        message = cls(*_unpack(cls.LAYOUT, body))
        if cls.POSITIVE and (value := getattr(message, cls.POSITIVE)) <= 0:
            name = cls.POSITIVE.replace("_", " ")
            raise FrameCorruptedError(f"{name} {value} is not positive")
        return message


@dataclass(frozen=True, slots=True)
class _OfReceiver(_PackedMessage):
    """Base of messages that consist of a receiver only."""

    receiver_id: InputChannelID

    LAYOUT: ClassVar[struct.Struct] = _RECEIVER


class CancelPartitionRequest(_OfReceiver):
    """Close a channel, keep the connection. May be sent repeatedly."""

    __slots__ = ()
    ID = 4


@dataclass(frozen=True, slots=True)
class CloseRequest(_PackedMessage):
    """Close the connection."""

    ID: ClassVar[int] = 5
    LAYOUT: ClassVar[struct.Struct] = struct.Struct("")


@dataclass(frozen=True, slots=True)
class AddCredit(_PackedMessage):
    """Announce further free buffers of the receiver."""

    credit: int
    receiver_id: InputChannelID

    ID: ClassVar[int] = layout.ADD_CREDIT_ID
    POSITIVE: ClassVar[str] = "credit"


class ResumeConsumption(_OfReceiver):
    """Unblock the channel after an event of a blocking type."""

    __slots__ = ()
    ID = 7


class AckAllUserRecordsProcessed(_OfReceiver):
    """The answer to EndOfData."""

    __slots__ = ()
    ID = 8


@dataclass(frozen=True, slots=True)
class BacklogAnnouncement(_PackedMessage):
    """Announce waiting data buffers to a receiver without credit."""

    backlog: int
    receiver_id: InputChannelID

    ID: ClassVar[int] = 9
    DIRECTION: ClassVar[Direction] = Direction.PRODUCER_TO_CONSUMER
    POSITIVE: ClassVar[str] = "backlog"


@dataclass(frozen=True, slots=True)
class NewBufferSize(_PackedMessage):
    """Limit the size of the next buffers, in bytes."""

    buffer_size: int
    receiver_id: InputChannelID

    ID: ClassVar[int] = 10
    POSITIVE: ClassVar[str] = "buffer_size"


@dataclass(frozen=True, slots=True)
class SegmentId(_PackedMessage):
    """Request the next segment of a subpartition, in hybrid shuffle."""

    subpartition_id: int
    segment_id: int
    receiver_id: InputChannelID

    ID: ClassVar[int] = 11
    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">ii16s")
    POSITIVE: ClassVar[str] = "segment_id"


Message = (
    BufferResponse
    | ErrorResponse
    | PartitionRequest
    | TaskEventRequest
    | CancelPartitionRequest
    | CloseRequest
    | AddCredit
    | ResumeConsumption
    | AckAllUserRecordsProcessed
    | BacklogAnnouncement
    | NewBufferSize
    | SegmentId
)

MESSAGE_CLASSES: Final[dict[int, type[Message]]] = {cls.ID: cls for cls in get_args(Message)}
"""Classes by message id."""


def _frame(message_id: int, *body: bytes) -> bytes:
    length = layout.FRAME_HEADER_BYTES + sum(map(len, body))
    return b"".join((layout.FRAME_HEADER.pack(length, layout.MAGIC, message_id), *body))


def _unpack(layout: struct.Struct, body: Bytes) -> tuple[Any, ...]:
    if len(body) < layout.size:
        raise FrameCorruptedError(f"a body of {len(body)} bytes where {layout.size} are needed")
    return layout.unpack_from(body)
