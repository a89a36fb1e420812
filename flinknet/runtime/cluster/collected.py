"""Collected: what the TaskManagers of a run have reported, in the form that the results of both a
bench and a job need; and the manifest of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.histogram import LogLinearHistogram
from flinknet.job import TaskDeploymentDescriptor
from flinknet.options import effective_flink_keys
from flinknet.results import BacklogSummary, RunWarning, Strangers
from flinknet.trace.manifest import ChannelInfo, ClockInfo, ProcessInfo, RunManifest

from ..host import host_id, versions_of
from ..metrics_log import MetricsLog
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
) -> RunManifest:
    """Return the manifest of a run whose processes are on this host.

    Args:
        host: `host.environment`, and more facts.
    """
    return RunManifest(
        scenario=dict(scenario),
        flink_keys=dict(effective_flink_keys(network)),
        host=dict(host),
        versions=versions_of(host),
        seed=seed,
        clock=ClockInfo(host_id=host_id()),
        started_at=started_at,
        measured_from_ns=measured_from_ns,
        measured_to_ns=measured_to_ns,
        processes=tuple(processes),
        channels=tuple(channels),
    )


def channel_infos(tasks: Iterable[TaskDeploymentDescriptor]) -> Iterator[ChannelInfo]:
    """The channels that tasks read."""
    for task in tasks:
        for gate in task.inputs:
            for channel in gate.channels:
                producer, consumer = f"tm-{channel.task_manager}", f"tm-{task.task_manager}"
                number = f"#{channel.connection_index}" if channel.connection_index else ""
                yield ChannelInfo(
                    index=channel.index,
                    receiver_id=channel.receiver_id.hex(),
                    producer=channel.producer,
                    consumer=task.subtask,
                    producer_process=producer,
                    consumer_process=consumer,
                    connection=f"{producer}->{consumer}{number}",
                    subpartition=channel.subpartition,
                    partition=channel.partition_id.encode().hex(),
                    is_local=channel.is_local,
                    edge=gate.edge,
                )


@dataclass(slots=True)
class Collected:
    """The latest statistics of each task and channel, and the final reports.

    Args:
        metrics_log: receives each sample of the metrics; None: they are not logged.

    Attributes:
        channels: channels of all deployed attempts, by index.
        memory: metrics of the network memory of each TaskManager.
        tasks: the latest counts of each attempt, with its latest metrics and marked latency.
        reports: final reports, by TaskManager.
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
        """The reports, by index of their TaskManager."""
        return [self.reports[index] for index in sorted(self.reports)]

    def note_channels(self, tasks: Iterable[TaskDeploymentDescriptor]) -> list[ChannelInfo]:
        """Add the channels of tasks that start. Returns: those channels."""
        known = list(channel_infos(tasks))
        self.channels += known
        self.channels.sort(key=lambda each: each.index)
        return known

    def add(self, task_manager: int, statistics: Statistics) -> None:
        """Add the statistics of a TaskManager."""
        for each in statistics.tasks:
            known = self.tasks.get(each.attempt_id)
            if known is not None and not each.metrics:
                each = replace(each, metrics=known.metrics, marked=known.marked)
            self.tasks[each.attempt_id] = each
        self.read.update((each.channel, each) for each in statistics.read)
        self.written.update((each.channel, each) for each in statistics.written)
        if not statistics.memory:
            return
        self.memory[task_manager] = statistics.memory
        if self.metrics_log is not None:
            metrics = {each.name: each.metrics for each in statistics.tasks if each.metrics}
            self.metrics_log.add(task_manager, metrics, statistics.memory, now_ns=statistics.at_ns)

    def close(self, task_manager: int, report: Report) -> None:
        """Add the final report of a TaskManager."""
        self.reports[task_manager] = report

    def metrics_of(self, attempt_id: ExecutionAttemptID) -> Mapping[str, float] | None:
        """The latest metrics of an attempt."""
        counts = self.tasks.get(attempt_id)
        return counts.metrics if counts is not None and counts.metrics else None

    def latency_of(self, attempts: Iterable[ExecutionAttemptID]) -> LogLinearHistogram:
        """Latency of the records that the sinks of these attempts have measured so far."""
        return latency_of(self.tasks[each].latency for each in attempts)

    def connections(self) -> dict[str, int]:
        """Number of channels that each TCP connection carried, over all attempts."""
        counts: dict[str, int] = {}
        for channel in self.channels:
            if not channel.is_local:
                counts[channel.connection] = counts.get(channel.connection, 0) + 1
        return dict(sorted(counts.items()))

    def warnings(self) -> list[RunWarning]:
        """Warnings from the reports of any run: unexpected visitors, incomplete traces."""
        visited = sum((each.strangers for each in self.reports.values()), Strangers()).warning()
        faults = [
            f"tm-{index}: {each.trace_error}"
            for index, each in sorted(self.reports.items())
            if each.trace_error is not None
        ]
        if self.metrics_log is not None and self.metrics_log.error is not None:
            faults.append(self.metrics_log.error)
        incomplete = (RunWarning("trace-incomplete", each) for each in faults)
        return [*([] if visited is None else [visited]), *incomplete]


def latency_of(parts: Iterable[bytes]) -> LogLinearHistogram:
    """Merge the histograms that the TaskManagers reported."""
    total = LogLinearHistogram()
    for each in parts:
        if each:
            total.merge(LogLinearHistogram.from_bytes(each))
    return total


def backlog_of(channels: Iterable[ProducerChannelReport]) -> BacklogSummary:
    """The backlog over all data messages of these channels."""
    sent = [each for each in channels if each.buffers]
    buffers = sum(each.buffers for each in sent)
    if not buffers:
        return BacklogSummary(None, None)
    return BacklogSummary(
        sum(each.backlog_sum for each in sent) / buffers, max(each.backlog_max for each in sent)
    )
