"""Collected: what the TaskManagers of a run have reported, in the form that the results of both a
bench and a job need; the progress of a bench, and the manifest of a run.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flinknet import results
from flinknet.config import NetworkConfig
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.histogram import LogLinearHistogram
from flinknet.job import TaskDeploymentDescriptor
from flinknet.job.descriptor import InputChannelDescriptor, deployed_channels
from flinknet.job.load.plan import LoadPlan, task_name
from flinknet.options import effective_flink_keys
from flinknet.trace.manifest import ChannelInfo, ClockInfo, ProcessInfo, RunManifest

from ..host import host_id, versions_of
from ..metrics_log import MetricsLog
from .control_messages import Start
from .host_clock import ClockOfHost, error_between_ns
from .reports import (
    ProducerChannelReport,
    ReadChannel,
    Report,
    Statistics,
    TaskCounts,
    WrittenChannel,
)


def manifest_of(
    scenario: Mapping[str, Any],
    network: NetworkConfig,
    processes: Iterable[ProcessInfo],
    channels: Iterable[ChannelInfo],
    *,
    seed: int,
    host: Mapping[str, Any],
    started_at: str,
    measured_from_ns: int | None,
    measured_to_ns: int | None,
    clocks: Sequence[ClockOfHost] = (),
) -> RunManifest:
    """The manifest of a run. Instants are by this host's clock, not by those of its workers."""
    facts = dict(host)
    if clocks:
        facts["clocks"] = [asdict(each) for each in clocks]
    return RunManifest(
        scenario=dict(scenario),
        flink_keys=dict(effective_flink_keys(network)),
        host=facts,
        versions=versions_of(host),
        seed=seed,
        clock=ClockInfo(host_id=host_id(), error_ns=error_between_ns(clocks)),
        started_at=started_at,
        measured_from_ns=measured_from_ns,
        measured_to_ns=measured_to_ns,
        processes=tuple(processes),
        channels=tuple(channels),
    )


def channel_infos(tasks: Iterable[TaskDeploymentDescriptor]) -> Iterator[ChannelInfo]:
    """The channels that tasks read, by index."""
    for each in deployed_channels(tasks):
        yield ChannelInfo(
            index=each.index,
            receiver_id=each.receiver_id.hex(),
            producer=each.producer,
            consumer=each.consumer,
            producer_process=f"tm-{each.producer_task_manager}",
            consumer_process=f"tm-{each.consumer_task_manager}",
            connection=str(each.connection),
            subpartition=each.subpartition,
            partition=each.partition_id.encode().hex(),
            is_local=each.is_local,
            edge=each.edge,
        )


@dataclass(slots=True)
class Collected:
    """The latest statistics of each task and channel, and the final reports.

    Attributes:
        channels: channels of all deployed attempts, by index.
        memory: metrics of the network memory of each TaskManager.
        tasks: the latest counts of each attempt, with its latest metrics.
    """

    metrics_log: MetricsLog | None = None
    channels: list[ChannelInfo] = field(default_factory=list)
    memory: dict[int, Mapping[str, float]] = field(default_factory=dict)
    tasks: dict[ExecutionAttemptID, TaskCounts] = field(default_factory=dict)
    read: dict[int, ReadChannel] = field(default_factory=dict)
    written: dict[int, WrittenChannel] = field(default_factory=dict)
    reports: dict[int, Report] = field(default_factory=dict)

    @property
    def reports_in_order(self) -> list[Report]:
        return [each for _, each in sorted(self.reports.items())]

    def note_channels(self, tasks: Iterable[TaskDeploymentDescriptor]) -> list[ChannelInfo]:
        """Add the channels of tasks that start. Returns: those channels."""
        known = list(channel_infos(tasks))
        self.channels += known
        self.channels.sort(key=lambda each: each.index)
        return known

    def add(self, task_manager: int, statistics: Statistics) -> None:
        for each in statistics.tasks:
            known = self.tasks.get(each.attempt_id)
            if known is not None and not each.metrics:
                each = replace(each, metrics=known.metrics)
            self.tasks[each.attempt_id] = each
        self.read.update((each.channel, each) for each in statistics.read)
        self.written.update((each.channel, each) for each in statistics.written)
        if not statistics.memory:
            return
        self.memory[task_manager] = statistics.memory
        if self.metrics_log is not None:
            metrics = {each.name: each.metrics for each in statistics.tasks if each.metrics}
            self.metrics_log.add(task_manager, metrics, statistics.memory, now_ns=statistics.at_ns)

    def metrics_of(self, attempt_id: ExecutionAttemptID) -> Mapping[str, float] | None:
        counts = self.tasks.get(attempt_id)
        return counts.metrics if counts is not None and counts.metrics else None

    def connections(self) -> dict[str, int]:
        """Number of channels that each TCP connection carried, over all attempts."""
        counts = Counter(each.connection for each in self.channels if not each.is_local)
        return dict(sorted(counts.items()))

    def warnings(self) -> list[results.RunWarning]:
        """Warnings from the reports of any run: unexpected visitors, incomplete traces."""
        reports = sorted(self.reports.items())
        visited = sum((each.strangers for _, each in reports), results.Strangers()).warning()
        faults = [f"tm-{at}: {x.trace_error}" for at, x in reports if x.trace_error is not None]
        if self.metrics_log is not None and self.metrics_log.error is not None:
            faults.append(self.metrics_log.error)
        incomplete = (results.RunWarning("trace-incomplete", each) for each in faults)
        return [*([] if visited is None else [visited]), *incomplete]


def latency_of(parts: Iterable[bytes]) -> LogLinearHistogram:
    """Merge the histograms that the TaskManagers reported."""
    total = LogLinearHistogram()
    for each in parts:
        if each:
            total.merge(LogLinearHistogram.from_bytes(each))
    return total


def backlog_of(channels: Iterable[ProducerChannelReport]) -> results.BacklogSummary:
    """The backlog over all data messages of these channels."""
    sent = [each for each in channels if each.buffers]
    buffers = sum(each.buffers for each in sent)
    if not buffers:
        return results.BacklogSummary(None, None)
    return results.BacklogSummary(
        sum(each.backlog_sum for each in sent) / buffers, max(each.backlog_max for each in sent)
    )


RATE_INTERVAL_MIN_NS = 100_000_000
"""Samples that are closer together give no rate."""

RATE_WINDOW_NS = 1_000_000_000
"""The window of rates; longer where records come in larger steps."""

_STEPS_MIN = 3

STILL_NS = 10_000_000_000
"""Where no record was taken for this long, the rate is 0."""


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
        is_still = now_ns - steps[-1][0] >= STILL_NS
        taken = (0, 0) if is_still else (self.records - records, self.size_bytes - size_bytes)
        elapsed_ns = max(1, now_ns - since_ns)
        self.records_per_s, self.bytes_per_s = (each / elapsed_ns * 1e9 for each in taken)


class ProgressMeter:
    """Rates over the last interval, with the latest counts of each task."""

    def __init__(self, load: LoadPlan, collected: Collected) -> None:
        self._load = load
        self._collected = collected
        self._tasks = sorted(load.tasks, key=lambda each: each.task_manager)
        self._attempts: dict[int, list[ExecutionAttemptID]] = {}
        for each in self._tasks:
            self._attempts.setdefault(each.task_manager, []).append(each.attempt_id)
        self._channels = [(0, 0, 0.0) for _ in load.channels]  # records, instant, rate per s
        self._taken: dict[int, _Taken] = {}
        self.start: Start | None = None

    def add(self, index: int, statistics: Statistics, now_ns: int) -> None:
        self._collected.add(index, statistics)
        for read in statistics.read:
            records, at_ns, per_s = self._channels[read.channel]
            if at_ns and statistics.at_ns > at_ns:
                per_s = (read.records - records) / (statistics.at_ns - at_ns) * 1e9
            self._channels[read.channel] = read.records, statistics.at_ns, per_s
        known = self._collected.tasks
        own = [known[each] for each in self._attempts.get(index, ()) if each in known]
        self._taken.setdefault(index, _Taken()).count(
            sum(each.measured_records for each in own),
            sum(each.measured_bytes for each in own),
            now_ns,
        )

    def progress(self, phase: str | None, now_ns: int) -> results.Progress:
        """The current progress; `phase` None derives it from the instants of the run."""
        latency = latency_of(each.latency for each in self._collected.tasks.values())
        return results.Progress(
            phase=phase or self._phase(now_ns),
            elapsed_ns=max(0, now_ns - self.start.start_ns) if self.start else 0,
            fraction=1.0 if phase == "finished" else self._fraction(now_ns),
            records=sum(each.records for each in self._taken.values()),
            throughput_records_per_s=sum(each.records_per_s for each in self._taken.values()),
            throughput_bytes_per_s=sum(each.bytes_per_s for each in self._taken.values()),
            latency_ns_p50=latency.percentile(0.5),
            latency_ns_p99=latency.percentile(0.99),
            channels=tuple(self._channel(each, now_ns) for each in self._load.channels),
            tasks=tuple(
                results.TaskProgress(
                    name=task_name(each),
                    **results.shares_of(metrics),
                    in_pool_usage=metrics.get("inPoolUsage"),
                    out_pool_usage=metrics.get("outPoolUsage"),
                )
                for each in self._tasks
                if (metrics := self._collected.metrics_of(each.attempt_id)) is not None
            ),
        )

    def _channel(self, deployed: InputChannelDescriptor, now_ns: int) -> results.ChannelProgress:
        _, at_ns, per_s = self._channels[deployed.index]
        written = self._collected.written.get(deployed.index)
        credits = -1 if written is None else written.credits_available
        return results.ChannelProgress(
            channel=deployed.index,
            producer=deployed.producer,
            consumer=deployed.consumer,
            throughput_records_per_s=per_s,
            backlog_buffers=None if written is None else written.backlog_buffers,
            credits_available=credits if credits >= 0 else None,
            edge=deployed.edge,
            edge_number=deployed.edge + 1,
            is_local=deployed.is_local,
            rate_age_ns=now_ns - at_ns if at_ns else 0,
        )

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
        workload, start_ns = self._load.scenario.workload, self.start.start_ns
        if self.start.measured_to_ns is not None:
            share = (now_ns - start_ns) / max(1, self.start.measured_to_ns - start_ns)
        elif workload.records is not None:
            expected = workload.records * workload.producers * workload.copies
            share = sum(each.records for each in self._taken.values()) / max(1, expected)
        else:
            return None
        return min(1.0, max(0.0, share))
