"""How many records end in each payload, however the stream is cut."""

from __future__ import annotations

from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.core.wire.record_counter import RUN_MIN, RecordCounter
from flinknet.core.wire.records import RECORD_BYTES_MAX

element_lists = st.lists(st.tuples(st.integers(0, 70), st.sampled_from([0, 1, 2, 4])), max_size=60)
runs = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([1, 2]), st.integers(1, 4 * RUN_MIN)), max_size=5
).map(lambda found: [(length, tag) for length, tag, times in found for _ in range(times)])


def encoded(elements: list[tuple[int, int]]) -> bytes:
    """Elements of a length and a tag each; those of length 0 have none."""
    return b"".join(
        length.to_bytes(4) + (bytes([tag]) + b"\xff" * (length - 1) if length else b"")
        for length, tag in elements
    )


def is_record(element: tuple[int, int]) -> bool:
    return element[0] == 0 or element[1] <= 1


@given(element_lists | runs, st.data())
def test_records_count_where_they_end(elements: list[tuple[int, int]], data: st.DataObject) -> None:
    stream = encoded(elements)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    ends = list(accumulate(4 + length for length, _ in elements))
    counter = RecordCounter()
    found, expected = [], []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found.append(counter.feed(memoryview(stream[start:stop])))
        expected.append(
            sum(
                start < end <= stop and is_record(each)
                for end, each in zip(ends, elements, strict=True)
            )
        )
        assert counter.is_inside_record == (stop not in (0, *ends))
    # A record of no bytes whose length was cut ends where the length does, as all others.
    assert found == expected
    assert counter.others == sum(not is_record(each) for each in elements)
    assert not counter.is_lost


@pytest.mark.parametrize("length", [RECORD_BYTES_MAX + 1, 0xFFFFFFFF, 0x80000000])
@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8])
def test_an_impossible_length_ends_the_count_until_it_is_restarted(length: int, cut: int) -> None:
    stream = length.to_bytes(4) + b"\x01" + bytes(20)
    counter = RecordCounter()
    counter.feed(memoryview(stream[:cut]))
    counter.feed(memoryview(stream[cut:]))
    assert counter.is_lost
    assert counter.feed(memoryview(encoded([(5, 1)]))) == 0
    counter.restart()
    assert counter.feed(memoryview(encoded([(5, 1)]))) == 1


def test_a_record_may_span_many_payloads() -> None:
    stream = encoded([(1000, 1), (3, 1)])
    counter = RecordCounter()
    counts = [counter.feed(memoryview(stream[at : at + 100])) for at in range(0, len(stream), 100)]
    assert counts == [0] * 10 + [2]


@settings(max_examples=40)
@given(
    st.integers(64, 2000),
    st.booleans(),
    st.integers(0, 5000),
    st.integers(1, 3000),
    st.integers(0, 1 << 32).map(Random),
)
def test_behind_missing_bytes_the_count_is_right_or_unknown_until_a_boundary_is_found(
    buffer_bytes: int, is_flushed: bool, missing_from: int, missing_bytes: int, random: Random
) -> None:
    elements = [(random.randrange(9, 300), random.randrange(2)) for _ in range(200)]
    stream = b"".join(
        length.to_bytes(4) + bytes([tag]) + random.randbytes(length - 1) for length, tag in elements
    )
    ends = list(accumulate(4 + length for length, _ in elements))
    cuts = [*range(buffer_bytes, len(stream), buffer_bytes), len(stream)]
    if is_flushed:  # a buffer that was not full ends with an element
        cuts = sorted({min(end for end in ends if end >= cut) for cut in cuts})
    counter, missing_to = RecordCounter(), missing_from + missing_bytes
    counted, unknown = [], 0
    for start, stop in zip([0, *cuts], cuts, strict=False):
        lost = range(max(start, missing_from), min(stop, missing_to))
        if not lost:
            records = counter.feed(memoryview(stream[start:stop]))
        else:
            records = counter.feed(memoryview(stream[start : lost.start]))
            counter.skip(len(lost))
            records += counter.feed(memoryview(stream[lost.stop : stop]))
        if counter.is_lost:
            counter.end_buffer()
            unknown += start >= missing_to
        else:
            counted.append((records, sum(start < end <= stop for end in ends)))
    assert all(found == expected for found, expected in counted)
    if is_flushed:
        assert unknown <= 3 + 3 * 304 // buffer_bytes
