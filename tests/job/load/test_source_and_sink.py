"""A source and a sink over a pair, with a hand-held clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig, RecordSize, SlowConsumer, WorkloadConfig
from flinknet.core.buffers import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.producer import (
    BroadcastSelector,
    ChannelSelector,
    ForwardSelector,
    KeyGroupSelector,
    RebalanceSelector,
)
from flinknet.core.wire.events import CancelCheckpointMarker, encode_pipelined
from flinknet.core.wire.messages import BufferResponse
from flinknet.errors import FrameCorruptedError, ProducerFailedError
from flinknet.job.load.arrivals import RecordedArrivals, ScheduledArrivals
from flinknet.job.load.load_tasks import delay_of, generator_of, run_input_of
from flinknet.job.load.outputs import RecordBatcher
from flinknet.job.load.run_input import PAUSED_NS
from flinknet.job.load.sink import Disorder
from flinknet.job.stream_task import TaskState
from tests.load_tasks import NETWORK, SIZE, TaskPair

MS = 1_000_000


def instants(*values_ns: int) -> RecordedArrivals:
    return RecordedArrivals(np.array(values_ns, np.int64))


def check_all_arrived(pair: TaskPair) -> None:
    assert pair.sink.is_finished
    assert pair.source.is_finished
    assert pair.received() == [pair.source.sent_records[i] for i in range(len(pair.sinks))]
    assert all(sink.disorder == Disorder() for sink in pair.sinks)
    pair.drive()
    assert pair.partition.is_released
    pair.input.close()
    for memory in (pair.producer_memory, pair.input.memory):
        assert memory.available_buffers == memory.total_buffers


@pytest.mark.parametrize(
    ("selector", "channels"),
    [
        (ForwardSelector(), 1),
        (RebalanceSelector(3, 1), 3),
        (KeyGroupSelector(3), 3),
        (BroadcastSelector(), 3),
    ],
    ids=["forward", "rebalance", "hash", "broadcast"],
)
@pytest.mark.parametrize(
    "size", [RecordSize(8, 8), RecordSize(300, 300), RecordSize(8, 2500)], ids=str
)
@pytest.mark.parametrize("is_max_rate", [True, False])
def test_every_record_arrives_once_and_in_order(
    selector: ChannelSelector, channels: int, size: RecordSize, is_max_rate: bool
) -> None:
    arrivals = None
    if not is_max_rate:
        arrivals = ScheduledArrivals("poisson", 1e6, start_ns=0, records=700, seed=3)
    pair = TaskPair(selector, channels=channels, size=size, records=700, arrivals=arrivals)
    pair.run()
    copies = channels if isinstance(selector, BroadcastSelector) else 1
    assert pair.source.emitted_records == 700
    assert sum(pair.received()) == 700 * copies
    assert sum(sink.measured_records for sink in pair.sinks) == 700 * copies
    check_all_arrived(pair)


@pytest.mark.row("S028")
@pytest.mark.parametrize(("timeout_ns", "consumed_ns"), [(100, 1100), (0, 1050), (-1, 5000)])
def test_a_record_waits_for_the_beat_of_its_buffer_timeout(
    timeout_ns: int, consumed_ns: int
) -> None:
    pair = TaskPair(
        ForwardSelector(),
        network=NetworkConfig(segment_size_bytes=1000, buffer_timeout_ns=timeout_ns),
        arrivals=instants(1050, 5000),
        start_ns=1000,
    )
    pair.run()
    consumed = [event for event in pair.probe.at(TracePoint.CONSUMED) if event[8] > 0]
    assert consumed[0][0] == consumed_ns
    assert pair.received() == [2]


def test_latency_counts_from_the_intended_instant_and_the_uncorrected_one_from_emission() -> None:
    pair = TaskPair(
        ForwardSelector(),
        network=NetworkConfig(segment_size_bytes=1000, buffer_timeout_ns=0),
        arrivals=instants(100, 200, 300),
    )
    pair.now_ns = 1000  # the source was held up
    pair.run()
    (sink,) = pair.sinks
    assert (sink.latency.summary().min, sink.latency.summary().max) == (700, 900)
    assert sink.uncorrected.summary().max == 0
    assert generator_of(pair.source).late_ns_max == 900


def test_at_the_highest_rate_records_count_from_the_measured_part_on() -> None:
    pair = TaskPair(ForwardSelector(), records=50, start_ns=100, measured_from_ns=100)
    assert pair.source.step(now_ns=99) == 100
    assert pair.source.emitted_records == 0
    pair.run()
    assert pair.source.emitted_records == 50
    warm = TaskPair(ForwardSelector(), records=50, measured_from_ns=1)
    warm.source.step(now_ns=0)
    batch = warm.source.emitted_records
    assert batch > 50
    warm.now_ns = 1
    warm.run()
    assert warm.source.emitted_records == batch + 50


def test_at_the_highest_rate_a_source_may_stop_at_an_instant() -> None:
    pair = TaskPair(ForwardSelector(), end_ns=10)
    assert pair.source.step(now_ns=9) == 9
    assert pair.source.state is TaskState.RUNNING
    pair.now_ns = 10
    pair.run()
    assert pair.source.emitted_records == pair.received()[0] > 0


@pytest.mark.row("S039")
def test_a_source_waits_while_the_consumer_is_paused_and_the_probe_sees_it() -> None:
    pair = TaskPair(ForwardSelector(), records=5000, delay_ns=PAUSED_NS)
    assert run_input_of(pair.sink).is_paused
    for _ in range(100):
        pair.turn()
    emitted = pair.source.emitted_records
    assert pair.writer.is_waiting
    assert not run_input_of(pair.sink).is_available
    for _ in range(100):
        pair.turn()
    assert pair.source.emitted_records == emitted
    paused_ns = pair.now_ns
    waits = pair.probe.at(TracePoint.WRITER_WAITS)
    assert len(waits) == 1
    assert waits[0][14] == 0
    run_input_of(pair.sink).unpause()
    pair.run()
    resumes = pair.probe.at(TracePoint.WRITER_RESUMES)
    assert resumes[0][0] >= paused_ns
    assert len(resumes) == len(pair.probe.at(TracePoint.WRITER_WAITS))
    check_all_arrived(pair)


def test_a_paused_consumer_fills_its_buffers_and_reads_none_of_them() -> None:
    pair = TaskPair(ForwardSelector(), records=5000, delay_ns=PAUSED_NS)
    for _ in range(100):
        pair.turn()
    sent = [event[4] for event in pair.probe.at(TracePoint.SENT) if event[3] == 0]
    buffers = NETWORK.exclusive_buffers + NETWORK.floating_buffers
    assert sent.count(DataType.DATA_BUFFER) == buffers
    assert pair.received()[0] == 0


def test_a_source_ends_only_when_every_consumer_has_acknowledged() -> None:
    pair = TaskPair(ForwardSelector(), records=1, delay_ns=PAUSED_NS)
    for _ in range(50):
        pair.turn()
    assert pair.source.state is TaskState.AWAITING_ACKNOWLEDGEMENT
    assert pair.source.step(now_ns=pair.now_ns) is not None  # the flusher still beats
    run_input_of(pair.sink).unpause()
    pair.run()
    assert run_input_of(pair.sink).has_ended_data
    assert pair.source.is_finished
    assert pair.source.step(now_ns=pair.now_ns) is None
    kinds = [event[3] for event in pair.probe.at(TracePoint.SENT)]
    acknowledged = kinds.index(MessageKind.ACK_ALL_USER_RECORDS_PROCESSED)
    assert kinds.index(MessageKind.RESUME_CONSUMPTION) < acknowledged
    check_all_arrived(pair)


def test_each_record_keeps_a_slow_sink_busy_and_its_buffer_taken() -> None:
    pair = TaskPair(
        ForwardSelector(),
        network=NetworkConfig(segment_size_bytes=1000, buffer_timeout_ns=0),
        arrivals=instants(0, 0, 0),
        delay_ns=10,
    )
    for _ in range(3):
        pair.source.step(now_ns=0)
        pair.step()
        pair.sink.step(now_ns=0)
        pair.step()
    assert pair.sink.step(now_ns=0) == 30
    assert pair.sink.step(now_ns=29) == 30
    free = pair.channels[0].buffers.available_buffers
    pair.sink.step(now_ns=30)
    assert pair.channels[0].buffers.available_buffers + pair.input.pool.available_buffers > free
    pair.now_ns = 30
    pair.run()
    summary = pair.sinks[0].latency.summary()
    assert (summary.count, summary.min, summary.max) == (3, 10, 30)
    check_all_arrived(pair)


@pytest.mark.parametrize("catches_up", [False, True])
def test_a_late_loop_takes_no_time_from_a_slow_sink_with_buffers(catches_up: bool) -> None:
    pair = TaskPair(
        ForwardSelector(),
        network=NetworkConfig(segment_size_bytes=1000, buffer_timeout_ns=0),
        arrivals=instants(*[0] * 60),
        delay_ns=1_000,
    )
    run_input_of(pair.sink).catches_up = catches_up
    for _ in range(3):
        pair.source.step(now_ns=0)
        pair.step()
        pair.sink.step(now_ns=0)
        pair.step()
    first_ns = pair.sink.step(now_ns=0)
    assert first_ns is not None
    late_ns = first_ns + 500
    second_ns = pair.sink.step(now_ns=late_ns)
    assert second_ns is not None
    assert (second_ns - (first_ns if catches_up else late_ns)) % 1_000 == 0
    pair.now_ns = second_ns
    pair.run()
    latest_ns = pair.sinks[0].latency.summary().max
    assert latest_ns == 60_000 + (0 if catches_up else 500)
    check_all_arrived(pair)


def test_a_slow_sink_behind_its_loop_takes_no_record_before_it_was_sent() -> None:
    sent_ns = 900_000
    pair = TaskPair(
        ForwardSelector(),
        network=NetworkConfig(segment_size_bytes=1000, buffer_timeout_ns=0),
        arrivals=instants(*[0] * 60, *[sent_ns] * 60),
        delay_ns=1_000,
    )
    run_input_of(pair.sink).catches_up = True
    for _ in range(3):
        pair.source.step(now_ns=0)
        pair.step()
        pair.sink.step(now_ns=0)
        pair.step()
    pair.now_ns = sent_ns + 100_000  # the loop was not running while the others were
    pair.run()
    latency = pair.sinks[0].latency
    assert latency.count == 120
    assert latency.min == 1_000
    check_all_arrived(pair)


def test_the_end_of_data_waits_for_the_last_records_that_found_no_buffer() -> None:
    pair = TaskPair(
        ForwardSelector(),
        size=RecordSize(900, 900),
        arrivals=instants(*range(100)),
        delay_ns=PAUSED_NS,
    )
    pair.now_ns = 1000
    for _ in range(30):
        pair.turn()
    assert pair.writer.is_waiting
    assert pair.source.state is TaskState.RUNNING
    run_input_of(pair.sink).unpause()
    pair.run()
    check_all_arrived(pair)


def test_a_cancelled_sink_gives_back_the_buffer_it_holds() -> None:
    pair = TaskPair(ForwardSelector(), records=10, delay_ns=1000)
    for _ in range(20):
        if pair.sink.step(now_ns=0) == 10_000:
            break
        pair.source.step(now_ns=0)
        pair.step()
    pair.sink.cancel()
    pair.sink.cancel()
    pair.input.close()
    assert pair.input.memory.available_buffers == pair.input.memory.total_buffers


def test_a_failed_channel_ends_the_sink_with_its_error() -> None:
    pair = TaskPair(ForwardSelector(), records=1)
    pair.channels[0].fail(ProducerFailedError("died"))
    with pytest.raises(ProducerFailedError):
        pair.sink.step(now_ns=0)


def test_the_delay_of_a_consumer_is_its_own() -> None:
    slow = (SlowConsumer(2, 500), SlowConsumer(0, PAUSED_NS))
    assert [delay_of(index, slow) for index in range(3)] == [PAUSED_NS, 0, 500]


@pytest.mark.row("S054")
def test_records_of_two_channels_that_span_buffers_are_all_read_and_the_end_is_told() -> None:
    """Segments of 100 bytes, records of 265: no record lies whole in a buffer."""
    network = replace(NETWORK, segment_size_bytes=100)
    pair = TaskPair(
        RebalanceSelector(2, 0), network=network, channels=2, size=RecordSize(260, 260), records=40
    )
    pair.run()
    assert pair.gate.poll() is None
    assert pair.received() == [20, 20]
    check_all_arrived(pair)


@pytest.mark.row("S054")
def test_an_event_between_the_parts_of_a_record_is_an_error() -> None:
    pair = TaskPair(ForwardSelector(), network=NETWORK, records=0)
    channel = pair.channels[0]
    pair.drive()
    while pair.gate.is_available:
        pair.sink.step(now_ns=0)
    whole = RecordBatcher(WorkloadConfig(record_size=SIZE), (0,), epoch_ns=0, seed=1).make(
        0, 0, 1, now_ns=0
    )

    def receive(data_type: DataType, payload: bytes) -> None:
        number = channel.expected_sequence_number
        pair.input.receive(
            BufferResponse(channel.receiver_id, 0, number, 0, data_type, False, payload)
        )

    receive(DataType.DATA_BUFFER, bytes(whole.data[:10]))
    receive(DataType.EVENT_BUFFER, encode_pipelined(CancelCheckpointMarker(1)))
    pair.sink.step(now_ns=0)
    with pytest.raises(FrameCorruptedError, match="in the middle of a record"):
        pair.sink.step(now_ns=0)
