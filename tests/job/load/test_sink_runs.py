"""A sink: data that lies end to end is read as one, and every row is that of its buffer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers import DataType
from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.probe import TracePoint
from flinknet.core.wire.messages import BufferResponse
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.load.payload import RecordFactory
from flinknet.job.load.sink import LatencySink
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
