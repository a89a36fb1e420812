"""Records that span buffers, stream elements, and what is counted and timed of them without
decoding.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.core.wire.java_errors import decode_modified_utf8, encode_modified_utf8
from flinknet.core.wire.record_counter import RUN_MIN, RecordCounter
from flinknet.core.wire.records import (
    NO_TIME,
    RECORD_BYTES_MAX,
    SAMPLES,
    WATERMARK_ACTIVE,
    WATERMARK_IDLE,
    LatencyMarker,
    Record,
    RecordAttributes,
    RecordTimes,
    StreamElement,
    Watermark,
    WatermarkStatus,
    decode_element,
    encode_record,
)
from flinknet.errors import FrameCorruptedError
from tests.strategies import elements

any_text = st.text(st.characters(), max_size=20)


@given(elements())
def test_encoding_an_element_yields_bytes_that_decode_to_it(element: StreamElement) -> None:
    assert decode_element(memoryview(element.encode())) == element


def test_an_empty_element_is_no_stream_element() -> None:
    with pytest.raises(FrameCorruptedError, match="nothing"):
        decode_element(b"")


def test_a_record_without_timestamp_takes_five_bytes_beside_its_value() -> None:
    assert len(encode_record(Record(bytes(100)))) == 100 + 5


def test_elements_have_the_bytes_of_the_reference() -> None:
    assert encode_record(Record((1).to_bytes(8, "big"))).hex() == "00000009010000000000000001"
    assert (
        encode_record(Record((1).to_bytes(8, "big"), 1000)).hex()
        == "000000110000000000000003e80000000000000001"
    )
    assert Watermark(2**63 - 1).encode().hex() == "027fffffffffffffff"
    assert WatermarkStatus(WatermarkStatus.IDLE).encode().hex() == "04ffffffff"


@given(st.binary(max_size=40))
def test_garbage_raises_nothing_but_corruption(garbage: bytes) -> None:
    with suppress(FrameCorruptedError):
        decode_element(garbage)
    with suppress(FrameCorruptedError):
        decode_modified_utf8(garbage)


@pytest.mark.parametrize("element", ["07", "02 00", "04 00000001", "05", "03 00", "06 00", "00 11"])
def test_bytes_that_are_no_element_are_corrupt(element: str) -> None:
    with pytest.raises(FrameCorruptedError):
        decode_element(bytes.fromhex(element))


@given(any_text)
def test_modified_utf8_round_trips(text: str) -> None:
    encoded = encode_modified_utf8(text)
    assert 0 not in encoded
    assert decode_modified_utf8(encoded) == text


def test_modified_utf8_has_no_zero_byte_and_no_sequence_of_four() -> None:
    assert encode_modified_utf8("a\0") == b"a\xc0\x80"
    assert encode_modified_utf8("😀").hex() == "eda0bdedb880"
    with pytest.raises(FrameCorruptedError, match="four bytes"):
        decode_modified_utf8("😀".encode())


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


instants = st.integers(-(2**63) + 3, 2**63 - 1)
others = st.one_of(
    instants.map(Watermark),
    instants.map(lambda at: LatencyMarker(at, bytes(16), 3)),
    st.sampled_from([0, -1]).map(WatermarkStatus),
    st.just(RecordAttributes(True)),
)
record = st.builds(Record, st.binary(max_size=30), st.none() | instants)
equal_runs = st.builds(
    lambda size, times: [Record(bytes(size), at) for at in times],
    st.integers(0, 20),
    st.lists(instants, max_size=60),
)
streams = st.lists(
    record.map(lambda each: [each]) | others.map(lambda each: [each]) | equal_runs
).map(lambda parts: [each for part in parts for each in part])


def counter_with_times(*, is_lost: bool = False) -> RecordCounter:
    counter = RecordCounter(is_lost=is_lost)
    counter.times = RecordTimes()
    return counter


def times_in(counter: RecordCounter, payload: bytes) -> tuple[int, int, list[int]]:
    """Watermark, marker and sampled timestamps of a buffer."""
    counter.feed(memoryview(payload))
    watermark, marker, *sample = counter.times.found() or (NO_TIME, NO_TIME)
    counter.times.begin()
    if counter.is_lost:
        counter.end_buffer()
    return watermark, marker, [each for each in sample if each != NO_TIME]


def expected_in(elements: list[StreamElement]) -> tuple[int, int, list[int]]:
    watermark = marker = NO_TIME
    timestamps = []
    for each in elements:
        match each:
            case Record(_, int() as timestamp):
                timestamps.append(timestamp)
            case Watermark(timestamp):
                watermark = timestamp
            case LatencyMarker(timestamp, _, _):
                marker = timestamp
            case WatermarkStatus(status):
                if status == WatermarkStatus.IDLE:
                    watermark = WATERMARK_IDLE
                elif watermark in (NO_TIME, WATERMARK_IDLE):
                    watermark = WATERMARK_ACTIVE
    return watermark, marker, timestamps


def is_sample(found: list[int], whole: list[int]) -> bool:
    """Whether these are elements of the list in its order: all of a short one, or every n-th."""
    if len(whole) <= SAMPLES:
        return found == whole
    strides = [1 << power for power in range(20)]
    return len(found) <= SAMPLES and any(
        found == whole[start::stride] for stride in strides for start in range(stride)
    )


@settings(max_examples=150)
@given(streams, st.data())
def test_the_times_of_a_buffer_are_those_of_the_elements_that_end_in_it(
    elements: list[StreamElement], data: st.DataObject
) -> None:
    encoded = list(map(encode_record, elements))
    stream, ends = b"".join(encoded), list(accumulate(map(len, encoded)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    counter = counter_with_times()
    for start, stop in pairwise([0, *cuts, len(stream)]):
        own = [each for each, end in zip(elements, ends, strict=True) if start < end <= stop]
        watermark, marker, sample = times_in(counter, stream[start:stop])
        expected = expected_in(own)
        assert (watermark, marker) == expected[:2]
        assert set(sample) <= set(expected[2])
        assert len(expected[2]) > SAMPLES or sample == expected[2]


@pytest.mark.parametrize("sizes", [(20,), (5, 9, 14, 6), (900, 450, 1, 700)])
@pytest.mark.parametrize("count", [9, 100, 1000])
def test_a_sample_stands_for_all_records(sizes: tuple[int, ...], count: int) -> None:
    """Every n-th one, n so large that there is room, from a start that changes."""
    encoded = b"".join(
        encode_record(Record(bytes(sizes[number % len(sizes)]), number)) for number in range(count)
    )
    counter = counter_with_times()
    samples = [times_in(counter, encoded)[2] for _ in range(400)]
    assert all(is_sample(each, list(range(count))) for each in samples)
    assert min(map(len, samples)) >= min(SAMPLES // 2, count // SAMPLES)
    weighted = [sum(each) / len(each) for each in samples]
    assert sum(weighted) / len(samples) == pytest.approx((count - 1) / 2, rel=0.05)


@given(st.integers(0, 3000), st.integers(1, 400), st.integers(64, 500))
@settings(max_examples=60)
def test_behind_missing_bytes_no_time_is_wrong(
    missing_from: int, missing_bytes: int, buffer_bytes: int
) -> None:
    """Timestamps count up, so that a wrong one could not pass for another record's."""
    elements = [Record(bytes(7 * number % 60), number + (77 << 40)) for number in range(150)]
    stream = b"".join(map(encode_record, elements))
    missing_to, counter = missing_from + missing_bytes, counter_with_times()
    found = []
    for start in range(0, len(stream), buffer_bytes):
        stop = start + buffer_bytes
        lost = range(max(start, missing_from), min(stop, missing_to))
        if lost:
            counter.feed(memoryview(stream[start : lost.start]))
            counter.skip(len(lost))
            start = lost.stop
        found += times_in(counter, stream[start:stop])[2]
    known = {each.timestamp_ms for each in elements}
    assert set(found) <= known


def test_a_stream_entered_in_a_record_has_no_time_for_it() -> None:
    elements = [Record(bytes(90), (77 << 40) + number) for number in range(40)]
    stream = b"".join(map(encode_record, elements))
    size = len(stream) // 40
    counter = counter_with_times(is_lost=True)
    buffers = [stream[50:size], *(stream[at : at + size] for at in range(size, 39 * size, size))]
    found = [each for buffer in buffers for each in times_in(counter, buffer)[2]]
    assert found
    assert found == [each.timestamp_ms for each in elements[-len(found) - 1 : -1]]


@pytest.mark.parametrize("element", [b"\x02" + bytes(7), b"\x00" + bytes(7), b"\x03" + bytes(8)])
def test_an_element_too_short_for_its_time_has_none(element: bytes) -> None:
    payload = 3 * (len(element).to_bytes(4) + element)
    assert times_in(counter_with_times(), payload + bytes(40)) == (NO_TIME, NO_TIME, [])
