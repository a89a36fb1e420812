"""ResponseDecoder gives what FrameDecoder gives, with payloads in the receiver's memory."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire.buffer_response import BufferResponse, Header
from flinknet.core.wire.frames import Direction, FrameDecoder
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.messages import AddCredit, Message
from flinknet.core.wire.response_decoder import ResponseDecoder
from flinknet.errors import FrameCorruptedError, RemoteProtocolError, UnknownMessageError
from tests.golden_vectors import Vector, golden
from tests.strategies import chunkings, messages, producer_messages

BUFFER_BYTES = 2000
RECEIVER = InputChannelID(bytes(range(1, 17)))


class ListSink:
    """Takes everything into a list; skips the payloads of one receiver."""

    def __init__(self, skipped: bytes = b"") -> None:
        self.received: list[Message] = []
        self.skipped = skipped
        self.target = bytearray()

    def take_buffer(self, header: Header) -> memoryview | None:
        if header[0] == self.skipped:
            return None
        self.target = bytearray(BUFFER_BYTES)
        return memoryview(self.target)

    def receive_payload(self, header: Header) -> None:
        if header[0] == self.skipped:
            return
        receiver_id, subpartition_id, _, sequence_number, backlog, data_type, compressed, size = (
            header
        )
        self.received.append(
            BufferResponse(
                InputChannelID(receiver_id),
                subpartition_id,
                sequence_number,
                backlog,
                DataType(data_type),
                bool(compressed),
                bytes(self.target[:size]),
            )
        )

    def receive_message(self, message: Message) -> None:
        self.received.append(message)


@given(st.lists(producer_messages(), max_size=6), st.data())
def test_a_stream_cut_anywhere_gives_the_same_messages(
    sent: list[Message], data: st.DataObject
) -> None:
    sink = ListSink()
    decoder = ResponseDecoder(sink)
    for chunk in data.draw(chunkings(b"".join(message.encode() for message in sent))):
        decoder.receive(memoryview(chunk))
    assert sink.received == sent


@golden("stream", "records", "conversation", layout="2.x")
def test_a_real_stream_gives_what_the_frame_decoder_gives(release: str, vector: Vector) -> None:
    stream = bytes.fromhex(vector["hex"])
    sink = ListSink()
    decoder = ResponseDecoder(sink)
    for start in range(0, len(stream), 3):
        decoder.receive(memoryview(stream[start : start + 3]))
    assert sink.received == FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(stream)


@given(messages(), st.data())
def test_a_damaged_stream_raises_nothing_but_remote_protocol_errors(
    message: Message, data: st.DataObject
) -> None:
    encoded = message.encode()
    at, replacement = data.draw(st.integers(0, len(encoded))), data.draw(st.binary(max_size=4))
    damaged = encoded[:at] + replacement + encoded[at + len(replacement) :]
    decoder = ResponseDecoder(ListSink())
    with suppress(RemoteProtocolError):
        for chunk in data.draw(chunkings(damaged)):
            decoder.receive(memoryview(chunk))


def test_the_payload_of_an_unknown_receiver_is_skipped() -> None:
    other = BufferResponse(RECEIVER, 0, 0, 0, DataType.DATA_BUFFER, False, b"other")
    mine = BufferResponse(InputChannelID(bytes(16)), 0, 0, 0, DataType.DATA_BUFFER, False, b"mine")
    sink = ListSink(skipped=RECEIVER)
    ResponseDecoder(sink).receive(memoryview(other.encode() + mine.encode()))
    assert sink.received == [mine]


@pytest.mark.parametrize("cut_bytes", [0, 2])
def test_a_payload_larger_than_the_buffer_is_corrupt(cut_bytes: int) -> None:
    class SmallSink(ListSink):
        def take_buffer(self, header: Header) -> memoryview | None:
            return memoryview(bytearray(3))

    message = BufferResponse(RECEIVER, 0, 0, 0, DataType.DATA_BUFFER, False, b"four")
    encoded = message.encode()
    with pytest.raises(FrameCorruptedError, match="4 bytes"):
        ResponseDecoder(SmallSink()).receive(memoryview(encoded[: len(encoded) - cut_bytes]))


def test_what_came_before_a_broken_header_is_handed_over() -> None:
    message = BufferResponse(RECEIVER, 0, 0, 0, DataType.DATA_BUFFER, False, b"whole")
    broken = bytearray(message.encode())
    broken[41] = 99  # the data type
    sink = ListSink()
    with pytest.raises(FrameCorruptedError, match="data type 99"):
        ResponseDecoder(sink).receive(memoryview(message.encode() + message.encode() + broken))
    assert sink.received == [message, message]


def test_a_request_at_the_consumer_is_not_known() -> None:
    with pytest.raises(UnknownMessageError):
        ResponseDecoder(ListSink()).receive(memoryview(AddCredit(1, RECEIVER).encode()))
