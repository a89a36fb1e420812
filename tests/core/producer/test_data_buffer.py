"""Data buffers of sort-merge partitions: what lies where, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.producer.data_buffer import HashBasedDataBuffer, SortBasedDataBuffer
from tests.pair import record_bytes, records_of


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
