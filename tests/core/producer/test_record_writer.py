"""Where records begin and end, in buffers and in the data buffers of sort-merge partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core import producer
from flinknet.core.producer.data_buffer import HashBasedDataBuffer, SortBasedDataBuffer
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
        batches.append(producer.SerializedRecords(batches[0].data, batches[0]._instants, ends=ends))
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
    batch = producer.SerializedRecords(memoryview(bytes(20)), 77, record_bytes=5)
    assert batch.ended_between(0, 12) == (2, 77, 77)


def read(subpartition_index: int, writer: producer.RecordWriter) -> bytes:
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
    writer = producer.RecordWriter(
        partition, producer.RebalanceSelector(2, 1), buffer_timeout_ns=timeout_ns
    )
    writer.emit(1, records_of([10]))
    touched, untouched = partition.subpartitions[1], partition.subpartitions[0]
    assert touched.is_data_available == is_visible
    assert not untouched.is_data_available
    writer.emit(producer.BROADCAST, records_of([10]))
    assert untouched.is_data_available == is_visible


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60)), max_size=40))
def test_each_channel_gets_the_bytes_written_to_it_in_order(
    written: list[tuple[int, int]],
) -> None:
    partition, memory = partition_of(3)
    writer = producer.RecordWriter(partition, producer.RebalanceSelector(3, 0), buffer_timeout_ns=0)
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
    writer = producer.RecordWriter(partition, producer.RebalanceSelector(2, 0), buffer_timeout_ns=0)
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
    flusher = producer.OutputFlusher(100, start_ns=1000, overhead_ns=20)
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
    flusher = producer.OutputFlusher(timeout_ns, start_ns=0)
    assert flusher.next_deadline_ns() is None
    assert not flusher.is_due(now_ns=2**60)


def segments(count: int, size: int = 100) -> list[memoryview]:
    """Memory of its own for each."""
    return [memoryview(bytearray(size)) for _ in range(count)]


def sizes(
    buffer: HashBasedDataBuffer | SortBasedDataBuffer, order: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Of each piece: subpartition, bytes, records that end in it."""
    return [(at, piece.size_bytes, piece.records) for at, piece in buffer.pieces(order)]


def test_a_segment_of_the_hash_layout_holds_one_subpartition() -> None:
    buffer = HashBasedDataBuffer(segments(4), 3)
    assert buffer.is_empty
    assert buffer.append(0, records_of([70] * 3), 0) == 210
    assert buffer.append(2, records_of([10]), 0) == 10
    assert buffer.append(1, records_of([1]), 0) == 0  # all segments are taken
    assert buffer.append(0, records_of([50, 41]), 0) == 50  # 40 bytes are left for it
    assert buffer.append(0, records_of([40]), 0) == 40
    assert sizes(buffer, (2, 0, 1)) == [(2, 10, 1), (0, 100, 1), (0, 100, 1), (0, 100, 3)]


def test_the_sort_layout_puts_an_index_entry_before_each_record_and_splits_no_entry() -> None:
    buffer = SortBasedDataBuffer(segments(3), segments(2), 2)
    assert buffer.append(0, records_of([50], 1), 0) == 50  # 66 bytes of the first segment
    assert buffer.append(1, records_of([30], 2), 0) == 30  # its last 18 and 12 of the second
    assert buffer.append(0, records_of([60], 3), 0) == 60  # up to 88: the 12 left hold no entry
    assert buffer.append(0, records_of([84], 4), 0) == 84  # all of the third
    assert buffer.append(1, records_of([1]), 0) == 0
    found = [(at, bytes(piece.payload)) for at, piece in buffer.pieces((1, 0))]
    behind = record_bytes([60], 3) + record_bytes([84], 4)
    assert found == [
        (1, record_bytes([30], 2)),
        (0, record_bytes([50], 1) + behind[:50]),
        (0, behind[50:]),
    ]
    assert sizes(buffer, (1, 0)) == [(1, 30, 1), (0, 100, 1), (0, 94, 2)]


def test_a_record_that_needs_a_byte_more_than_there_is_does_not_fit() -> None:
    for size, reached in ((184, 184), (185, 0)):
        buffer = SortBasedDataBuffer(segments(2), segments(1), 1)
        assert buffer.append(0, records_of([size]), 0) == reached
        assert buffer.is_empty == (not reached)
    for size, reached in ((200, 200), (201, 0)):
        hashed = HashBasedDataBuffer(segments(2), 1)
        assert hashed.append(0, records_of([size]), 0) == reached
        assert hashed.is_empty == (not reached)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_an_event_is_a_piece_of_its_own(is_sorted: bool) -> None:
    buffer: HashBasedDataBuffer | SortBasedDataBuffer = HashBasedDataBuffer(segments(4), 1)
    if is_sorted:
        buffer = SortBasedDataBuffer(segments(4), segments(2), 1)
    buffer.append(0, records_of([10]), 0)
    buffer.append_event(0, b"event")
    buffer.append(0, records_of([10]), 0)
    found = [(piece.is_event, bytes(piece.payload)) for _, piece in buffer.pieces((0,))]
    assert found == [(False, b"\0" * 10), (True, b"event"), (False, b"\0" * 10)]


@given(
    st.booleans(),
    st.integers(2, 12),
    st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.integers(1, 250), min_size=1, max_size=5)),
        max_size=12,
    ),
)
def test_whole_records_are_taken_and_given_out_by_subpartition(
    is_sorted: bool, count: int, appends: list[tuple[int, list[int]]]
) -> None:
    buffer: HashBasedDataBuffer | SortBasedDataBuffer = HashBasedDataBuffer(segments(count), 3)
    if is_sorted:
        buffer = SortBasedDataBuffer(segments(count - 1), segments(1), 3)
    expected = [bytearray() for _ in range(3)]
    records = [0] * 3
    for number, (at, lengths) in enumerate(appends):
        batch = records_of(lengths, number)
        reached = buffer.append(at, batch, 0)
        assert reached == len(batch.data) or batch.locate(reached)[0] == 0
        expected[at] += batch.data[:reached]
        mark = batch.ended_between(0, reached)
        records[at] += 0 if mark is None else mark[0]
    found = [bytearray() for _ in range(3)]
    counted = [0] * 3
    for at, piece in buffer.pieces((2, 0, 1)):
        found[at] += piece.payload
        counted[at] += piece.records
    assert found == expected
    assert counted == records
