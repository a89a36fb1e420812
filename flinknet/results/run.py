"""One run of an exchange: what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .buffering import Buffering, DebloatedGate
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
from .processors import ProcessorUse
from .validity import Validity, validity_of


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
