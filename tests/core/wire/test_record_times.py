"""The times in each payload, however the stream is cut."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.core.wire.record_counter import RecordCounter
from flinknet.core.wire.records import (
    NO_TIME,
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
    encode_record,
)

instants = st.integers(-(2**63) + 3, 2**63 - 1)
others = st.one_of(
    instants.map(Watermark),
    instants.map(lambda at: LatencyMarker(at, bytes(16), 3)),
    st.sampled_from([0, -1]).map(WatermarkStatus),
    st.just(RecordAttributes(True)),
)
record = st.builds(Record, st.binary(max_size=30), st.none() | instants)
runs = st.builds(
    lambda size, times: [Record(bytes(size), at) for at in times],
    st.integers(0, 20),
    st.lists(instants, max_size=60),
)
streams = st.lists(record.map(lambda each: [each]) | others.map(lambda each: [each]) | runs).map(
    lambda parts: [each for part in parts for each in part]
)


def counter_with_times(*, is_lost: bool = False) -> RecordCounter:
    counter = RecordCounter(is_lost=is_lost)
    counter.times = RecordTimes()
    return counter


def times_in(counter: RecordCounter, payload: bytes) -> tuple[int, int, list[int]]:
    """Watermark, marker and sampled timestamps of a buffer."""
    counter.feed(memoryview(payload))
    assert counter.times is not None
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


@pytest.mark.parametrize("sizes", [(20,), (5, 9, 14, 6)], ids=["equal", "different"])
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
