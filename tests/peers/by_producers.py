"""What misbehaving producers say: the table of C cases. Channels of other connections, and of the
same one where it goes on, never feel anything of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.core.buffers import DataType
from flinknet.core.wire.events import EndOfSuperstepEvent
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.java_errors import (
    ILLEGAL_STATE_EXCEPTION,
    PARTITION_NOT_FOUND_EXCEPTION,
    PRODUCER_FAILED_EXCEPTION,
    JavaThrowable,
)
from flinknet.core.wire.layout import encode_buffer_response_header
from flinknet.core.wire.messages import (
    BacklogAnnouncement,
    BufferResponse,
    ErrorResponse,
    Message,
)
from flinknet.errors import (
    BufferReorderingError,
    CreditExceededError,
    FlinknetError,
    FrameCorruptedError,
    PartitionNotFoundError,
    ProducerFailedError,
    RemoteTransportError,
)
from tests.peers.frames import LYING_LENGTHS, OF_NO_PROTOCOL, frame

OPEN, CREDITLESS, RELEASED, HALF = (
    "while the channel is open",
    "while the channel has no credit",
    "after the channel was released",
    "in the middle of a buffer",
)
NOTHING, TAKEN, CANCELED, FAILS, ALL_FAIL = (
    "ignored",
    "accepted",
    "answered with CancelPartitionRequest",
    "the channel fails",
    "the connection fails with all its channels",
)

TOO_LARGE = bytes(4097)
"""More than a segment, which has 100 bytes here and cannot have less than 4096 in Flink."""

CHANNEL = InputChannelID(b"\x01" * 16)  # tests.pair.receiver_ids
UNKNOWN = InputChannelID(b"\xcc" * 16)
DATA, EVENT = DataType.DATA_BUFFER, DataType.EVENT_BUFFER
BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER
TIMEOUTABLE_BARRIER = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER


@dataclass(frozen=True)
class Case:
    """One line of the table; `error` is what the channel fails with, if it does."""

    number: int
    when: str
    said: str
    data: bytes
    must: str
    rows: tuple[str, ...]
    error: type[FlinknetError]


def buffer(
    number: int = 0,
    *,
    to: InputChannelID = CHANNEL,
    backlog: int = 0,
    kind: DataType = DATA,
    payload: bytes | None = None,
    pieces: tuple[int, ...] = (),
) -> BufferResponse:
    """A BufferResponse; an event is an EndOfSuperstepEvent."""
    if payload is None:
        payload = EndOfSuperstepEvent().encode() if kind == EVENT else b"payload"
    return BufferResponse(to, 0, number, backlog, kind, False, payload, pieces)


def header(kind: int = DATA, is_compressed: int = 0, size: int = 7) -> bytes:
    """A BufferResponse without its payload, with fields that need not be true."""
    return encode_buffer_response_header(CHANNEL, 0, 0, 0, kind, is_compressed, size)


def error(of: str, to: InputChannelID | None = CHANNEL) -> ErrorResponse:
    """An ErrorResponse, by default for the channel."""
    return ErrorResponse(JavaThrowable(of, "because"), to)


def whole(message: Message) -> bytes:
    return message.encode()


BIG_BACKLOG = struct.pack(">i", 2**31 - 1)
CONSUMERS_MESSAGES = {
    "PartitionRequest": 2,
    "TaskEventRequest": 3,
    "CancelPartitionRequest": 4,
    "CloseRequest": 5,
    "AddCredit": 6,
    "ResumeConsumption": 7,
    "AckAllUserRecordsProcessed": 8,
    "NewBufferSize": 10,
    "SegmentId": 11,
}


def lines() -> Sequence[tuple[str, str, bytes, str, tuple[str, ...], type[FlinknetError]]]:
    """The table, without numbers."""
    found: list[tuple[str, str, bytes, str, tuple[str, ...], type[FlinknetError]]] = []

    def line(
        when: str,
        said: str,
        data: bytes | Message,
        must: str | type[FlinknetError],
        *rows: str,
        error: type[FlinknetError] = FlinknetError,
    ) -> None:
        """Add a line. An error in the place of an answer: with it the channel fails."""
        encoded = data if isinstance(data, bytes) else whole(data)
        answer, error = (must, error) if isinstance(must, str) else (FAILS, must)
        found.append((when, said, encoded, answer, rows, error))

    several, two = "data in several partial buffers", buffer(payload=b"abc", pieces=(1, 2))
    line(CREDITLESS, "data", buffer(), CreditExceededError, "S061")
    line(CREDITLESS, several, two, CreditExceededError, "S061")
    line(CREDITLESS, "an event", buffer(kind=EVENT), TAKEN, "S060")
    compressed = header(is_compressed=2) + b"payload"
    three = many(buffer(number, backlog=-1) for number in range(3))
    twice, parts = many((buffer(0), buffer(0))), buffer(7, payload=b"ab", pieces=(1, 1))
    blocking = buffer(kind=BARRIER, backlog=1)
    line(OPEN, "a third buffer for two credits", three, CreditExceededError)
    line(OPEN, "a sequence number that is too high", buffer(1), BufferReorderingError, "S048")
    line(OPEN, "the same sequence number twice", twice, BufferReorderingError, "S048")
    line(OPEN, "a negative sequence number", buffer(-1), BufferReorderingError)
    for said, message in {
        "an empty buffer": buffer(4, payload=b""),
        "an event": buffer(4, kind=EVENT),
        several: parts,
    }.items():
        line(OPEN, f"{said} whose sequence number is too high", message, BufferReorderingError)
    line(OPEN, "a blocking event with a backlog", blocking, FrameCorruptedError)
    line(OPEN, "a backlog of -1", buffer(backlog=-1), TAKEN)
    line(OPEN, "a backlog of 2^31 - 1", buffer(backlog=2**31 - 1), TAKEN)
    line(OPEN, "a buffer larger than a segment", buffer(payload=TOO_LARGE), ALL_FAIL)
    line(OPEN, "an event of 1 GiB", header(EVENT, size=1 << 30), ALL_FAIL)
    line(OPEN, "a buffer of negative size", header(size=-1), ALL_FAIL)
    line(OPEN, "a buffer of an unknown data type", header(kind=99), ALL_FAIL)
    line(OPEN, "a compression flag of 2, which Java accepts", compressed, TAKEN)
    for said, message in {
        "data": buffer(to=UNKNOWN),
        "an empty buffer": buffer(to=UNKNOWN, payload=b""),
        several: buffer(to=UNKNOWN, payload=b"abc", pieces=(1, 2)),
        "a buffer larger than a segment": buffer(to=UNKNOWN, payload=TOO_LARGE),
        "an event": buffer(to=UNKNOWN, kind=EVENT),
        "a backlog": BacklogAnnouncement(2, UNKNOWN),
    }.items():
        line(OPEN, f"{said} for an unknown channel", message, CANCELED, "S093")
    line(OPEN, "an error for an unknown channel", failed_to(UNKNOWN), NOTHING, "S091")
    line(RELEASED, "data", buffer(), CANCELED, "S061")
    line(RELEASED, "an event", buffer(kind=EVENT), CANCELED)
    line(RELEASED, "a backlog", BacklogAnnouncement(2, CHANNEL), CANCELED)
    line(RELEASED, "an error", failed_to(CHANNEL), NOTHING)
    lost, no_error = error(PARTITION_NOT_FOUND_EXCEPTION), frame(1, b"\xac\xed\0\5" + bytes(40))
    line(OPEN, "an error: the partition was not found", lost, PartitionNotFoundError, "S091")
    line(OPEN, "an error: its producer has failed", failed_to(CHANNEL), ProducerFailedError, "S091")
    line(OPEN, "an error of an unknown class", error(ILLEGAL_STATE_EXCEPTION), FAILS)
    line(OPEN, "an error, then data", many((failed_to(CHANNEL), buffer())), FAILS, "S091")
    fatal, said = error(ILLEGAL_STATE_EXCEPTION, None), "an error for the whole connection"
    line(OPEN, said, fatal, ALL_FAIL, "S091", error=RemoteTransportError)
    line(OPEN, "an error that is not a Java exception", no_error, ALL_FAIL)
    line(OPEN, "an error without a body", frame(1), ALL_FAIL)
    line(OPEN, "BacklogAnnouncement of 2^31 - 1", frame(9, BIG_BACKLOG + CHANNEL), TAKEN)
    line(OPEN, "BacklogAnnouncement of -1", frame(9, b"\xff" * 4 + CHANNEL), ALL_FAIL)
    line(OPEN, "a truncated BacklogAnnouncement", frame(9, bytes(19)), ALL_FAIL)
    for said, junk in OF_NO_PROTOCOL.items():
        line(OPEN, said, junk, ALL_FAIL)
        line(HALF, said, junk * 2, ALL_FAIL)
    for said, length in LYING_LENGTHS.items():
        line(OPEN, said, frame(9, length=length), ALL_FAIL)
    line(
        OPEN, "a frame whose length field says 1 GiB", frame(1, bytes(50), length=1 << 30), ALL_FAIL
    )
    for said, number in CONSUMERS_MESSAGES.items():
        line(OPEN, f"{said}, which only consumers send", frame(number, bytes(88)), ALL_FAIL)
    line(OPEN, "a message with an unknown id", frame(63, bytes(20)), ALL_FAIL)
    line(OPEN, "an event that cannot be decoded", buffer(kind=EVENT, payload=b"payload"), TAKEN)
    for said, event in {
        "another event": EndOfSuperstepEvent().encode(),
        "bytes that are no event": b"payload",
    }.items():
        barrier = buffer(kind=TIMEOUTABLE_BARRIER, payload=event)
        line(OPEN, f"{said}, sent as a barrier that may time out", barrier, FrameCorruptedError)
    return found


def failed_to(receiver: InputChannelID) -> ErrorResponse:
    return error(PRODUCER_FAILED_EXCEPTION, receiver)


def many(messages: object) -> bytes:
    return b"".join(map(whole, messages))  # type: ignore[call-overload]


CASES = [Case(number, *line) for number, line in enumerate(lines(), 1)]
