"""One run of an exchange: its measurements, the contents of its buffers, the use of the processors,
its progress, and an exchange with a TaskManager that is not flinknet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from operator import add
from typing import Any

from . import measures
from .bottleneck import Bottleneck
from .validity import Validity, validity_of


@dataclass(frozen=True, slots=True)
class Taken:
    """Use of the processors by others during a run with its warm-up, in shares of one core; None if
    the system does not report it. `host_share` is steal time, in steps of 10 ms, of the core of the
    run that lost most, also while a TaskManager was being woken."""

    host_share: float | None = None
    others_share: dict[str, float] = field(default_factory=dict)  # that still run, longest first
    outside_share: float | None = None  # all but the TaskManagers, with the launcher
    outside_slice_ns: float | None = None  # time slice: mean of each thread, weighted by its time
    cores: int | None = None  # number of cores that the run could use


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorUse(Taken):
    """Use of the processors by others and by each TaskManager, as shares of the time. A sleeper
    that is woken and gets no core at once counts as asleep. `stood_still_ns` is time in which a
    TaskManager neither ran nor waited for a core, of those that did; `cpu_cores` is what all of
    them used for work in the measured part, without polling for the next message. `taken_share` is
    the largest share that any TaskManager lost; steal time of one that is awake is part of its
    `lacked_share`, so the two are not added."""

    busy_share: dict[str, float]  # the event loop of a TaskManager did not wait
    lacked_share: dict[str, float]  # it was awake and had no core
    stood_still_ns: dict[str, int] = field(default_factory=dict)
    cpu_cores: float | None = None
    taken_share: float = field(init=False)

    def __post_init__(self) -> None:
        taken = max([*self.lacked_share.values(), self.host_share or 0.0])
        object.__setattr__(self, "taken_share", taken)


@dataclass(frozen=True, slots=True)
class FillLevels:
    """Bytes in each of the six places between two operators, in the order in which a record passes
    them; the third and fourth belong to the kernel."""

    subpartition_bytes: int = 0  # written, and not handed to the connection
    netty_outbound_bytes: int = 0  # handed over, and not taken by the socket
    socket_send_bytes: int = 0  # in the sender's socket
    socket_receive_bytes: int = 0  # in the receiver's socket
    netty_inbound_bytes: int = 0  # read, and staged for lack of a buffer
    input_channel_bytes: int = 0  # in buffers of the gate, and not taken by the task

    @property
    def total_bytes(self) -> int:
        return sum(astuple(self))

    def __add__(self, other: FillLevels) -> FillLevels:
        return FillLevels(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class ChannelLevels:
    """Bytes of one channel in the first and the last of the six places; between them all channels
    of a connection share a queue."""

    channel: int
    subpartition_bytes: int = 0
    input_channel_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FillSample:
    """Fill levels of all connections at an instant (ns since the start of the run), and whether
    every socket is read, every socket takes bytes, and no writer waits; in runs with few channels
    also those of each channel."""

    at_ns: int
    levels: FillLevels
    is_reading: bool
    is_writable: bool
    is_writing: bool
    channels: tuple[ChannelLevels, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffering:
    """Fill levels of a run over time; `bounds` has the capacity of each place."""

    bounds: FillLevels
    samples: tuple[FillSample, ...]


@dataclass(frozen=True, slots=True)
class DebloatingSample:
    """One evaluation of a gate: the new size of its producers' buffers, its throughput, data in
    flight towards it (the buffers of the gate and the announced backlog, as if all had the size
    last announced), and the time to consume as many buffers of the new size."""

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
    """Traffic of one channel to or from a TaskManager that is not flinknet's; None for numbers of
    records that are unknown."""

    index: int
    partition: str  # as Flink prints it
    subpartition: int
    records: int  # records that were read or, at a producer, written
    value_bytes: int | None  # bytes of the records; None at a producer
    other_elements: int | None  # watermarks and the like; None at a producer
    buffers: int  # number of data messages; the pieces of a glued one count each
    buffer_bytes: int
    events: dict[str, int]  # number of events by name of the data type
    credit: int  # initial credit and later announcements
    credit_messages: int
    backlog_max: int | None  # None if no message announced any
    lost: int | None = None
    repeated: int | None = None
    reordered: int | None = None


@dataclass(frozen=True, slots=True)
class PeerResult:
    """An exchange with a TaskManager that is not flinknet's."""

    role: str  # "consumer" or "producer", the part of flinknet
    peer: str  # HOST:PORT of the other end, or of our listener
    end: str  # "end of partition", "cancelled", or "failed"
    elapsed_ns: int
    layout: str | None  # layout of the messages, "2.x" or "1.20"; None without buffers
    channels: tuple[PeerChannel, ...]
    trace: str | None
    warnings: tuple[measures.RunWarning, ...] = ()

    @property
    def records(self) -> int:
        return sum(channel.records for channel in self.channels)

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, "records": self.records, **asdict(self)}


@dataclass(frozen=True, slots=True)
class ChannelProgress:
    """One channel of a running exchange; None for values that this side does not know."""

    channel: int
    producer: int
    consumer: int
    throughput_records_per_s: float
    backlog_buffers: int | None
    credits_available: int | None
    edge: int = 0
    is_local: bool = False
    edge_number: int = 1  # in the direction of flow
    rate_age_ns: int = 0  # time since its consumer was looked at last


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """One task of a running exchange: shares of its time, and use of its buffer pools (None for an
    end that it does not have)."""

    name: str
    busy: float
    idle: float
    back_pressured: float
    in_pool_usage: float | None
    out_pool_usage: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run; latencies are of all records measured so far."""

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
    """Whether the throughput of a run is set by its load, if it keeps up: not at the highest rate,
    and not where consumers read a finished partition."""
    is_given = workload.get("rate_per_s") not in ("max", None)
    return is_given and workload.get("partition_type") != "blocking"


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of a run after its warm-up. Records count by their intended instant in the
    measured part. `duration_ns` ends when the last of them was consumed; buffers, events, backlog
    and credit are counted until then."""

    records: int
    bytes: int  # of record values
    buffers: int
    events: int
    duration_ns: int
    throughput_records_per_s: float | None
    throughput_bytes_per_s: float | None
    latency_ns: measures.LatencySummary
    latency_uncorrected_ns: measures.LatencySummary
    backlog_buffers: measures.BacklogSummary
    credits: measures.CreditSummary
    flushes: measures.FlushCounts
    checkpoints: measures.CheckpointSummary | None = None  # None: they were off

    @property
    def buffers_per_s(self) -> float:
        return self.buffers / self.duration_ns * 1e9


def sustained_per_s(
    records: int,
    duration_ns: int,
    part_ns: int,
    taken_per_s: Sequence[float | None],
    *,
    is_max_rate: bool,
) -> float | None:
    """Throughput of the records that came in a measured part of `part_ns`, in records/s, over the
    `duration_ns` from its start until the last of them was consumed. If older records were queued
    when the part began, that time includes theirs, and the rate at which channels' records were
    consumed in the part is higher: then it counts, if all of these rates are known, up to the rate
    of arrivals. At the highest rate producers emit as fast as they can, so there is no rate of
    arrivals."""
    known = [each for each in taken_per_s if each is not None]
    taken = sum(known) if len(known) == len(taken_per_s) else 0.0
    if not is_max_rate:
        taken = min(taken, records * 1e9 / part_ns)
    return max(records * 1e9 / duration_ns, taken) if records else None


@dataclass(frozen=True, slots=True)
class ChannelMeasured:
    """One channel of a run."""

    channel: int
    producer: int
    consumer: int
    records: int
    throughput_records_per_s: float | None
    latency_ns: measures.LatencySummary
    backlog_buffers: measures.BacklogSummary
    taken_records_per_s: float | None = None  # in the measured part by the clock, whenever due
    edge: int = 0  # producer and consumer are subtasks of its two ends
    is_local: bool = False
    edge_number: int = 1  # in the direction of flow


@dataclass(frozen=True, slots=True)
class Wiring:
    """Connections between the tasks of a run: the number of channels of each TCP connection, from
    the producers' TaskManager to the consumers', and the bytes of buffers received in the measured
    part and the drain (Flink: numBytesInLocal, numBytesInRemote)."""

    local_channels: int
    remote_channels: int
    connections: dict[str, int]
    bytes_in_local: int
    bytes_in_remote: int


@dataclass(frozen=True, slots=True)
class BlockingExchange:
    """One exchange of a blocking run: all of it was written, and then read. Bytes are those of
    buffers with data, before and after compression."""

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
    """Flink's metrics at the end of the measured part, under Flink's names: those of each task with
    its back pressure level, and of the network memory of each TaskManager. Counters are totals
    since the start of the task; rates cover the last minute of the measured part at most."""

    tasks: dict[str, dict[str, float | str]]
    task_managers: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run: its configuration (Flink keys, workload), measurements, verdict, warnings, and the
    path of its trace."""

    config: dict[str, Any]
    workload: dict[str, Any]
    measured: Measured
    channels: tuple[ChannelMeasured, ...]
    limited_by: str
    warnings: tuple[measures.RunWarning, ...]
    trace: str | None
    buffering: Buffering | None = None
    wiring: Wiring | None = None
    blocking: tuple[BlockingExchange, ...] = ()  # empty: consumers read while producers wrote
    debloating: tuple[DebloatedGate, ...] = ()  # empty: it was off
    metrics: RunMetrics | None = None
    processors: ProcessorUse | None = None
    deployments: dict[str, measures.VertexTimes] = field(default_factory=dict)  # by vertex
    latency_distribution: measures.LatencyDistribution | None = None  # None: no record was measured
    verdict: Bottleneck | None = None  # `limited_by` is its text
    link_records_per_s: float | None = None  # limit by the emulated link and the credit
    checkpoint_spans_ns: tuple[tuple[int, int], ...] = ()  # triggered, completed; the first ones

    @property
    def validity(self) -> Validity:
        return validity_of(self.warnings)

    def to_dict(self) -> dict[str, Any]:
        return {"validity": self.validity.name.lower(), **asdict(self)}
