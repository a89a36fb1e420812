"""Output of an operator; event time: watermark strategies of programs, and watermark generators.

Timestamps and watermarks are event time in ms, as in Flink. A watermark says that no record with
its timestamp or an earlier one follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from flinknet.errors import ConfigError
from flinknet.units import NS_PER_MS, parse_duration_ns


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Name and type of a side output (Flink: OutputTag)."""

    id: str
    output_type: Any = object

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An event that a task sends to the tasks upstream of it (Flink: TaskEvent). Listeners
    subscribe to its class name, a Java class if that task is one of Flink's.
    """

    class_name: str
    body: bytes = b""


class Output(Protocol):
    """Receives the results of an operator (Flink: Output)."""

    def collect(self, value: Any) -> None:
        """Emit a record."""

    def collect_batch(self, values: Sequence[Any]) -> None:
        """Emit several records, in order."""

    def collect_side(self, tag: OutputTag, value: Any) -> None:
        """Emit a record to a side output."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Emit a watermark to all outputs."""

    def emit_watermark_status(self, is_idle: bool) -> None:
        """Emit that the stream is idle, or active again."""

    def send_task_event(self, event: TaskEvent) -> None:
        """Send an event to the upstream tasks."""


MIN_WATERMARK_MS = -(2**63)
"""Initial watermark (Flink: Long.MIN_VALUE; also the timestamp of records without one)."""

MAX_WATERMARK_MS = 2**63 - 1
"""Final watermark, emitted by sources that end (Flink: Watermark.MAX_WATERMARK)."""

TimestampAssigner = Callable[[Any, int], int]
"""Returns the timestamp of a record in ms, given the record and its current timestamp or
MIN_WATERMARK_MS (Flink: TimestampAssigner)."""


class WatermarkOutput:
    """The output of a generator: forwards rising watermarks, and marks the output active on the
    first after an idle time (Flink: WatermarkOutput, of WatermarkEmitter).
    """

    def __init__(self) -> None:
        self.watermark_ms = MIN_WATERMARK_MS
        self._is_idle = False
        self._output: Output | None = None

    def to(self, output: Output) -> WatermarkOutput:
        """Write to this output. Returns: itself."""
        self._output = output
        return self

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Emit a watermark, if it is higher than the last; marks the output active."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            self.mark_active()
            assert self._output is not None
            self._output.emit_watermark(timestamp_ms)

    def mark_idle(self) -> None:
        """Mark the output idle: nobody waits for its watermarks."""
        self._mark(is_idle=True)

    def mark_active(self) -> None:
        """Mark the output active: its watermarks count again."""
        self._mark(is_idle=False)

    def _mark(self, *, is_idle: bool) -> None:
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            assert self._output is not None
            self._output.emit_watermark_status(is_idle)


class WatermarkGenerator:
    """Generates watermarks from records; programs derive their own from it (Flink:
    WatermarkGenerator). The base class generates none but the final one (Flink:
    NoWatermarksGenerator).
    """

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        """Process a record."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark: pipeline.auto-watermark-interval has passed, or the input has ended."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Allows records to be late by a bounded time (Flink: BoundedOutOfOrdernessWatermarks)."""

    def __init__(self, out_of_orderness_ms: int) -> None:
        self._bound_ms = out_of_orderness_ms
        self._max_ms = MIN_WATERMARK_MS + out_of_orderness_ms + 1

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        self._max_ms = max(self._max_ms, timestamp_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self._max_ms - self._bound_ms - 1)


@dataclass(eq=False)
class WatermarksWithIdleness(WatermarkGenerator):
    """Marks its output idle after a time without records (Flink: WatermarksWithIdleness), by a
    clock that stops while the task waits for its output. That time begins at the first periodic
    emission without a record since the previous one.
    """

    watermarks: WatermarkGenerator
    idle_timeout_ns: int
    clock: Callable[[], int]
    _has_passed: bool = False
    _idle_since_ns: int | None = None
    _is_idle: bool = False

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        self.watermarks.on_event(value, timestamp_ms, output)
        self._has_passed = True
        self._is_idle = False

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._has_passed:
            self._has_passed, self._idle_since_ns = False, None
        elif self._idle_since_ns is None:
            self._idle_since_ns = self.clock()
        elif self.clock() - self._idle_since_ns > self.idle_timeout_ns:
            if not self._is_idle:
                self._is_idle = True
                output.mark_idle()
            return
        self.watermarks.on_periodic_emit(output)


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How a stream gets timestamps and watermarks (Flink: WatermarkStrategy).

    Attributes:
        create: creates the generator of a subtask.
        assigner: None: records keep their timestamp, which after a source is their due instant.
        idle_timeout_ns: None: the stream is never idle.
        is_custom: whether the generator is the program's, which sees every record.
    """

    create: Callable[[], WatermarkGenerator]
    assigner: TimestampAssigner | None = None
    idle_timeout_ns: int | None = None
    is_custom: bool = False

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy:
        """For timestamps that never decrease."""
        return cls.for_bounded_out_of_orderness(0)

    @classmethod
    def for_bounded_out_of_orderness(cls, bound: str | int) -> WatermarkStrategy:
        """For records that are late by at most this: "5s", in whole ms. Raises: ConfigError."""
        bound_ns = parse_duration_ns(str(bound), "out-of-orderness", bare_unit=None)
        return cls(lambda: BoundedOutOfOrdernessWatermarks(bound_ns // NS_PER_MS))

    @classmethod
    def for_generator(cls, create: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """For a generator of the program; one is created per subtask."""
        return cls(create, is_custom=True)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """For timestamps without watermarks."""
        return cls(WatermarkGenerator)

    def with_timestamp_assigner(self, assigner: TimestampAssigner) -> WatermarkStrategy:
        """Assign timestamps in ms with a function of the record and its current timestamp."""
        return replace(self, assigner=assigner)

    def with_idleness(self, timeout: str | int) -> WatermarkStrategy:
        """Mark the stream idle after this time without records: nobody waits for its watermarks
        then. Raises: ConfigError.
        """
        timeout_ns = parse_duration_ns(str(timeout), "idleness", bare_unit=None)
        if not timeout_ns:
            raise ConfigError("idleness: 0 is too little; give a time above it, such as 1s")
        return replace(self, idle_timeout_ns=timeout_ns)

    def generator(self, clock: Callable[[], int]) -> WatermarkGenerator:
        made = self.create()
        if self.idle_timeout_ns is None:
            return made
        return WatermarksWithIdleness(made, self.idle_timeout_ns, clock)


class CombinedWatermark:
    """The watermark of an operator with several inputs: the lowest of the active ones; once all are
    idle, the highest (Flink: IndexedCombinedWatermarkStatus).
    """

    def __init__(self, inputs: int) -> None:
        self.watermark_ms = MIN_WATERMARK_MS
        self.is_idle = False
        self._watermarks_ms = [MIN_WATERMARK_MS] * inputs
        self._idle = [False] * inputs

    def update_watermark(self, index: int, timestamp_ms: int) -> bool:
        """Update the watermark of an input. Returns: whether the combined one has risen."""
        self._idle[index] = False
        self._watermarks_ms[index] = max(self._watermarks_ms[index], timestamp_ms)
        return self._update()

    def update_status(self, index: int, is_idle: bool) -> bool:
        """Mark an input idle or active. Returns: whether the combined watermark has risen."""
        self._idle[index] = is_idle
        return self._update()

    def _update(self) -> bool:
        self.is_idle = all(self._idle)
        active_ms = [
            each
            for each, is_idle in zip(self._watermarks_ms, self._idle, strict=True)
            if not is_idle
        ]
        combined_ms = max(self._watermarks_ms) if self.is_idle else min(active_ms)
        if combined_ms <= self.watermark_ms:
            return False
        self.watermark_ms = combined_ms
        return True
