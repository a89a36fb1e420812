"""Sinks: data that lies end to end is read as one; records that flinknet did not make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers import DataType
from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.probe import TracePoint
from flinknet.core.wire.messages import BufferResponse
from flinknet.core.wire.records import (
    LatencyMarker,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    encode_record,
)
from flinknet.errors import FrameCorruptedError
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.load.payload import RecordFactory
from flinknet.job.load.sink import CountingSink, LatencySink, Run, StampedSink
from tests.load_tasks import sink_task
from tests.pair import Consumer
from tests.probes import ListProbe

SEGMENT_BYTES = 1000


class Reading:
    """A sink task and what it has to read."""

    def __init__(self, *, takes_runs: bool, delay_ns: int = 0) -> None:
        self.probe = ListProbe()
        self.consumer = Consumer(segment_size_bytes=SEGMENT_BYTES, probe=self.probe)
        self.sink = LatencySink(epoch_ns=0, delay_ns_per_record=max(0, delay_ns))
        self.task = sink_task(
            self.consumer.gate,
            (self.sink,),
            self.probe,
            takes_runs=takes_runs,
            delay_ns_per_record=delay_ns,
        )
        self.steps = 0

    @property
    def channel(self) -> RemoteInputChannel:
        return self.consumer.channels[0]

    def receive(self, data: bytes, *, backlog: int = 20) -> None:
        channel = self.channel
        self.consumer.receive(
            BufferResponse(
                channel.receiver_id,
                0,
                channel.expected_sequence_number,
                backlog,
                DataType.DATA_BUFFER,
                False,
                data,
            )
        )

    def read(self) -> None:
        now_ns: int | None = 1_000_000
        while now_ns is not None:
            now_ns = self.task.step(now_ns=now_ns)
            self.steps += 1
        self.task.rest(now_ns=1_000_000)

    @property
    def consumed(self) -> list[tuple[int, ...]]:
        return [event for event in self.probe.events if event[2] == TracePoint.CONSUMED]

    @property
    def figures(self) -> object:
        self.sink.settle()
        sink = self.sink
        return (
            (sink.records, sink.measured_records, sink.measured_bytes, sink.disorder),
            (
                sink.latency.count,
                sink.latency.total,
                run_input_of(self.task).checkpoints.read_bytes,
            ),
            (self.channel.buffers.available_buffers, self.channel.unannounced_credit),
        )


def records(value_bytes: int, total_bytes: int) -> bytes:
    """Records of one size, each due an instant later than the one before."""
    count = total_bytes // (value_bytes + 5) + 1
    factory = RecordFactory(value_bytes, 1)
    return b"".join(factory.serialize(i, 1000 + i, 1, 1000 + i) for i in range(count))[:total_bytes]


@given(
    value_bytes=st.integers(8, 60) | st.sampled_from([995, 996, 1500, 2500, 3000]),
    stretches=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 999)), min_size=1, max_size=4),
)
def test_a_run_gives_the_rows_and_figures_of_its_buffers(
    value_bytes: int, stretches: list[tuple[int, int]]
) -> None:
    both = Reading(takes_runs=False), Reading(takes_runs=True)
    total = sum(full * SEGMENT_BYTES + rest for full, rest in stretches)
    stream = records(value_bytes, total)
    for full, rest in stretches:
        sizes = [SEGMENT_BYTES] * full + [rest] * bool(rest)
        for size in sizes:
            piece, stream = stream[:size], stream[size:]
            for each in both:
                each.receive(piece)
        for each in both:
            each.read()
        assert both[1].probe.events == both[0].probe.events
        assert both[1].figures == both[0].figures


def test_what_lies_end_to_end_takes_one_step() -> None:
    reading = Reading(takes_runs=True)
    stream = records(95, 5 * SEGMENT_BYTES)
    for start in range(0, len(stream), SEGMENT_BYTES):
        reading.receive(stream[start : start + SEGMENT_BYTES])
    segments = [buffer.segment.index for buffer, _ in reading.channel.received]
    assert segments == list(range(segments[0], segments[0] + 5))
    reading.read()
    assert reading.steps == 1
    assert [row[8] for row in reading.consumed] == [10, 10, 10, 10, 10]


def test_each_buffer_of_a_run_took_the_same_part_of_its_time() -> None:
    reading = Reading(takes_runs=True)
    stream = records(95, 4 * SEGMENT_BYTES)
    for start in range(0, len(stream), SEGMENT_BYTES):
        reading.receive(stream[start : start + SEGMENT_BYTES])
    reading.task.step(now_ns=1_000_000)
    assert reading.consumed == []
    reading.task.rest(now_ns=1_000_040)
    assert [row[0] for row in reading.consumed] == [1_000_000, 1_000_010, 1_000_020, 1_000_030]
    assert [row[6] for row in reading.consumed] == [0, 1, 2, 3]


def test_a_slow_consumer_takes_buffers_one_by_one() -> None:
    reading = Reading(takes_runs=True, delay_ns=1000)
    for _ in range(3):
        reading.receive(records(95, SEGMENT_BYTES))
    assert reading.task.step(now_ns=0) == 10 * 1000
    assert len(reading.channel.received) == 2
    assert reading.task.step(now_ns=10 * 1000) == 2 * 10 * 1000
    assert len(reading.channel.received) == 1


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
