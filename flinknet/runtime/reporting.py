"""What a TaskManager tells the launcher: samples while its tasks run, and the report at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinknet.core.consumer import InputChannel
from flinknet.histogram import LogLinearHistogram
from flinknet.job.debloating import GateDebloating
from flinknet.job.load.assembly import generator_of, run_input_of
from flinknet.job.load.sink import LatencySink
from flinknet.job.stream_task import StreamTask
from flinknet.job.task_metrics import Metrics, TaskManagerMetrics
from flinknet.results import FillLevels, Strangers
from flinknet.trace.statistics import EventStatistics

from .clock import monotonic_ns
from .connection_manager import ConnectionManager, LocalConnectionManager
from .event_loop import EventLoop
from .fill_levels import FillMeter
from .measured_part import MeasuredPart
from .messages import (
    ChannelSample,
    ConsumerChannelReport,
    ProducerChannelReport,
    Report,
    Sample,
)
from .running_tasks import RunningTasks

METRICS_PAUSE = 100
"""After taking metrics so many times as long passes without: they cost 1 % of the time at most."""


class Sampler:
    """Tells where the tasks of one TaskManager stand."""

    def __init__(
        self,
        tasks: RunningTasks,
        connections: ConnectionManager | LocalConnectionManager,
        loop: EventLoop,
        fill_meter: FillMeter,
        metrics: TaskManagerMetrics,
    ) -> None:
        self._tasks = tasks
        self._connections = connections
        self._loop = loop
        self._fill_meter = fill_meter
        self._metrics = metrics
        self._next_metrics_ns = 0

    def sample(self) -> Sample:
        """Everything as it is now."""
        latency = LogLinearHistogram()
        channels = [
            ChannelSample(
                channel.channel,
                backlog_buffers=channel.backlog_buffers,
                credits_available=channel.credits_available,
            )
            for accepted in self._connections.accepted
            for channel in accepted.connection.snapshot(now_ns=monotonic_ns())
            if channel.is_open
        ]
        records = size = 0
        for relay in self._tasks.relays:
            for channel, sink in _channels_of(relay):
                channels.append(ChannelSample(channel.index, records=sink.records))
        for task in self._tasks.sinks:
            for channel, sink in _channels_of(task):
                sink.settle()
                latency.merge(sink.latency)
                records += sink.measured_records
                size += sink.measured_bytes
                channels.append(ChannelSample(channel.index, records=sink.records))
        tasks, memory = self._sample_metrics()
        return Sample(
            records,
            size,
            latency.to_bytes() if self._tasks.sinks else None,
            tuple(channels),
            self._fill_meter.sample(
                self._loop.transports,
                now_ns=monotonic_ns(),
                is_writing=not any(source.is_blocked for source in self._tasks.sources),
            ),
            tasks,
            memory,
        )

    def _sample_metrics(self) -> tuple[dict[str, Metrics], Metrics]:
        """The metrics of all tasks; none if they were taken a short time ago and there are so many
        that it would cost too much.
        """
        now_ns = monotonic_ns()
        if now_ns < self._next_metrics_ns:
            return {}, {}
        found = self._metrics.sample(now_ns=now_ns)
        self._next_metrics_ns = now_ns + METRICS_PAUSE * (monotonic_ns() - now_ns)
        return found


def report_of(
    tasks: RunningTasks,
    statistics: EventStatistics,
    measured: MeasuredPart,
    *,
    busy_share: float,
    stolen_share: float,
    trace_error: str | None,
    fill_bounds: FillLevels,
    debloated_gates: Sequence[GateDebloating],
    strangers: Strangers,
) -> Report:
    """The report of a TaskManager whose tasks are finished; the shares are as in Report."""
    return Report(
        _consumer_channels(tasks, statistics, measured),
        _producer_channels(tasks, statistics, measured),
        statistics.buffers,
        statistics.events,
        tuple(statistics.reasons.tolist()),
        statistics.credit_announced,
        statistics.credit_messages,
        max((generator_of(source).late_ns_max for source in tasks.sources), default=0),
        busy_share,
        stolen_share,
        trace_error,
        fill_bounds,
        measured.unread_share,
        *measured.metrics,
        tuple((gate.name, tuple(gate.samples)) for gate in debloated_gates),
        strangers,
    )


def _consumer_channels(
    tasks: RunningTasks, statistics: EventStatistics, measured: MeasuredPart
) -> tuple[ConsumerChannelReport, ...]:
    reports = []
    for task in tasks.reading:
        for channel, sink in _channels_of(task):
            sink.settle()
            reports.append(
                ConsumerChannelReport(
                    channel.index,
                    sink.records,
                    sink.measured_records,
                    sink.measured_bytes,
                    sink.last_measured_ns,
                    sink.latency.to_bytes(),
                    sink.uncorrected.to_bytes(),
                    sink.disorder.lost,
                    sink.disorder.repeated,
                    sink.disorder.reordered,
                    measured.taken_per_s.get(channel.index),
                    int(statistics.channel_bytes_in[channel.index]),
                )
            )
    return tuple(reports)


def _producer_channels(
    tasks: RunningTasks,
    statistics: EventStatistics,
    measured: MeasuredPart,
) -> tuple[ProducerChannelReport, ...]:
    return tuple(
        ProducerChannelReport(
            index,
            task.sent_records.get(index, 0),
            measured.starved_ns.get(index, 0),
            int(statistics.channel_buffers[index]),
            int(statistics.channel_backlog_sum[index]),
            int(statistics.channel_backlog_max[index]),
        )
        for task in (*tasks.sources, *tasks.relays)
        for output in task.outputs
        for index in output.channels
    )


def _channels_of(task: StreamTask) -> Iterator[tuple[InputChannel, LatencySink]]:
    """The channels that a task reads, each with what checks and times its records."""
    reading = run_input_of(task)
    return zip(reading.gate.channels, reading.receivers, strict=True)
