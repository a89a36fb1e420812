"""What TaskManagers say of what they have measured: Statistics again and again while a job runs, a
Report at its end, and what the two are made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.job.latency_stats import MarkedLatency
from flinknet.results import DebloatingSample, FillLevels, FillSample, Strangers

Metrics = dict[str, bool | int | float]
"""Values by Flink's names, which keep their types."""


@dataclass(frozen=True, slots=True)
class ReadChannel:
    """A channel so far, as its consumer sees it: records and bytes that it has taken."""

    channel: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WrittenChannel:
    """A channel now, as the producer of a remote one sees it.

    Attributes:
        credits_available: -1: there is no credit.
        starved_ns: how long it had data and no credit so far.
    """

    channel: int
    backlog_buffers: int
    credits_available: int
    starved_ns: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """One attempt so far: its metrics under Flink's names (empty if they were not taken), and the
    latency, number and bytes of the records that its sinks have measured, and what latency markers
    told its operators (with the metrics).
    """

    attempt_id: ExecutionAttemptID
    name: str
    metrics: Metrics
    latency: bytes = b""
    measured_records: int = 0
    measured_bytes: int = 0
    marked: tuple[MarkedLatency, ...] = ()


@dataclass(frozen=True, slots=True)
class UsedConnection:
    """A connection that a TaskManager has opened, and how many open channels of a job it carries.

    Attributes:
        task_manager: to which it was opened.
        number: of those between the two, in the order in which they were opened.
    """

    task_manager: int
    number: int
    channels: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """TaskManager: how far it is with the tasks of one job; several times a second, less often with
    many channels.
    """

    at_ns: int
    tasks: tuple[TaskCounts, ...] = ()
    read: tuple[ReadChannel, ...] = ()
    written: tuple[WrittenChannel, ...] = ()
    memory: Metrics = field(default_factory=dict)
    fill: FillSample | None = None
    connections: tuple[UsedConnection, ...] = ()

    @property
    def job(self) -> ExecutionGraphID | None:
        """That of its tasks; None if there are none."""
        return self.tasks[0].attempt_id.execution_graph_id if self.tasks else None


@dataclass(frozen=True, slots=True)
class ConsumerChannelReport:
    """What the consumer of a channel saw in the whole run, and measured in its measured part.

    Attributes:
        value_bytes, other_elements: of what Flink has written; None for a load of our own.
    """

    channel: int
    records: int
    measured_records: int
    measured_bytes: int
    last_measured_ns: int
    latency: bytes
    uncorrected: bytes
    lost: int
    repeated: int
    reordered: int
    taken_records_per_s: float | None = None
    bytes_in: int = 0
    value_bytes: int | None = None
    other_elements: int | None = None


@dataclass(frozen=True, slots=True)
class ProducerChannelReport:
    """What the producer of a channel did in the whole run, and saw in its measured part."""

    channel: int
    sent_records: int
    starved_ns: int
    buffers: int
    backlog_sum: int
    backlog_max: int


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What the partitions of a blocking exchange hold: the payload of all their buffers, and what
    compression left of it.
    """

    edge: int
    data_bytes: int
    stored_bytes: int


_EMPTY, _NOBODY = FillLevels(), Strangers()


@dataclass(frozen=True, slots=True)
class Report:
    """TaskManager: the end. Totals are of the measured part, shares of the whole run.

    Of the tasks of a program there are totals, producers' channels and strangers only.

    Attributes:
        trace_error: why the trace is not whole; None: it is.
        busy_share: time not spent waiting.
        stolen_share: time in which the process wanted a processor and had none.
        unread_share: part of the measured time in which a socket was not read, without credit and
            for want of a buffer.
        tasks, memory: metrics at the end of the measured part.
        debloating: the evaluations of each gate, at instants of the clock.
        strangers: who came to the data port and did not belong to the job.
        cpu_share: of one core, what the process used in the measured part without polling.
    """

    consumer_channels: tuple[ConsumerChannelReport, ...] = ()
    producer_channels: tuple[ProducerChannelReport, ...] = ()
    buffers: int = 0
    events: int = 0
    reasons: tuple[int, ...] = ()
    credit_announced: int = 0
    credit_messages: int = 0
    late_ns_max: int = 0
    busy_share: float = 0.0
    stolen_share: float = 0.0
    trace_error: str | None = None
    fill_bounds: FillLevels = _EMPTY
    unread_share: float = 0.0
    tasks: dict[str, Metrics] = field(default_factory=dict)
    memory: Metrics = field(default_factory=dict)
    debloating: tuple[tuple[str, tuple[DebloatingSample, ...]], ...] = ()
    stored: tuple[StoredOutput, ...] = ()
    strangers: Strangers = _NOBODY
    cpu_share: float | None = None
