"""ConsumerConnection: who gets which message, what breaks a channel and what breaks all."""

from __future__ import annotations

import pytest

from flinknet import errors
from flinknet.core.buffers import DataType
from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.java_errors import (
    PARTITION_NOT_FOUND_EXCEPTION,
    PRODUCER_FAILED_EXCEPTION,
    JavaThrowable,
)
from flinknet.core.wire.layout import encode_buffer_response_header
from flinknet.core.wire.messages import (
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    ErrorResponse,
    PartitionRequest,
)
from tests.pair import OTHER_RECEIVER, Consumer

DATA = DataType.DATA_BUFFER
BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER


def response(
    receiver_id: InputChannelID,
    sequence_number: int = 0,
    *,
    backlog: int = 0,
    data_type: DataType = DATA,
    payload: bytes = b"payload",
    pieces: tuple[int, ...] = (),
) -> BufferResponse:
    return BufferResponse(
        receiver_id, 0, sequence_number, backlog, data_type, False, payload, pieces
    )


def consumer_of(channels: int = 1, *, exclusive_buffers: int = 2) -> Consumer:
    consumer = Consumer(channels=channels, exclusive_buffers=exclusive_buffers)
    consumer.sent()
    return consumer


def with_channel(*, exclusive_buffers: int = 2) -> tuple[Consumer, RemoteInputChannel]:
    consumer = consumer_of(exclusive_buffers=exclusive_buffers)
    return consumer, consumer.channels[0]


def close_whole(consumer: Consumer) -> None:
    consumer.close()
    assert consumer.memory.available_buffers == consumer.memory.total_buffers


def failure(consumer: Consumer, channel: int = 0) -> errors.FlinknetError:
    error = consumer.channels[channel].error
    assert error is not None
    return error


@pytest.mark.row("S075")
def test_each_channel_asks_once_for_its_subpartition_with_its_exclusive_buffers_as_credit() -> None:
    consumer = Consumer(channels=3, exclusive_buffers=2)
    requests = consumer.sent()
    assert [r.queue_index_set.start_index for r in requests if isinstance(r, PartitionRequest)] == [
        0,
        1,
        2,
    ]
    assert {r.credit for r in requests if isinstance(r, PartitionRequest)} == {2}
    assert consumer.sent() == []


def test_a_connection_is_ready_while_it_has_credit_or_a_message_to_send() -> None:
    consumer = Consumer(channels=1)
    (channel,), connection = consumer.channels, consumer.connection
    found = []
    for happens in (
        lambda: None,  # its request waits
        lambda: consumer.receive(response(channel.receiver_id)),  # it gets a floating buffer
        consumer.consume,  # which goes back
        lambda: consumer.receive(BacklogAnnouncement(1, OTHER_RECEIVER)),  # it is to be cancelled
    ):
        happens()
        found.append(connection.is_ready)
        consumer.sent()
        assert not connection.is_ready
    assert found == [True, True, False, True]


@pytest.mark.row("S094")
def test_data_events_and_empty_buffers_each_go_their_way() -> None:
    consumer, channel = with_channel()
    receiver_id = channel.receiver_id
    consumer.receive(
        response(receiver_id, 0, payload=b"data"),
        response(receiver_id, 1, payload=b"", backlog=3),
        response(receiver_id, 2, data_type=DataType.EVENT_BUFFER, payload=b"event"),
    )
    assert channel.buffers.required_buffers == 0 + 2
    assert consumer.consume() == [
        (0, DataType.DATA_BUFFER, b"data"),
        (0, DataType.EVENT_BUFFER, b"event"),
    ]
    close_whole(consumer)


def test_an_empty_buffer_costs_a_credit_that_is_given_again() -> None:
    consumer, channel = with_channel()
    channel.buffers.required_buffers = 2
    consumer.receive(response(channel.receiver_id, payload=b"", backlog=-1))
    assert [m.credit for m in consumer.sent() if isinstance(m, AddCredit)] == [1]
    assert channel.expected_sequence_number == 1


@pytest.mark.row("S060")
def test_events_need_no_buffer() -> None:
    consumer, channel = with_channel(exclusive_buffers=0)
    consumer.receive(response(channel.receiver_id, data_type=BARRIER, payload=b"x" * 5000))
    assert [len(payload) for _, _, payload in consumer.consume()] == [5000]
    assert consumer.pool.used_buffers == 0


@pytest.mark.row("S048")
def test_a_gap_in_the_sequence_fails_the_channel_and_recycles_the_buffer() -> None:
    consumer, channel = with_channel()
    consumer.receive(*(response(channel.receiver_id, number) for number in (0, 1, 3)))
    error = failure(consumer)
    assert isinstance(error, errors.BufferReorderingError)
    assert "expected sequence number 2, received 3" in str(error)
    taken = [consumer.gate.poll() for _ in range(2)]
    assert all(taken)
    with pytest.raises(errors.BufferReorderingError):
        consumer.gate.poll()
    for polled in taken:
        polled[1].recycle()
    close_whole(consumer)


def test_sequence_numbers_wrap_as_javas_ints_do() -> None:
    consumer, channel = with_channel()
    channel.expected_sequence_number = 2**31 - 1
    consumer.receive(
        response(channel.receiver_id, 2**31 - 1), response(channel.receiver_id, -(2**31))
    )
    assert channel.error is None
    assert channel.expected_sequence_number == -(2**31) + 1


@pytest.mark.row("S061")
def test_a_released_channel_is_cancelled_once_and_gives_everything_back() -> None:
    consumer, channel = with_channel()
    consumer.receive(response(channel.receiver_id, backlog=5), response(channel.receiver_id, 1))
    consumer.sent()
    consumer.close()
    consumer.close()
    assert consumer.sent() == [CancelPartitionRequest(channel.receiver_id)]
    assert consumer.memory.available_buffers == consumer.memory.total_buffers


@pytest.mark.row("S047")
@pytest.mark.row("S061")
def test_a_channel_released_in_the_middle_of_a_buffer_drops_it() -> None:
    consumer, channel = with_channel()
    frame = response(channel.receiver_id, backlog=3, payload=b"payload").encode()
    consumer.connection.receive_data(memoryview(frame[:50]), now_ns=0)
    consumer.close()
    consumer.connection.receive_data(memoryview(frame[50:]), now_ns=0)
    assert not channel.received
    assert consumer.gate.poll() is None
    assert consumer.memory.available_buffers == consumer.memory.total_buffers


def test_a_connection_lost_in_the_middle_of_a_buffer_gives_the_buffer_back() -> None:
    consumer, channel = with_channel()
    frame = response(channel.receiver_id, payload=b"payload").encode()
    consumer.connection.receive_data(memoryview(frame[:50]), now_ns=0)
    consumer.connection.receive_eof(now_ns=0)
    close_whole(consumer)


@pytest.mark.row("S095")
@pytest.mark.parametrize("chunk_bytes", [1, 3, 47, 54])
def test_the_stream_may_be_cut_anywhere(chunk_bytes: int) -> None:
    consumer = consumer_of()
    receiver_id = consumer.channels[0].receiver_id
    stream = b"".join(
        message.encode()
        for message in (
            response(receiver_id, 0, payload=bytes(range(100)), backlog=1),
            BacklogAnnouncement(3, receiver_id),
            response(receiver_id, 1, data_type=DataType.EVENT_BUFFER, payload=b"event"),
            response(receiver_id, 2, payload=b"", backlog=1),
            response(receiver_id, 3, payload=b"abc", pieces=(1, 2)),
            response(receiver_id, 5, payload=b"end", backlog=0),
        )
    )
    for start in range(0, len(stream), chunk_bytes):
        chunk = memoryview(stream[start : start + chunk_bytes])
        consumer.connection.receive_data(chunk, now_ns=0)
    assert [payload for _, _, payload in consumer.consume()] == [
        bytes(range(100)),
        b"event",
        b"a",
        b"bc",
        b"end",
    ]


@pytest.mark.row("S095")
def test_a_payload_is_laid_into_the_channels_buffer_as_it_comes() -> None:
    consumer, channel = with_channel()
    payload = bytes(range(100))
    frame = response(channel.receiver_id, payload=payload).encode()
    start = len(frame) - len(payload)
    consumer.connection.receive_data(memoryview(frame[:start]), now_ns=0)
    buffer = consumer.connection._handler.buffer
    assert buffer.segment.index >= 0  # of network memory
    for count in range(1, 101):
        piece = memoryview(frame)[start + count - 1 : start + count]
        consumer.connection.receive_data(piece, now_ns=0)
        assert buffer.view[:count] == payload[:count]
    assert [each for each, _ in channel.received] == [buffer]


def test_pieces_in_one_message_cost_one_credit_and_a_sequence_number_each() -> None:
    consumer, channel = with_channel()
    consumer.receive(response(channel.receiver_id, 0, payload=b"abcdef", pieces=(1, 2, 3)))
    assert channel.expected_sequence_number == 3
    assert channel.buffers.available_buffers == 2
    consumer.receive(
        response(
            channel.receiver_id,
            3,
            data_type=DataType.END_OF_DATA,
            payload=b"ee",
            pieces=(1, 1),
        )
    )
    assert [payload for _, _, payload in consumer.consume()] == [b"a", b"bc", b"def", b"e", b"e"]


def test_a_payload_larger_than_a_segment_breaks_the_connection_and_loses_no_buffer() -> None:
    consumer = consumer_of()
    free = consumer.channels[0].buffers.available_buffers
    with pytest.raises(
        errors.FrameCorruptedError, match="101 bytes does not fit a buffer of 100 bytes"
    ):
        consumer.receive(response(consumer.channels[0].receiver_id, payload=b"x" * 101))
    assert consumer.channels[0].buffers.available_buffers == free
    close_whole(consumer)


@pytest.mark.row("S100")
def test_a_lost_connection_fails_every_channel_and_refuses_new_ones() -> None:
    consumer = consumer_of(2)
    consumer.connection.receive_eof(now_ns=0)
    assert all(isinstance(failure(consumer, i), errors.RemoteTransportError) for i in range(2))
    assert "the producer" in str(failure(consumer))
    late = Consumer()
    consumer.connection.request_subpartition(late.channels[0], now_ns=0)
    assert late.channels[0].error is consumer.connection.error
    assert consumer.sent() == []
    with pytest.raises(errors.RemoteTransportError):
        consumer.consume()


def test_the_end_of_a_connection_without_channels_is_no_error() -> None:
    consumer = consumer_of()
    consumer.close()
    consumer.connection.receive_eof(now_ns=0)
    assert consumer.connection.error is None


@pytest.mark.row("S091")
def test_an_error_for_a_receiver_fails_that_channel_alone() -> None:
    consumer = consumer_of(3)
    consumer.connection.backoff_policy = RequestBackoffPolicy(0, 0)
    not_found, failed, well = consumer.channels
    consumer.receive(
        ErrorResponse(JavaThrowable(PARTITION_NOT_FOUND_EXCEPTION, "gone"), not_found.receiver_id),
        ErrorResponse(JavaThrowable(PRODUCER_FAILED_EXCEPTION, "died"), failed.receiver_id),
        ErrorResponse(JavaThrowable(PRODUCER_FAILED_EXCEPTION, "died"), OTHER_RECEIVER),
        response(failed.receiver_id),
        response(well.receiver_id, payload=b"ok"),
    )
    assert isinstance(failure(consumer, 0), errors.PartitionNotFoundError)
    assert isinstance(failure(consumer, 1), errors.ProducerFailedError)
    assert well.error is None
    assert consumer.connection.error is None
    assert not failed.received
    assert len(well.received) == 1
    assert "gone" in str(failure(consumer, 0))


def test_a_frame_too_large_to_be_believed_breaks_the_connection() -> None:
    consumer = consumer_of()
    header = (1 << 30).to_bytes(4, "big") + b"\xba\xdc\x0f\xfe\x01"
    with pytest.raises(errors.FrameCorruptedError, match="1073741824 bytes"):
        consumer.connection.receive_data(memoryview(header + bytes(50)), now_ns=0)


def test_an_event_too_large_to_be_believed_breaks_the_connection() -> None:
    consumer, channel = with_channel()
    event = DataType.EVENT_BUFFER
    header = encode_buffer_response_header(channel.receiver_id, 0, 0, 0, event, 0, 1 << 30)
    with pytest.raises(errors.FrameCorruptedError, match="an event of 1073741824 bytes"):
        consumer.connection.receive_data(memoryview(header), now_ns=0)


def test_garbage_fails_every_channel_and_the_first_error_stays() -> None:
    consumer = consumer_of(2)
    with pytest.raises(errors.RemoteProtocolError):
        consumer.connection.receive_data(memoryview(b"garbage garbage"), now_ns=0)
    first = consumer.connection.error
    assert isinstance(first, errors.RemoteProtocolError)
    consumer.connection.receive_eof(now_ns=0)
    assert consumer.connection.error is first
    assert failure(consumer, 1) is first


def test_the_end_of_data_is_acknowledged_in_the_order_of_the_messages() -> None:
    consumer, channel = with_channel()
    channel.acknowledge_all_records_processed()
    channel.release()
    assert consumer.sent() == [
        AckAllUserRecordsProcessed(channel.receiver_id),
        CancelPartitionRequest(channel.receiver_id),
    ]


def test_each_piece_of_a_message_is_recorded_with_the_backlog_at_the_last() -> None:
    rows: list[tuple[int, ...]] = []

    class ListProbe:
        def record(self, *values: int) -> None:
            rows.append(values)

    consumer = Consumer(probe=ListProbe())
    (channel,) = consumer.channels
    rows.clear()
    consumer.receive(
        response(channel.receiver_id, 0, backlog=4, pieces=(3, 3, 1)),
        response(channel.receiver_id, 3, payload=b"next"),
    )
    received = [(row[6], row[7], row[11]) for row in rows if row[2:4] == (1, 0)]
    assert received == [(0, 3, -1), (1, 3, -1), (2, 1, 4), (3, 4, 0)]


def test_what_came_in_part_for_a_closed_channel_is_given_back_when_the_connection_ends() -> None:
    consumer, channel = with_channel()
    half = memoryview(response(channel.receiver_id).encode())[:-1]
    consumer.connection.receive_data(half, now_ns=0)
    consumer.close()
    assert consumer.memory.available_buffers == consumer.memory.total_buffers - 1
    consumer.connection.receive_eof(now_ns=0)
    assert consumer.memory.available_buffers == consumer.memory.total_buffers
