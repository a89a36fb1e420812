"""What a TaskManager tells of its tasks and channels: several times a second, and at the end."""

from __future__ import annotations

from collections.abc import Iterable

from flinknet.core.buffers import NetworkBufferPool
from flinknet.histogram import LogLinearHistogram
from flinknet.job.metrics import memory_metrics
from flinknet.job.sinks import LatencyOperator
from flinknet.results import Strangers
from flinknet.trace.statistics import EventStatistics

from ..connection_manager import ConnectionManager, LocalConnectionManager
from . import control_messages as say
from .running_task import RunningTask


def statistics_of(
    tasks: Iterable[RunningTask],
    connections: ConnectionManager | LocalConnectionManager,
    memory: NetworkBufferPool,
    *,
    now_ns: int,
) -> say.Statistics:
    """Tasks and their channels as they are now, and the memory of all."""
    known = list(tasks)
    own = {channel for each in known for output in each.task.outputs for channel in output.channels}
    written = (
        say.WrittenChannel(
            channel.channel,
            channel.backlog_buffers,
            max(0, channel.credits_available),
            channel.starved_ns,
        )
        for accepted in connections.accepted
        for channel in accepted.connection.snapshot(now_ns=now_ns)
        if channel.channel in own
    )
    return say.Statistics(
        now_ns,
        tuple(_counts(each, now_ns) for each in known),
        tuple(channel for each in known for channel in _read(each)),
        tuple(written),
        {name: float(value) for name, value in memory_metrics(memory).items()},
    )


def trace_closed(
    statistics: EventStatistics, strangers: Strangers, error: str | None
) -> say.TraceClosed:
    """What was recorded in all, when everything is."""
    sent = (
        say.SentChannel(
            index,
            int(statistics.channel_buffers[index]),
            int(statistics.channel_backlog_sum[index]),
            int(statistics.channel_backlog_max[index]),
        )
        for index in statistics.channel_buffers.nonzero()[0].tolist()
    )
    return say.TraceClosed(
        error,
        tuple(sent),
        statistics.buffers,
        statistics.events,
        tuple(statistics.reasons.tolist()),
        statistics.credit_announced,
        statistics.credit_messages,
        strangers,
    )


def _counts(running: RunningTask, now_ns: int) -> say.TaskCounts:
    latency = LogLinearHistogram()
    for operator in running.task.chain.operators:
        if isinstance(operator, LatencyOperator):
            operator.settle()
            latency.merge(operator.latency)
    return say.TaskCounts(
        running.attempt_id,
        {name: float(value) for name, value in running.metrics(now_ns=now_ns).items()},
        latency.to_bytes() if latency.count else b"",
    )


def _read(running: RunningTask) -> Iterable[say.ReadChannel]:
    gate, network_input = running.task.gate, running.task.network_input
    if gate is None or network_input is None:
        return
    sizes = network_input.checkpoints.read_bytes
    for channel, channel_input in zip(gate.channels, running.task.receivers, strict=True):
        size_bytes = sizes[channel.index_in_input]
        yield say.ReadChannel(channel.index, channel_input.records, size_bytes)
