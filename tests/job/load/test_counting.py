"""Sinks for records that flinknet did not make."""

from __future__ import annotations

import pytest

from flinknet.core.wire.records import (
    LatencyMarker,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    encode_record,
)
from flinknet.errors import FrameCorruptedError
from flinknet.job.load.payload import RecordFactory
from flinknet.job.load.sink import CountingSink, Run, StampedSink


def run_of(*elements: StreamElement) -> Run:
    """Elements of equal length, as the record reader hands them on."""
    encoded = [encode_record(element) for element in elements]
    (length,) = {len(each) for each in encoded}
    return memoryview(b"".join(encoded)), 0, len(encoded), length


def test_records_are_told_from_other_elements() -> None:
    sink = CountingSink()
    done_ns = sink.receive(
        [
            run_of(Record(b"12345678"), Watermark(5), Record(b"abcdefgh")),
            run_of(Record(b"12345678", 1000)),
            run_of(WatermarkStatus(0)),
            run_of(LatencyMarker(1, bytes(16), 2)),
        ],
        now_ns=7,
    )
    sink.settle()
    assert (sink.records, sink.value_bytes, sink.other_elements) == (3, 24, 3)
    assert (sink.received_records, sink.first_record_ns, done_ns) == (3, -1, 7)


def test_each_record_takes_its_time() -> None:
    sink = CountingSink()
    sink.set_delay(10)
    assert sink.receive([run_of(Record(b"a"), Record(b"b"))], now_ns=5) == 25


def test_stamped_records_are_checked_whatever_their_epoch() -> None:
    factory = RecordFactory(20, 10)
    first = bytes(factory.serialize(0, 123, 10, 0))
    third = bytes(factory.serialize(20, 456, 10, 0))
    sink = StampedSink()
    sink.receive([(memoryview(first), 0, 10, 25)], now_ns=1)
    sink.receive([(memoryview(third), 0, 10, 25)], now_ns=2)
    sink.receive([(memoryview(first), 9 * 25, 1, 25)], now_ns=3)
    sink.settle()
    assert sink.value_bytes == 21 * 20
    assert (sink.disorder.lost, sink.disorder.repeated) == (10, 0)
    assert sink.disorder.reordered == 1
    assert sink.measured_records == 0  # their instants are of another epoch


@pytest.mark.parametrize("count", [1, 3])
def test_records_too_short_for_a_stamp_are_refused(count: int) -> None:
    data = encode_record(Record(b"123456")) * count
    record_bytes = len(data) // count
    with pytest.raises(FrameCorruptedError, match="leave out --stamped"):
        StampedSink().receive([(memoryview(data), 0, count, record_bytes)], now_ns=1)
