"""Flow control before Flink 1.5: no credit on the wire; without a buffer the socket is not read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.wire.events import EndOfData, EndOfPartitionEvent, decode_event
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    ErrorResponse,
    PartitionRequest,
)
from flinknet.errors import FrameCorruptedError, RemoteTransportError
from tests.pair import record_bytes, sent_bytes
from tests.simulation import Rows
from tests.tcp_pair import RECORD_BYTES, TcpPair


def expected_payload(buffer: int, buffers: int) -> bytes:
    """What `TcpPair.write` laid into its n-th buffer."""
    data = record_bytes([RECORD_BYTES] * 2 * buffers)
    return data[buffer * 2 * RECORD_BYTES : (buffer + 1) * 2 * RECORD_BYTES]


@pytest.mark.row("S074")
def test_a_request_carries_no_credit_and_data_comes_all_the_same() -> None:
    pair = TcpPair(1, gate_buffers=8)
    (request,) = FrameDecoder(Direction.CONSUMER_TO_PRODUCER).feed(pair.requests)
    assert isinstance(request, PartitionRequest)
    assert request.credit == 0
    pair.write(0, 5)
    pair.carry()
    assert pair.waiting(0) == 5
    assert [pair.take(0) for _ in range(5)] == [expected_payload(i, 5) for i in range(5)]
    assert pair.answers() == []


@pytest.mark.row("S074")
def test_the_producer_sends_whatever_the_socket_takes_and_announces_no_backlog() -> None:
    pair = TcpPair(1, gate_buffers=1)
    pair.write(0, 50)
    messages = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(sent_bytes(pair.producer))
    assert len(messages) == 50
    assert not [each for each in messages if isinstance(each, BacklogAnnouncement)]


def test_without_a_buffer_reading_stops_and_what_was_read_is_staged_in_order() -> None:
    pair = TcpPair(1, gate_buffers=3)
    pair.write(0, 6)
    pair.carry()
    assert not pair.consumer.wants_data
    assert pair.waiting(0) == 3
    assert pair.staged_bytes == 300
    taken = []
    for _ in range(6):
        taken.append(pair.take(0))
        pair.turn()
    assert taken == [expected_payload(i, 6) for i in range(6)]
    assert pair.consumer.wants_data
    pair.close()
    assert pair.memory.available_buffers == pair.memory.total_buffers


def test_a_recycled_buffer_takes_one_staged_message_and_reading_goes_on_with_the_last() -> None:
    pair = TcpPair(1, gate_buffers=2)
    pair.write(0, 4)
    pair.carry()
    assert pair.consumer.next_deadline_ns() is None
    wants = []
    for _ in range(2):
        pair.take(0)
        assert pair.consumer.next_deadline_ns() == 0
        assert pair.consumer.is_ready
        pair.turn()
        assert pair.consumer.next_deadline_ns() is None
        assert not pair.consumer.is_ready
        wants.append(pair.consumer.wants_data)
    assert wants == [False, True]
    assert pair.waiting(0) == 2


@pytest.mark.row("S107")
def test_a_slow_channel_stages_the_messages_of_its_neighbour_behind_its_own() -> None:
    pair = TcpPair(2, gate_buffers=2)
    pair.write(1, 3)
    pair.carry()
    assert not pair.consumer.wants_data
    pair.write(0, 2)
    pair.carry()  # they were in what had been read already
    assert pair.waiting(0) == 0  # although its gate has every buffer free
    assert pair.pools[0].available_buffers == 2
    pair.take(1)
    pair.turn()
    assert pair.waiting(0) == 2
    assert pair.consumer.wants_data


@pytest.mark.row("S112")
def test_events_need_no_buffer_but_wait_behind_the_data_of_any_channel() -> None:
    pair = TcpPair(2, gate_buffers=2)
    pair.write(1, 3)
    pair.carry()
    pair.write_event(0, EndOfData())
    pair.carry()
    assert pair.waiting(0) == 0
    pair.take(1)
    pair.turn()
    payload = pair.take(0)
    assert payload is not None
    assert isinstance(decode_event(memoryview(payload)), EndOfData)


def test_an_event_passes_at_once_while_nothing_is_staged() -> None:
    pair = TcpPair(1, gate_buffers=1)
    pair.write(0, 1)
    pair.write_event(0, EndOfPartitionEvent())
    pair.carry()
    assert pair.consumer.wants_data
    assert pair.waiting(0) == 2


def test_a_message_that_has_come_in_part_gets_its_buffer_when_it_is_whole() -> None:
    pair = TcpPair(1, gate_buffers=1)
    pair.write(0, 3)
    data = sent_bytes(pair.producer)
    message_bytes = len(data) // 3
    pair.consumer.receive_data(memoryview(data)[: message_bytes + 60], now_ns=0)
    assert pair.consumer.wants_data  # the rest of the second message must come to be staged
    pair.consumer.receive_data(
        memoryview(data)[message_bytes + 60 : 2 * message_bytes + 70], now_ns=0
    )
    assert not pair.consumer.wants_data
    pair.take(0)
    pair.turn()
    assert pair.consumer.wants_data
    pair.consumer.receive_data(memoryview(data)[2 * message_bytes + 70 :], now_ns=0)
    assert not pair.consumer.wants_data
    assert pair.take(0) == expected_payload(1, 3)
    pair.turn()
    assert pair.take(0) == expected_payload(2, 3)


def test_a_channel_that_is_released_gives_way_to_those_behind_it() -> None:
    pair = TcpPair(2, gate_buffers=1)
    pair.write(1, 2)
    pair.carry()
    pair.write(0, 1)
    pair.carry()
    assert pair.waiting(0) == 0
    pair.channels[1].release()
    pair.turn()
    assert pair.waiting(0) == 1
    assert pair.consumer.wants_data
    assert [type(each) for each in pair.answers()] == [CancelPartitionRequest]
    pair.close()
    assert pair.memory.available_buffers == pair.memory.total_buffers


def test_a_pool_that_is_destroyed_drops_what_waits_for_it_and_reading_goes_on() -> None:
    pair = TcpPair(2, gate_buffers=1)
    pair.write(1, 2)
    pair.carry()
    pair.pools[1].destroy()
    pair.turn()
    assert pair.consumer.wants_data
    assert pair.waiting(1) == 1


def test_a_connection_that_ends_drops_what_is_staged() -> None:
    pair = TcpPair(2, gate_buffers=1)
    pair.write(1, 3)
    pair.carry()
    pair.take(1)  # the head has its buffer now, and no turn any more
    pair.consumer.receive_eof(now_ns=0)
    pair.close()
    assert pair.memory.available_buffers == pair.memory.total_buffers


@pytest.mark.parametrize("staged", [0, 1])
@pytest.mark.parametrize("cut_bytes", [0, 2])
def test_a_payload_larger_than_a_segment_breaks_the_connection(staged: int, cut_bytes: int) -> None:
    pair = TcpPair(1, gate_buffers=2)
    pair.write(0, 2 + staged)
    pair.carry()
    assert pair.staged_bytes == 100 * staged
    receiver = InputChannelID(pair.receivers[0])
    large = BufferResponse(receiver, 0, 2 + staged, 0, DataType.DATA_BUFFER, False, b"x" * 101)
    data = large.encode()
    if not staged:
        assert pair.take(0)
    with pytest.raises(FrameCorruptedError, match="101 bytes does not fit a buffer of 100 bytes"):
        pair.consumer.receive_data(memoryview(data[: len(data) - cut_bytes]), now_ns=0)
    assert isinstance(pair.channels[0].error, FrameCorruptedError)
    pair.close()
    assert pair.memory.available_buffers == pair.memory.total_buffers


def test_the_time_without_reading_ends_with_the_connection() -> None:
    rows = Rows()
    pair = TcpPair(1, gate_buffers=1, probe=rows)
    pair.write(0, 2)
    pair.carry()
    assert not pair.consumer.wants_data
    assert (rows.rows[-1].point, rows.rows[-1].at_ns) == (TracePoint.READING_STOPS, 0)
    pair.consumer.receive_eof(now_ns=100)
    assert (rows.rows[-1].point, rows.rows[-1].at_ns) == (TracePoint.READING_RESUMES, 100)


def test_an_error_of_the_producer_waits_its_turn_behind_what_is_staged() -> None:
    pair = TcpPair(2, gate_buffers=1)
    pair.write(1, 2)
    pair.carry()
    pair.producer.receive_data(memoryview(pair.requests), now_ns=0)  # twice, which is an error
    pair.carry()
    assert pair.consumer.error is None
    pair.take(1)
    pair.turn()
    assert isinstance(pair.consumer.error, RemoteTransportError)


def test_credit_is_refused_by_a_producer_that_knows_none() -> None:
    pair = TcpPair(1)
    pair.producer.receive_data(memoryview(AddCredit(2, pair.receivers[0]).encode()), now_ns=0)
    (answer,) = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(sent_bytes(pair.producer))
    assert isinstance(answer, ErrorResponse)
    assert "without credit" in (answer.cause.message or "")


def test_a_producer_that_waits_for_credit_fails_its_channel() -> None:
    pair = TcpPair(2)
    announcement = BacklogAnnouncement(3, pair.receivers[1]).encode()
    pair.consumer.receive_data(memoryview(announcement), now_ns=0)
    assert pair.channels[0].error is None
    assert isinstance(pair.channels[1].error, RemoteTransportError)


def test_probes_see_no_credit_and_when_reading_stops_and_goes_on() -> None:
    rows = Rows()
    pair = TcpPair(2, gate_buffers=1, probe=rows)
    pair.write(1, 2)
    pair.carry()
    pair.take(1)
    pair.turn()
    buffers = [row for row in rows.rows if row.kind == MessageKind.BUFFER_RESPONSE]
    assert {(row.credit_before, row.credit_after) for row in buffers} == {(-1, -1)}
    stops = [(row.point, row.channel) for row in rows.rows if row.point > TracePoint.WRITER_RESUMES]
    assert stops == [(TracePoint.READING_STOPS, 1), (TracePoint.READING_RESUMES, -1)]


@given(
    writes=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=12),
    takes=st.lists(st.integers(0, 2), max_size=60),
    piece_bytes=st.integers(1, 400),
    gate_buffers=st.integers(1, 4),
)
def test_whatever_is_slow_and_however_bytes_are_cut_all_arrives_in_order(
    writes: list[tuple[int, int]], takes: list[int], piece_bytes: int, gate_buffers: int
) -> None:
    pair = TcpPair(3, gate_buffers=gate_buffers)
    sent: list[list[bytes]] = [[], [], []]
    taken: list[list[bytes]] = [[], [], []]
    wire = bytearray()
    turns = iter(takes)
    for channel, buffers in writes:
        pair.write(channel, buffers)
        sent[channel] += [expected_payload(i, buffers) for i in range(buffers)]
        wire += sent_bytes(pair.producer)
        while wire and pair.consumer.wants_data:
            pair.consumer.receive_data(memoryview(bytes(wire[:piece_bytes])), now_ns=0)
            del wire[:piece_bytes]
            assert pair.consumer.wants_data == (pair.staged_bytes == 0)
        slow = next(turns, 0)
        payload = pair.take(slow)
        if payload is not None:
            taken[slow].append(payload)
        pair.turn()
    for _ in range(10_000):
        before = len(wire), [len(each) for each in taken]
        for channel in range(3):
            payload = pair.take(channel)
            if payload is not None:
                taken[channel].append(payload)
        pair.turn()
        if pair.consumer.wants_data and wire:
            pair.consumer.receive_data(memoryview(bytes(wire[:piece_bytes])), now_ns=0)
            del wire[:piece_bytes]
        if before == (len(wire), [len(each) for each in taken]) and not wire:
            break
    assert taken == sent
    pair.close()
    assert pair.memory.available_buffers == pair.memory.total_buffers
