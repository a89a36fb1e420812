"""ResponseDecoder and LayoutDetectingDecoder give what FrameDecoder gives, in the receiver's
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire import layout as fields
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.frames import FrameDecoder, LayoutDetectingDecoder
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.layout import Direction, Header
from flinknet.core.wire.messages import AddCredit, BacklogAnnouncement, Message
from flinknet.core.wire.response_decoder import ResponseDecoder
from flinknet.errors import FrameCorruptedError, RemoteProtocolError, UnknownMessageError
from tests.golden_vectors import LAYOUT_OF_RELEASE, Vector, golden
from tests.strategies import chunkings, messages, producer_messages

BUFFER_BYTES = 2000
RECEIVER = InputChannelID(bytes(range(1, 17)))


class ListSink:
    """Takes everything into a list; skips the payloads of one receiver."""

    def __init__(self, skipped: bytes = b"") -> None:
        self.received: list[Message] = []
        self.skipped = skipped
        self.target = bytearray()
        self.free_buffers = 4
        self.free: list[memoryview] = []

    def take_buffer(self, header: Header) -> memoryview | None:
        if header[fields.RECEIVER] == self.skipped:
            return None
        if self.free:
            free = self.free.pop(0)
            assert isinstance(free.obj, bytearray)
            if len(free) >= header[fields.SIZE]:
                self.target = free.obj
                return free
        self.target = bytearray(BUFFER_BYTES)
        return memoryview(self.target)

    def receive_payload(self, header: Header) -> None:
        if header[fields.RECEIVER] == self.skipped:
            return
        _, _, receiver_id, subpartition_id, _, sequence_number, *others = header
        backlog, data_type, compressed, size = others
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

    def free_memory(self, header: Header) -> list[memoryview]:
        """Tells the truth: `take_run` uses it up."""
        self.free = [memoryview(bytearray(header[fields.SIZE])) for _ in range(self.free_buffers)]
        return self.free

    def receive_run(self, header: Header, backlogs: Sequence[int]) -> None:
        number = header[fields.SEQUENCE_NUMBER]
        before, behind = header[: fields.SEQUENCE_NUMBER], header[fields.DATA_TYPE :]
        for place, backlog in enumerate(backlogs):
            self.target = bytearray(self.free.pop(0))
            self.receive_payload((*before, number + place, backlog, *behind))


@given(st.lists(producer_messages(), max_size=6), st.data())
def test_a_stream_cut_anywhere_gives_the_same_messages(
    sent: list[Message], data: st.DataObject
) -> None:
    sink = ListSink()
    decoder = ResponseDecoder(sink)
    for chunk in data.draw(chunkings(b"".join(message.encode() for message in sent))):
        decoder.receive(memoryview(chunk))
    assert sink.received == sent


def runs() -> st.SearchStrategy[list[Message]]:
    """Some equal buffers that follow each other."""
    return st.builds(
        lambda first, buffers, size, backlog: [
            BufferResponse(
                RECEIVER, 0, first + i, backlog, DataType.DATA_BUFFER, False, bytes([i]) * size
            )
            for i in range(buffers)
        ],
        st.sampled_from([0, 2**31 - 9]),
        st.integers(1, 8),
        st.integers(1, 60),
        st.integers(-1, 3),
    )


@given(st.lists(runs() | st.lists(producer_messages(), max_size=1), max_size=6), st.data())
def test_a_stream_laid_in_place_gives_the_same_messages_wherever_it_is_cut(
    sent: list[list[Message]], data: st.DataObject
) -> None:
    sink = ListSink()
    decoder = ResponseDecoder(sink)
    stream = [message for messages_of_run in sent for message in messages_of_run]
    for chunk in data.draw(chunkings(b"".join(message.encode() for message in stream))):
        left = chunk
        while left:
            memory = decoder.memory_to_fill()
            if not memory:
                decoder.receive(memoryview(left))
                break
            count = 0
            for piece in memory:
                part = left[count : count + len(piece)]
                piece[: len(part)] = part
                count += len(part)
            decoder.memory_filled(count)
            left = left[count:]
    assert sink.received == stream


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


def data(payload: bytes, sequence_number: int = 0) -> BufferResponse:
    return BufferResponse(RECEIVER, 0, sequence_number, 1, DataType.DATA_BUFFER, False, payload)


@golden("stream", "records", "conversation")
def test_a_real_stream_is_read_whatever_its_release(release: str, vector: Vector) -> None:
    stream, layout = bytes.fromhex(vector["hex"]), LAYOUT_OF_RELEASE[release]
    expected = FrameDecoder(Direction.PRODUCER_TO_CONSUMER, layout).feed(stream)
    for slice_bytes in (1, 3, 1000, len(stream) or 1):
        sink = ListSink()
        decoder = LayoutDetectingDecoder(sink)
        for start in range(0, len(stream), slice_bytes):
            decoder.receive(memoryview(stream[start : start + slice_bytes]))
        assert sink.received == expected
        has_buffers = any(isinstance(message, BufferResponse) for message in expected)
        assert decoder.layout == (layout if has_buffers else None)


@given(st.sampled_from(["2.x", "1.20"]), st.lists(producer_messages(), max_size=4), st.data())
def test_a_stream_cut_anywhere_gives_its_messages(
    layout: str, others: list[Message], draw: st.DataObject
) -> None:
    plain = [m for m in others if not isinstance(m, BufferResponse)]
    sent: list[Message] = [*plain, data(b"first"), *plain, data(b"second", 1)]
    stream = b"".join(
        message.encode(layout) if isinstance(message, BufferResponse) else message.encode()
        for message in sent
    )
    sink = ListSink()
    decoder = LayoutDetectingDecoder(sink)
    for chunk in draw.draw(chunkings(stream)):
        decoder.receive(memoryview(chunk))
    assert sink.received == sent
    assert decoder.layout == layout


def test_what_comes_before_the_first_buffer_is_not_kept_back() -> None:
    message = BacklogAnnouncement(3, RECEIVER)
    sink = ListSink()
    LayoutDetectingDecoder(sink).receive(memoryview(message.encode() + data(b"cut").encode()[:20]))
    assert sink.received == [message]


def test_a_payload_of_an_unknown_receiver_is_skipped() -> None:
    stream = data(b"other").encode("1.20") + BufferResponse(
        InputChannelID(bytes(16)), 0, 0, 0, DataType.DATA_BUFFER, False, b"mine"
    ).encode("1.20")
    sink = ListSink(skipped=RECEIVER)
    LayoutDetectingDecoder(sink).receive(memoryview(stream))
    assert [message.buffer for message in sink.received] == [b"mine"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (b"GET / HTTP/1.1\r\n", "magic number"),
        (bytes.fromhex("7fffffffbadc0ffe00"), "a frame of 2147483647 bytes"),
        (bytes.fromhex("00000004badc0ffe00"), "a frame of 4 bytes"),
        (bytes.fromhex("0000000abadc0ffe0000"), "no layout that flinknet knows"),
        (data(bytes(3000)).encode("1.20"), "does not fit a buffer"),
    ],
    ids=["http", "2gib", "short", "no-layout", "too-large"],
)
def test_what_is_no_stream_of_flink_is_refused(stream: bytes, complaint: str) -> None:
    with pytest.raises(FrameCorruptedError, match=complaint):
        LayoutDetectingDecoder(ListSink()).receive(memoryview(stream))
