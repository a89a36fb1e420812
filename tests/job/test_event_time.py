"""Event time in a task: who assigns timestamps, who makes watermarks, which of them pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from flinknet.core.consumer import RecordReader
from flinknet.core.producer import SerializedElement
from flinknet.core.wire.records import (
    InternalWatermark,
    LatencyMarker,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    encode_record,
)
from flinknet.errors import ConfigError, FrameCorruptedError
from flinknet.graph import WatermarkStrategy
from flinknet.graph.operators import TimestampsAndWatermarks
from flinknet.graph.watermarks import (
    MAX_WATERMARK_MS,
    CombinedWatermark,
    WatermarkGenerator,
    WatermarkOutput,
)
from flinknet.job.basic_serializers import LONG
from flinknet.job.channel_input import ChannelInput, ElementBatch, RecordBatch
from flinknet.job.context import ProcessingContext
from flinknet.job.elements import NO_TIMESTAMP, StreamElementSerializer
from flinknet.job.event_time import (
    Passed,
    StatusWatermarkValve,
    Timer,
    TimestampsAndWatermarksOperator,
)

MS = 1_000_000
ID = bytes(range(16))


def long(value: int, timestamp: int | None = None) -> Record:
    return Record(value.to_bytes(8, "big"), timestamp)


def runs_of(*elements: StreamElement) -> Any:
    data = b"".join(map(encode_record, elements))
    return RecordReader().read(memoryview(data))


# Elements


@pytest.mark.parametrize("has_arrays", [False, True])
def test_elements_keep_their_place_among_records(has_arrays: bool) -> None:
    marker = LatencyMarker(1_700_000_000_000, ID, 3)
    elements = [
        *map(long, range(9)),  # as long as a watermark, so that one run has both
        Watermark(5),
        long(9),
        *(WatermarkStatus(-1), WatermarkStatus(0), InternalWatermark(2, 7), marker),
        long(10, 100),
        Watermark(MAX_WATERMARK_MS),
    ]
    found = StreamElementSerializer(LONG, has_arrays=has_arrays).read(runs_of(*elements))
    in_order: list[Any] = []
    for each in found:
        if isinstance(each, tuple):
            values, stamps = each
            in_order += zip(map(int, values), stamps.tolist(), strict=True)
        else:
            in_order.append(each)
    assert in_order == [
        *((number, NO_TIMESTAMP) for number in range(9)),
        elements[9],
        (9, NO_TIMESTAMP),
        *elements[11:15],
        (10, 100),
        elements[16],
    ]


def test_an_element_of_no_kind_is_refused() -> None:
    with pytest.raises(FrameCorruptedError, match="no stream element starts with 09"):
        StreamElementSerializer(LONG).read([(bytearray(b"\0\0\0\x01\x09"), 0, 1, 5)])


def test_an_element_lies_in_buffers_and_is_no_record() -> None:
    element = SerializedElement(encode_record(Watermark(5)))
    assert bytes(element.data).hex() == "00000009020000000000000005"
    assert element.ended_between(0, 13) is None
    assert element.locate(4) == (4, 13)
    assert element.cut(0, 8, 1) == [(0, 0, -1, -1)]


def channel_input(**options: Any) -> ChannelInput:
    valve = StatusWatermarkValve(2)
    return ChannelInput(0, "op", 0, StreamElementSerializer(LONG), 1, valve, **options)


def test_a_channel_counts_its_records_only() -> None:
    channel = channel_input()
    channel.receive(runs_of(Watermark(1), long(1, 70), long(2, 80), Watermark(2)), now_ns=0)
    kinds = [type(each) for each in channel.batches]
    assert kinds == [ElementBatch, RecordBatch, ElementBatch]
    assert (channel.records, channel.received_records) == (2, 2)
    assert (channel.first_record_ns, channel.last_record_ns) == (70, 80)
    channel.receive(runs_of(Watermark(3)), now_ns=0)
    assert (channel.records, channel.received_records, channel.first_record_ns) == (2, 0, -1)


@pytest.mark.parametrize(("epoch_ns", "due_ns"), [(None, NO_TIMESTAMP), (3, 70 * MS + 3)])
def test_event_time_tells_when_a_record_was_due_or_does_not(
    epoch_ns: int | None, due_ns: int
) -> None:
    channel = channel_input(has_event_time=True, due_epoch_ns=epoch_ns)
    channel.receive(runs_of(long(1, 70), long(2)), now_ns=0)
    (batch,) = channel.batches
    assert isinstance(batch, RecordBatch)
    assert batch.timestamps is not None
    assert batch.timestamps.tolist() == [70, NO_TIMESTAMP]
    assert batch.instants.tolist() == [due_ns, NO_TIMESTAMP]


# Timestamps and watermarks


class Gathered:
    """An output that notes what it takes, with the timestamp of the context."""

    def __init__(self, context: ProcessingContext) -> None:
        self.context = context
        self.found: list[Any] = []

    def collect(self, value: Any) -> None:
        self.found.append((value, self.context.timestamp_ms))

    def collect_batch(self, values: Sequence[Any]) -> None:
        assert self.context.timestamps is not None
        self.found += zip(list(values), self.context.timestamps.tolist(), strict=True)

    def collect_side(self, tag: Any, value: Any) -> None:
        raise AssertionError(tag)

    def emit_watermark(self, timestamp_ms: int) -> None:
        self.found.append(timestamp_ms)

    def emit_watermark_status(self, is_idle: bool) -> None:
        self.found.append("idle" if is_idle else "active")

    def taken(self) -> list[Any]:
        found, self.found = self.found, []
        return found


class Assigner:
    """An operator with its context and output."""

    def __init__(self, strategy: WatermarkStrategy, *, is_progressive: bool = True) -> None:
        self.context = ProcessingContext(epoch_ns=-1000 * MS)
        self.output = Gathered(self.context)
        self.operator = TimestampsAndWatermarksOperator(
            TimestampsAndWatermarks(strategy), self.context, is_progressive=is_progressive
        )

    def take(self, *values: int) -> list[Any]:
        for value in values:
            self.operator.process(value, self.output)
        return self.output.taken()

    def periodic(self, now_ms: int = 0) -> list[Any]:
        self.context.now_ns = now_ms * MS
        self.operator.emit_periodic(self.output)
        return self.output.taken()


def itself(value: int, before_ms: int) -> int:
    return value


def test_watermarks_stay_behind_the_greatest_timestamp() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5ms")
    assigner = Assigner(strategy.with_timestamp_assigner(itself))
    assert assigner.periodic() == []
    assert assigner.take(20, 30, 25) == [(20, 20), (30, 30), (25, 25)]
    assert assigner.periodic() == [24]
    assert assigner.periodic() == []
    assert assigner.take(31) == [(31, 31)]
    assigner.operator.finish(assigner.output)
    assert assigner.output.taken() == [25]
    assert assigner.context.timestamp_ms == NO_TIMESTAMP


def test_the_timestamp_before_is_when_a_record_was_due() -> None:
    assigner = Assigner(WatermarkStrategy.for_monotonous_timestamps())
    assigner.context.instant_ns = 7 * MS + 999
    assert assigner.take(1) == [(1, 1007)]
    assigner.context.timestamp_ms = 5
    assert assigner.take(2) == [(2, 5)]


def test_batches_get_timestamps_at_once() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assigner = Assigner(strategy.with_timestamp_assigner(lambda value, before: before + value))
    assert assigner.operator.takes_batches
    assigner.context.instants = np.array([1, 2, 3]) * MS
    assigner.operator.process_batch(np.array([10, 30, 20]), assigner.output)
    assert assigner.output.taken() == [(10, 1011), (30, 1032), (20, 1023)]
    assert assigner.context.timestamps is None
    assert assigner.periodic() == [1031]


def test_a_stream_without_records_is_idle_until_a_watermark() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(itself)
    assigner = Assigner(strategy.with_idleness("30ms"))
    assigner.take(10)
    assert assigner.periodic(10) == [9]
    assert assigner.periodic(20) == []  # the time begins
    assert assigner.periodic(50) == []
    assert assigner.periodic(60) == ["idle"]
    assert assigner.periodic(70) == []
    assigner.take(20)
    assert assigner.periodic(80) == ["active", 19]


def test_a_stream_is_not_idle_while_its_task_waits_for_its_output() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(itself)
    assigner = Assigner(strategy.with_idleness("30ms"))
    assigner.periodic(10)
    assigner.context.pressed_since_ns = 15 * MS
    assert assigner.periodic(90) == []
    assigner.context.pressed_ns, assigner.context.pressed_since_ns = 75 * MS, -1
    assert assigner.periodic(110) == []
    assert assigner.periodic(121) == ["idle"]


def test_watermarks_from_before_do_not_count_but_for_the_end_of_time() -> None:
    assigner = Assigner(WatermarkStrategy.no_watermarks().with_timestamp_assigner(itself))
    operator, output = assigner.operator, assigner.output
    operator.process_watermark(50, output)
    operator.process_watermark_status(True, output)
    assert assigner.take(7) == [(7, 7)]
    assert assigner.periodic() == []
    operator.process_watermark(MAX_WATERMARK_MS, output)
    assert output.taken() == [MAX_WATERMARK_MS]


def test_a_generator_of_the_program_may_tell_a_watermark_with_each_record() -> None:
    class Each(WatermarkGenerator):
        def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
            output.emit_watermark(timestamp_ms)

    def create() -> WatermarkGenerator:
        return Each()

    strategy = WatermarkStrategy.for_generator(create).with_timestamp_assigner(itself)
    assigner = Assigner(strategy)
    assert not assigner.operator.takes_batches
    assert assigner.take(3, 2, 4) == [(3, 3), 3, (2, 2), (4, 4), 4]
    assert Assigner(strategy, is_progressive=False).take(3) == [(3, 3)]  # in batch


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness("5"), "has no unit"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness("-1s"), "is negative"),
        (lambda: WatermarkStrategy.no_watermarks().with_idleness(0), "0 is too little"),
    ],
)
def test_strategies_refuse_what_makes_no_sense(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


# Timers


def test_a_timer_counts_from_when_it_was_called() -> None:
    calls: list[int] = []
    timer = Timer(lambda: calls.append(1), 10, first_ns=5)
    timer.fire(4)
    timer.fire(12)
    assert (len(calls), timer.next_ns) == (1, 22)


Step = tuple[int, int | str]
"""A channel and its watermark, or "idle", or "active"."""


def in_words(element: Passed) -> int | str:
    if isinstance(element, Watermark):
        return element.timestamp_ms
    return "idle" if element.status == WatermarkStatus.IDLE else "active"


@pytest.mark.parametrize(
    ("channels", "steps", "passed"),
    [
        pytest.param(1, [(0, 5), (0, 7)], [5, 7], id="one channel"),
        pytest.param(2, [(0, 5), (1, 3), (0, 9), (1, 4)], [3, 4], id="the least of two"),
        pytest.param(2, [(0, 5), (0, 2), (1, 9)], [5], id="one that falls is ignored"),
        pytest.param(2, [(0, MAX_WATERMARK_MS), (1, 3)], [3], id="an end does not hide the other"),
        pytest.param(2, [(0, 5), (1, "idle")], [5], id="who is idle does not count"),
        pytest.param(2, [(0, 5), (1, "idle"), (1, 9), (0, 6)], [5, 6], id="idle says nothing"),
        pytest.param(
            2,
            [(0, 5), (1, "idle"), (1, "active"), (1, 3), (0, 7), (1, 6), (0, 8)],
            [5, 7, 8],
            id="who was idle does not count before it has caught up",
        ),
        pytest.param(
            2,
            [(0, 5), (1, "idle"), (1, "active"), (1, 6), (0, 9), (1, 7)],
            [5, 6, 7],
            id="and does then",
        ),
        pytest.param(
            2,
            [(0, 5), (1, 3), (0, "idle"), (1, "idle"), (0, "active"), (0, 6)],
            [3, 5, "idle", "active", 6],
            id="all are idle: the greatest passes",
        ),
        pytest.param(1, [(0, "idle"), (0, 5), (0, "active")], ["idle", "active"], id="idle valve"),
        pytest.param(1, [(0, "active"), (0, "idle"), (0, "idle")], ["idle"], id="no change"),
    ],
)
def test_valve(channels: int, steps: list[Step], passed: list[int | str]) -> None:
    valve, found = StatusWatermarkValve(channels), list[Passed]()
    for channel, step in steps:
        if isinstance(step, str):
            found += valve.input_watermark_status(step == "idle", channel)
        else:
            found += valve.input_watermark(step, channel)
    assert [in_words(each) for each in found] == passed


def test_inputs_of_an_operator_are_combined() -> None:
    combined = CombinedWatermark(2)
    assert not combined.update_watermark(0, 7)
    assert combined.update_watermark(1, 4)
    assert combined.watermark_ms == 4
    assert combined.update_status(1, True)  # the first alone counts
    assert combined.watermark_ms == 7
    assert not combined.update_watermark(1, 5)  # which makes it active, and holds back
    assert not combined.is_idle
    assert not combined.update_watermark(0, 9)
    assert not combined.update_status(0, True)
    assert combined.update_status(1, True)  # all are idle: the greatest counts
    assert (combined.watermark_ms, combined.is_idle) == (9, True)
