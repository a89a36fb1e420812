"""Record streams of the golden vectors, as a real record writer and a real partition made them."""

from __future__ import annotations

from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.events import decode_event
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.records import (
    decode_element,
    encode_record,
)
from tests.golden_vectors import (
    LAYOUT_OF_RELEASE,
    Vector,
    describe_element,
    describe_event,
    describe_message,
    golden,
)
from tests.record_stream import RecordStreamDecoder


def buffers_of(release: str, vector: Vector) -> list[BufferResponse]:
    decoder = FrameDecoder(Direction.PRODUCER_TO_CONSUMER, LAYOUT_OF_RELEASE[release])
    messages = decoder.feed(bytes.fromhex(vector["hex"]))
    return [message for message in messages if isinstance(message, BufferResponse)]


@golden("records")
def test_frames_are_those_that_were_sent(release: str, vector: Vector) -> None:
    receiver_id = vector["fields"]["receiver_id"]
    assert [describe_message(buffer, release) for buffer in buffers_of(release, vector)] == [
        {"receiver_id": receiver_id, **frame} for frame in vector["fields"]["frames"]
    ]


@golden("records")
def test_stream_decodes_to_the_elements_that_were_written(release: str, vector: Vector) -> None:
    decoder = RecordStreamDecoder()
    received: list[Vector] = []
    for buffer in buffers_of(release, vector):
        if buffer.data_type.is_buffer:
            received += map(describe_element, map(decode_element, decoder.feed(buffer.buffer)))
        else:
            event = describe_event(decode_event(buffer.buffer), release)
            priority = buffer.data_type.has_priority
            received.append({"element": "event", "event": event, "priority": priority})
    assert received == vector["fields"]["elements"]
    assert decoder.pending_bytes == 0


@golden("records")
def test_elements_encode_to_the_bytes_in_the_buffers(release: str, vector: Vector) -> None:
    payloads = [b.buffer for b in buffers_of(release, vector) if b.data_type.is_buffer]
    elements = map(decode_element, RecordStreamDecoder().feed(b"".join(payloads)))
    assert b"".join(map(encode_record, elements)) == b"".join(payloads)
