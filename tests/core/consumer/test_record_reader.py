"""RecordReader: any cut of the stream gives the same records, in runs where they are alike."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.consumer import RecordReader
from flinknet.core.consumer.record_reader import LARGEST_RECORD_BYTES
from flinknet.errors import FrameCorruptedError
from tests.strategies import chunkings


def stream_of(lengths: list[int]) -> tuple[bytes, list[bytes]]:
    """Records of these lengths, back to back with their prefixes, and each alone."""
    records = [
        length.to_bytes(4, "big") + bytes([index % 256]) * length
        for index, length in enumerate(lengths)
    ]
    return b"".join(records), records


def read(reader: RecordReader, payload: bytes) -> list[bytes]:
    """The records that end in this buffer, each alone."""
    found = []
    for memory, offset, count, size in reader.read(memoryview(payload)):
        for index in range(count):
            start = offset + index * size
            found.append(bytes(memory[start : start + size]))
    return found


def is_within_record(reader: RecordReader) -> bool:
    """Whether an event would be an error now."""
    try:
        reader.check_between_records(0)
    except FrameCorruptedError:
        return True
    return False


def results_of(reader: RecordReader, payload: bytes) -> list[str]:
    """What Flink's deserialiser answers for a buffer, asked until the buffer is consumed: a record
    with more bytes behind it, the last record of the buffer, or a part of one.
    """
    runs = reader.read(memoryview(payload))
    records = sum(count for _, _, count, _ in runs)
    has_rest = is_within_record(reader)
    results = ["INTERMEDIATE"] * records
    if records and not has_rest:
        results[-1] = "LAST"
    return results + ["PARTIAL"] * has_rest


@pytest.mark.row("S055")
def test_golden_records_end_in_the_buffers_where_flink_finds_them() -> None:
    # payloads of 1, 20, 0, 58 and 3 bytes, each behind an int count: elements of 5, 24, 4, 62, 7
    stream, _ = stream_of([5, 24, 4, 62, 7])
    assert len(stream) == 122
    reader = RecordReader()
    assert [results_of(reader, stream[start : start + 32]) for start in range(0, 122, 32)] == [
        ["INTERMEDIATE", "PARTIAL"],
        ["INTERMEDIATE", "INTERMEDIATE", "PARTIAL"],
        ["PARTIAL"],
        ["INTERMEDIATE", "LAST"],
    ]


def test_an_event_in_the_middle_of_a_record_is_an_error() -> None:
    reader = RecordReader()
    reader.check_between_records(3)
    reader.read(memoryview(stream_of([20])[0][:10]))
    with pytest.raises(FrameCorruptedError, match="channel 3 in the middle of a record"):
        reader.check_between_records(3)


@pytest.mark.row("S055")
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=30)
    | st.integers(1, 30).flatmap(lambda size: st.integers(1, 30).map(lambda n: [size] * n)),
    st.data(),
)
def test_any_cut_gives_the_same_records(lengths: list[int], data: st.DataObject) -> None:
    stream, records = stream_of(lengths)
    reader = RecordReader()
    found = []
    position = 0
    ends = list(itertools.accumulate(map(len, records)))
    for chunk in data.draw(chunkings(stream)):
        found += read(reader, chunk)
        position += len(chunk)
        assert found == records[: sum(end <= position for end in ends)]
        assert is_within_record(reader) == (position not in [0, *ends])


def test_records_of_one_length_come_in_one_run() -> None:
    stream, _ = stream_of([8] * 10)
    reader = RecordReader()
    reader.read(memoryview(stream))
    assert [run[2:] for run in reader.read(memoryview(stream))] == [(10, 12)]


def test_a_run_ends_where_the_length_changes() -> None:
    stream, _ = stream_of([8, 8, 8, 9, 9, 8])
    runs = [run[1:] for run in RecordReader().read(memoryview(stream))]
    assert [(count, size) for _, count, size in runs] == [
        (1, 12),
        (2, 12),
        (1, 13),
        (1, 13),
        (1, 12),
    ]


@pytest.mark.parametrize("length", [0, -1, LARGEST_RECORD_BYTES + 1])
@pytest.mark.parametrize("cut", [1, 4])
def test_a_length_that_cannot_be_one_is_an_error(length: int, cut: int) -> None:
    prefix = length.to_bytes(4, "big", signed=True)
    reader = RecordReader()
    if cut < 4:
        reader.read(memoryview(prefix[:cut]))
        prefix = prefix[cut:]
    with pytest.raises(FrameCorruptedError, match="record stream"):
        reader.read(memoryview(prefix + bytes(10)))


def test_the_largest_length_is_believed() -> None:
    reader = RecordReader()
    assert reader.read(memoryview(LARGEST_RECORD_BYTES.to_bytes(4, "big") + b"begin")) == []
    assert is_within_record(reader)


def test_what_a_cut_record_needs_is_copied() -> None:
    stream, records = stream_of([20])
    memory = bytearray(stream[:10])
    reader = RecordReader()
    reader.read(memoryview(memory))
    memory[:] = bytes(10)
    assert read(reader, stream[10:]) == records
