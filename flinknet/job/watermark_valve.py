"""StatusWatermarkValve: the watermarks of an input's channels become that of the input."""

from __future__ import annotations

from typing import Protocol

from flinknet.graph.watermarks import MIN_WATERMARK_MS


class ValveOutput(Protocol):
    """Takes what the valve lets through."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """The input's watermark has risen."""

    def emit_watermark_status(self, is_idle: bool) -> None:
        """The input is idle, or is no more."""


class StatusWatermarkValve:
    """Lets the least watermark of the channels through whenever it rises (Flink:
    StatusWatermarkValve, of 2.3).

    A channel that is idle does not count, nor does one that was, until it has caught up with what
    was let through: it is not aligned. A watermark that falls is ignored.

    Invariant: `_watermark_ms`, which was let through last, only rises.
    """

    def __init__(self, channels: int) -> None:
        self._watermarks_ms = [MIN_WATERMARK_MS] * channels
        self._idle = [False] * channels
        self._aligned = [True] * channels
        self._watermark_ms = MIN_WATERMARK_MS
        self._is_idle = False

    def input_watermark(self, timestamp_ms: int, channel: int, output: ValveOutput) -> None:
        """A channel has brought a watermark."""
        before_ms = self._watermarks_ms[channel]
        if self._is_idle or self._idle[channel] or timestamp_ms <= before_ms:
            return
        self._watermarks_ms[channel] = timestamp_ms
        if self._aligned[channel] and before_ms > self._watermark_ms:
            return  # others hold the least
        if timestamp_ms >= self._watermark_ms:
            self._aligned[channel] = True
        self._emit_least(output)

    def input_watermark_status(self, is_idle: bool, channel: int, output: ValveOutput) -> None:
        """A channel has said that it is idle, or that it is active again."""
        if is_idle == self._idle[channel]:
            return
        self._idle[channel] = is_idle
        if is_idle:
            self._aligned[channel] = False
            is_least = self._watermarks_ms[channel] == self._watermark_ms
            if all(self._idle):
                if is_least:  # the others were idle before, and may be ahead
                    self._emit(max(self._watermarks_ms), output)
                self._is_idle = True
                output.emit_watermark_status(True)
            elif is_least:
                self._emit_least(output)
        else:
            if self._watermarks_ms[channel] >= self._watermark_ms:
                self._aligned[channel] = True
            if self._is_idle:
                self._is_idle = False
                output.emit_watermark_status(False)

    def _emit_least(self, output: ValveOutput) -> None:
        aligned = [
            each
            for each, is_aligned in zip(self._watermarks_ms, self._aligned, strict=True)
            if is_aligned
        ]
        if aligned:
            self._emit(min(aligned), output)

    def _emit(self, timestamp_ms: int, output: ValveOutput) -> None:
        if timestamp_ms > self._watermark_ms:
            self._watermark_ms = timestamp_ms
            output.emit_watermark(timestamp_ms)
