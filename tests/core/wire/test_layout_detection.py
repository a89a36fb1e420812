"""LayoutDetectingDecoder: streams of every release, read without being told which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.frames import FrameDecoder, LayoutDetectingDecoder
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import BacklogAnnouncement, Message
from flinknet.errors import FrameCorruptedError
from tests.core.wire.test_response_decoder import ListSink
from tests.golden_vectors import LAYOUT_OF_RELEASE, Vector, golden
from tests.strategies import chunkings, producer_messages

RECEIVER = InputChannelID(bytes(range(1, 17)))


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
