"""Statistics of a TaskManager's tasks and channels, sampled while a job runs and at its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flinknet.core.buffers import NetworkBufferPool
from flinknet.histogram import LogLinearHistogram
from flinknet.job.channel_input import ChannelInput
from flinknet.job.metrics import memory_metrics
from flinknet.results import FillSample, Strangers
from flinknet.trace.statistics import EventStatistics

from ..clock import monotonic_ns
from ..connection_manager import ConnectionManager, LocalConnectionManager
from .reports import (
    ProducerChannelReport,
    ReadChannel,
    Report,
    Statistics,
    TaskCounts,
    UsedConnection,
    WrittenChannel,
)
from .running_task import RunningTask

METRICS_PAUSE = 100
"""Pause after sampling metrics, in multiples of the time it took: at most 1% of the time."""


class Sampler:
    """Samples the statistics of one TaskManager."""

    def __init__(
        self, connections: ConnectionManager | LocalConnectionManager, memory: NetworkBufferPool
    ) -> None:
        self._connections = connections
        self._memory = memory
        self._next_metrics_ns = 0

    def statistics_of(
        self,
        tasks: Iterable[RunningTask],
        *,
        connections: tuple[UsedConnection, ...] = (),
        is_last: bool = False,
        fill: FillSample | None = None,
    ) -> Statistics:
        """Sample tasks and their channels, and the memory of the process; without metrics if they
        were sampled recently and are so many that it would cost too much.

        Args:
            connections: connections that the job of these tasks uses.
            is_last: the tasks have ended: their metrics are sampled in any case.
        """
        now_ns = monotonic_ns()
        known = list(tasks)
        has_metrics = is_last or now_ns >= self._next_metrics_ns
        counts = tuple(_counts(each, has_metrics, now_ns) for each in known)
        memory = memory_metrics(self._memory) if has_metrics else {}
        if has_metrics and not is_last:
            self._next_metrics_ns = now_ns + METRICS_PAUSE * (monotonic_ns() - now_ns)
        own = {
            channel
            for each in known
            for output in each.task.outputs.each
            for channel in output.channels
        }
        written = (
            WrittenChannel(
                channel.channel,
                channel.backlog_buffers,
                channel.credits_available,
                channel.starved_ns,
            )
            for accepted in self._connections.accepted
            for channel in accepted.connection.snapshot(now_ns=now_ns)
            if channel.channel in own
        )
        read = tuple(channel for each in known for channel in _read(each))
        return Statistics(now_ns, counts, read, tuple(written), memory, fill, connections)


def _counts(running: RunningTask, has_metrics: bool, now_ns: int) -> TaskCounts:
    """The counts of a task so far."""
    latency = LogLinearHistogram()
    records = size_bytes = 0
    for meter in running.task.chain.latency_meters:
        if running.task.is_handed_over:
            meter.settle_soon()
        else:
            meter.settle()
        latency.merge(meter.latency)
        records += meter.measured_records
        size_bytes += meter.measured_bytes
    return TaskCounts(
        running.attempt_id,
        running.task.name,
        running.metrics(now_ns=now_ns) if has_metrics else {},
        latency.to_bytes() if latency.count else b"",
        records,
        size_bytes,
        tuple(running.task.chain.latency_stats or ()) if has_metrics else (),
    )


def _read(running: RunningTask) -> Iterable[ReadChannel]:
    gate, network_input = running.task.gate, running.task.network_input
    if gate is None or network_input is None:
        return
    sizes = network_input.checkpoints.read_bytes
    for channel, receiver in zip(gate.channels, running.task.receivers, strict=True):
        size_bytes = sizes[channel.index_in_input]
        found = ReadChannel(channel.index, receiver.records, size_bytes)
        if isinstance(receiver, ChannelInput):
            found = replace(
                found,
                measured_records=receiver.measured_records,
                waiting_since_ns=receiver.waiting_since_ns,
                last_due_ns=receiver.last_due_ns,
                last_read_ns=receiver.last_read_ns,
            )
        yield found


def report_of(statistics: EventStatistics, strangers: Strangers, trace_error: str | None) -> Report:
    """The final report on the tasks of a program; LoadRun makes that of a load."""
    return Report(
        producer_channels=tuple(
            ProducerChannelReport(
                index,
                0,
                0,
                int(statistics.channel_buffers[index]),
                int(statistics.channel_backlog_sum[index]),
                int(statistics.channel_backlog_max[index]),
            )
            for index in statistics.channel_buffers.nonzero()[0].tolist()
        ),
        buffers=statistics.buffers,
        events=statistics.events,
        reasons=tuple(statistics.reasons.tolist()),
        credit_announced=statistics.credit_announced,
        credit_messages=statistics.credit_messages,
        trace_error=trace_error,
        strangers=strangers,
    )
