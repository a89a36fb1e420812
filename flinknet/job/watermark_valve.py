"""StatusWatermarkValve: combines the watermarks of an input's channels."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.core.wire.records import Watermark, WatermarkStatus
from flinknet.graph.watermarks import MIN_WATERMARK_MS

Passed = Watermark | WatermarkStatus
"""Output of a valve."""


class StatusWatermarkValve:
    """Emits the lowest watermark of the channels whenever it rises (Flink: StatusWatermarkValve of
    2.3).

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
        """Update a channel's alignment and the lowest watermark."""
        has_caught_up = self._watermarks_ms[channel] >= self._watermark_ms
        self._aligned[channel] = not self._idle[channel] and has_caught_up
        aligned = zip(self._watermarks_ms, self._aligned, strict=True)
        self._least_ms = min((each for each, counts in aligned if counts), default=MIN_WATERMARK_MS)

    def _risen(self, timestamp_ms: int) -> Sequence[Watermark]:
        if timestamp_ms <= self._watermark_ms:
            return ()
        self._watermark_ms = timestamp_ms
        return (Watermark(timestamp_ms),)
