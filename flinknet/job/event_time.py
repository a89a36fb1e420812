"""Event time in a task: the operator that assigns it, what functions may ask, and timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flinknet.graph.operators import (
    Output,
    StreamOperator,
    TimestampsAndWatermarks,
    as_list,
)
from flinknet.graph.watermarks import MAX_WATERMARK_MS, MIN_WATERMARK_MS, NoWatermarks

from .context import ProcessingContext
from .elements import NO_TIMESTAMP, Instants


class TaskRecordContext:
    """What functions of an operator may ask about the record at hand (implements RecordContext)."""

    def __init__(self, operator: StreamOperator, context: ProcessingContext) -> None:
        self._operator = operator
        self._context = context

    @property
    def timestamp_ms(self) -> int | None:
        """Its event time; None if it has none."""
        timestamp_ms = self._context.timestamp_ms
        return None if timestamp_ms == NO_TIMESTAMP else timestamp_ms

    @property
    def current_watermark_ms(self) -> int:
        """The watermark of the operator."""
        return self._operator.current_watermark_ms


class TimestampsAndWatermarksOperator(StreamOperator):
    """Gives records timestamps and makes watermarks of them (Flink:
    TimestampsAndWatermarksOperator). Watermarks from before it do not count, but for the end of
    time.

    Attributes:
        calls_functions: of the program, in the assigner or the generator.

    Args:
        is_progressive: watermarks are made on the way; batch jobs have only the last.
    """

    def __init__(
        self,
        operator: TimestampsAndWatermarks,
        context: ProcessingContext,
        *,
        is_progressive: bool,
    ) -> None:
        strategy = operator.strategy
        self._context = context
        self._assigner = strategy.assigner
        self._generator = (
            strategy.generator(lambda: context.active_ns) if is_progressive else NoWatermarks()
        )
        is_custom = strategy.is_custom and is_progressive
        self.calls_functions = is_custom or strategy.assigner is not None
        self.takes_batches = not is_custom
        self._emitter = WatermarkEmitter()

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        context = self._context
        previous_ms = context.timestamp_ms
        timestamp_ms = previous_ms if previous_ms != NO_TIMESTAMP else context.due_ms
        if self._assigner is not None:
            timestamp_ms = self._assigner(value, timestamp_ms)
        context.timestamp_ms = timestamp_ms
        output.collect(value)
        context.timestamp_ms = previous_ms
        self._generator.on_event(value, timestamp_ms, self._emitter.to(output))

    def process_batch(self, values: Sequence[Any], output: Output, input_number: int = 0) -> None:
        if not self.takes_batches:
            super().process_batch(values, output, input_number)
            return
        if not len(values):
            return
        context = self._context
        previous = context.timestamps, context.timestamp_ms
        stamps = self._stamps(values)
        context.timestamps, context.timestamp_ms = stamps, int(stamps.min())
        output.collect_batch(values)
        context.timestamps, context.timestamp_ms = previous
        self._generator.on_event(None, int(stamps.max()), self._emitter.to(output))

    def process_watermark(self, timestamp_ms: int, output: Output, input_number: int = 0) -> None:
        if timestamp_ms == MAX_WATERMARK_MS:
            self._emitter.to(output).emit_watermark(timestamp_ms)

    def process_watermark_status(
        self, is_idle: bool, output: Output, input_number: int = 0
    ) -> None:
        pass

    def emit_periodic(self, output: Output) -> None:
        """pipeline.auto-watermark-interval has passed."""
        self._generator.on_periodic_emit(self._emitter.to(output))

    def finish(self, output: Output) -> None:
        self.emit_periodic(output)

    def _stamps(self, values: Sequence[Any]) -> Instants:
        """Timestamps of the records of a batch."""
        stamps = self._context.timestamps_of(len(values))
        if self._assigner is None:
            return stamps
        assigned = map(self._assigner, as_list(values), stamps.tolist())
        return np.fromiter(assigned, np.int64, len(values))


class WatermarkEmitter:
    """Watermarks of a generator, those that rise; the first after an idle time makes the output
    active (Flink: WatermarkEmitter; implements WatermarkOutput).

    Attributes:
        watermark_ms: the last.
    """

    def __init__(self) -> None:
        self.watermark_ms = MIN_WATERMARK_MS
        self._is_idle = False
        self._output: Output | None = None

    def to(self, output: Output) -> WatermarkEmitter:
        """The same, writing to this output."""
        self._output = output
        return self

    def emit_watermark(self, timestamp_ms: int) -> None:
        """See WatermarkOutput."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            self.mark_active()
            assert self._output is not None
            self._output.emit_watermark(timestamp_ms)

    def mark_idle(self) -> None:
        """See WatermarkOutput."""
        self._mark(is_idle=True)

    def mark_active(self) -> None:
        """See WatermarkOutput."""
        self._mark(is_idle=False)

    def _mark(self, *, is_idle: bool) -> None:
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            assert self._output is not None
            self._output.emit_watermark_status(is_idle)


class Timer:
    """Calls back every so often, counted from when it was called (Flink: ProcessingTimeService,
    scheduleWithFixedDelay).

    Attributes:
        next_ns: when it is to be called.
    """

    def __init__(self, callback: Callable[[], None], interval_ns: int, *, first_ns: int) -> None:
        self.next_ns = first_ns
        self._callback = callback
        self._interval_ns = interval_ns

    def fire(self, now_ns: int) -> None:
        """Call back, if it is time."""
        if now_ns >= self.next_ns:
            self._callback()
            self.next_ns = now_ns + self._interval_ns
