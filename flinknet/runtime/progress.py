"""ProgressMeter: from the samples of all TaskManagers to one Progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinknet.histogram import LogLinearHistogram
from flinknet.results import ChannelProgress, Progress, TaskProgress
from flinknet.tasks.deployment import Deployment

from .messages import Sample, Start


@dataclass(slots=True)
class _Channel:
    records: int = 0
    at_ns: int = 0
    rate_per_s: float = 0.0
    backlog_buffers: int | None = None
    credits_available: int | None = None


class ProgressMeter:
    """Keeps the last sample of each process; rates are over the last interval."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._samples: dict[int, Sample] = {}
        self._tasks: dict[int, Mapping[str, Mapping[str, float]]] = {}
        self._channels = [_Channel() for _ in deployment.channels]
        self._records = self._bytes = 0
        self._rate_per_s = self._bytes_per_s = 0.0
        self._counted_at_ns = 0
        self.start: Start | None = None

    def add(self, index: int, sample: Sample, now_ns: int) -> None:
        """Take the sample of one TaskManager."""
        self._samples[index] = sample
        if sample.tasks:
            self._tasks[index] = sample.tasks
        for each in sample.channels:
            channel = self._channels[each.channel]
            if each.records >= 0:
                elapsed_ns = now_ns - channel.at_ns
                if channel.at_ns and elapsed_ns:
                    channel.rate_per_s = (each.records - channel.records) / elapsed_ns * 1e9
                channel.records, channel.at_ns = each.records, now_ns
            else:
                channel.backlog_buffers = each.backlog_buffers
                credits = each.credits_available
                channel.credits_available = credits if credits >= 0 else None
        self._count(now_ns)

    def progress(self, phase: str | None, now_ns: int) -> Progress:
        """Where the run stands; `phase` None derives it from the instants of the run."""
        latency = LogLinearHistogram()
        for sample in self._samples.values():
            if sample.latency is not None:
                latency.merge(LogLinearHistogram.from_bytes(sample.latency))
        return Progress(
            phase=phase or self._phase(now_ns),
            elapsed_ns=max(0, now_ns - self.start.start_ns) if self.start else 0,
            fraction=1.0 if phase == "finished" else self._fraction(now_ns),
            records=self._records,
            throughput_records_per_s=self._rate_per_s,
            throughput_bytes_per_s=self._bytes_per_s,
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
                )
                for deployed, channel in zip(self._deployment.channels, self._channels, strict=True)
            ),
            tasks=tuple(
                _task_progress(name, metrics)
                for _, tasks in sorted(self._tasks.items())
                for name, metrics in tasks.items()
            ),
        )

    def _count(self, now_ns: int) -> None:
        records = sum(sample.records for sample in self._samples.values())
        size = sum(sample.size_bytes for sample in self._samples.values())
        elapsed_ns = now_ns - self._counted_at_ns
        if elapsed_ns < 100_000_000:
            return
        if self._counted_at_ns:
            self._rate_per_s = (records - self._records) / elapsed_ns * 1e9
            self._bytes_per_s = (size - self._bytes) / elapsed_ns * 1e9
        self._records, self._bytes, self._counted_at_ns = records, size, now_ns

    def _phase(self, now_ns: int) -> str:
        assert self.start is not None
        if now_ns < self.start.measured_from_ns:
            return "warming up"
        to_ns = self.start.measured_to_ns
        return "measuring" if to_ns is None or now_ns < to_ns else "draining"

    def _fraction(self, now_ns: int) -> float | None:
        if self.start is None:
            return 0.0
        workload = self._deployment.scenario.workload
        if self.start.measured_to_ns is not None:
            total_ns = self.start.measured_to_ns - self.start.start_ns
            return min(1.0, max(0.0, (now_ns - self.start.start_ns) / max(1, total_ns)))
        if workload.records is not None:
            copies = workload.consumers if workload.partitioner == "broadcast" else 1
            return min(1.0, self._records / max(1, workload.records * workload.producers * copies))
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
