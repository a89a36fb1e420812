"""Metrics of tasks against a model, and their gauges against values computed by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flinknet.config import NetworkConfig, RecordSize
from flinknet.core.buffers import UNLIMITED_BUFFERS, NetworkBufferPool
from flinknet.core.producer.channel_selector import ForwardSelector
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.job.debloating import debloated_gates
from flinknet.job.elements import NO_TIMESTAMP
from flinknet.job.stream_task import StreamTask
from flinknet.job.task_chain import KEPT_LATENCIES, RecordLatency
from flinknet.job.task_metrics import (
    TaskMetrics,
    back_pressure_level,
    input_metrics,
    memory_metrics,
    output_metrics,
    queue_metrics,
)
from flinknet.job.times import Meter, TaskTimes, TimerGauge
from tests.load_tasks import TaskPair
from tests.pair import Consumer, Pair, partition_of, records_of
from tests.simulation import MS, S

NETWORK = NetworkConfig(
    segment_size_bytes=100,
    exclusive_buffers=2,
    floating_buffers=3,
    max_overdraft_buffers=4,
    buffer_timeout_ns=0,
    debloating_enabled=True,
    debloating_samples=1,
    min_segment_size_bytes=10,
    starting_segment_size_bytes=100,
)


class Bursts:
    """Records that are due when the test says so."""

    def __init__(self) -> None:
        self.due = 0
        self.next_due_ns: int | None = 10**15

    def take(self, now_ns: int, count_max: int) -> NDArray[np.int64]:
        count, self.due = min(self.due, count_max), 0
        return np.full(count, now_ns, np.int64)

    def next_ns(self) -> int | None:
        return self.next_due_ns


class Tasks(TaskPair):
    """A source and a sink over a pair, stepped at whole instants; nothing takes time by itself.

    Args:
        record_bytes: of a record as it is serialised, length and all.
    """

    def __init__(self, record_bytes: int = 50) -> None:
        value_bytes = record_bytes - OVERHEAD_BYTES
        self.arrivals = Bursts()
        super().__init__(
            ForwardSelector(),
            network=NETWORK,
            size=RecordSize(value_bytes, value_bytes),
            arrivals=self.arrivals,  # type: ignore[arg-type]
        )
        self.debloating = debloated_gates([self.sink], NETWORK, now_ns=0)
        self.metrics = (
            TaskMetrics(self.source, now_ns=0, is_detailed=True),
            TaskMetrics(self.sink, now_ns=0, is_detailed=True, debloating=self.debloating),
        )
        self.drive()
        self.consume()

    def at(self, now_ns: int) -> None:
        """Move the clock."""
        self.now_ns = now_ns

    def emit(self, records: int) -> None:
        """Let the source write so many, or begin to wait."""
        self.arrivals.due = records
        self.source.step(now_ns=self.now_ns)
        self._rest(self.source)

    def consume(self) -> None:
        """Let the sink read what there is."""
        while (next_ns := self.sink.step(now_ns=self.now_ns)) is not None and (
            next_ns <= self.now_ns
        ):
            pass
        self._rest(self.sink)

    def sample(self) -> tuple[dict[str, float], dict[str, float]]:
        source, sink = (each.sample(now_ns=self.now_ns) for each in self.metrics)
        return source, sink

    def _rest(self, task: StreamTask) -> None:
        if task.times.is_busy:
            task.rest(now_ns=self.now_ns)


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


def picked(found: dict[str, float], *names: str) -> list[float]:
    return [found[name] for name in names]


def test_counters_and_their_rates(tasks: Tasks) -> None:
    tasks.at(1 * S)
    tasks.emit(6)
    tasks.drive()
    tasks.consume()
    tasks.at(2 * S)
    source, sink = tasks.sample()
    assert picked(source, "numRecordsOut", "numBytesOut") == [6, 300]
    assert picked(source, "numRecordsOutPerSecond", "numBytesOutPerSecond") == [3, 150]
    assert picked(sink, "numRecordsIn", "numBytesIn", "numBytesInRemote") == [6, 300, 300]
    assert picked(sink, "numRecordsInPerSecond", "numBytesInPerSecond") == [3, 150]
    assert picked(sink, "numBytesInLocal", "numBuffersInLocal") == [0, 0]
    assert picked(sink, "numBytesInLocalPerSecond", "numBuffersInLocalPerSecond") == [0, 0]
    # three buffers, and the event that tells the end of recovery
    assert source["numBuffersOut"] == sink["numBuffersInRemote"] == 4
    assert source["numBuffersOutPerSecond"] == sink["numBuffersInRemotePerSecond"] == 2


def test_the_measured_part_has_rates_and_times_of_its_own(tasks: Tasks) -> None:
    tasks.at(1 * S)
    tasks.emit(6)
    tasks.drive()
    tasks.consume()
    for each in tasks.metrics:
        each.start_window(now_ns=2 * S)
    tasks.at(4 * S)
    tasks.emit(2)
    source, sink = tasks.sample()
    assert source["numRecordsOut"] == 8
    assert source["numRecordsOutPerSecond"] == 1
    assert sink["numRecordsInPerSecond"] == 0
    assert source["idleTimeMsPerSecond"] == 1000
    assert source["accumulateIdleTimeMs"] == 3000


@pytest.mark.row("S039")
def test_a_writer_that_waits_is_back_pressured_softly_or_hard(tasks: Tasks) -> None:
    partition = tasks.partition
    for each in tasks.metrics:
        each.start_window(now_ns=0)
    tasks.at(1 * S)
    tasks.emit(0)
    tasks.emit(40)  # the pool gives five buffers; with the last of them no record more is begun
    assert partition.pool.used_buffers == 5
    tasks.at(3 * S)
    tasks.emit(0)  # it waits: another step marks nothing anew
    source, _ = tasks.sample()
    assert source["isBackPressured"]
    assert picked(source, "outPoolUsage", "outputQueueLength", "outputQueueSize") == [1, 5, 450]
    assert picked(source, "idleTimeMsPerSecond", "softBackPressuredTimeMsPerSecond") == [0, 666]
    assert picked(source, "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond") == [334, 666]
    assert source["hardBackPressuredTimeMsPerSecond"] == 0
    assert source["maxSoftBackPressureTimeMs"] == 2000
    assert back_pressure_level(source) == "HIGH"


@pytest.mark.row("S039")
def test_a_record_that_was_begun_takes_overdraft_and_then_waits_hard() -> None:
    tasks = Tasks(record_bytes=2000)  # twenty buffers: there are five, and four of overdraft
    tasks.emit(1)
    assert tasks.source.outputs.writers[0].is_inside_record
    tasks.emit(0)
    tasks.at(4 * S)
    source, _ = tasks.sample()
    assert source["outPoolUsage"] == 9 / 5
    assert picked(source, "hardBackPressuredTimeMsPerSecond") == [0]  # no interval is over
    assert source["accumulateBackPressuredTimeMs"] == 4000
    tasks.at(5 * S)
    source, _ = tasks.sample()
    assert source["hardBackPressuredTimeMsPerSecond"] == 1000
    assert source["maxHardBackPressureTimeMs"] == 5000
    assert source["softBackPressuredTimeMsPerSecond"] == 0
    while tasks.source.is_blocked:  # the consumer takes it: the rest is written
        tasks.drive()
        tasks.consume()
        tasks.drive()
        tasks.emit(0)
    tasks.drive()
    tasks.consume()
    tasks.drive()
    source, sink = tasks.sample()
    assert not source["isBackPressured"]
    assert source["outPoolUsage"] == 0
    assert source["numBytesOut"] == sink["numBytesIn"] == 2000


def test_levels_of_the_input(tasks: Tasks) -> None:
    tasks.emit(20)
    tasks.drive()
    _, sink = tasks.sample()
    assert picked(sink, "inputQueueLength", "inputQueueSize", "inPoolUsage") == [5, 450, 1]
    assert picked(sink, "inputExclusiveBuffersUsage", "inputFloatingBuffersUsage") == [1, 1]
    assert picked(sink, "Input.0.maxQueueLen", "Input.0.totalQueueLen") == [5, 5]
    tasks.consume()
    _, sink = tasks.sample()
    assert picked(sink, "inputQueueLength", "inputQueueSize") == [0, 0]


def test_times_of_the_last_minute_forget_what_was_before(tasks: Tasks) -> None:
    """Idle for 30 s, then blocked: a gauge that is sampled against sums made by hand."""
    tasks.at(0)
    tasks.emit(0)
    model = {"idle": 0, "soft": 0}
    for second in range(1, 121):
        model["idle" if second <= 30 else "soft"] += 1
        tasks.at(second * S)
        if second == 30:
            tasks.emit(100)
            tasks.emit(0)
        source, _ = tasks.sample()
        ended = second // 5 * 5  # seconds whose interval is over
        first = max(0, ended - 60)
        span = max(1, ended - first)
        idle = max(0, min(30, ended) - first)
        soft = max(0, ended - max(30, first))
        assert source["idleTimeMsPerSecond"] == 1000 * idle // span, second
        assert source["softBackPressuredTimeMsPerSecond"] == 1000 * soft // span, second
        assert source["accumulateIdleTimeMs"] == 1000 * model["idle"]
        assert source["accumulateBackPressuredTimeMs"] == 1000 * model["soft"]


def test_a_meter_tells_the_last_minute() -> None:
    meter, count = Meter(0, now_ns=0), 0
    for second in range(1, 200):
        count += second
        meter.update(count, now_ns=second * S)
        if second < 60:
            assert meter.per_second(count, now_ns=second * S) == pytest.approx((second + 1) / 2)
        else:
            last = second // 5 * 5
            expected = sum(range(last - 59, last + 1)) / 60
            assert meter.per_second(count, now_ns=second * S) == pytest.approx(expected)


def test_debloating_is_told_with_the_task_that_reads(tasks: Tasks) -> None:
    tasks.emit(10)
    tasks.drive()
    tasks.consume()
    tasks.at(1 * S)
    tasks.sink.times.resume(now_ns=0)
    tasks.debloating[0].evaluate(now_ns=1 * S)
    _, sink = tasks.sample()
    assert sink["debloatedBufferSize"] == 100
    assert (
        sink["estimatedTimeToConsumeBuffersMs"]
        == tasks.debloating[0].debloater.consume_ns // MS
        > 0
    )
    assert "debloatedBufferSize" not in tasks.sample()[0]


def levels_of(found: dict[str, float]) -> Iterator[str]:
    return (name for name in found if name.endswith(("QueueLength", "QueueSize", "Usage")))


def test_at_the_end_of_a_run_that_is_drained_levels_are_those_of_before(tasks: Tasks) -> None:
    tasks.emit(20)
    tasks.drive()
    _, before = tasks.sample()
    tasks.at(2 * S)
    tasks.consume()
    _, metrics = tasks.metrics
    drained = metrics.sample_end(now_ns=2 * S, is_drained=True)
    assert {name: drained[name] for name in levels_of(before)} == {
        name: before[name] for name in levels_of(before)
    }
    assert drained["numRecordsIn"] > before["numRecordsIn"]
    assert metrics.sample_end(now_ns=2 * S, is_drained=False)["inputQueueLength"] == 0


@pytest.mark.parametrize(
    ("waiting_ms", "level"), [(0, "OK"), (100, "OK"), (101, "LOW"), (500, "LOW"), (501, "HIGH")]
)
def test_levels_of_back_pressure(waiting_ms: int, level: str) -> None:
    assert back_pressure_level({"backPressuredTimeMsPerSecond": waiting_ms}) == level


def test_records_count_whose_instant_lies_in_the_measured_part() -> None:
    meter = RecordLatency()
    meter.measured_from_ns, meter.measured_to_ns = 100, 200
    meter.add(99, 110)
    meter.add(100, 150)
    meter.add(NO_TIMESTAMP, 160)
    meter.add_batch(np.array([120, 199, 200, NO_TIMESTAMP]), 210)
    meter.settle()
    assert (meter.records, meter.measured_records, meter.last_measured_ns) == (7, 3, 210)
    assert (meter.latency.min, meter.latency.max, meter.latency.total) == (11, 90, 50 + 90 + 11)


def test_what_was_kept_is_counted_before_it_is_too_much() -> None:
    one_by_one, batched = RecordLatency(), RecordLatency()
    for instant_ns in range(KEPT_LATENCIES):
        one_by_one.add(instant_ns, instant_ns + 5)
    batched.add_batch(np.arange(KEPT_LATENCIES), KEPT_LATENCIES)
    for meter in (one_by_one, batched):
        assert meter.measured_records == KEPT_LATENCIES
        meter.settle()
        assert meter.latency.count == KEPT_LATENCIES


def test_a_period_that_spans_intervals_is_split() -> None:
    gauge = TimerGauge()
    gauge.start(now_ns=4 * S)
    gauge.update(now_ns=5 * S)
    assert gauge.ms_per_s == 200
    gauge.stop(now_ns=8 * S)
    gauge.update(now_ns=10 * S)
    assert gauge.ms_per_s == 400
    assert gauge.longest_ns == 4 * S
    assert gauge.accumulated_ns == 4 * S


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    gauge = TimerGauge()
    gauge.start(now_ns=0)
    gauge.stop(now_ns=5 * S)
    for interval in range(1, 13):
        gauge.update(now_ns=interval * 5 * S)
    assert gauge.ms_per_s == 1000 // 12
    gauge.update(now_ns=65 * S)
    assert gauge.ms_per_s == 0


@given(st.lists(st.integers(1, 9 * S), min_size=2, max_size=40))
def test_nothing_is_counted_twice(steps: list[int]) -> None:
    gauge, now_ns, expected, next_update = TimerGauge(), 0, 0, 5 * S
    for index, step in enumerate(steps):
        is_on = index % 2 == 0
        (gauge.start if is_on else gauge.stop)(now_ns=now_ns)
        while next_update <= now_ns + step:
            gauge.update(now_ns=next_update)
            assert 0 <= gauge.ms_per_s <= 1000
            next_update += 5 * S
        now_ns += step
        expected += step if is_on else 0
        assert gauge.accumulated_until(now_ns) == expected


@pytest.mark.row("S039")
def test_busy_is_what_is_neither_idle_nor_back_pressured() -> None:
    times = TaskTimes(start_ns=0)
    times.idle.start(now_ns=0)
    times.idle.stop(now_ns=1 * S)
    times.soft_back_pressured.start(now_ns=2 * S)
    times.soft_back_pressured.stop(now_ns=4 * S)
    times.hard_back_pressured.start(now_ns=4 * S)
    times.update(now_ns=5 * S)
    found = times.metrics(now_ns=6 * S)
    assert found["idleTimeMsPerSecond"] == 200
    assert found["softBackPressuredTimeMsPerSecond"] == 400
    assert found["hardBackPressuredTimeMsPerSecond"] == 200
    assert found["backPressuredTimeMsPerSecond"] == 600
    assert found["busyTimeMsPerSecond"] == 200
    assert found["accumulateBackPressuredTimeMs"] == 4000
    assert found["accumulateBusyTimeMs"] == 1000
    assert found["maxSoftBackPressureTimeMs"] == 2000


def test_a_timer_marked_after_the_interval_was_due_counts_in_the_next() -> None:
    times = TaskTimes(start_ns=0)
    times.idle.start(now_ns=5 * S + 100 * MS)
    times.update(now_ns=5 * S + 200 * MS)
    assert times.idle.ms_per_s == 0
    times.update(now_ns=10 * S)
    assert times.idle.ms_per_s == 490


def test_outputs_count_what_is_queued_and_what_the_pool_gave() -> None:
    partition, _ = partition_of(2, pool_buffers=10)
    partition.emit(0, records_of([50, 50, 50]))
    partition.emit(1, records_of([30]))
    assert output_metrics([partition]) == {
        "outputQueueLength": 3,
        "outputQueueSize": 180,
        "outPoolUsage": 0.3,
    }
    first = partition.subpartitions[0].poll()
    assert first is not None
    assert output_metrics([partition])["outputQueueLength"] == 2
    assert output_metrics([partition])["outputQueueSize"] == 80
    assert output_metrics([partition])["outPoolUsage"] == 0.3  # it is not recycled yet
    first.recycle()
    assert output_metrics([partition])["outPoolUsage"] == 0.2


@pytest.mark.row("S007")
def test_inputs_tell_exclusive_from_floating_buffers() -> None:
    pair = Pair(NetworkConfig(segment_size_bytes=100, exclusive_buffers=2, floating_buffers=3))
    pair.partition.emit(0, records_of([100] * 6))
    pair.partition.flush(0)
    pair.drive()
    queued = pair.channels[0].queued_elements
    found = input_metrics([pair.gate])
    assert queued == 5  # two exclusive and three floating buffers, all taken
    assert found == {
        "inputQueueLength": 5,
        "inputQueueSize": 500,
        "inputExclusiveBuffersUsage": 1.0,
        "inputFloatingBuffersUsage": 1.0,
        "inPoolUsage": 1.0,
    }
    pair.input.consume()
    pair.drive()
    pair.input.consume()
    pair.drive()
    found = input_metrics([pair.gate])
    assert found["inputQueueLength"] == 0
    assert found["inputExclusiveBuffersUsage"] == 0
    assert found["inputFloatingBuffersUsage"] == 0


def test_an_idle_gate_uses_nothing() -> None:
    consumer = Consumer(channels=2)
    assert set(input_metrics([consumer.gate]).values()) == {0}
    assert set(input_metrics([]).values()) == {0}


def test_memory_of_a_task_manager() -> None:
    memory = NetworkBufferPool(100, 32)
    memory.create_buffer_pool(5, 16)
    memory.create_buffer_pool(3, UNLIMITED_BUFFERS)
    found = memory_metrics(memory)
    assert found["TotalMemorySegments"] == 100
    assert found["TotalMemory"] == 3200
    assert found["RequestedMemoryUsage"] == 22
    used = found["UsedMemorySegments"]
    assert found["AvailableMemorySegments"] == 100 - used
    assert found["UsedMemory"] == 32 * used


def test_pools_may_wish_for_more_than_there_is() -> None:
    memory = NetworkBufferPool(10, 32)
    memory.create_buffer_pool(2, 16)
    assert memory_metrics(memory)["RequestedMemoryUsage"] == 160


def test_queue_lengths_of_one_gate() -> None:
    assert queue_metrics("", [1, 4, 1]) == {
        "totalQueueLen": 6,
        "minQueueLen": 1,
        "maxQueueLen": 4,
        "avgQueueLen": 2.0,
    }
    assert queue_metrics("", [])["avgQueueLen"] == 0
