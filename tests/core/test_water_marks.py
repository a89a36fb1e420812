"""Water marks: a memory between two thresholds, and a producer's connection that heeds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.connection import WriteWaterMarks
from flinknet.core.probe import NullProbe
from flinknet.core.producer import (
    PipelinedResultPartition,
    ProducerConnection,
    ResultPartitionManager,
)
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.layout import BUFFER_RESPONSE_HEADER_BYTES, Direction
from flinknet.core.wire.messages import AddCredit, ErrorResponse, PartitionRequest
from tests.pair import OTHER_RECEIVER, RECEIVER, partition_id, partition_of, records_of

SEGMENT_BYTES = 32 * 1024

marks = st.tuples(st.integers(1, 200_000), st.integers(1, 200_000)).map(sorted)


def test_the_defaults_are_those_of_netty() -> None:
    found = WriteWaterMarks()
    assert (found.low_bytes, found.high_bytes) == (32 * 1024, 64 * 1024)
    assert found.is_writable


@pytest.mark.row("S070")
def test_the_classic_marks_let_one_buffer_in_and_never_two() -> None:
    found = WriteWaterMarks.classic(SEGMENT_BYTES)
    assert (found.low_bytes, found.high_bytes) == (32_769, 65_536)


@pytest.mark.row("S070")
@given(marks, marks)
def test_both_marks_can_be_set_whatever_they_were(before: list[int], after: list[int]) -> None:
    found = WriteWaterMarks(*before)
    found.set(*after)
    assert [found.low_bytes, found.high_bytes] == after


@pytest.mark.parametrize("pair", [(0, 1), (-1, 5), (6, 5)])
def test_marks_that_contradict_each_other_change_nothing(pair: tuple[int, int]) -> None:
    found = WriteWaterMarks(10, 20)
    with pytest.raises(ValueError, match="low <= high"):
        found.set(*pair)
    assert (found.low_bytes, found.high_bytes) == (10, 20)


@pytest.mark.row("S070")
@given(marks, st.lists(st.integers(0, 250_000)))
def test_writability_ends_above_high_and_returns_below_low(
    pair: list[int], pending: list[int]
) -> None:
    low, high = pair
    found, is_writable = WriteWaterMarks(low, high), True
    for count in pending:
        found.set_pending(count)
        is_writable = count <= high if is_writable else count < low
        assert found.is_writable is is_writable


@pytest.mark.row("S070")
@pytest.mark.parametrize("is_credit_based", [True, False])
def test_a_producer_goes_on_below_the_high_mark_and_resumes_below_the_low_one(
    is_credit_based: bool,
) -> None:
    marks = WriteWaterMarks() if is_credit_based else WriteWaterMarks.classic(SEGMENT_BYTES)
    connection, _ = producer_with(30, marks, is_credit_based=is_credit_based)
    unsent_bytes = handed_over(connection)
    message_bytes = SEGMENT_BYTES + BUFFER_RESPONSE_HEADER_BYTES
    assert marks.high_bytes < unsent_bytes <= marks.high_bytes + message_bytes
    for left_bytes in (unsent_bytes, marks.high_bytes, marks.low_bytes):
        assert not handed_over(connection, left_bytes), "not below the low mark yet"
        assert not marks.is_writable
    unsent_bytes = marks.low_bytes - 1
    unsent_bytes += handed_over(connection, unsent_bytes)
    assert marks.high_bytes < unsent_bytes <= marks.high_bytes + message_bytes


@pytest.mark.row("S070")
def test_what_the_socket_has_room_for_does_not_wait() -> None:
    marks = WriteWaterMarks()
    connection, _ = producer_with(30, marks)
    room_bytes = 3 * SEGMENT_BYTES
    taken_bytes = handed_over(connection, room_bytes=room_bytes)
    assert taken_bytes > room_bytes + marks.high_bytes
    assert not handed_over(connection, taken_bytes - room_bytes)


@pytest.mark.row("S070")
def test_errors_leave_above_the_high_mark() -> None:
    connection, _ = producer_with(30, WriteWaterMarks())
    unsent_bytes = handed_over(connection)
    connection.receive_data(memoryview(AddCredit(1, OTHER_RECEIVER).encode()), now_ns=0)
    (answer,) = connection.data_to_send(now_ns=0, unsent_bytes=unsent_bytes, room_bytes=0)
    (error,) = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(answer)
    assert isinstance(error, ErrorResponse)


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 3000)), max_size=30))
def test_a_buffer_goes_back_when_the_socket_has_taken_it_and_not_before(
    turns: list[tuple[int, int]],
) -> None:
    buffers = 60
    connection, partition = producer_with(buffers, WriteWaterMarks(500, 1500), segment_bytes=400)
    unsent: list[int] = []  # bytes of each message that waits; the first maybe in part
    for taken_bytes, room_bytes in [*turns, (10**6, 10**6), (10**6, 0)]:
        while unsent and taken_bytes >= unsent[0]:
            taken_bytes -= unsent.pop(0)
        if unsent:
            unsent[0] -= taken_bytes
        pieces = connection.data_to_send(now_ns=0, unsent_bytes=sum(unsent), room_bytes=room_bytes)
        unsent += [len(head) + len(body) for head, body in messages_in(pieces)]
        queued = partition.subpartitions[0].buffers_in_backlog
        assert partition.pool.available_buffers <= buffers - queued - len(unsent)
    assert partition.pool.available_buffers == buffers


def messages_in(
    pieces: Sequence[bytes | memoryview],
) -> Iterator[tuple[bytes | memoryview, bytes | memoryview]]:
    """Header and payload of each message."""
    return zip(pieces[::2], pieces[1::2], strict=True)


def producer_with(
    buffers: int,
    marks: WriteWaterMarks,
    *,
    is_credit_based: bool = True,
    segment_bytes: int = SEGMENT_BYTES,
) -> tuple[ProducerConnection, PipelinedResultPartition]:
    """A connection with so many full buffers to send, and credit for all of them."""
    partition, _ = partition_of(segment_size_bytes=segment_bytes, buffers=buffers)
    manager = ResultPartitionManager()
    manager.register(partition)
    connection = ProducerConnection(
        manager,
        NullProbe(),
        {RECEIVER: 0},
        partition_request_timeout_ns=1,
        is_credit_based=is_credit_based,
        water_marks=marks,
    )
    credit = buffers if is_credit_based else 0
    request = PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, 0), RECEIVER, credit)
    connection.receive_data(memoryview(request.encode()), now_ns=0)
    data = b"r" * (buffers * segment_bytes)
    assert partition.emit(0, records_of([len(data)], data=data)) == len(data)
    partition.flush_all()
    return connection, partition


def handed_over(connection: ProducerConnection, unsent_bytes: int = 0, room_bytes: int = 0) -> int:
    """Bytes of what it hands over now."""
    pieces = connection.data_to_send(now_ns=0, unsent_bytes=unsent_bytes, room_bytes=room_bytes)
    return sum(map(len, pieces))
