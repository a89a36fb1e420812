"""FrameDecoder: any cutting gives the same messages, and nothing a peer sends does harm."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flinknet import errors
from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.layout import LAYOUTS, Direction, detect_layout
from flinknet.core.wire.messages import (
    MESSAGE_CLASSES,
    AddCredit,
    BacklogAnnouncement,
    CloseRequest,
    Message,
)
from tests import strategies
from tests.comparisons import compares, compares_in
from tests.golden_vectors import LAYOUT_OF_RELEASE, Vector, golden

RECEIVER = InputChannelID(bytes(range(1, 17)))
TO_CONSUMER = Direction.PRODUCER_TO_CONSUMER
TO_PRODUCER = Direction.CONSUMER_TO_PRODUCER


def frame(message_id: int, body: bytes = b"", *, length: int | None = None) -> bytes:
    length = 9 + len(body) if length is None else length
    return struct.pack(">i4sB", length, b"\xba\xdc\x0f\xfe", message_id) + body


def feed_all(decoder: FrameDecoder, chunks: list[bytes]) -> list[Message]:
    return [message for chunk in chunks for message in decoder.feed(chunk)]


def test_every_message_kind_has_its_id() -> None:
    assert {kind: cls.ID for kind, cls in MESSAGE_CLASSES.items()} == {n: n for n in range(12)}


@given(strategies.messages())
def test_encoding_a_message_yields_a_frame_that_decodes_to_it(message: Message) -> None:
    assert FrameDecoder(message.DIRECTION).feed(message.encode()) == [message]


@compares_in(0.5)
@given(strategies.buffer_responses())
def test_layout_1_20_carries_everything_but_partial_sizes(message: BufferResponse) -> None:
    assume(compares(message.data_type <= LAYOUTS["1.20"].data_type_max))
    (decoded,) = FrameDecoder(TO_CONSUMER, "1.20").feed(message.encode("1.20"))
    assert isinstance(decoded, BufferResponse)
    assert decoded.partial_buffer_sizes == ()
    assert decoded.buffer == message.buffer
    assert decoded.sequence_number == message.sequence_number


@given(st.data())
def test_a_stream_cut_anywhere_gives_the_same_messages(data: st.DataObject) -> None:
    sent = data.draw(
        st.lists(strategies.producer_messages(), max_size=5)
        | st.lists(strategies.consumer_messages(), max_size=5)
    )
    stream = b"".join(message.encode() for message in sent)
    decoder = FrameDecoder(sent[0].DIRECTION if sent else TO_CONSUMER)
    assert feed_all(decoder, data.draw(strategies.chunkings(stream))) == sent
    assert decoder.pending_bytes == 0


@golden("partition-request", "add-credit", "data", "partial", "close-request", "stream")
def test_a_real_frame_is_complete_only_with_its_last_byte(release: str, vector: Vector) -> None:
    data = bytes.fromhex(vector["hex"])
    layout = LAYOUT_OF_RELEASE[release]
    direction = Direction(vector["direction"])
    whole = FrameDecoder(direction, layout).feed(data)
    for cut in range(len(data)):
        decoder = FrameDecoder(direction, layout)
        before = decoder.feed(data[:cut])
        assert len(before) < len(whole)
        assert decoder.pending_bytes <= cut
        assert before + decoder.feed(data[cut:]) == whole


@given(st.data())
def test_random_bytes_raise_nothing_but_remote_protocol_errors(data: st.DataObject) -> None:
    decoder = FrameDecoder(
        data.draw(st.sampled_from(Direction)),
        data.draw(st.sampled_from(sorted(LAYOUTS))),
        frame_bytes_max=1000,
    )
    body = data.draw(st.binary(max_size=200))
    message_id = data.draw(st.integers(0, 13))
    claimed_length = data.draw(st.none() | st.integers(0, 300))
    garbage = data.draw(st.sampled_from([body, frame(message_id, body, length=claimed_length)]))
    with suppress(errors.RemoteProtocolError):
        for chunk in data.draw(strategies.chunkings(garbage)):
            decoder.feed(chunk)
            assert decoder.pending_bytes <= len(garbage)


@given(strategies.messages(), st.data())
def test_a_damaged_body_raises_nothing_but_remote_protocol_errors(
    message: Message, data: st.DataObject
) -> None:
    body = message.encode()[9:]
    start, replacement = data.draw(st.integers(0, len(body))), data.draw(st.binary(max_size=4))
    damaged = body[:start] + replacement + body[start + len(replacement) :]
    with suppress(errors.RemoteProtocolError):
        FrameDecoder(message.DIRECTION).feed(frame(message.ID, damaged))


def test_messages_before_a_corrupt_frame_can_be_had() -> None:
    stream = FrameDecoder(TO_PRODUCER).messages(CloseRequest().encode() + frame(6, b"", length=-1))
    assert next(stream) == CloseRequest()
    with pytest.raises(errors.FrameCorruptedError):
        next(stream)


def test_fed_memory_may_be_reused() -> None:
    memory = bytearray(AddCredit(3, RECEIVER).encode())
    decoder = FrameDecoder(TO_PRODUCER)
    assert decoder.feed(memoryview(memory)[:20]) == []
    memory[:20] = bytes(20)
    assert decoder.feed(memoryview(memory)[20:]) == [AddCredit(3, RECEIVER)]


def buffer_frame(payload: bytes, sizes: tuple[int, ...] = ()) -> bytes:
    return BufferResponse(RECEIVER, 0, 0, 0, DataType.DATA_BUFFER, False, payload, sizes).encode()


@pytest.mark.parametrize(
    ("direction", "data", "match"),
    [
        (TO_PRODUCER, frame(3, length=1001), "1001 bytes"),
        (TO_CONSUMER, buffer_frame(bytes(1000))[:47], "1047 bytes"),
        (TO_CONSUMER, struct.pack(">i", -1) + buffer_frame(b"x")[4:], "negative"),
        (
            TO_CONSUMER,
            buffer_frame(b"abc", (1, 2))[:-11] + struct.pack(">ii", 2, 2) + b"abc",
            "partial",
        ),
    ],
    ids=[
        "a frame that claims too much",
        "a payload that does",
        "a negative length",
        "partial sizes",
    ],
)
def test_a_header_that_cannot_be_is_rejected_before_its_body(
    direction: Direction, data: bytes, match: str
) -> None:
    with pytest.raises(errors.FrameCorruptedError, match=match):
        FrameDecoder(direction, frame_bytes_max=1000).feed(data)


@pytest.mark.parametrize("length", [-1, 0, 3, 8])
@pytest.mark.parametrize("direction", Direction)
def test_a_length_below_the_frame_header_is_rejected(direction: Direction, length: int) -> None:
    message_id = CloseRequest.ID if direction is TO_PRODUCER else BacklogAnnouncement.ID
    with pytest.raises(errors.FrameCorruptedError):
        FrameDecoder(direction).feed(frame(message_id, length=length))


@pytest.mark.parametrize("direction", Direction)
def test_only_ids_of_the_direction_are_known(direction: Direction) -> None:
    for message_id in range(256):
        data = frame(message_id, bytes(100))
        from_producer = message_id in (0, 1, 9)
        known = message_id <= 11 and from_producer == (direction is TO_CONSUMER)
        if known:
            with suppress(errors.FrameCorruptedError):
                FrameDecoder(direction).feed(data)
        else:
            unknown = f"message id {message_id} is not known from {direction.value}"
            with pytest.raises(errors.UnknownMessageError, match=unknown):
                FrameDecoder(direction).feed(data)


def test_an_unknown_layout_is_our_own_error() -> None:
    with pytest.raises(errors.LocalProtocolError, match=r"1\.15"):
        FrameDecoder(TO_CONSUMER, "1.15")


@compares_in(0.5)
@given(strategies.buffer_responses(), st.sampled_from(sorted(LAYOUTS)))
def test_the_layout_of_any_buffer_response_is_detected(
    message: BufferResponse, layout: str
) -> None:
    assume(compares(message.data_type <= LAYOUTS[layout].data_type_max))
    assert detect_layout(message.encode(layout)) is LAYOUTS[layout]


def test_the_shortest_frame_of_layout_1_20_is_shorter_than_a_header_of_2_x() -> None:
    empty = BufferResponse(RECEIVER, 0, 0, 0, DataType.DATA_BUFFER, False, b"")
    assert detect_layout(empty.encode("1.20")) is LAYOUTS["1.20"]


def test_a_buffer_response_whose_sizes_disagree_has_no_layout() -> None:
    message = BufferResponse(RECEIVER, 0, 0, 0, DataType.DATA_BUFFER, False, bytes(10))
    assert detect_layout(frame(0, message.encode()[9:] + b"surplus")) is None


@given(st.binary(max_size=100))
def test_other_bytes_have_no_layout(data: bytes) -> None:
    assert detect_layout(data) is None
    assert detect_layout(frame(6, data)) is None
