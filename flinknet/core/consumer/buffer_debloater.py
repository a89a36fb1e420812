"""Buffer debloating: computes a buffer size such that the data in flight to a gate takes about a
target time to consume.

The size of buffers shrinks, not their number. The channels of a gate are assumed to be evenly
loaded, as in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.units import NS_PER_MS


@dataclass(frozen=True, slots=True)
class DebloatingConfig:
    """Settings of debloating (Flink: BufferDebloatConfiguration); the defaults are those of 2.3."""

    target_ns: int = 1_000_000_000
    period_ns: int = 200_000_000
    samples: int = 20
    threshold_percent: int = 25
    smallest_buffer_bytes: int = 256
    largest_buffer_bytes: int = 32 * 1024
    starting_buffer_bytes: int = 1024


class ThroughputCalculator:
    """Bytes per second that a gate delivers while it has data (Flink: ThroughputCalculator).

    Time without data does not count. It takes totals rather than every buffer, so the hot path pays
    nothing.
    """

    __slots__ = ("_at_ns", "_bytes", "_idle_ns", "bytes_per_s")

    def __init__(self, *, now_ns: int) -> None:
        self.bytes_per_s = 0
        self._at_ns = now_ns
        self._bytes = 0
        self._idle_ns = 0

    def evaluate(self, total_bytes: int, total_idle_ns: int, *, now_ns: int) -> int:
        """Throughput since the last evaluation, in bytes per second; the previous value if less
        than a millisecond counts.

        Args:
            total_bytes: bytes of all buffers and events delivered so far.
            total_idle_ns: total time without data so far.
        """
        counted_ns = now_ns - self._at_ns - (total_idle_ns - self._idle_ns)
        counted_ms = counted_ns // NS_PER_MS
        if counted_ms > 0:
            self.bytes_per_s = (total_bytes - self._bytes) * 1000 // counted_ms
        self._at_ns, self._bytes, self._idle_ns = now_ns, total_bytes, total_idle_ns
        return self.bytes_per_s


class BufferDebloater:
    """Derives a buffer size from throughput (Flink: BufferDebloater with BufferSizeEMA).

    Invariants: smallest_buffer_bytes <= buffer_size_bytes <= largest_buffer_bytes; the size at most
    doubles in one step.
    """

    __slots__ = ("_alpha", "_config", "_size_bytes", "announced_bytes", "consume_ns")

    def __init__(self, config: DebloatingConfig) -> None:
        if not (
            config.smallest_buffer_bytes
            <= config.starting_buffer_bytes
            <= config.largest_buffer_bytes
        ):
            raise ValueError("the starting buffer size must lie between smallest and largest")
        self._config = config
        self._alpha = 2 / (config.samples + 1)
        self._size_bytes = float(config.starting_buffer_bytes)
        self.announced_bytes = config.starting_buffer_bytes
        self.consume_ns = 0

    @property
    def buffer_size_bytes(self) -> int:
        """The smoothed size, announced or not."""
        return int(self._size_bytes + 0.5)

    def recalculate(self, throughput_bytes_per_s: int, buffers_in_use: int) -> int | None:
        """Take a sample.

        Sets `consume_ns`, the time to consume all buffers at the new size (Flink:
        estimatedTimeToConsumeBuffersMs).

        Args:
            throughput_bytes_per_s: of the gate, since the last sample.
            buffers_in_use: of all channels of the gate: queued, and wanted beyond the initial
                credit.

        Returns: the size in bytes to announce to every producer; None if the change is too small.
        """
        config = self._config
        buffers = max(1, buffers_in_use)
        desired_total = throughput_bytes_per_s * (config.target_ns // NS_PER_MS) // 1000
        desired = min(desired_total / buffers, 2 * self._size_bytes)
        size = self._size_bytes + self._alpha * (desired - self._size_bytes)
        self._size_bytes = min(max(size, config.smallest_buffer_bytes), config.largest_buffer_bytes)
        new = self.buffer_size_bytes
        self.consume_ns = new * buffers * 1000 // max(1, throughput_bytes_per_s) * NS_PER_MS
        if not self._is_worth_announcing(new):
            return None
        self.announced_bytes = new
        return new

    def _is_worth_announcing(self, new: int) -> bool:
        config, announced = self._config, self.announced_bytes
        if new == announced:
            return False
        if new <= config.smallest_buffer_bytes or new >= config.largest_buffer_bytes:
            return True
        return abs(new - announced) >= announced * config.threshold_percent // 100
