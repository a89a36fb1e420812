# mypyc
"""Time metrics of a task and growth rates of its counters, by Flink's formulas.

Timers are marked where a task stops and resumes, so the hot path pays nothing.

Flink samples timers and meters every 5 s and reports the last minute. Runs here are often shorter
and begin with a warm-up: until a minute of the measured part has passed, the figures cover the
measured part so far.
"""

from __future__ import annotations

from collections import deque

from flinknet.units import NS_PER_MS

UPDATE_INTERVAL_NS = 5_000_000_000
"""Interval at which Flink's view updater samples every meter and timer."""

WINDOW_INTERVALS = 12
"""Intervals in a rate's window: the last minute."""


class TimerGauge:
    """Share of each second that something lasted (Flink: TimerGauge)."""

    def __init__(self) -> None:
        self._slots: deque[int] = deque(maxlen=WINDOW_INTERVALS)
        self._since_ns = -1  # start of the current period
        self._counted_from_ns = -1  # its part before this was counted in an earlier interval
        self._current_ns = 0
        self._longest_ns = 0
        self.accumulated_ns = 0
        self.longest_ns = 0

    @property
    def is_running(self) -> bool:
        return self._since_ns >= 0

    def start(self, *, now_ns: int) -> None:
        if self._since_ns < 0:
            self._since_ns = self._counted_from_ns = now_ns

    def stop(self, *, now_ns: int) -> None:
        if self._since_ns >= 0:
            self._count(now_ns)
            self._since_ns = -1

    def update(self, *, now_ns: int) -> None:
        """End an interval; a period across its end is split."""
        if 0 <= self._counted_from_ns < now_ns and self.is_running:
            self._count(now_ns)
        self._slots.append(self._current_ns)
        self._current_ns = 0
        self.longest_ns, self._longest_ns = self._longest_ns, 0

    def longest_until(self, now_ns: int) -> int:
        """The longest period that ended or was in progress in the last interval, in ns; before the
        first interval ends, in the current one.
        """
        if self._slots:
            return self.longest_ns
        running_ns = now_ns - self._since_ns if self.is_running else 0
        return max(self._longest_ns, running_ns)

    def accumulated_until(self, now_ns: int) -> int:
        """Total time so far in ns, including a period in progress."""
        running_ns = now_ns - self._counted_from_ns if self._since_ns >= 0 else 0
        return self.accumulated_ns + running_ns

    @property
    def ms_per_s(self) -> int:
        """Milliseconds per second, over the intervals of the last minute."""
        if not self._slots:
            return 0
        covered_s = len(self._slots) * UPDATE_INTERVAL_NS / 1e9
        return max(0, min(1000, int(sum(self._slots) / NS_PER_MS / covered_s)))

    def _count(self, now_ns: int) -> None:
        passed_ns = now_ns - self._counted_from_ns
        self._current_ns += passed_ns
        self.accumulated_ns += passed_ns
        self._counted_from_ns = now_ns
        self._longest_ns = max(self._longest_ns, now_ns - self._since_ns)


class TaskTimes:
    """Time a task spent idle, back-pressured and busy (Flink: TaskIOMetricGroup).

    Soft back pressure: the output is not available, so no new record is begun. Hard: a record in
    progress found no buffer, overdraft included. At most one of the three is in progress;
    otherwise the task is busy, even while it waits for its turn on the event loop.
    """

    def __init__(self, *, start_ns: int) -> None:
        self._start_ns = start_ns
        self._next_update_ns = start_ns + UPDATE_INTERVAL_NS
        self._window_from_ns: int | None = None
        self._before_window: dict[int, int] = {}
        self._marked_ns = start_ns
        self._waiting: TimerGauge | None = None
        self.is_busy = True
        self.idle = TimerGauge()
        self.soft_back_pressured = TimerGauge()
        self.hard_back_pressured = TimerGauge()

    def wait(self, gauge: TimerGauge, *, now_ns: int) -> None:
        """Wait from now on; the time counts for this gauge only."""
        if gauge is not self._waiting:
            self.resume(now_ns=now_ns)
            gauge.start(now_ns=self._marked_ns)
            self._waiting = gauge
            self.is_busy = False

    def wait_for_output(self, is_inside_record: bool, *, now_ns: int) -> None:
        """Wait for the output: hard inside a record, else soft back pressure."""
        hard, soft = self.hard_back_pressured, self.soft_back_pressured
        self.wait(hard if is_inside_record else soft, now_ns=now_ns)

    def resume(self, *, now_ns: int) -> None:
        self._marked_ns = max(now_ns, self._marked_ns)
        if self._waiting is not None:
            self._waiting.stop(now_ns=self._marked_ns)
            self._waiting = None
            self.is_busy = True

    def update(self, *, now_ns: int) -> None:
        """Close the intervals that have ended."""
        while now_ns >= self._next_update_ns:
            for gauge in self._gauges:
                gauge.update(now_ns=self._next_update_ns)
            self._next_update_ns += UPDATE_INTERVAL_NS

    def start_window(self, *, now_ns: int) -> None:
        """Begin the measured part; times per second cover it until it is as long as the window."""
        self._window_from_ns = now_ns
        self._before_window = {id(gauge): gauge.accumulated_until(now_ns) for gauge in self._gauges}

    def metrics(self, *, now_ns: int) -> dict[str, float]:
        """The times under Flink's names, in ms."""
        soft, hard, idle = self.soft_back_pressured, self.hard_back_pressured, self.idle
        soft_ms, hard_ms = self._ms_per_s(soft, now_ns), self._ms_per_s(hard, now_ns)
        idle_ms, waiting_ms = self._ms_per_s(idle, now_ns), soft_ms + hard_ms
        accumulated_idle = idle.accumulated_until(now_ns)
        accumulated_waiting = soft.accumulated_until(now_ns) + hard.accumulated_until(now_ns)
        busy_ns = now_ns - self._start_ns - accumulated_idle - accumulated_waiting
        return {
            "busyTimeMsPerSecond": 1000 - min(1000, idle_ms + waiting_ms),
            "idleTimeMsPerSecond": idle_ms,
            "backPressuredTimeMsPerSecond": waiting_ms,
            "softBackPressuredTimeMsPerSecond": soft_ms,
            "hardBackPressuredTimeMsPerSecond": hard_ms,
            "maxSoftBackPressureTimeMs": soft.longest_until(now_ns) // NS_PER_MS,
            "maxHardBackPressureTimeMs": hard.longest_until(now_ns) // NS_PER_MS,
            "accumulateIdleTimeMs": accumulated_idle // NS_PER_MS,
            "accumulateBackPressuredTimeMs": accumulated_waiting // NS_PER_MS,
            "accumulateBusyTimeMs": max(0, busy_ns) // NS_PER_MS,
        }

    @property
    def _gauges(self) -> tuple[TimerGauge, TimerGauge, TimerGauge]:
        return self.idle, self.soft_back_pressured, self.hard_back_pressured

    def _ms_per_s(self, gauge: TimerGauge, now_ns: int) -> int:
        from_ns = self._window_from_ns
        if from_ns is None or now_ns - from_ns >= WINDOW_INTERVALS * UPDATE_INTERVAL_NS:
            return gauge.ms_per_s
        passed_ns = gauge.accumulated_until(now_ns) - self._before_window[id(gauge)]
        return max(0, min(1000, passed_ns * 1000 // max(1, now_ns - from_ns)))


class Meter:
    """Growth of a counter per second (Flink: MeterView), over the last minute or since creation."""

    def __init__(self, count: int, *, now_ns: int) -> None:
        self._marks: deque[tuple[int, int]] = deque([(now_ns, count)], maxlen=WINDOW_INTERVALS + 1)

    def update(self, count: int, *, now_ns: int) -> None:
        """Record the counter's value if an interval has passed since the last."""
        if now_ns - self._marks[-1][0] >= UPDATE_INTERVAL_NS:
            self._marks.append((now_ns, count))

    def per_second(self, count: int, *, now_ns: int) -> float:
        """The rate, given the counter's current value."""
        from_ns, before = self._marks[0]
        if len(self._marks) == WINDOW_INTERVALS + 1:
            now_ns, count = self._marks[-1]
        return (count - before) * 1e9 / (now_ns - from_ns) if now_ns > from_ns else 0.0


def sooner(first_ns: int | None, second_ns: int | None) -> int | None:
    """The earlier of two instants; None means never."""
    if first_ns is None or (second_ns is not None and second_ns < first_ns):
        return second_ns
    return first_ns
