"""Event time: strategies that a program gives, and what makes watermarks of timestamps.

Timestamps and watermarks are event time in ms, as Flink's. A watermark says that no record with
its timestamp or an earlier one follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flinknet.errors import ConfigError
from flinknet.units import NS_PER_MS, parse_duration_ns

from .operator_output import Output

MIN_WATERMARK_MS = -(2**63)
"""Of who has seen none (Flink: Long.MIN_VALUE, also for a record without a timestamp)."""

MAX_WATERMARK_MS = 2**63 - 1
"""The end of time: sources that end emit it (Flink: Watermark.MAX_WATERMARK)."""

TimestampAssigner = Callable[[Any, int], int]
"""The timestamp of a record in ms, given the record and the timestamp that it had, or
MIN_WATERMARK_MS (Flink: TimestampAssigner)."""


class WatermarkOutput:
    """What a generator writes to: watermarks that rise go on, and the first after an idle time
    makes the output active (Flink: WatermarkOutput, of WatermarkEmitter).

    Attributes:
        watermark_ms: the last.
    """

    def __init__(self) -> None:
        self.watermark_ms = MIN_WATERMARK_MS
        self._is_idle = False
        self._output: Output | None = None

    def to(self, output: Output) -> WatermarkOutput:
        """The same, writing to this output."""
        self._output = output
        return self

    def emit_watermark(self, timestamp_ms: int) -> None:
        """No record of this timestamp or before follows; it makes the output active."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            self.mark_active()
            assert self._output is not None
            self._output.emit_watermark(timestamp_ms)

    def mark_idle(self) -> None:
        """Nobody is to wait for watermarks of this output."""
        self._mark(is_idle=True)

    def mark_active(self) -> None:
        """Its watermarks count again."""
        self._mark(is_idle=False)

    def _mark(self, *, is_idle: bool) -> None:
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            assert self._output is not None
            self._output.emit_watermark_status(is_idle)


class WatermarkGenerator:
    """Makes watermarks of what passes; those of programs derive from it (Flink:
    WatermarkGenerator). Unchanged it makes none, and only the end of time is emitted (Flink:
    NoWatermarksGenerator).
    """

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        """A record has passed."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """pipeline.auto-watermark-interval has passed, or there are no more records."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Records are late by so much at most (Flink: BoundedOutOfOrdernessWatermarks)."""

    def __init__(self, out_of_orderness_ms: int) -> None:
        self._bound_ms = out_of_orderness_ms
        self._max_ms = MIN_WATERMARK_MS + out_of_orderness_ms + 1

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        self._max_ms = max(self._max_ms, timestamp_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self._max_ms - self._bound_ms - 1)


class WatermarksWithIdleness(WatermarkGenerator):
    """Marks its output idle when nothing has passed for a time (Flink: WatermarksWithIdleness).

    That time begins at the first periodic emission that saw no record since the one before.

    Args:
        clock: time in ns that stands still while the task waits for its output.
    """

    def __init__(
        self, watermarks: WatermarkGenerator, idle_timeout_ns: int, clock: Callable[[], int]
    ) -> None:
        self._watermarks = watermarks
        self._idle_timeout_ns = idle_timeout_ns
        self._clock = clock
        self._has_passed = False
        self._idle_since_ns: int | None = None
        self._is_idle = False

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        self._watermarks.on_event(value, timestamp_ms, output)
        self._has_passed = True
        self._is_idle = False

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if not self._check_idle():
            self._watermarks.on_periodic_emit(output)
        elif not self._is_idle:
            self._is_idle = True
            output.mark_idle()

    def _check_idle(self) -> bool:
        if self._has_passed:
            self._has_passed, self._idle_since_ns = False, None
        elif self._idle_since_ns is None:
            self._idle_since_ns = self._clock()
        else:
            return self._clock() - self._idle_since_ns > self._idle_timeout_ns
        return False


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How the records of a stream get timestamps, and watermarks (Flink: WatermarkStrategy).

    Attributes:
        create: makes the generator of a subtask.
        assigner: None: records keep the timestamp they have, which behind a source is when they
            were due there.
        idle_timeout_ns: None: the stream is never idle.
        is_custom: the generator is the program's, which sees every record.
    """

    create: Callable[[], WatermarkGenerator]
    assigner: TimestampAssigner | None = None
    idle_timeout_ns: int | None = None
    is_custom: bool = False

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy:
        """Timestamps never fall."""
        return cls.for_bounded_out_of_orderness(0)

    @classmethod
    def for_bounded_out_of_orderness(cls, bound: str | int) -> WatermarkStrategy:
        """A record is late by so much at most: "5s", in whole ms. Raises: ConfigError."""
        bound_ms = _duration_ns(bound, "out-of-orderness") // NS_PER_MS
        return cls(lambda: BoundedOutOfOrdernessWatermarks(bound_ms))

    @classmethod
    def for_generator(cls, create: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks as a generator of the program says; one is made for each subtask."""
        return cls(create, is_custom=True)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """Timestamps only."""
        return cls(WatermarkGenerator)

    def with_timestamp_assigner(self, assigner: TimestampAssigner) -> WatermarkStrategy:
        """The timestamp in ms is what a function of the record and its present one says."""
        return replace(self, assigner=assigner)

    def with_idleness(self, timeout: str | int) -> WatermarkStrategy:
        """The stream is idle when nothing has come for so long: nobody waits for its watermarks
        then. Raises: ConfigError.
        """
        timeout_ns = _duration_ns(timeout, "idleness")
        if not timeout_ns:
            raise ConfigError("idleness: 0 is too little; give a time above it, such as 1s")
        return replace(self, idle_timeout_ns=timeout_ns)

    def generator(self, clock: Callable[[], int]) -> WatermarkGenerator:
        """The generator of a subtask."""
        made = self.create()
        if self.idle_timeout_ns is None:
            return made
        return WatermarksWithIdleness(made, self.idle_timeout_ns, clock)


class CombinedWatermark:
    """The watermark of an operator with several inputs: the least of those that are not idle; once
    all are idle, the greatest (Flink: IndexedCombinedWatermarkStatus).

    Attributes:
        watermark_ms: of all.
        is_idle: all inputs are.
    """

    def __init__(self, inputs: int) -> None:
        self.watermark_ms = MIN_WATERMARK_MS
        self.is_idle = False
        self._watermarks_ms = [MIN_WATERMARK_MS] * inputs
        self._idle = [False] * inputs

    def update_watermark(self, index: int, timestamp_ms: int) -> bool:
        """An input has another watermark. Returns: whether that of all has risen."""
        self._idle[index] = False
        self._watermarks_ms[index] = max(self._watermarks_ms[index], timestamp_ms)
        return self._update()

    def update_status(self, index: int, is_idle: bool) -> bool:
        """An input is idle, or is no more. Returns: whether the watermark of all has risen."""
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


def _duration_ns(value: str | int, name: str) -> int:
    return parse_duration_ns(str(value), name, bare_unit=None)
