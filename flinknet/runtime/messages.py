"""What launcher and TaskManagers say to each other over their control pipe. Plain values, in the
order of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinknet.config import Scenario
from flinknet.job.checkpoint_coordinator import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flinknet.results import DebloatingSample, FillLevels, FillSample, Strangers

Metrics = dict[str, bool | int | float]
"""Values by Flink's names, which keep their types."""

_EMPTY, _NOBODY = FillLevels(), Strangers()


@dataclass(frozen=True, slots=True)
class TaskManagerSpec:
    """Given at spawn: who the process is and where it writes its trace (None: nowhere). Tasks and
    channels follow from the scenario, so that every process deploys the same.

    `has_own_core` says that there is a processor core for each TaskManager; `sample_interval_ns`
    how often it tells where it stands; `spill_dir` is where blocking exchanges are written.
    """

    index: int
    scenario: Scenario
    trace_path: str | None
    has_own_core: bool
    sample_interval_ns: int = 200_000_000
    spill_dir: str | None = None

    @property
    def name(self) -> str:
        """Its name in logs and traces."""
        return f"tm-{self.index}"


@dataclass(frozen=True, slots=True)
class Bound:
    """TaskManager: the data port listens."""

    port: int


@dataclass(frozen=True, slots=True)
class Connect:
    """Launcher: the data ports of all TaskManagers; set up channels and request partitions."""

    addresses: dict[int, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Ready:
    """TaskManager: every channel of mine is open."""


@dataclass(frozen=True, slots=True)
class Start:
    """Launcher: the instants of the run. `end_ns` None: sources stop by number of records.
    `timestamp_epoch_ns` is the instant at which timestamps of barriers are 0; at `give_up_ns`
    sources drop what is due and has not been sent (None: never).
    """

    start_ns: int
    measured_from_ns: int
    measured_to_ns: int | None
    end_ns: int | None
    timestamp_epoch_ns: int = 0
    give_up_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """TaskManager: what my subtasks of a vertex write can be consumed, for it is complete or, where
    the first output is waited for, begun.

    Of a blocking exchange `data_bytes` is the payload of all its buffers, `stored_bytes` what
    compression left of it.
    """

    vertex: int
    at_ns: int
    data_bytes: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Consume:
    """Launcher: what a vertex reads can be consumed everywhere; request it."""

    vertex: int


@dataclass(frozen=True, slots=True)
class ChannelSample:
    """Where a channel stands: from the producer's side, or -1 there and records from the
    consumer's.
    """

    channel: int
    records: int = -1
    backlog_buffers: int = -1
    credits_available: int = -1


@dataclass(frozen=True, slots=True)
class Sample:
    """TaskManager: how far it is, several times a second.

    `tasks` has the metrics of each task under Flink's names, `memory` those of the TaskManager;
    both are empty where they are not taken as often.
    """

    records: int
    size_bytes: int
    latency: bytes | None
    channels: tuple[ChannelSample, ...]
    fill: FillSample | None = None
    tasks: dict[str, Metrics] = field(default_factory=dict)
    memory: Metrics = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerChannelReport:
    """What the consumer of a channel saw in the whole run, and measured in its measured part."""

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
class Report:
    """TaskManager: the end. Totals are of the measured part, shares of the whole run.

    `busy_share` is the time not spent waiting; `stolen_share` the time in which the process wanted
    a processor and had none. `unread_share` is the part of the measured time in which a socket was
    not read, without credit and for want of a buffer. `tasks` and `memory` are metrics at the end
    of the measured part, `debloating` the evaluations of each gate, at instants of the clock.
    `strangers` came to the data port and did not belong to the run.
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
    strangers: Strangers = _NOBODY


@dataclass(frozen=True, slots=True)
class Failed:
    """TaskManager: it cannot go on. `error` is a FlinknetError by name and text, or a traceback."""

    error: str
    kind: str


@dataclass(frozen=True, slots=True)
class Exit:
    """Launcher: close everything and end."""


MESSAGES = {
    each.__name__: each
    for each in (
        *(Bound, Connect, Ready, Start, Produced, Consume, Sample, Report, Failed, Exit),
        *(TriggerCheckpoint, AbortCheckpoint, AcknowledgeCheckpoint, DeclineCheckpoint),
    )
}
"""Every message by the name it has on the pipe."""
