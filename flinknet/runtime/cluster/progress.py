"""ProgressMeter: from the statistics of all TaskManagers to one Progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.plan import LoadPlan
from flinknet.results import ChannelProgress, Progress, TaskProgress

from .control_messages import Start, Statistics, TaskCounts

RATE_INTERVAL_MIN_NS = 100_000_000
"""Samples that come closer together say nothing of a rate."""

RATE_WINDOW_NS = 1_000_000_000
"""Rates are over so long, or longer where records come in larger steps."""

_STEPS_MIN = 3

STILL_NS = 10_000_000_000
"""Where nothing was taken for so long, nothing flows."""


@dataclass(slots=True)
class _Channel:
    records: int = 0
    at_ns: int = 0
    rate_per_s: float = 0.0
    backlog_buffers: int | None = None
    credits_available: int | None = None


@dataclass(slots=True)
class _Taken:
    """What the last tasks on one TaskManager have taken, and how fast lately.

    A slow task takes a buffer at once and is then busy with it for longer than samples are apart:
    rates go back to where at least two such steps lie between.
    """

    records: int = 0
    size_bytes: int = 0
    at_ns: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    _steps: deque[tuple[int, int, int]] = field(default_factory=deque)  # instant, records, bytes

    def count(self, records_taken: int, bytes_taken: int, now_ns: int) -> None:
        """Take what it is by now."""
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
    """Keeps the last counts of each task; rates are over the last interval."""

    def __init__(self, load: LoadPlan) -> None:
        self._load = load
        self._counts: dict[int, dict[str, TaskCounts]] = {}
        self._tasks: dict[int, dict[str, Mapping[str, float]]] = {}
        self._channels = [_Channel() for _ in load.channels]
        self._taken: dict[int, _Taken] = {}
        self.start: Start | None = None

    def add(self, index: int, statistics: Statistics, now_ns: int) -> None:
        """Take what one TaskManager tells."""
        known = self._counts.setdefault(index, {})
        for counts in statistics.tasks:
            known[counts.name] = counts
            if counts.metrics:
                self._tasks.setdefault(index, {})[counts.name] = counts.metrics
        for read in statistics.read:
            channel = self._channels[read.channel]
            elapsed_ns = now_ns - channel.at_ns
            if channel.at_ns and elapsed_ns:
                channel.rate_per_s = (read.records - channel.records) / elapsed_ns * 1e9
            channel.records, channel.at_ns = read.records, now_ns
        for written in statistics.written:
            channel = self._channels[written.channel]
            channel.backlog_buffers = written.backlog_buffers
            credits = written.credits_available
            channel.credits_available = credits if credits >= 0 else None
        self._taken.setdefault(index, _Taken()).count(
            sum(each.measured_records for each in known.values()),
            sum(each.measured_bytes for each in known.values()),
            now_ns,
        )

    def progress(self, phase: str | None, now_ns: int) -> Progress:
        """Where the run stands; `phase` None derives it from the instants of the run."""
        latency = LogLinearHistogram()
        for known in self._counts.values():
            for counts in known.values():
                if counts.latency:
                    latency.merge(LogLinearHistogram.from_bytes(counts.latency))
        return Progress(
            phase=phase or self._phase(now_ns),
            elapsed_ns=max(0, now_ns - self.start.start_ns) if self.start else 0,
            fraction=1.0 if phase == "finished" else self._fraction(now_ns),
            records=self._records,
            throughput_records_per_s=sum(each.records_per_s for each in self._taken.values()),
            throughput_bytes_per_s=sum(each.bytes_per_s for each in self._taken.values()),
            latency_ns_p50=latency.percentile(0.5),
            latency_ns_p99=latency.percentile(0.99),
            channels=tuple(
                ChannelProgress(
                    channel=deployed.index,
                    producer=deployed.producer,
                    consumer=deployed.consumer,
                    throughput_records_per_s=channel.rate_per_s,
                    backlog_buffers=channel.backlog_buffers,
                    credits_available=channel.credits_available,
                    edge=deployed.edge,
                    is_local=deployed.is_local,
                )
                for deployed, channel in zip(self._load.channels, self._channels, strict=True)
            ),
            tasks=tuple(
                _task_progress(name, metrics)
                for _, tasks in sorted(self._tasks.items())
                for name, metrics in tasks.items()
            ),
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
