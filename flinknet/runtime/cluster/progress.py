"""ProgressMeter: combines the statistics of all TaskManagers into one Progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.job.load.plan import LoadChannel, LoadPlan, task_name
from flinknet.results import ChannelProgress, Progress, TaskProgress

from .collected import Collected
from .control_messages import Start
from .reports import Statistics

RATE_INTERVAL_MIN_NS = 100_000_000
"""Samples that are closer together give no rate."""

RATE_WINDOW_NS = 1_000_000_000
"""The window of rates; longer where records come in larger steps."""

_STEPS_MIN = 3

STILL_NS = 10_000_000_000
"""Where no record was taken for this long, the rate is 0."""


@dataclass(slots=True)
class _Channel:
    records: int = 0
    at_ns: int = 0
    rate_per_s: float = 0.0


@dataclass(slots=True)
class _Taken:
    """The records taken by the last tasks on one TaskManager, and the current rate.

    A slow task takes a buffer at once and then works on it for longer than the sample interval, so
    the window of rates spans at least two such steps.
    """

    records: int = 0
    size_bytes: int = 0
    at_ns: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    _steps: deque[tuple[int, int, int]] = field(default_factory=deque)  # instant, records, bytes

    def count(self, records_taken: int, bytes_taken: int, now_ns: int) -> None:
        """Add a sample of the totals."""
        if self.at_ns and now_ns - self.at_ns < RATE_INTERVAL_MIN_NS:
            return
        steps = self._steps
        if not steps or records_taken != self.records:
            steps.append((now_ns, records_taken, bytes_taken))
        self.records, self.size_bytes, self.at_ns = records_taken, bytes_taken, now_ns
        while len(steps) > _STEPS_MIN and steps[1][0] <= now_ns - RATE_WINDOW_NS:
            steps.popleft()
        since_ns, records, size_bytes = steps[0]
        elapsed_ns = now_ns - since_ns
        is_still = now_ns - steps[-1][0] >= STILL_NS
        if is_still or not elapsed_ns:
            self.records_per_s = self.bytes_per_s = 0.0
            return
        self.records_per_s = (self.records - records) / elapsed_ns * 1e9
        self.bytes_per_s = (self.size_bytes - size_bytes) / elapsed_ns * 1e9


class ProgressMeter:
    """Rates over the last interval, with the latest counts of each task.

    Args:
        collected: receives the same statistics.
    """

    def __init__(self, load: LoadPlan, collected: Collected) -> None:
        self._load = load
        self._collected = collected
        self._tasks = sorted(load.tasks, key=lambda each: each.task_manager)
        self._attempts: dict[int, list[ExecutionAttemptID]] = {}
        for each in self._tasks:
            self._attempts.setdefault(each.task_manager, []).append(each.attempt_id)
        self._channels = [_Channel() for _ in load.channels]
        self._taken: dict[int, _Taken] = {}
        self.start: Start | None = None

    def add(self, index: int, statistics: Statistics, now_ns: int) -> None:
        """Add the statistics of a TaskManager."""
        self._collected.add(index, statistics)
        for read in statistics.read:
            channel = self._channels[read.channel]
            elapsed_ns = now_ns - channel.at_ns
            if channel.at_ns and elapsed_ns:
                channel.rate_per_s = (read.records - channel.records) / elapsed_ns * 1e9
            channel.records, channel.at_ns = read.records, now_ns
        known = self._collected.tasks
        own = [known[each] for each in self._attempts.get(index, ()) if each in known]
        self._taken.setdefault(index, _Taken()).count(
            sum(each.measured_records for each in own),
            sum(each.measured_bytes for each in own),
            now_ns,
        )

    def progress(self, phase: str | None, now_ns: int) -> Progress:
        """The current progress; `phase` None derives it from the instants of the run."""
        latency = self._collected.latency_of(self._collected.tasks)
        return Progress(
            phase=phase or self._phase(now_ns),
            elapsed_ns=max(0, now_ns - self.start.start_ns) if self.start else 0,
            fraction=1.0 if phase == "finished" else self._fraction(now_ns),
            records=self._records,
            throughput_records_per_s=sum(each.records_per_s for each in self._taken.values()),
            throughput_bytes_per_s=sum(each.bytes_per_s for each in self._taken.values()),
            latency_ns_p50=latency.percentile(0.5),
            latency_ns_p99=latency.percentile(0.99),
            channels=tuple(map(self._channel, self._load.channels, self._channels)),
            tasks=tuple(
                _task_progress(task_name(each), metrics)
                for each in self._tasks
                if (metrics := self._collected.metrics_of(each.attempt_id)) is not None
            ),
        )

    def _channel(self, deployed: LoadChannel, channel: _Channel) -> ChannelProgress:
        written = self._collected.written.get(deployed.index)
        credits = -1 if written is None else written.credits_available
        return ChannelProgress(
            channel=deployed.index,
            producer=deployed.producer,
            consumer=deployed.consumer,
            throughput_records_per_s=channel.rate_per_s,
            backlog_buffers=None if written is None else written.backlog_buffers,
            credits_available=credits if credits >= 0 else None,
            edge=deployed.edge,
            edge_number=deployed.edge + 1,
            is_local=deployed.is_local,
        )

    @property
    def _records(self) -> int:
        return sum(each.records for each in self._taken.values())

    def _phase(self, now_ns: int) -> str:
        assert self.start is not None
        if now_ns < self.start.measured_from_ns:
            return "warming up"
        to_ns = self.start.measured_to_ns
        if to_ns is None or now_ns < to_ns:
            return "measuring"
        return "reading" if self._load.scenario.workload.is_blocking else "draining"

    def _fraction(self, now_ns: int) -> float | None:
        if self.start is None:
            return 0.0
        workload = self._load.scenario.workload
        if self.start.measured_to_ns is not None:
            total_ns = self.start.measured_to_ns - self.start.start_ns
            return min(1.0, max(0.0, (now_ns - self.start.start_ns) / max(1, total_ns)))
        if workload.records is not None:
            expected = workload.records * workload.producers * workload.copies
            return min(1.0, self._records / max(1, expected))
        return None


def _task_progress(name: str, metrics: Mapping[str, float]) -> TaskProgress:
    return TaskProgress(
        name=name,
        busy=metrics["busyTimeMsPerSecond"] / 1000,
        idle=metrics["idleTimeMsPerSecond"] / 1000,
        back_pressured=metrics["backPressuredTimeMsPerSecond"] / 1000,
        in_pool_usage=metrics.get("inPoolUsage"),
        out_pool_usage=metrics.get("outPoolUsage"),
    )
