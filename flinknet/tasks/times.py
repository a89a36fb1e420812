"""How a task's time was spent, by Flink's formulas: idle, back-pressured, busy.

Timers are marked where a task stops and goes on, so that the hot path pays nothing.
"""

from __future__ import annotations

from collections import deque

UPDATE_INTERVAL_NS = 5_000_000_000
"""Flink's view updater looks at every meter and timer this often."""

WINDOW_INTERVALS = 12
"""Intervals that rates and times are taken over: the last minute."""

NS_PER_MS = 1_000_000


class TimerGauge:
    """How much of each second something lasted (Flink: TimerGauge).

    Args:
        interval_ns: time between two updates.
    """

    def __init__(self, *, interval_ns: int = UPDATE_INTERVAL_NS) -> None:
        self._interval_ns = interval_ns
        self._slots: deque[int] = deque(maxlen=WINDOW_INTERVALS)
        self._since_ns = -1  # start of the period that is running
        self._counted_from_ns = -1  # the part of it before was counted in an earlier interval
        self._current_ns = 0
        self._longest_ns = 0
        self.accumulated_ns = 0
        self.longest_ns = 0

    @property
    def is_running(self) -> bool:
        """Whether a period is going on."""
        return self._since_ns >= 0

    def start(self, *, now_ns: int) -> None:
        """A period begins; a second call does nothing."""
        if self._since_ns < 0:
            self._since_ns = self._counted_from_ns = now_ns

    def stop(self, *, now_ns: int) -> None:
        """The period ends; without one nothing happens."""
        if self._since_ns >= 0:
            self._count(now_ns)
            self._since_ns = -1

    def update(self, *, now_ns: int) -> None:
        """An interval is over; a period that spans it is split."""
        if 0 <= self._counted_from_ns < now_ns and self.is_running:
            self._count(now_ns)
        self._slots.append(self._current_ns)
        self._current_ns = 0
        self.longest_ns, self._longest_ns = self._longest_ns, 0

    def accumulated_until(self, now_ns: int) -> int:
        """All time in ns so far, a running period included."""
        running_ns = now_ns - self._counted_from_ns if self._since_ns >= 0 else 0
        return self.accumulated_ns + running_ns

    @property
    def ms_per_s(self) -> int:
        """Milliseconds of a second, over the intervals of the last minute."""
        if not self._slots:
            return 0
        covered_s = len(self._slots) * self._interval_ns / 1e9
        return max(0, min(1000, int(sum(self._slots) / NS_PER_MS / covered_s)))

    def _count(self, now_ns: int) -> None:
        passed_ns = now_ns - self._counted_from_ns
        self._current_ns += passed_ns
        self.accumulated_ns += passed_ns
        self._counted_from_ns = now_ns
        self._longest_ns = max(self._longest_ns, now_ns - self._since_ns)


class TaskTimes:
    """What a task did with its time (Flink: TaskIOMetricGroup): idle, back-pressured, busy.

    Soft back pressure: the output is not available and no new record is begun. Hard: a record that
    was begun found no buffer, overdraft included.
    """

    def __init__(self, *, start_ns: int, interval_ns: int = UPDATE_INTERVAL_NS) -> None:
        self._start_ns = start_ns
        self._next_update_ns = start_ns + interval_ns
        self._interval_ns = interval_ns
        self.idle = TimerGauge(interval_ns=interval_ns)
        self.soft_back_pressured = TimerGauge(interval_ns=interval_ns)
        self.hard_back_pressured = TimerGauge(interval_ns=interval_ns)

    def update(self, *, now_ns: int) -> None:
        """Take the intervals that have ended."""
        while now_ns >= self._next_update_ns:
            for gauge in (self.idle, self.soft_back_pressured, self.hard_back_pressured):
                gauge.update(now_ns=self._next_update_ns)
            self._next_update_ns += self._interval_ns

    def metrics(self, *, now_ns: int) -> dict[str, float]:
        """The times under Flink's names, in ms."""
        soft, hard, idle = self.soft_back_pressured, self.hard_back_pressured, self.idle
        waiting = soft.ms_per_s + hard.ms_per_s
        accumulated_idle = idle.accumulated_until(now_ns)
        accumulated_waiting = soft.accumulated_until(now_ns) + hard.accumulated_until(now_ns)
        busy_ns = now_ns - self._start_ns - accumulated_idle - accumulated_waiting
        return {
            "busyTimeMsPerSecond": 1000 - min(1000, idle.ms_per_s + waiting),
            "idleTimeMsPerSecond": idle.ms_per_s,
            "backPressuredTimeMsPerSecond": waiting,
            "softBackPressuredTimeMsPerSecond": soft.ms_per_s,
            "hardBackPressuredTimeMsPerSecond": hard.ms_per_s,
            "maxSoftBackPressureTimeMs": soft.longest_ns // NS_PER_MS,
            "maxHardBackPressureTimeMs": hard.longest_ns // NS_PER_MS,
            "accumulateIdleTimeMs": accumulated_idle // NS_PER_MS,
            "accumulateBackPressuredTimeMs": accumulated_waiting // NS_PER_MS,
            "accumulateBusyTimeMs": max(0, busy_ns) // NS_PER_MS,
        }
