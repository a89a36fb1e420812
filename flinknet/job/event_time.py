"""Event time in a task: the operator that assigns it, timers, and the watermark of several
channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flinknet.core.wire.records import Watermark, WatermarkStatus
from flinknet.graph.operators import StreamOperator, TimestampsAndWatermarks, as_list
from flinknet.graph.watermarks import (
    MAX_WATERMARK_MS,
    MIN_WATERMARK_MS,
    Output,
    WatermarkGenerator,
    WatermarkOutput,
)

from .context import ProcessingContext
from .elements import NO_TIMESTAMP, Instants


class TimestampsAndWatermarksOperator(StreamOperator):
    """Assigns timestamps and generates watermarks (Flink: TimestampsAndWatermarksOperator).
    Upstream watermarks are dropped, except the final one.

    Args:
        is_progressive: emit watermarks along the way; batch jobs have only the final one.
    """

    def __init__(
        self, operator: TimestampsAndWatermarks, context: ProcessingContext, *, is_progressive: bool
    ) -> None:
        strategy = operator.strategy
        self._context = context
        self._assigner = strategy.assigner
        self._generator = (
            strategy.generator(lambda: context.active_ns)
            if is_progressive
            else WatermarkGenerator()
        )
        is_custom = strategy.is_custom and is_progressive
        self.calls_functions = is_custom or strategy.assigner is not None
        self.takes_batches = not is_custom
        self._output = WatermarkOutput()

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        context = self._context
        previous_ms = context.timestamp_ms
        timestamp_ms = previous_ms if previous_ms != NO_TIMESTAMP else context.due_ms
        if self._assigner is not None:
            timestamp_ms = self._assigner(value, timestamp_ms)
        context.timestamp_ms = timestamp_ms
        output.collect(value)
        context.timestamp_ms = previous_ms
        self._generator.on_event(value, timestamp_ms, self._output.to(output))

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
        self._generator.on_event(None, int(stamps.max()), self._output.to(output))

    def process_watermark(self, timestamp_ms: int, output: Output, input_number: int = 0) -> None:
        if timestamp_ms == MAX_WATERMARK_MS:
            self._output.to(output).emit_watermark(timestamp_ms)

    def process_watermark_status(
        self, is_idle: bool, output: Output, input_number: int = 0
    ) -> None:
        pass

    def emit_periodic(self, output: Output) -> None:
        self._generator.on_periodic_emit(self._output.to(output))

    def finish(self, output: Output) -> None:
        self.emit_periodic(output)

    def _stamps(self, values: Sequence[Any]) -> Instants:
        stamps = self._context.timestamps_of(len(values))
        if self._assigner is None:
            return stamps
        assigned = map(self._assigner, as_list(values), stamps.tolist())
        return np.fromiter(assigned, np.int64, len(values))


class Timer:
    """Calls back at a fixed delay after each call (Flink: scheduleWithFixedDelay)."""

    def __init__(self, callback: Callable[[], None], interval_ns: int, *, first_ns: int) -> None:
        self.next_ns = first_ns
        self._callback = callback
        self._interval_ns = interval_ns

    def fire(self, now_ns: int) -> None:
        if now_ns >= self.next_ns:
            self._callback()
            self.next_ns = now_ns + self._interval_ns


Passed = Watermark | WatermarkStatus
"""Output of a valve."""


class StatusWatermarkValve:
    """Emits the lowest watermark of the channels whenever it rises (Flink 2.3:
    StatusWatermarkValve).

    Idle channels do not count. A channel that becomes active again is unaligned, and does not count
    either, until it has caught up with the emitted watermark. A falling watermark is ignored.

    Invariant: `_watermark_ms`, the last emitted watermark, only rises; `_least_ms` is the lowest of
        the aligned channels, MIN_WATERMARK_MS if there are none.
    """

    def __init__(self, channels: int) -> None:
        self._watermarks_ms = [MIN_WATERMARK_MS] * channels
        self._idle = [False] * channels
        self._aligned = [True] * channels
        self._least_ms = MIN_WATERMARK_MS
        self._watermark_ms = MIN_WATERMARK_MS
        self._is_idle = False

    def input_watermark(self, timestamp_ms: int, channel: int) -> Sequence[Passed]:
        """Take a watermark of a channel. Returns: what to emit."""
        before_ms = self._watermarks_ms[channel]
        if self._is_idle or self._idle[channel] or timestamp_ms <= before_ms:
            return ()
        self._watermarks_ms[channel] = timestamp_ms
        if not self._aligned[channel] or before_ms <= self._least_ms:
            self._align(channel)
        return self._risen(self._least_ms)

    def input_watermark_status(self, is_idle: bool, channel: int) -> Sequence[Passed]:
        """Take a change of a channel between idle and active. Returns: what to emit, in order."""
        if is_idle == self._idle[channel]:
            return ()
        self._idle[channel] = is_idle
        self._align(channel)
        if not is_idle:
            if not self._is_idle:
                return ()
            self._is_idle = False
            return (WatermarkStatus(WatermarkStatus.ACTIVE),)
        is_least = self._watermarks_ms[channel] == self._watermark_ms
        if all(self._idle):
            self._is_idle = True
            # the others were idle before, and may be ahead
            risen = self._risen(max(self._watermarks_ms)) if is_least else ()
            return (*risen, WatermarkStatus(WatermarkStatus.IDLE))
        return self._risen(self._least_ms) if is_least else ()

    def _align(self, channel: int) -> None:
        has_caught_up = self._watermarks_ms[channel] >= self._watermark_ms
        self._aligned[channel] = not self._idle[channel] and has_caught_up
        aligned = zip(self._watermarks_ms, self._aligned, strict=True)
        self._least_ms = min((each for each, counts in aligned if counts), default=MIN_WATERMARK_MS)

    def _risen(self, timestamp_ms: int) -> Sequence[Watermark]:
        if timestamp_ms <= self._watermark_ms:
            return ()
        self._watermark_ms = timestamp_ms
        return (Watermark(timestamp_ms),)
