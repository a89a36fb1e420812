"""Where records begin and end, what waits, and what timeout 0 flushes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.producer import (
    BROADCAST,
    OutputFlusher,
    RebalanceSelector,
    RecordWriter,
    SerializedRecords,
)
from tests.pair import partition_of, record_bytes, records_of


@given(
    st.one_of(
        st.integers(1, 9).flatmap(lambda size: st.integers(1, 9).map(lambda n: [size] * n)),
        st.lists(st.integers(1, 9), min_size=1, max_size=9),
    )
)
def test_a_batch_knows_where_its_records_begin_and_end(lengths: list[int]) -> None:
    batches = [records_of(lengths, 100)]
    if len(set(lengths)) == 1:
        # the same batch told by its ends
        ends = np.cumsum(lengths).tolist()
        batches.append(SerializedRecords(batches[0].data, batches[0]._instants, ends=ends))
    record_of = [index for index, length in enumerate(lengths) for _ in range(length)]
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    for batch in batches:
        for position, record in enumerate(record_of):
            end = starts[record] + lengths[record]
            assert batch.locate(position) == (position - starts[record], end)
        for start in range(len(record_of) + 1):
            for stop in range(start, len(record_of) + 1):
                ended = [100 + r for r, at in enumerate(starts) if start < at + lengths[r] <= stop]
                expected = (len(ended), ended[0], ended[-1]) if ended else None
                assert batch.ended_between(start, stop) == expected


def test_one_instant_may_stand_for_all_records() -> None:
    batch = SerializedRecords(memoryview(bytes(20)), 77, record_bytes=5)
    assert batch.ended_between(0, 12) == (2, 77, 77)


def read(subpartition_index: int, writer: RecordWriter) -> bytes:
    data = bytearray()
    while (piece := writer.partition.subpartitions[subpartition_index].poll()) is not None:
        data += piece.view
        piece.recycle()
    return bytes(data)


@pytest.mark.row("S028")
@pytest.mark.parametrize(("timeout_ns", "is_visible"), [(0, True), (1, False), (-1, False)])
def test_timeout_0_makes_what_was_written_readable_at_once(
    timeout_ns: int, is_visible: bool
) -> None:
    partition, _ = partition_of(2)
    writer = RecordWriter(partition, RebalanceSelector(2, 1), buffer_timeout_ns=timeout_ns)
    writer.emit(1, records_of([10]))
    touched, untouched = partition.subpartitions[1], partition.subpartitions[0]
    assert touched.is_data_available == is_visible
    assert not untouched.is_data_available
    writer.emit(BROADCAST, records_of([10]))
    assert untouched.is_data_available == is_visible


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60)), max_size=40))
def test_each_channel_gets_the_bytes_written_to_it_in_order(
    written: list[tuple[int, int]],
) -> None:
    partition, memory = partition_of(3)
    writer = RecordWriter(partition, RebalanceSelector(3, 0), buffer_timeout_ns=0)
    expected = [bytearray() for _ in range(3)]
    for number, (channel, length) in enumerate(written):
        batch = records_of([length], number)
        writer.emit(channel, batch)
        expected[channel] += batch.data
    assert [read(index, writer) for index in range(3)] == expected
    partition.release()
    assert memory.available_buffers == memory.total_buffers


def test_records_wait_in_order_while_the_pool_is_exhausted() -> None:
    partition, _ = partition_of(2, buffers=3, pool_buffers=3)
    writer = RecordWriter(partition, RebalanceSelector(2, 0), buffer_timeout_ns=0)
    assert writer.is_available
    writer.emit(0, records_of([100] * 5))
    assert writer.is_waiting
    assert not writer.is_available
    writer.emit(1, records_of([100] * 4, 50))
    writer.emit(0, records_of([10], 90))
    assert not writer.resume()
    found = [bytearray(), bytearray()]
    turns = 0
    while writer.is_waiting:
        for index in range(2):
            found[index] += read(index, writer)
        writer.resume()
        turns += 1
        assert turns < 20
    for index in range(2):
        found[index] += read(index, writer)
    assert bytes(found[0]) == record_bytes([100] * 5) + record_bytes([10], 90)
    assert bytes(found[1]) == record_bytes([100] * 4, 50)
    assert writer.is_available


@pytest.mark.row("S028")
def test_the_flusher_beats_a_timeout_after_the_end_of_its_round() -> None:
    flusher = OutputFlusher(100, start_ns=1000, overhead_ns=20)
    assert flusher.next_deadline_ns() == 1100
    assert not flusher.is_due(now_ns=1099)
    assert flusher.is_due(now_ns=1100)
    assert not flusher.is_due(now_ns=1100)
    assert flusher.next_deadline_ns() == 1220
    assert flusher.is_due(now_ns=1230)
    assert flusher.next_deadline_ns() == 1340  # a round takes 20 in any case
    assert flusher.is_due(now_ns=1390)
    assert flusher.next_deadline_ns() == 1490
    flusher.stop()
    assert flusher.next_deadline_ns() is None
    assert not flusher.is_due(now_ns=10_000)


@pytest.mark.parametrize("timeout_ns", [0, -1])
def test_timeouts_0_and_minus_1_have_no_beat(timeout_ns: int) -> None:
    flusher = OutputFlusher(timeout_ns, start_ns=0)
    assert flusher.next_deadline_ns() is None
    assert not flusher.is_due(now_ns=2**60)
