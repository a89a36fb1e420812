"""Fields a peer rejects, and the fast functions on headers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire import layout
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.java_errors import JavaThrowable
from flinknet.core.wire.messages import (
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    ErrorResponse,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
    SegmentId,
    TaskEventRequest,
)
from flinknet.errors import FrameCorruptedError, LocalProtocolError
from tests.strategies import buffer_responses, consumer_messages, i32, positive_i32, receiver_ids

RECEIVER = InputChannelID(bytes(range(1, 17)))
data_types = st.sampled_from([kind for kind in DataType if kind.value])


@given(receiver_ids, i32, i32, i32, data_types, st.integers(0, 1), st.binary(min_size=1))
def test_fast_header_is_that_of_the_message(
    receiver_id: InputChannelID,
    subpartition_id: int,
    sequence_number: int,
    backlog: int,
    data_type: DataType,
    is_compressed: int,
    payload: bytes,
) -> None:
    values = (receiver_id, subpartition_id, sequence_number, backlog, data_type, is_compressed)
    header = layout.encode_buffer_response_header(*values, len(payload))
    assert len(header) == layout.BUFFER_RESPONSE_HEADER_BYTES == 47
    message = BufferResponse(
        receiver_id,
        subpartition_id,
        sequence_number,
        backlog,
        data_type,
        bool(is_compressed),
        payload,
    )
    assert header + payload == message.encode()
    assert layout.decode_buffer_response_header(b"??" + header, 2)[layout.RECEIVER :] == (
        *(receiver_id, subpartition_id, 0, sequence_number, backlog),
        *(data_type, is_compressed, len(payload)),
    )


@pytest.mark.row("S089")
@pytest.mark.parametrize(
    ("data_type", "payload"),
    [
        pytest.param(DataType.DATA_BUFFER, b"abcde", id="data"),
        pytest.param(DataType.EVENT_BUFFER, bytes(4), id="event"),
        pytest.param(DataType.DATA_BUFFER, b"", id="empty"),
    ],
)
def test_a_buffer_response_lies_on_the_wire_as_the_table_says(
    data_type: DataType, payload: bytes
) -> None:
    frame = (
        layout.encode_buffer_response_header(RECEIVER, 3, 7, 2, data_type, 0, len(payload))
        + payload
    )
    assert struct.unpack_from(">iIB", frame) == (len(frame), 0xBADC0FFE, 0)
    assert frame[9:25] == RECEIVER
    assert struct.unpack_from(">iiiibBi", frame, 25) == (3, 0, 7, 2, data_type, 0, len(payload))
    assert frame[47:] == payload
    found = BufferResponse.decode(frame[9:])
    assert (found.receiver_id, found.sequence_number, found.backlog) == (RECEIVER, 7, 2)
    assert (found.data_type, bytes(found.buffer)) == (data_type, payload)
    assert found.encode() == frame


@given(buffer_responses())
def test_fast_header_tells_partial_buffers(message: BufferResponse) -> None:
    header = layout.decode_buffer_response_header(message.encode(), 0)
    assert header[layout.PARTIAL_BUFFERS] == len(message.partial_buffer_sizes)
    assert header[layout.SIZE] == message.buffer_size


@pytest.mark.parametrize(
    ("offset", "damage"),
    [
        pytest.param(0, struct.pack(">i", -1), id="negative length"),
        pytest.param(4, b"\xde\xad", id="magic"),
        pytest.param(8, b"\x09", id="id"),
        pytest.param(29, struct.pack(">i", -1), id="negative number of partial buffers"),
        pytest.param(41, b"\x0e", id="data type 14"),
        pytest.param(41, b"\xff", id="data type -1"),
        pytest.param(43, struct.pack(">i", -1), id="negative size"),
        pytest.param(41, struct.pack(">BBi", 2, 0, 0), id="event without bytes"),
        pytest.param(41, struct.pack(">BBi", 0, 0, 0), id="none without bytes"),
    ],
)
def test_fast_header_rejects_what_flink_does_not_decode(offset: int, damage: bytes) -> None:
    header = bytearray(layout.encode_buffer_response_header(RECEIVER, 0, 1, 2, 1, 0, 5))
    header[offset : offset + len(damage)] = damage
    with pytest.raises(FrameCorruptedError):
        layout.decode_buffer_response_header(header, 0)


@pytest.mark.parametrize("data_type", [1, 8])
def test_fast_header_takes_empty_data(data_type: int) -> None:
    header = layout.encode_buffer_response_header(RECEIVER, 0, 1, 0, data_type, 0, 0)
    assert layout.decode_buffer_response_header(header, 0)[layout.SIZE] == 0


@pytest.mark.row("S098")
@given(receiver_ids, positive_i32)
def test_fast_credit_is_that_of_the_message(receiver_id: InputChannelID, credit: int) -> None:
    data = layout.encode_add_credit(receiver_id, credit)
    assert len(data) == layout.ADD_CREDIT_BYTES == 29
    assert AddCredit.decode(data[9:]) == AddCredit(credit, receiver_id)


@pytest.mark.row("S098")
@pytest.mark.parametrize("value", [0, -1, -(2**31)])
@pytest.mark.parametrize("kind", [AddCredit, NewBufferSize, BacklogAnnouncement, SegmentId])
def test_numbers_that_must_be_positive_are_rejected(kind: type[AddCredit], value: int) -> None:
    before = bytes(4) if kind is SegmentId else b""
    with pytest.raises(FrameCorruptedError, match="not positive"):
        kind.decode(before + struct.pack(">i16s", value, RECEIVER))


@given(consumer_messages(), st.binary(min_size=1, max_size=5))
def test_bytes_behind_a_request_are_ignored(message: Message, surplus: bytes) -> None:
    body = message.encode()[9:]
    assert type(message).decode(body + surplus) == message


@given(
    consumer_messages()
    | buffer_responses()
    | st.just(ErrorResponse(JavaThrowable("java.io.IOException", "x"), RECEIVER))
)
def test_a_cut_message_is_rejected(message: Message) -> None:
    body = message.encode()[9:]
    for cut in range(len(body)):
        with pytest.raises(FrameCorruptedError):
            type(message).decode(body[:cut])


def test_an_exception_of_unknown_serial_version_is_not_sent() -> None:
    with pytest.raises(LocalProtocolError, match=r"com\.example\.Mine"):
        ErrorResponse(JavaThrowable("com.example.Mine")).encode()


def test_an_event_of_negative_size_is_rejected() -> None:
    with pytest.raises(FrameCorruptedError, match="-1 bytes"):
        TaskEventRequest.decode(struct.pack(">i", -1) + bytes(100))


def test_a_negative_credit_is_decoded_because_only_the_request_fails() -> None:
    body = bytearray(60) + struct.pack(">ii16si", 0, 0, RECEIVER, -1)
    assert PartitionRequest.decode(bytes(body)).credit == -1


@pytest.mark.parametrize(("first", "last"), [(3, 1), (-1, 0), (-2, -1)])
def test_a_range_that_is_none_is_rejected(first: int, last: int) -> None:
    body = bytearray(60) + struct.pack(">ii16si", first, last, RECEIVER, 2)
    with pytest.raises(FrameCorruptedError, match="not a range"):
        PartitionRequest.decode(bytes(body))


@pytest.mark.parametrize(
    "kind", [CancelPartitionRequest, ResumeConsumption, AckAllUserRecordsProcessed]
)
def test_messages_of_a_receiver_alone_differ_only_in_their_id(
    kind: type[CancelPartitionRequest],
) -> None:
    expected = bytes.fromhex("00000019 badc0ffe") + bytes((kind.ID,)) + RECEIVER
    assert kind(RECEIVER).encode() == expected


@pytest.mark.parametrize(
    ("sequence_number", "buffers", "expected"),
    [
        (0, 1, 1),
        (5, 3, 8),
        (2**31 - 1, 1, -(2**31)),
        (2**31 - 2, 4, -(2**31) + 2),
        (-1, 1, 0),
    ],
)
def test_sequence_numbers_wrap_as_in_java(
    sequence_number: int, buffers: int, expected: int
) -> None:
    assert layout.next_sequence_number(sequence_number, buffers) == expected


def test_pieces_of_a_message_are_its_partial_buffers() -> None:
    message = BufferResponse(RECEIVER, -1, 1, 4, DataType.DATA_BUFFER, False, b"abcdef", (1, 2, 3))
    assert message.pieces() == [b"a", b"bc", b"def"]
    whole = BufferResponse(RECEIVER, 0, 1, 4, DataType.DATA_BUFFER, False, b"abc")
    assert whole.pieces() == [b"abc"]
