# mypyc
"""How a task's time was spent and how fast its counters grew, by Flink's formulas.

Timers are marked where a task stops and goes on, so that the hot path pays nothing.

Flink looks at timers and meters every 5 s and tells the last minute. Runs here are often shorter,
and begin with a warm-up: until a minute of the measured part has passed, its figures are those of
the measured part so far.
"""

from __future__ import annotations

from collections import deque

from flinknet.units import NS_PER_MS

UPDATE_INTERVAL_NS = 5_000_000_000
"""Flink's view updater looks at every meter and timer this often."""

WINDOW_INTERVALS = 12
"""Intervals that rates and times are taken over: the last minute."""


class TimerGauge:
    """How much of each second something lasted (Flink: TimerGauge)."""

    def __init__(self) -> None:
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

    def longest_until(self, now_ns: int) -> int:
        """The longest period that ended or ran on in the last interval, in ns; in the running one
        as long as none is over.
        """
        if self._slots:
            return self.longest_ns
        running_ns = now_ns - self._since_ns if self.is_running else 0
        return max(self._longest_ns, running_ns)

    def accumulated_until(self, now_ns: int) -> int:
        """All time in ns so far, a running period included."""
        running_ns = now_ns - self._counted_from_ns if self._since_ns >= 0 else 0
        return self.accumulated_ns + running_ns

    @property
    def ms_per_s(self) -> int:
        """Milliseconds of a second, over the intervals of the last minute."""
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
    """What a task did with its time (Flink: TaskIOMetricGroup): idle, back-pressured, busy.

    Soft back pressure: the output is not available and no new record is begun. Hard: a record that
    was begun found no buffer, overdraft included. Of the three at most one goes on; else the task
    is busy, also while it waits for its turn on the event loop.

    Args:
        start_ns: when the task starts.
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
        """The task waits from now on, for what this gauge counts and for nothing else."""
        if gauge is not self._waiting:
            self.go_on(now_ns=now_ns)
            gauge.start(now_ns=self._marked_ns)
            self._waiting = gauge
            self.is_busy = False

    def wait_for_output(self, is_inside_record: bool, *, now_ns: int) -> None:
        """The output has no buffer: that is hard where a record was begun, else soft."""
        hard, soft = self.hard_back_pressured, self.soft_back_pressured
        self.wait(hard if is_inside_record else soft, now_ns=now_ns)

    def go_on(self, *, now_ns: int) -> None:
        """The task is busy from now on."""
        self._marked_ns = max(now_ns, self._marked_ns)
        if self._waiting is not None:
            self._waiting.stop(now_ns=self._marked_ns)
            self._waiting = None
            self.is_busy = True

    def update(self, *, now_ns: int) -> None:
        """Take the intervals that have ended."""
        while now_ns >= self._next_update_ns:
            for gauge in self._gauges:
                gauge.update(now_ns=self._next_update_ns)
            self._next_update_ns += UPDATE_INTERVAL_NS

    def start_window(self, *, now_ns: int) -> None:
        """The measured part begins: times of a second are those of its part so far, until it is
        as long as Flink's window.
        """
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
    """Growth of a counter per second (Flink: MeterView): over the last minute; until one has
    passed, since the meter was made.

    Args:
        count: what the counter is at now.
    """

    def __init__(self, count: int, *, now_ns: int) -> None:
        self._marks: deque[tuple[int, int]] = deque([(now_ns, count)], maxlen=WINDOW_INTERVALS + 1)

    def update(self, count: int, *, now_ns: int) -> None:
        """Take what the counter is at, if an interval has passed since it was last taken."""
        if now_ns - self._marks[-1][0] >= UPDATE_INTERVAL_NS:
            self._marks.append((now_ns, count))

    def per_second(self, count: int, *, now_ns: int) -> float:
        """The rate, for a counter that is at `count` now."""
        from_ns, before = self._marks[0]
        if len(self._marks) == WINDOW_INTERVALS + 1:
            now_ns, count = self._marks[-1]
        return (count - before) * 1e9 / (now_ns - from_ns) if now_ns > from_ns else 0.0


def sooner(first_ns: int | None, second_ns: int | None) -> int | None:
    """The earlier of two instants; None is never."""
    if first_ns is None or (second_ns is not None and second_ns < first_ns):
        return second_ns
    return first_ns
