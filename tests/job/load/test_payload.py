"""Record bytes as they stand in the table, and what the sink reads out of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import RecordSize
from flinknet.core.wire.records import Record, decode_element
from flinknet.job.load.arrivals import DrawnSizes
from flinknet.job.load.payload import (
    FEW_RECORDS,
    INSTANT_BITS,
    INSTANT_MASK,
    RecordFactory,
    serialize_mixed,
)
from tests.record_stream import RecordStreamDecoder

NUMBERS = 1 << (64 - INSTANT_BITS)


def values_of(data: memoryview) -> list[bytes]:
    """The values of the stream, read by the decoder of the wire."""
    decoder = RecordStreamDecoder()
    values = []
    for each in decoder.feed(data):
        element = decode_element(each)
        assert isinstance(element, Record)
        assert element.timestamp_ms is None
        values.append(element.value)
    assert decoder.pending_bytes == 0
    return values


def stamp_of(value: bytes) -> tuple[int, int]:
    stamp = int.from_bytes(value[:8], "big")
    return stamp >> INSTANT_BITS, stamp & INSTANT_MASK


@given(
    st.integers(8, 120),
    st.integers(0, 2**40),
    st.lists(st.integers(0, 2**50), min_size=1, max_size=20),
    st.integers(0, 2**50),
)
def test_every_record_carries_its_number_its_instant_and_its_lateness(
    size: int, first_number: int, instants: list[int], emitted_ns: int
) -> None:
    factory = RecordFactory(size, 20)
    data = factory.serialize(first_number, np.array(instants, np.int64), len(instants), emitted_ns)
    for index, (value, instant) in enumerate(zip(values_of(data), instants, strict=True)):
        assert len(value) == size
        assert stamp_of(value) == ((first_number + index) % NUMBERS, instant & INSTANT_MASK)
        if size >= 16:
            assert int.from_bytes(value[8:16], "big", signed=True) == emitted_ns - instant


def test_records_with_one_instant_are_on_time_even_after_late_ones() -> None:
    factory = RecordFactory(24, 10)
    factory.serialize(0, np.arange(10, dtype=np.int64), 10, 1000)
    data = factory.serialize(10, 77, 4, 77)
    values = values_of(data)
    assert [stamp_of(value) for value in values] == [(10 + i, 77) for i in range(4)]
    assert {value[8:16] for value in values} == {bytes(8)}
    padding = {value[16:] for value in values}
    assert len(padding) == 1
    assert padding != {bytes(8)}


@given(
    st.integers(1, 70),
    st.integers(0, 2**40) | st.integers(NUMBERS - 80, NUMBERS + 80),
    st.integers(0, 2**50),
)
def test_records_of_one_instant_are_those_of_many_equal_instants(
    count: int, first_number: int, instant: int
) -> None:
    factory = RecordFactory(17, 70)
    many = bytes(factory.serialize(first_number, np.full(count, instant, np.int64), count, instant))
    assert bytes(factory.serialize(first_number, instant, count, instant)) == many


@pytest.mark.parametrize("low", [8, 12, 16])
def test_mixed_records_have_their_sizes_and_the_same_fields(low: int) -> None:
    sizes = DrawnSizes(RecordSize(low, 40), seed=4).take(400)
    assert set(sizes.tolist()) == set(range(low, 41))
    instants = np.arange(1000, 1400, dtype=np.int64)
    data, ends = serialize_mixed(NUMBERS - 5, sizes, instants, 5000)
    values = values_of(data)
    assert [len(value) for value in values] == sizes.tolist()
    assert np.diff(ends, prepend=0).tolist() == [len(value) + 5 for value in values]
    for index, value in enumerate(values):
        assert stamp_of(value) == ((NUMBERS - 5 + index) % NUMBERS, 1000 + index)
        if len(value) >= 16:
            assert int.from_bytes(value[8:16], "big") == 4000 - index


def test_a_few_records_are_the_same_bytes_as_among_many() -> None:
    sizes = DrawnSizes(RecordSize(8, 40), seed=4).take(40)
    instants = np.arange(1000, 1040, dtype=np.int64)
    data, ends = serialize_mixed(NUMBERS - 5, sizes, instants, 1020)
    found, reached = b"", []
    for first in range(0, 40, FEW_RECORDS):
        few = slice(first, first + FEW_RECORDS)
        piece, own = serialize_mixed(NUMBERS - 5 + first, sizes[few], instants[few], 1020)
        reached += [len(found) + end for end in own]
        found += piece
    assert (found, reached) == (bytes(data), ends)


def test_no_records_are_no_bytes() -> None:
    none = np.empty(0, np.int64)
    data, ends = serialize_mixed(0, none, none, 0)
    assert (len(data), len(ends)) == (0, 0)
