"""Messages, events and record streams of the golden vectors, both ways."""

from __future__ import annotations

import pytest

from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, DataType
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.compression import CompressionCodec, decompress
from flinknet.core.wire.events import data_type_of, decode_event, encode_pipelined
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.java_errors import parse_throwable
from flinknet.core.wire.layout import FRAME_HEADER, LAYOUTS, MAGIC, Direction, detect_layout
from flinknet.core.wire.messages import ErrorResponse, Message
from flinknet.core.wire.records import (
    decode_element,
    encode_record,
)
from flinknet.errors import FrameCorruptedError, RemoteProtocolError, UnknownMessageError
from tests.golden_vectors import (
    LAYOUT_OF_RELEASE,
    Vector,
    describe_element,
    describe_event,
    describe_message,
    encode,
    golden,
    vectors,
)
from tests.record_stream import RecordStreamDecoder

SINGLE_MESSAGES = (
    *("partition-request", "task-event-request", "add-credit", "cancel-partition-request"),
    *("resume-consumption", "ack-all-user-records-processed", "close-request", "new-buffer-size"),
    *("segment-id", "backlog-announcement", "data", "compressed", "partial", "error"),
    *("event-buffer", "event-pipelined"),
)
NOT_IN_OUR_DESCRIPTION = {
    *("event", "event_size", "trailing_bytes", "codec", "uncompressed", "uncompressed_parts"),
    *("uncompressed_size", "java_stream_offset", "java_stream_length", "written_by_hand"),
}


def decoder(release: str, direction: str) -> FrameDecoder:
    return FrameDecoder(Direction(direction), LAYOUT_OF_RELEASE[release])


def decode_all(release: str, direction: str, data: bytes) -> list[Message]:
    frames = decoder(release, direction)
    messages = frames.feed(data)
    assert frames.pending_bytes == 0
    return messages


@golden(*SINGLE_MESSAGES)
def test_message_decodes_to_its_fields_and_encodes_to_its_bytes(
    release: str, vector: Vector
) -> None:
    data = bytes.fromhex(vector["hex"])
    (message,) = decode_all(release, vector["direction"], data)
    fields = vector["fields"]

    assert type(message).__name__ == vector["kind"]
    described = describe_message(message, release)
    if vector["kind"] == "TaskEventRequest":
        assert described == fields
    else:
        assert described == {k: v for k, v in fields.items() if k not in NOT_IN_OUR_DESCRIPTION}
    if fields.get("written_by_hand", True):
        assert encode(message, release) == data


@golden("error")
def test_end_of_the_java_stream_is_found(release: str, vector: Vector) -> None:
    body = bytes.fromhex(vector["hex"])[vector["fields"]["java_stream_offset"] :]
    assert parse_throwable(body)[1] == vector["fields"]["java_stream_length"]


@golden("compressed", "partial")
def test_compressed_payload_unpacks_to_the_original(release: str, vector: Vector) -> None:
    (message,) = decode_all(release, vector["direction"], bytes.fromhex(vector["hex"]))
    assert isinstance(message, BufferResponse)
    fields = vector["fields"]
    pieces = message.pieces()
    if message.is_compressed:
        codec = CompressionCodec(fields["codec"])
        if codec is CompressionCodec.LZO:
            return  # refused by name
        pieces = [decompress(codec, piece, 32 * 1024) for piece in pieces]
    if "uncompressed_parts" in fields:
        assert [piece.hex() for piece in pieces] == fields["uncompressed_parts"]
    elif "uncompressed" in fields:
        assert b"".join(pieces).hex() == fields["uncompressed"]
    else:
        assert [len(piece) for piece in pieces] == fields["partial_buffer_sizes"]


@golden("stream")
def test_stream_of_several_frames_decodes_to_as_many_messages(release: str, vector: Vector) -> None:
    data = bytes.fromhex(vector["hex"])
    messages = decode_all(release, vector["direction"], data)
    encoded = [encode(message, release) for message in messages]
    assert list(map(len, encoded)) == vector["fields"]["frame_lengths"]
    assert b"".join(encoded) == data


REJECTED_STEPS: dict[str, type[RemoteProtocolError]] = {
    "conversation/unknown-message-id": UnknownMessageError,
    "conversation/wrong-magic": FrameCorruptedError,
    "conversation/range-upside-down": FrameCorruptedError,
}


@golden("conversation")
def test_both_sides_of_a_conversation_decode_and_encode(release: str, vector: Vector) -> None:
    for step in vector["fields"]["steps"]:
        if step["direction"] == "inside producer":
            continue
        data = bytes.fromhex(step["hex"])
        if step["direction"] == "consumer->producer" and vector["name"] in REJECTED_STEPS:
            with pytest.raises(REJECTED_STEPS[vector["name"]]):
                decoder(release, step["direction"]).feed(data)
            continue
        (message,) = decode_all(release, step["direction"], data)
        assert step["what"].startswith(type(message).__name__)
        if isinstance(message, ErrorResponse):
            assert message.cause.class_name in step["what"]
        else:
            assert encode(message, release) == data


@golden("conversation")
def test_what_the_producer_sent_in_a_conversation_is_one_stream(
    release: str, vector: Vector
) -> None:
    decoded = decode_all(release, "producer->consumer", bytes.fromhex(vector["hex"]))
    steps = vector["fields"]["steps"]
    assert len(decoded) == sum(step["direction"] == "producer->consumer" for step in steps)


OUTCOME_OF_CLASS_LOADING = (
    "odd/error-of-an-unknown-class",
    "odd/error-with-a-wrong-serial-version",
)
"""A JVM rejects these when it loads the class. We load none, and read what the exception says."""


@golden("odd")
def test_odd_input_has_the_outcome_it_has_at_flink(release: str, vector: Vector) -> None:
    outcome = vector["fields"]["outcome"]
    if vector["name"] in OUTCOME_OF_CLASS_LOADING:
        assert outcome == "rejected"
        outcome = "accepted"
    frames = decoder(release, vector["direction"])
    data = bytes.fromhex(vector["hex"])
    if outcome == "rejected":
        with pytest.raises(RemoteProtocolError):
            frames.feed(data)
    else:
        assert len(frames.feed(data)) == (1 if outcome == "accepted" else 0)


@golden("data", "compressed", "partial", "event-buffer", "event-pipelined")
def test_layout_is_detected_from_one_frame(release: str, vector: Vector) -> None:
    assert detect_layout(bytes.fromhex(vector["hex"])) is LAYOUTS[LAYOUT_OF_RELEASE[release]]


@pytest.mark.parametrize("release", LAYOUT_OF_RELEASE)
def test_constants_are_those_of_the_release(release: str) -> None:
    (meta,) = (vector["fields"] for vector in vectors(release) if vector["kind"] == "meta")
    layout = LAYOUTS[LAYOUT_OF_RELEASE[release]]
    assert meta["magic"] == MAGIC.hex()
    assert meta["frame_header_length"] == FRAME_HEADER.size
    assert meta["buffer_response_header_length"] == layout.header.size
    unused = {"requires_announcement", "is_partial_record"}
    flags = [{k: v for k, v in each.items() if k not in unused} for each in meta["data_types"]]
    assert flags == [
        {
            "ordinal": data_type.value,
            "name": data_type.name,
            "is_buffer": data_type.is_buffer,
            "is_event": not data_type.is_buffer and data_type is not DataType.NONE,
            "is_blocking_upstream": data_type in IS_BLOCKING_UPSTREAM,
            "has_priority": data_type is DataType.PRIORITIZED_EVENT_BUFFER,
        }
        for data_type in DataType
        if data_type <= layout.data_type_max
    ]


@golden("event")
def test_event_decodes_to_its_fields_and_encodes_to_its_bytes(release: str, vector: Vector) -> None:
    data = bytes.fromhex(vector["hex"])
    event = decode_event(data)
    assert describe_event(event, release) == vector["fields"]
    assert event.encode() == data


@golden("event-buffer", "event-pipelined")
def test_event_in_a_buffer_is_read_by_its_content(release: str, vector: Vector) -> None:
    fields = vector["fields"]
    payload = bytes.fromhex(fields["payload"])
    event = decode_event(payload)
    assert describe_event(event, release) == fields["event"]
    assert event.encode()[: fields["event_size"]] == payload[: fields["event_size"]]


@golden("event-pipelined")
def test_pipelined_partition_sends_the_whole_array(release: str, vector: Vector) -> None:
    payload = bytes.fromhex(vector["fields"]["payload"])
    exact = payload[: vector["fields"]["event_size"]]
    assert encode_pipelined(decode_event(exact)) == payload


@golden("event-buffer")
def test_event_is_sent_under_its_data_type(release: str, vector: Vector) -> None:
    fields = vector["fields"]
    data_type = DataType(fields["data_type"])
    event = decode_event(bytes.fromhex(fields["payload"]))
    assert data_type_of(event, data_type is DataType.PRIORITIZED_EVENT_BUFFER) is data_type


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
            priority = buffer.data_type is DataType.PRIORITIZED_EVENT_BUFFER
            received.append({"element": "event", "event": event, "priority": priority})
    assert received == vector["fields"]["elements"]
    assert decoder.pending_bytes == 0


@golden("records")
def test_elements_encode_to_the_bytes_in_the_buffers(release: str, vector: Vector) -> None:
    payloads = [b.buffer for b in buffers_of(release, vector) if b.data_type.is_buffer]
    elements = map(decode_element, RecordStreamDecoder().feed(b"".join(payloads)))
    assert b"".join(map(encode_record, elements)) == b"".join(payloads)
