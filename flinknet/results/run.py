"""One run of an exchange: its measurements, the contents of its buffers, the use of the processors,
its progress, and an exchange with a TaskManager that is not flinknet's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .measures import (
    BacklogSummary,
    CheckpointSummary,
    CreditSummary,
    FlushCounts,
    LatencyDistribution,
    LatencySummary,
    RunWarning,
    VertexTimes,
)
from .validity import Validity, validity_of


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken of the processors from the start of a run to its end, its warm-up too; None
    where the system does not report it.

    Attributes:
        host_share: of that core of the run of which the host took most (steal time, in steps of
            10 ms), also while a TaskManager was to be woken.
        others_share: of one core, by the processes outside of the run that ran longest and still
            run, longest first.
        outside_share: of one core, by all other processes than the TaskManagers, the launcher too.
        outside_slice_ns: typical length of the pieces in which that ran: the mean of each thread,
            weighed by its time.
        cores: that the run could use.
    """

    host_share: float | None = None
    others_share: dict[str, float] = field(default_factory=dict)
    outside_share: float | None = None
    outside_slice_ns: float | None = None
    cores: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorUse(Taken):
    """What was taken of the processors, and what each TaskManager had of them, as shares of the
    time.

    Attributes:
        busy_share: in which the event loop of a TaskManager did not wait.
        lacked_share: in which it was awake and had no core. A sleeper that is woken and does not
            get one at once counts as asleep.
        stood_still_ns: time in which it neither ran nor waited for a core; those that did so only.
        cpu_cores: that the TaskManagers used in the measured part for work, together. A loop that
            polls for the next message before it sleeps uses more; that is left out.
        taken_share: the most that any TaskManager lost. What the host takes from one that is awake
            is in its `lacked_share`, too, so they are not added.
    """

    busy_share: dict[str, float]
    lacked_share: dict[str, float]
    stood_still_ns: dict[str, int] = field(default_factory=dict)
    cpu_cores: float | None = None
    taken_share: float = field(init=False)

    def __post_init__(self) -> None:
        taken = max([*self.lacked_share.values(), self.host_share or 0.0])
        object.__setattr__(self, "taken_share", taken)


@dataclass(frozen=True, slots=True)
class FillLevels:
    """Bytes in each of the six places between two operators, in the order in which a record passes
    them. The third and fourth are the kernel's.
    """

    subpartition_bytes: int = 0  # written, and not handed to the connection
    netty_outbound_bytes: int = 0  # handed over, and not taken by the socket
    socket_send_bytes: int = 0  # in the sender's socket
    socket_receive_bytes: int = 0  # in the receiver's socket
    netty_inbound_bytes: int = 0  # read, and staged for lack of a buffer
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
class ChannelLevels:
    """Bytes of one channel in the first and the last of the six places. What lies between them is
    one queue of all channels of a connection.
    """

    channel: int
    subpartition_bytes: int = 0
    input_channel_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FillSample:
    """Fill levels at an instant (ns since the start of the run), over all connections, and what
    they led to: is every socket read, does every socket take bytes, does no writer wait?

    Attributes:
        channels: the ends by channel, in runs of few; empty otherwise.
    """

    at_ns: int
    levels: FillLevels
    is_reading: bool
    is_writable: bool
    is_writing: bool
    channels: tuple[ChannelLevels, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffering:
    """The six places over a run; `bounds` is the most that each can hold."""

    bounds: FillLevels
    samples: tuple[FillSample, ...]


@dataclass(frozen=True, slots=True)
class DebloatingSample:
    """One evaluation of a gate: the size that its producers' buffers have from then on, what it
    consumed per second, data in flight towards it, and how long it takes to consume as many buffers
    of the size.

    In flight: what the gate holds, and the backlog that the producers announced, as if all were
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
class PeerChannel:
    """What passed on one channel to or from a TaskManager that is not flinknet's, as observed here.

    Attributes:
        partition: as Flink prints it.
        records: read here; of a producer, written.
        value_bytes: of the records; None at a producer.
        other_elements: watermarks and the like; None at a producer.
        buffers: data messages; the pieces of a glued one each count.
        events: by name of the data type.
        credit: initial credit and all that was added, announced here or given to us.
        backlog_max: buffers; None when no message announced any.
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
        warnings: what makes the figures doubtful.
    """

    role: str
    peer: str
    end: str
    elapsed_ns: int
    layout: str | None
    channels: tuple[PeerChannel, ...]
    trace: str | None
    warnings: tuple[RunWarning, ...] = ()

    @property
    def records(self) -> int:
        """Records of all channels."""
        return sum(channel.records for channel in self.channels)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready plain data."""
        return {"schema_version": 1, "records": self.records, **asdict(self)}


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
    """Where a run stands; latencies are of all records measured so far."""

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


def has_given_rate(workload: Mapping[str, Any]) -> bool:
    """Whether the throughput of a run is the rate of its load, if that is kept: not at the highest
    rate, and not where consumers read what producers wrote before.
    """
    is_given = workload.get("rate_per_s") not in ("max", None)
    return is_given and workload.get("partition_type") != "blocking"


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
class ChannelMeasured:
    """One channel of a run."""

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
class RunMetrics:
    """Flink's metrics at the end of the measured part, under Flink's names: of each task by its
    name, with its back pressure level, and of the network memory of each TaskManager.

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
    warnings: tuple[RunWarning, ...]
    trace: str | None
    buffering: Buffering | None = None
    wiring: Wiring | None = None
    blocking: tuple[BlockingExchange, ...] = ()  # empty: consumers read while producers wrote
    debloating: tuple[DebloatedGate, ...] = ()  # empty: it was off
    metrics: RunMetrics | None = None
    processors: ProcessorUse | None = None
    deployments: dict[str, VertexTimes] = field(default_factory=dict)  # by name of the vertex
    latency_distribution: LatencyDistribution | None = None  # None: no record was measured

    @property
    def validity(self) -> Validity:
        """How far it can be used."""
        return validity_of(self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON-ready plain data."""
        return {"validity": self.validity.name.lower(), **asdict(self)}
