"""What no peer of Flink's sends, and who sends it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache

from flinknet.core.buffers import DataType
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM
from flinknet.core.connection import SEND_BATCH_BYTES
from flinknet.core.producer.peer_trust import STRANGE_REQUESTS_MAX
from flinknet.core.wire import events, layout, messages
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID, ResultSubpartitionIndexSet
from flinknet.errors import FrameCorruptedError, RemoteProtocolError, TransportError
from tests.pair import partition_id
from tests.peers.frames import LYING_LENGTHS, OF_NO_PROTOCOL, frame

from .draw import Draw

UNKNOWN = InputChannelID(b"\x55" * 16)
_FLOOD = b"requests"
_MISNAMED = b"an event"
_TOO_EARLY: Sequence[events.Event] = (
    events.EndOfPartitionEvent(),
    events.EndOfInputChannelStateEvent(),
    events.EndOfData(),
)
_EVENTS: Sequence[events.Event] = (
    *_TOO_EARLY,
    events.EndOfOutputChannelStateEvent(),
    events.EndOfSegmentEvent(),
    events.EndOfSuperstepEvent(),
    events.CancelCheckpointMarker(1),
    CheckpointBarrier(1, 0),
    CheckpointBarrier(1, 0, aligned_timeout_ms=5),
    CheckpointBarrier(1, 0, alignment=AlignmentType.UNALIGNED),
    events.WatermarkEvent("of events", 1, True),
    events.EventAnnouncement(CheckpointBarrier(1, 0), 3),
)
_EVENTS_DATA = (*(each.encode() for each in _EVENTS), b"no event")
_DATA_TYPES = tuple(DataType)
NUMBERS = (1, 0, -1, 2**31 - 1, -(2**31), 1000)


def hostile_bytes(
    draw: Draw, name: str, receivers: Sequence[InputChannelID], partition: ResultPartitionID
) -> bytes:
    """A message that is wrong, in its form or where it comes.

    Args:
        receivers: of the channels of the job.
        partition: that somebody reads.
    """
    receiver = draw.one_of(f"{name} receiver", (UNKNOWN, *receivers))
    number = draw.one_of(f"{name} number", NUMBERS)
    indices = ResultSubpartitionIndexSet(0, 0)
    whole = [
        *OF_NO_PROTOCOL.values(),
        *(frame(3, length=length) for length in LYING_LENGTHS.values()),
        *(frame(message_id, b"x" * (number % 64)) for message_id in (-1 % 256, *range(14))),
        messages.CancelPartitionRequest(receiver).encode(),
        messages.ResumeConsumption(receiver).encode(),
        messages.AckAllUserRecordsProcessed(receiver).encode(),
        messages.CloseRequest().encode(),
        struct.pack(">iBi16s", 29, 0, number, receiver),
        frame(5, struct.pack(">i", number) + receiver),
        messages.AddCredit(max(number, 1), receiver).encode(),
        messages.NewBufferSize(max(number, 1), receiver).encode(),
        messages.SegmentId(0, number, receiver).encode(),
        messages.BacklogAnnouncement(max(number, 0), receiver).encode(),
        messages.PartitionRequest(partition, indices, receiver, number).encode(),
        messages.PartitionRequest(partition, indices, receiver, 2).encode() * 3,
        _FLOOD,
        layout.encode_buffer_response_header(receiver, 0, number, 3, 1, 0, 5) + b"hello",
        layout.encode_buffer_response_header(receiver, 0, 0, 0, 0, 0, 5) + b"hello",
        layout.encode_buffer_response_header(receiver, 0, 0, 0, 1, 1, 5) + b"hello",
        *(_first_event(receiver, each.encode(), events.data_type_of(each)) for each in _TOO_EARLY),
        *(_MISNAMED,) * 3,
    ]
    sent = draw.one_of(f"{name} message", whole)
    if sent is _FLOOD:
        sent = _strange_requests()
    elif sent is _MISNAMED:
        event = draw.one_of(f"{name} event", _EVENTS_DATA)
        sent = _first_event(receiver, event, draw.one_of(f"{name} data type", _DATA_TYPES))
    damage = draw.one_of(f"{name} damage", ("none", "none", "cut", "flip"))
    at = draw.below(f"{name} place", max(len(sent), 1))
    if damage == "cut":
        return sent[:at]
    if damage == "flip":
        return sent[:at] + bytes([sent[at] ^ 1 << number % 8]) + sent[at + 1 :]
    return sent


def _first_event(receiver: InputChannelID, data: bytes, kind: DataType) -> bytes:
    """An event as the first message of a channel, under its own data type or another one."""
    return layout.encode_buffer_response_header(receiver, 0, 0, 0, kind, 0, len(data)) + data


def ends_within_a_frame(data: bytes) -> bool:
    """Whether what comes behind may be taken for the rest of a frame: nothing is judged before its
    header is there, and a BufferResponse is as long as its sizes say, whatever its length, as in
    Flink.
    """
    while data:
        if len(data) < layout.FRAME_HEADER_BYTES:
            return True
        length, magic, message_id = layout.FRAME_HEADER.unpack_from(data)
        if magic != layout.MAGIC:
            return False  # refused at once
        if message_id == layout.BUFFER_RESPONSE_ID and length >= 0:
            if len(data) < layout.BUFFER_RESPONSE_HEADER_BYTES:
                return True
            try:
                header = layout.decode_buffer_response_header(data, 0)
            except FrameCorruptedError:
                return False
            length = layout.BUFFER_RESPONSE_HEADER_BYTES + header[layout.SIZE]
            length += layout.PARTIAL_SIZE_BYTES * header[layout.PARTIAL_BUFFERS]
        if length < layout.FRAME_HEADER_BYTES:
            return False
        if length > len(data):
            return True
        data = data[length:]
    return False


def cancels_a_channel(data: bytes, receivers: Sequence[InputChannelID]) -> bool:
    """Whether a channel of the job is cancelled in its name: its consumer waits on."""
    return any(messages.CancelPartitionRequest(each).encode() in data for each in receivers)


def waits_for_floating_buffers(data: bytes, receivers: Sequence[InputChannelID]) -> bool:
    """Whether a channel of the job may wait for ever if it has no exclusive buffers: buffers are
    announced to it, or something that blocks its producer comes. Without exclusive ones it takes
    as many floating buffers. Behind a blocking event it has them when it resumes, which voids their
    credit; what its producer announces then is what it has, and it waits on, as in Flink.
    """
    try:
        return any(
            message.receiver_id in receivers
            and (
                isinstance(message, messages.BacklogAnnouncement)
                or message.data_type in IS_BLOCKING_UPSTREAM
            )
            for message in FrameDecoder(layout.Direction.PRODUCER_TO_CONSUMER).messages(data)
            if isinstance(message, messages.BacklogAnnouncement | messages.BufferResponse)
        )
    except RemoteProtocolError:
        return False


@cache
def _strange_requests() -> bytes:
    """More than a connection may make."""
    indices = ResultSubpartitionIndexSet(0, 0)
    return b"".join(
        messages.PartitionRequest(
            partition_id(7), indices, InputChannelID(struct.pack(">QQ", 7, each)), 2
        ).encode()
        for each in range(STRANGE_REQUESTS_MAX + 2)
    )


class Stranger:
    """A Connection that says something, hears or does not hear what is answered, and goes or stays.

    Attributes:
        heard_bytes: of the answers.
    """

    def __init__(self, words: Sequence[bytes], *, hears: bool, goes: bool) -> None:
        self.heard_bytes = 0
        self.is_closing = False
        self.is_ready = False
        self.wants_data = hears
        self._words = [each for each in words if each]
        self._goes = goes

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """An answer."""
        self.heard_bytes += len(data)

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """It was shown the door."""
        self._words.clear()

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, room_bytes: int = SEND_BATCH_BYTES
    ) -> Sequence[bytes | memoryview]:
        """What it has to say, a word at a time."""
        if self._words:
            return [self._words.pop(0)]
        self.is_closing = self._goes
        return []

    def next_deadline_ns(self) -> int | None:
        """Never."""
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Nothing is ever due."""
