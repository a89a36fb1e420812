"""Results as frozen plain numbers. Absent samples are None, never 0. Field names are those of the
JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Distribution of a latency in ns; a percentile is None when too few samples support it."""

    count: int
    min: int | None = None
    mean: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class BacklogSummary:
    """Backlog in buffers, over the data messages of the measured part."""

    mean: float | None
    max: int | None


@dataclass(frozen=True, slots=True)
class CreditSummary:
    """Credit announced, messages that announced it, and time with backlog but no credit (summed
    over channels).
    """

    announced: int
    messages: int
    starved_ns: int | None


@dataclass(frozen=True, slots=True)
class FlushCounts:
    """Why data buffers left: full, by the buffer timeout, pushed by an event (or the end)."""

    full: int
    timeout: int
    event: int


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """The checkpoints that began in the measured part.

    `unaligned` of the completed ones did not wait for all barriers. Durations: of a checkpoint from
    trigger to last acknowledgement; start delay (to the first barrier) and alignment (first to last
    barrier), of each task; travel of a barrier through a channel, from writing to reading. Bytes
    are means and maximum over checkpoints, summed over tasks: data that barriers have overtaken,
    data read during alignment.
    """

    triggered: int
    completed: int
    aborted: int
    unaligned: int
    duration_ns: LatencySummary
    start_delay_ns: LatencySummary
    alignment_ns: LatencySummary
    travel_ns: LatencySummary
    overtaken_bytes_mean: float | None
    overtaken_bytes_max: int | None
    processed_bytes_mean: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run measured after its warm-up.

    Records count by their intended instant in the measured part. `duration_ns` runs until the last
    of them was consumed, and buffers, events, backlog and credit are counted that long.
    """

    records: int
    bytes: int  # of record values
    buffers: int
    events: int
    duration_ns: int
    throughput_records_per_s: float | None
    throughput_bytes_per_s: float | None
    latency_ns: LatencySummary
    latency_uncorrected_ns: LatencySummary
    backlog_buffers: BacklogSummary
    credits: CreditSummary
    flushes: FlushCounts
    checkpoints: CheckpointSummary | None = None  # None: they were off


@dataclass(frozen=True, slots=True)
class Warning:
    """Something that makes a result doubtful, and what to do about it."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class ChannelMeasured:
    """One channel of a run: who is slow stands out here."""

    channel: int
    producer: int
    consumer: int
    records: int
    throughput_records_per_s: float | None
    latency_ns: LatencySummary
    backlog_buffers: BacklogSummary
    taken_records_per_s: float | None = None  # in the measured part by the clock, whenever due
    edge: int = 0  # producer and consumer are subtasks of its two ends
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Wiring:
    """How the tasks of a run are joined.

    `connections` names each TCP connection, from the producers' TaskManager to the consumers', with
    the number of channels that share it. Bytes are those of buffers that were received in the
    measured part and the drain (Flink: numBytesInLocal, numBytesInRemote).
    """

    local_channels: int
    remote_channels: int
    connections: dict[str, int]
    bytes_in_local: int
    bytes_in_remote: int


@dataclass(frozen=True, slots=True)
class FillLevels:
    """Bytes in each of the six places between two operators, in the order in which a record passes
    them. The third and fourth are the kernel's.
    """

    subpartition_bytes: int = 0  # written, and not handed to the connection
    netty_outbound_bytes: int = 0  # handed over, and not taken by the socket
    socket_send_bytes: int = 0  # in the sender's socket
    socket_receive_bytes: int = 0  # in the receiver's socket
    netty_inbound_bytes: int = 0  # read, and staged for want of a buffer
    input_channel_bytes: int = 0  # in buffers of the gate, and not taken by the task

    @property
    def total_bytes(self) -> int:
        """All six together."""
        return (
            self.subpartition_bytes
            + self.netty_outbound_bytes
            + self.socket_send_bytes
            + self.socket_receive_bytes
            + self.netty_inbound_bytes
            + self.input_channel_bytes
        )

    def __add__(self, other: FillLevels) -> FillLevels:
        return FillLevels(
            self.subpartition_bytes + other.subpartition_bytes,
            self.netty_outbound_bytes + other.netty_outbound_bytes,
            self.socket_send_bytes + other.socket_send_bytes,
            self.socket_receive_bytes + other.socket_receive_bytes,
            self.netty_inbound_bytes + other.netty_inbound_bytes,
            self.input_channel_bytes + other.input_channel_bytes,
        )


@dataclass(frozen=True, slots=True)
class FillSample:
    """Fill levels at an instant (ns since the start of the run), over all connections, and what
    they led to: is every socket read, does every socket take bytes, does no writer wait?
    """

    at_ns: int
    levels: FillLevels
    is_reading: bool
    is_writable: bool
    is_writing: bool


@dataclass(frozen=True, slots=True)
class Buffering:
    """The six places over a run; `bounds` is the most that each can hold."""

    bounds: FillLevels
    samples: tuple[FillSample, ...]


@dataclass(frozen=True, slots=True)
class BlockingExchange:
    """One exchange of a blocking run: first all of it was written, then all of it was read.

    Bytes are those of the buffers with data, before and after compression.
    """

    records: int
    write_duration_ns: int
    written_records_per_s: float
    read_duration_ns: int
    read_records_per_s: float
    data_bytes: int
    stored_bytes: int
    codec: str


@dataclass(frozen=True, slots=True)
class DebloatingSample:
    """One evaluation of a gate: the size that its producers' buffers have from then on, what it
    consumed per second, data in flight towards it, and how long it takes to consume as many buffers
    of the size.

    In flight: what the gate holds, and what the producers have told to hold, as if all of it were
    of the size last announced.
    """

    at_ns: int  # since the start of the run
    buffer_size_bytes: int
    throughput_bytes_per_s: int
    in_flight_bytes: int
    time_to_consume_ns: int


@dataclass(frozen=True, slots=True)
class DebloatedGate:
    """One gate of a run with buffer debloating, named by its task."""

    name: str
    target_ns: int
    samples: tuple[DebloatingSample, ...]


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """Flink's metrics at the end of the measured part, under Flink's names: of each task by its
    name, with its back pressure level beside them, and of the network memory of each TaskManager.

    Counters are totals since the task started; what counts per second is taken over the measured
    part or, if that is longer, over its last minute.
    """

    tasks: dict[str, dict[str, float | str]]
    task_managers: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run: what was asked (Flink keys, workload), what was measured, what to doubt, where the
    trace lies.
    """

    config: dict[str, Any]
    workload: dict[str, Any]
    measured: Measured
    channels: tuple[ChannelMeasured, ...]
    limited_by: str
    warnings: tuple[Warning, ...]
    trace: str | None
    buffering: Buffering | None = None
    wiring: Wiring | None = None
    blocking: tuple[BlockingExchange, ...] = ()  # empty: consumers read while producers wrote
    debloating: tuple[DebloatedGate, ...] = ()  # empty: it was off
    metrics: RunMetrics | None = None

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON-ready plain data."""
        return asdict(self)


ERROR_TO_BET_ON = 0.5
"""Relative error of the model beyond which its predictions are no more than a hint."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """Relative error of the model on the recorded setting: (predicted - observed) / observed; None
    if unknown.
    """

    throughput: float | None
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class TradeOffPoint:
    """What the replay predicts for one candidate configuration.

    Attributes:
        latency_low_ns, latency_high_ns: what it is at least and at most, where the trace does not
            tell when records came and `latency_ns` is what an assumption makes of it.
    """

    config: dict[str, Any]
    throughput_records_per_s: float | None
    latency_ns: LatencySummary
    backlog_buffers: BacklogSummary
    buffers_per_s: float | None
    is_recorded: bool = False
    notes: tuple[str, ...] = ()
    memory_bytes: int | None = None  # most that all pools can take
    credits_per_s: float | None = None
    flow_control: str = "credit"
    round_trip_ns: int = 0  # on top of the recorded way
    consumer_speed: float = 1.0
    rate_factor: float = 1.0
    method: str | None = None  # what computed it
    latency_low_ns: LatencySummary | None = None
    latency_high_ns: LatencySummary | None = None


@dataclass(frozen=True, slots=True)
class ChannelProgress:
    """One channel while a run goes on; None where the running side does not know."""

    channel: int
    producer: int
    consumer: int
    throughput_records_per_s: float
    backlog_buffers: int | None
    credits_available: int | None
    edge: int = 0
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """One task while a run goes on: what share of its time it was busy, idle and back-pressured,
    and how much of its pools is in use (None for an end that it does not have).
    """

    name: str
    busy: float
    idle: float
    back_pressured: float
    in_pool_usage: float | None
    out_pool_usage: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, for whoever watches it; latencies are of all records measured so far."""

    phase: str  # "starting", "warming up", "measuring", "draining" ("reading"), "finished"
    elapsed_ns: int
    fraction: float | None
    records: int
    throughput_records_per_s: float
    throughput_bytes_per_s: float
    latency_ns_p50: float | None
    latency_ns_p99: float | None
    channels: tuple[ChannelProgress, ...]
    tasks: tuple[TaskProgress, ...] = ()


@dataclass(frozen=True, slots=True)
class PeerChannel:
    """What passed on one channel to or from a TaskManager that is not flinknet's, seen from here.

    Attributes:
        partition: as Flink prints it.
        records: read here; of a producer, written.
        value_bytes: of the records; None at a producer.
        other_elements: watermarks and the like; None at a producer.
        buffers: data messages; the pieces of a glued one each count.
        events: by name of the data type.
        credit: initial credit and all that was added, announced here or given to us.
        backlog_max: buffers; None when no message told any.
        lost, repeated, reordered: records; None where their content is not known.
    """

    index: int
    partition: str
    subpartition: int
    records: int
    value_bytes: int | None
    other_elements: int | None
    buffers: int
    buffer_bytes: int
    events: dict[str, int]
    credit: int
    credit_messages: int
    backlog_max: int | None
    lost: int | None = None
    repeated: int | None = None
    reordered: int | None = None


@dataclass(frozen=True, slots=True)
class PeerResult:
    """An exchange with a TaskManager that is not flinknet's.

    Attributes:
        role: "consumer" or "producer", which flinknet was.
        peer: the other end, HOST:PORT, or where we listened.
        end: "end of partition", "cancelled", or "failed".
        layout: of the messages, "2.x" or "1.20"; None when no buffer came.
        trace: directory of the recorded run.
    """

    role: str
    peer: str
    end: str
    elapsed_ns: int
    layout: str | None
    channels: tuple[PeerChannel, ...]
    trace: str | None

    @property
    def records(self) -> int:
        """Records of all channels."""
        return sum(channel.records for channel in self.channels)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready plain data."""
        return {"schema_version": 1, "records": self.records, **asdict(self)}


@dataclass(frozen=True, slots=True)
class TaskMeasured:
    """One subtask of a job: its last attempt, where that ran, and Flink's metrics of it.

    Shares are of the time that it ran; None if nothing was told of it.
    """

    name: str
    attempt: int
    state: str
    task_manager: str | None
    busy: float | None
    idle: float | None
    back_pressured: float | None
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class VertexMeasured:
    """One vertex of a job. Records are those of all attempts; rates are of the measured part,
    shares the mean over its tasks.
    """

    index: int
    name: str
    parallelism: int
    records_in: int
    records_out: int
    busy: float | None
    idle: float | None
    back_pressured: float | None
    latency_ns: LatencySummary | None  # of records that its sinks measured
    tasks: tuple[TaskMeasured, ...]


@dataclass(frozen=True, slots=True)
class EdgeMeasured:
    """One edge of a job: all channels between two vertices, and what went over them.

    Records and bytes are those that were read, of all attempts; the rates are of the measured part,
    or of the whole run where that ended before.
    The time without credit is that of remote channels, summed over them.
    """

    index: int
    source: str
    target: str
    partitioner: str
    channels: int
    local_channels: int
    records: int
    bytes: int
    throughput_records_per_s: float | None
    throughput_bytes_per_s: float | None
    buffers: int
    backlog_buffers: BacklogSummary
    starved_ns: int | None


@dataclass(frozen=True, slots=True)
class TaskManagerMeasured:
    """One TaskManager of a job: how it ended, and the metrics of its network memory."""

    name: str
    pid: int
    state: str
    slots: int
    memory: dict[str, float]


@dataclass(frozen=True, slots=True)
class JobResult:
    """One run of a job.

    Attributes:
        state: finished, canceled or failed; `reason` says why if it did not just finish.
        duration_ns: from the first deployment to the end.
        measured_ns: the part of it behind the warm-up; None if it ended before.
        connections: channels that shared each TCP connection.
    """

    job_id: str
    name: str
    path: str
    arguments: tuple[str, ...]
    state: str
    reason: str
    restarts: int
    duration_ns: int
    measured_ns: int | None
    config: dict[str, Any]
    vertices: tuple[VertexMeasured, ...]
    edges: tuple[EdgeMeasured, ...]
    connections: dict[str, int]
    task_managers: tuple[TaskManagerMeasured, ...]
    checkpoints: CheckpointSummary | None
    limited_by: str
    warnings: tuple[Warning, ...]
    trace: str | None

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON-ready plain data."""
        return {"kind": "job", **asdict(self)}


@dataclass(frozen=True, slots=True)
class VertexStatus:
    """A vertex of the running job: how many subtasks are in which state."""

    name: str
    parallelism: int
    state: str
    attempt: int
    records_in: int = 0
    records_in_per_s: float = 0.0
    records_out: int = 0
    busy: float = 0.0
    idle: float = 0.0
    back_pressured: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskManagerStatus:
    """A TaskManager as the JobManager knows it.

    Attributes:
        heartbeats: that it has answered.
        silent_ns: since it said anything.
    """

    index: int
    pid: int
    state: str
    slots: int
    slots_in_use: int
    heartbeats: int
    silent_ns: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where a job stands that runs.

    Attributes:
        state: as Flink names those of jobs.
        reason: why it failed, or last restarted.
        elapsed_ns: since it was submitted.
    """

    job_id: str
    name: str
    state: str
    reason: str
    restarts: int
    elapsed_ns: int
    checkpoints: int
    vertices: tuple[VertexStatus, ...]
    task_managers: tuple[TaskManagerStatus, ...]
    latency_ns_p50: float | None = None
    latency_ns_p99: float | None = None
