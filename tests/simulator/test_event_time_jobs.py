"""Jobs with event time in virtual time: what functions see of it, what lies on the channels, what
sinks measure.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from flinknet.core.wire.records import (
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    decode_element,
)
from flinknet.graph import StreamExecutionEnvironment, WatermarkStrategy
from flinknet.graph.watermarks import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from flinknet.simulator.task_manager import START_NS
from tests.record_stream import RecordStreamDecoder
from tests.simulated_job import MS, WatchedJob, task_named

KEEP = WatermarkStrategy.for_monotonous_timestamps()


def environment(parallelism: int = 2, **keys: str) -> StreamExecutionEnvironment:
    often = {
        "pipeline.auto-watermark-interval": "5 ms",
        "execution.buffer-timeout.interval": "2 ms",
    }
    env = StreamExecutionEnvironment({**often, **keys})
    env.set_parallelism(parallelism)
    return env


def on_channels(job: WatchedJob, edge: int) -> list[list[StreamElement]]:
    """What was written to each channel of an edge."""
    channels = [
        channel
        for task in job.cluster.tasks.values()
        for output in task.outputs.each
        if output.edge == edge
        for channel in output.channels
    ]
    return [
        [decode_element(each) for each in RecordStreamDecoder().feed(bytes(job.written[channel]))]
        for channel in channels
    ]


def watermarks(elements: list[StreamElement]) -> list[int]:
    return [each.timestamp_ms for each in elements if isinstance(each, Watermark)]


def key_of(pair: Any) -> int:
    return int(pair[0])


def test_the_watermark_of_a_task_is_the_least_of_two_sources() -> None:
    env = environment()
    ahead = KEEP.with_timestamp_assigner(lambda value, due_ms: due_ms + 1000)

    class Seen:
        times: ClassVar[dict[str, list[tuple[int, int]]]] = {"ahead": [], "behind": []}

    def see(value: Any, output: Any, context: Any) -> None:
        is_ahead = context.timestamp_ms >= START_NS // MS + 1000
        name = "ahead" if is_ahead else "behind"
        Seen.times[name].append((context.timestamp_ms, context.current_watermark_ms))

    one = env.generate(rate="2k/s", records=200).map(key_of, output_type=int)
    other = env.generate(rate="1k/s", records=200).map(key_of, output_type=int)
    one.assign_timestamps_and_watermarks(ahead).rebalance().union(
        other.assign_timestamps_and_watermarks(KEEP).rebalance()
    ).process(see, output_type=int).set_parallelism(1).add_sink(print)
    job = WatchedJob(env.execute(), slots=4)
    job.run()
    seen = Seen.times
    assert {name: len(each) for name, each in seen.items()} == {"ahead": 200, "behind": 200}
    behind_ms = 0
    for timestamp_ms, watermark_ms in seen["behind"]:
        assert watermark_ms < timestamp_ms  # nobody is late
        behind_ms = max(behind_ms, watermark_ms)
    assert START_NS // MS <= behind_ms < START_NS // MS + 100
    assert all(watermark_ms <= behind_ms for _, watermark_ms in seen["ahead"])
    assert {watermark for _, watermark in seen["ahead"]} > {MIN_WATERMARK_MS}
    reader = task_named(job.cluster, "Process (1/1)")
    assert reader.chain.current_watermark_ms == MAX_WATERMARK_MS


@pytest.mark.row("S022")
def test_watermarks_are_broadcast_in_order_and_records_have_their_timestamps() -> None:
    env = environment(3)
    stamped = KEEP.with_timestamp_assigner(lambda value, due_ms: due_ms * 10 + value % 10)
    numbers = env.generate(rate="1k/s", records=300).map(key_of, output_type=int)
    numbers = numbers.assign_timestamps_and_watermarks(stamped)
    numbers.rebalance().map(lambda value: value, output_type=int).shuffle().discard()
    job = WatchedJob(env.execute(), slots=3)
    job.run()
    for edge in (0, 1):
        for elements in on_channels(job, edge):
            told = watermarks(elements)
            assert told == sorted(set(told))
            assert elements[-1] == Watermark(MAX_WATERMARK_MS)
            highest = MIN_WATERMARK_MS
            for each in elements:
                if isinstance(each, Watermark):
                    highest = each.timestamp_ms
                else:
                    assert isinstance(each, Record)
                    assert each.timestamp_ms is not None
                    assert each.timestamp_ms % 10 == int.from_bytes(each.value, "big") % 10
                    assert each.timestamp_ms > highest or each.timestamp_ms // 10 == highest // 10
    first = on_channels(job, 0)
    for source in range(3):
        own = [watermarks(each) for each in first[source * 3 : source * 3 + 3]]
        assert own[0] == own[1] == own[2]
        assert len(own[0]) > 10
    sink = task_named(job.cluster, "Sink: Discard (1/3)")
    assert sum(each.records for each in sink.receivers) < 300  # watermarks are no records


@pytest.mark.parametrize("runtime_mode", ["STREAMING", "BATCH"])
def test_a_job_without_event_time_has_the_end_of_time_alone(runtime_mode: str) -> None:
    env = environment(2, **{"execution.runtime-mode": runtime_mode})
    numbers = env.from_sequence(1, 100)
    if runtime_mode == "BATCH":
        numbers = numbers.assign_timestamps_and_watermarks(KEEP)
    numbers.broadcast().discard()
    job = WatchedJob(env.execute())
    job.run()
    for elements in on_channels(job, 0):
        assert watermarks(elements) == [MAX_WATERMARK_MS]
        assert sum(isinstance(each, Record) for each in elements) == 50


def test_an_idle_source_holds_nobody_back() -> None:
    env = environment(1)
    strategy = KEEP.with_timestamp_assigner(lambda value, due_ms: due_ms).with_idleness("10ms")
    busy = env.generate(rate="1k/s").map(key_of, output_type=int)
    silent = env.generate(rate="1k/s").filter(lambda pair: False).map(key_of, output_type=int)
    joined = (
        busy.assign_timestamps_and_watermarks(strategy)
        .rebalance()
        .connect(silent.assign_timestamps_and_watermarks(strategy).rebalance())
    )
    joined.map(lambda value: value, lambda value: value, output_type=int).rebalance().discard()
    job = WatchedJob(env.execute(), end_ns=100 * MS, slots=4)
    job.run()
    (of_silent,) = on_channels(job, 1)
    idle, active = WatermarkStatus(WatermarkStatus.IDLE), WatermarkStatus(WatermarkStatus.ACTIVE)
    assert of_silent == [idle, active, Watermark(MAX_WATERMARK_MS)]
    (behind,) = on_channels(job, 2)
    told = watermarks(behind)
    assert len(told) > 10  # by the busy one
    assert told[-2] < START_NS // MS + 100


def test_records_are_as_old_as_their_event_time_says_where_that_is_when_they_were_due() -> None:
    env = environment(1, **{"execution.buffer-timeout.interval": "10 ms"})
    made = env.generate(rate="1k/s")
    made.rebalance().measure_latency().name("Plain")
    made.assign_timestamps_and_watermarks(KEEP).rebalance().measure_latency().name("Kept")
    own = made.assign_timestamps_and_watermarks(
        KEEP.with_timestamp_assigner(lambda value, due_ms: due_ms)
    )
    own.rebalance().measure_latency().name("Own")
    graph = env.execute()
    job = WatchedJob(graph, end_ns=200 * MS, slots=4)
    cluster = job.run()
    plain, kept, other = (measured(cluster, name) for name in ("Plain", "Kept", "Own"))
    assert plain.count == kept.count == 200
    assert plain.min <= kept.min <= plain.min + MS
    assert plain.mean <= kept.mean <= plain.mean + MS
    assert other.count == 0  # a function says what it likes
    (warning,) = env.warnings
    assert warning.code == "latency-not-known"
    assert warning.text.startswith("Sink: Own measures no latency")


def measured(cluster: Any, name: str) -> Any:
    (meter,) = task_named(cluster, f"Sink: {name} (1/1)").chain.latency_meters
    meter.settle()
    return meter.latency.summary()
