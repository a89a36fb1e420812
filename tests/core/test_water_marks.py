"""Water marks: a memory between two thresholds, and a producer's connection that heeds them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.water_marks import WriteWaterMarks
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import AddCredit, BufferResponse, PartitionRequest
from tests.pair import RECEIVER, partition_id, partition_of, producer_of, records_of

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


@pytest.mark.row("S070")
@given(marks, marks)
def test_each_step_of_setting_them_keeps_low_below_high(
    before: list[int], after: list[int]
) -> None:
    seen = []

    class Watched(WriteWaterMarks):
        def set_low(self, low_bytes: int) -> None:
            super().set_low(low_bytes)
            seen.append((self.low_bytes, self.high_bytes))

        def set_high(self, high_bytes: int) -> None:
            super().set_high(high_bytes)
            seen.append((self.low_bytes, self.high_bytes))

    Watched(*before).set(*after)
    assert len(seen) == 2
    assert all(low <= high for low, high in seen)


@pytest.mark.parametrize("pair", [(0, 1), (-1, 5), (6, 5)])
def test_marks_that_contradict_each_other_change_nothing(pair: tuple[int, int]) -> None:
    found = WriteWaterMarks(10, 20)
    with pytest.raises(ValueError, match="low <= high"):
        found.set(*pair)
    with pytest.raises(ValueError, match="low <= high"):
        found.set_low(21)
    with pytest.raises(ValueError, match="low <= high"):
        found.set_high(9)
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
        assert found.pending_bytes == count


@pytest.mark.row("S070")
def test_a_producer_stops_above_the_high_mark_and_resumes_when_all_was_taken() -> None:
    partition, _ = partition_of(segment_size_bytes=SEGMENT_BYTES, buffers=20)
    connection, _ = producer_of(partition)
    connection.batch_bytes = WriteWaterMarks.classic(SEGMENT_BYTES).high_bytes + 1
    request = PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, 0), RECEIVER, 2)
    connection.receive_data(memoryview(request.encode()), now_ns=0)
    connection.receive_data(memoryview(AddCredit(8, RECEIVER).encode()), now_ns=0)
    data = b"r" * (8 * SEGMENT_BYTES)
    assert partition.emit(0, records_of([len(data)], data=data)) == len(data)
    partition.flush_all()
    high_bytes = connection.batch_bytes - 1
    sent_buffers = 0
    while pieces := connection.data_to_send(now_ns=0):
        sent = b"".join(pieces)
        buffers = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(sent)
        sizes = [len(each.buffer) for each in buffers if isinstance(each, BufferResponse)]
        assert sum(sizes[:-1]) <= high_bytes
        sent_buffers += len(sizes)
        assert len(sent) > high_bytes or sent_buffers == 8
    assert sent_buffers == 8
