"""Measurements of TaskManagers: Statistics several times a second while a job runs, a Report at its
end, and their parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.results import DebloatingSample, FillLevels, FillSample, Strangers

Metrics = dict[str, bool | int | float]
"""Metrics by Flink's names; values keep their types."""


@dataclass(frozen=True, slots=True)
class ReadChannel:
    """Totals of a channel at its consumer: records and bytes taken so far; the rest, of programs,
    is that of `ChannelInput`.
    """

    channel: int
    records: int
    size_bytes: int
    measured_records: int = 0
    waiting_since_ns: int = 0
    last_due_ns: int = 0
    last_read_ns: int = 0


@dataclass(frozen=True, slots=True)
class WrittenChannel:
    """State of a remote channel at its producer: the time with data and without credit so far, and
    credits, -1 without flow control by credit.
    """

    channel: int
    backlog_buffers: int
    credits_available: int
    starved_ns: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Counts of one attempt so far: its metrics (empty if they were not sampled); latency, number
    and bytes of the records that its sinks have measured.
    """

    attempt_id: ExecutionAttemptID
    name: str
    metrics: Metrics
    latency: bytes = b""
    measured_records: int = 0
    measured_bytes: int = 0


@dataclass(frozen=True, slots=True)
class UsedConnection:
    """A connection to a TaskManager, by its number among those between the two, in order of
    opening, with the number of open channels of a job that it carries.
    """

    task_manager: int
    number: int
    channels: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """TaskManager: statistics of the tasks of one job, less often with many channels."""

    at_ns: int
    tasks: tuple[TaskCounts, ...] = ()
    read: tuple[ReadChannel, ...] = ()
    written: tuple[WrittenChannel, ...] = ()
    memory: Metrics = field(default_factory=dict)
    fill: FillSample | None = None
    connections: tuple[UsedConnection, ...] = ()

    @property
    def job(self) -> ExecutionGraphID | None:
        return self.tasks[0].attempt_id.execution_graph_id if self.tasks else None


@dataclass(frozen=True, slots=True)
class ConsumerChannelReport:
    """Totals of a channel at its consumer, of the whole run and of the measured part. Value bytes
    and other elements are those of records written by Flink.
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
    """Totals of a channel at its producer, of the whole run and of the measured part."""

    channel: int
    sent_records: int
    starved_ns: int
    buffers: int
    backlog_sum: int
    backlog_max: int


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """Size of a partition of a blocking exchange, before and after compression."""

    edge: int
    data_bytes: int
    stored_bytes: int


_EMPTY, _NOBODY = FillLevels(), Strangers()


@dataclass(frozen=True, slots=True)
class Report:
    """TaskManager: the final report. Totals are of the measured part, shares of the whole run.

    For the tasks of a program it has only totals, producers' channels and strangers.

    Attributes:
        busy_share: share of time not spent waiting.
        stolen_share: share of time in which the process wanted a CPU and had none.
        stood_still_ns: time in which the process neither ran nor waited for a CPU.
        tasks, memory: metrics at the end of the measured part.
        debloating: evaluations of each gate, at instants of the clock.
        strangers: visitors of the data port that did not belong to the job.
        cpu_share: CPU use of the process in the measured part without polling, in cores.
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
    stood_still_ns: int = 0
    trace_error: str | None = None
    fill_bounds: FillLevels = _EMPTY
    tasks: dict[str, Metrics] = field(default_factory=dict)
    memory: Metrics = field(default_factory=dict)
    debloating: tuple[tuple[str, tuple[DebloatingSample, ...]], ...] = ()
    stored: tuple[StoredOutput, ...] = ()
    strangers: Strangers = _NOBODY
    cpu_share: float | None = None
