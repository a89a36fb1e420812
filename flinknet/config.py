"""The configuration of a run: network, workload, scenario. Plain frozen values.

Fields carry Flink's option in their metadata; `flinknet.options` (the table of Flink's keys) parses
text into them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from flinknet.errors import ConfigError
from flinknet.units import NS_PER_MS, parse_duration_ns

BUFFER_TIMEOUT_NEVER_NS = -1
"""Buffer timeout of -1: only full buffers are sent."""

RATE_MAX = 0.0
"""Rate that means "as fast as possible"."""

AT_LEAST_ONCE, EXACTLY_ONCE = "AT_LEAST_ONCE", "EXACTLY_ONCE"

ALIGNED_ONLY = frozenset({"forward", "rescale", "broadcast"})
"""Partitioners of edges whose data must not be overtaken (Flink: pointwise and broadcast edges)."""

CREDIT, TCP = "credit", "tcp"
FLOW_CONTROLS = (CREDIT, TCP)
"""Flow control since Flink 1.5, and before: tasks.flow_control."""

SMALLEST_VALUE_BYTES = 8
"""Smallest value of a record of the load: the stamp that its consumer checks."""

MAX_RATE_BATCH_BYTES = 320 * 1024
"""Most bytes that a source serialises in one step at the highest rate: the ten segments a channel
may have. Whole segments are cheap, partial ones are not: the producer's side without sockets took
8.4 µs a segment at 100-byte records, against 10.7 with 128 KiB. More than the pool has would only
wait.
"""

STEPS_PER_TURN = 3
"""Steps of a task in one turn of its event loop. Few, so that credit and data leave while the other
side still has work; more than one, so that an AddCredit covers more than one buffer. GB/s at
100-byte records, with batches of 128 KiB: 0.9 with 1, 1.05 with 2, 1.2 with 3."""

RECORDED = "recorded:"
"""Prefix of arrivals that are read from files; a directory follows."""

HIDDEN = "******"
"""Replaces a password, as in Flink's logs."""


def _flink(key: str, default: Any) -> Any:
    return field(default=default, metadata={"key": key})


PIPELINED, PIPELINED_BOUNDED = "pipelined", "pipelined-bounded"
PIPELINED_APPROXIMATE, BLOCKING = "pipelined-approximate", "blocking"
PARTITION_TYPES = (PIPELINED, PIPELINED_BOUNDED, PIPELINED_APPROXIMATE, BLOCKING)
"""When an exchange may be read: core.producer.partition_type."""

SCHEDULINGS = ("all-at-once", "first-output", "complete-output")
"""Event that consumers wait for before they are deployed: tasks.scheduling."""

PLACEMENTS = ("split", "spread")

PARTITIONERS = ("rebalance", "rescale", "forward", "hash", "broadcast", "shuffle", "global")
"""Which consumer receives a record."""


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Flink's network options that affect flinknet; the metadata names the key.

    Differs from Flink 2.x, where exclusive, floating, quota and overdraft are fixed: here they can
    be varied. The quota of a channel (`max_buffers_per_channel`) is at least 2: with 1, the buffer
    being filled would keep its pool from ever being available.
    """

    segment_size_bytes: int = _flink("taskmanager.memory.segment-size", 32 * 1024)
    network_memory_bytes: int = _flink("taskmanager.memory.network.min", 64 * 1024 * 1024)
    exclusive_buffers: int = _flink("taskmanager.network.memory.buffers-per-channel", 2)
    floating_buffers: int = _flink("taskmanager.network.memory.floating-buffers-per-gate", 8)
    required_buffers_per_gate_max: int | None = _flink(
        "taskmanager.network.memory.read-buffer.required-per-gate.max", None
    )
    buffers_request_timeout_ns: int = _flink(
        "taskmanager.network.memory.buffers-request-timeout", 30_000_000_000
    )
    max_buffers_per_channel: int = _flink("taskmanager.network.memory.max-buffers-per-channel", 10)
    max_overdraft_buffers: int = _flink(
        "taskmanager.network.memory.max-overdraft-buffers-per-gate", 20
    )
    buffer_timeout_ns: int = _flink("execution.buffer-timeout.interval", 100_000_000)
    debloating_enabled: bool = _flink("taskmanager.network.memory.buffer-debloat.enabled", False)
    debloating_target_ns: int = _flink(
        "taskmanager.network.memory.buffer-debloat.target", 1_000_000_000
    )
    debloating_period_ns: int = _flink(
        "taskmanager.network.memory.buffer-debloat.period", 200_000_000
    )
    debloating_samples: int = _flink("taskmanager.network.memory.buffer-debloat.samples", 20)
    debloating_threshold_percent: int = _flink(
        "taskmanager.network.memory.buffer-debloat.threshold-percentages", 25
    )
    min_segment_size_bytes: int = _flink("taskmanager.memory.min-segment-size", 256)
    starting_segment_size_bytes: int = _flink("taskmanager.memory.starting-segment-size", 1024)
    detailed_metrics: bool = _flink("taskmanager.network.detailed-metrics", False)
    bind_host: str = _flink("taskmanager.bind-host", "127.0.0.1")
    data_port: str = _flink("taskmanager.data.port", "0")
    bind_port: str | None = _flink("taskmanager.data.bind-port", None)
    transport: str = _flink("taskmanager.network.netty.transport", "auto")
    server_backlog: int = _flink("taskmanager.network.netty.server.backlog", 0)
    send_receive_buffer_bytes: int = _flink("taskmanager.network.netty.sendReceiveBufferSize", 0)
    connect_timeout_ns: int = _flink(
        "taskmanager.network.netty.client.connectTimeoutSec", 120_000_000_000
    )
    connect_retries: int = _flink("taskmanager.network.retries", 0)
    keep_alive_idle_s: int | None = _flink("taskmanager.network.netty.client.tcp.keepIdleSec", None)
    keep_alive_interval_s: int | None = _flink(
        "taskmanager.network.netty.client.tcp.keepIntervalSec", None
    )
    keep_alive_count: int | None = _flink("taskmanager.network.netty.client.tcp.keepCount", None)
    reuse_connections: bool = _flink(
        "taskmanager.network.tcp-connection.enable-reuse-across-jobs", True
    )
    max_tcp_connections: int = _flink("taskmanager.network.max-num-tcp-connections", 1)
    ssl_internal_enabled: bool = _flink("security.ssl.internal.enabled", False)
    ssl_data_enabled: bool = _flink("taskmanager.data.ssl.enabled", True)
    ssl_keystore: str | None = _flink("security.ssl.internal.keystore", None)
    ssl_keystore_password: str | None = _flink("security.ssl.internal.keystore-password", None)
    ssl_keystore_type: str = _flink("security.ssl.internal.keystore-type", "pkcs12")
    ssl_key_password: str | None = _flink("security.ssl.internal.key-password", None)
    ssl_truststore: str | None = _flink("security.ssl.internal.truststore", None)
    ssl_truststore_password: str | None = _flink("security.ssl.internal.truststore-password", None)
    ssl_truststore_type: str = _flink("security.ssl.internal.truststore-type", "pkcs12")
    ssl_cert_fingerprint: str | None = _flink("security.ssl.internal.cert.fingerprint", None)
    ssl_handshake_timeout_ms: int = _flink("security.ssl.internal.handshake-timeout", -1)
    ssl_protocol: str = _flink("security.ssl.protocol", "TLSv1.2")
    ssl_algorithms: str = _flink(
        "security.ssl.algorithms",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    )
    partition_request_timeout_ns: int = _flink(
        "taskmanager.network.partition-request-timeout", 10_000_000_000
    )
    request_backoff_initial_ms: int = _flink("taskmanager.network.request-backoff.initial", 100)
    request_backoff_max_ms: int = _flink("taskmanager.network.request-backoff.max", 10_000)
    compression_codec: str = _flink("taskmanager.network.compression.codec", "LZ4")
    sort_shuffle_min_buffers: int = _flink("taskmanager.network.sort-shuffle.min-buffers", 512)
    batch_shuffle_read_bytes: int = _flink(
        "taskmanager.memory.framework.off-heap.batch-shuffle.size", 64 * 1024 * 1024
    )

    checkpoint_interval_ns: int | None = _flink("execution.checkpointing.interval", None)
    checkpoint_mode: str = _flink("execution.checkpointing.mode", "EXACTLY_ONCE")
    checkpoint_timeout_ns: int = _flink("execution.checkpointing.timeout", 600_000_000_000)
    unaligned_checkpoints: bool = _flink("execution.checkpointing.unaligned.enabled", False)
    forced_unaligned_checkpoints: bool = _flink("execution.checkpointing.unaligned.forced", False)
    aligned_checkpoint_timeout_ns: int = _flink(
        "execution.checkpointing.aligned-checkpoint-timeout", 0
    )
    checkpoints_after_tasks_finish: bool = _flink(
        "execution.checkpointing.checkpoints-after-tasks-finish", True
    )

    @property
    def segments(self) -> int:
        """Number of segments of a TaskManager's network memory."""
        return self.network_memory_bytes // self.segment_size_bytes

    def alignment(self, partitioner: str) -> tuple[str, int]:
        """The alignment of barriers on an edge with this partitioner (Flink: CheckpointOptions,
        forConfig and withUnalignedUnsupported).

        Returns: name of the AlignmentType, and the time in ms after which an aligned barrier
            overtakes data; 0 for never.
        """
        if self.checkpoint_mode == AT_LEAST_ONCE:
            return "AT_LEAST_ONCE", 0
        if not self.unaligned_checkpoints:
            return "ALIGNED", 0
        if partitioner in ALIGNED_ONLY:
            return "FORCED_ALIGNED", 0
        if self.aligned_checkpoint_timeout_ns == 0:
            return "UNALIGNED", 0
        return "ALIGNED", max(1, self.aligned_checkpoint_timeout_ns // NS_PER_MS)

    @property
    def is_tls(self) -> bool:
        """Whether connections of the data port are encrypted."""
        return self.ssl_internal_enabled and self.ssl_data_enabled


ARRIVAL_LAWS = ("constant", "poisson", "bursts", "on-off:ON:OFF")
"""How the records of a rate are spread over time."""

ON_OFF = "on-off:"
"""Prefix of an arrival law: records come evenly for a time, then none for a time."""


def on_off_ns(law: str, name: str = "arrivals") -> tuple[int, int]:
    """Parse the on and off times, in ns, of "on-off:50ms:150ms".

    Raises: ConfigError for another form; `name` is the option of the law.
    """
    on, colon, off = law.removeprefix(ON_OFF).partition(":")
    if not colon:
        raise ConfigError(
            f"{name}: {law!r} needs the length of a burst and of a pause, such as"
            f" {ON_OFF}50ms:150ms"
        )
    on_ns, off_ns = (parse_duration_ns(each, name, bare_unit=None) for each in (on, off))
    if not on_ns or not off_ns:
        raise ConfigError(f"{name}: {law!r}: both times must be longer than 0")
    return on_ns, off_ns


def check_arrivals(law: str, name: str = "arrivals") -> None:
    """Raises: ConfigError for an unknown arrival law."""
    if law.startswith(ON_OFF):
        on_off_ns(law, name)
    elif law not in ARRIVAL_LAWS[:-1]:
        raise ConfigError(f"{name}: {law!r} is not one of {', '.join(ARRIVAL_LAWS)}")


KEYS_MAX = (1 << 63) - 1
"""The most different keys of a source: 64-bit numbers."""

SKEWED_KEYS_MAX = 1 << 24
"""The most different keys with a skew: 128 MiB in each source."""


def check_keys(keys: int, skew: float, name: str = "keys") -> None:
    """Raises: ConfigError for a number of keys out of range."""
    most = SKEWED_KEYS_MAX if skew else KEYS_MAX
    if not 1 <= keys <= most:
        which = "with a skew, " if skew else ""
        raise ConfigError(f"{name}: {keys} is out of range; {which}use 1 to {most}")


UNIFORM, EXPONENTIAL = "uniform", "exponential"


@dataclass(frozen=True, slots=True)
class RecordSize:
    """Distribution of record value sizes in bytes, from `low_bytes` to `high_bytes`.

    Attributes:
        law: UNIFORM (constant if low == high), or EXPONENTIAL: the size above the lowest is
            exponential, cut off at the highest.
        stated_mean_bytes: mean of an exponential distribution before the cut-off, or of recorded
            sizes; None for the middle.
    """

    low_bytes: int = 100
    high_bytes: int = 100
    law: str = UNIFORM
    stated_mean_bytes: float | None = None

    @property
    def is_constant(self) -> bool:
        """Whether every record has the same size."""
        return self.low_bytes == self.high_bytes

    @property
    def mean_bytes(self) -> float:
        """Mean size of a record's value."""
        if self.stated_mean_bytes is not None:
            return self.stated_mean_bytes
        return (self.low_bytes + self.high_bytes) / 2


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """A consumer with a delay per record; a delay of -1 pauses it for the run.

    With `slow_ns` it is slow for that time from the start of the measured part, and at full speed
    afterwards.
    """

    index: int
    delay_ns_per_record: int
    slow_ns: int | None = None


@dataclass(frozen=True, slots=True)
class WorkloadConfig:
    """The workload: per-producer rate, sizes, amounts, and slow consumers."""

    producers: int = 1
    consumers: int = 1
    rate_per_s: float = RATE_MAX  # of each producer
    record_size: RecordSize = RecordSize()
    partition_type: str = PIPELINED_BOUNDED  # one of PARTITION_TYPES
    scheduling: str | None = None  # one of SCHEDULINGS; None: the default of the type
    partitioner: str = "rebalance"  # one of PARTITIONERS
    arrivals: str = "constant"  # one of ARRIVAL_LAWS, or recorded:DIRECTORY
    records: int | None = None  # of each producer, in the measured part; None: by duration
    duration_ns: int | None = None
    warmup_ns: int = 500_000_000
    slow_consumers: tuple[SlowConsumer, ...] = ()
    relays: int = 0  # stages between producers and consumers that pass records on
    relay_parallelism: tuple[int, ...] = ()  # of each relay, or one for all; (): as the producers
    relay_delay_ns_per_record: tuple[int, ...] = ()  # of each relay, or one for all; (): none
    keys: int = 1 << 20  # different ones, for partitioners that go by keys
    key_skew: float = 0.0  # exponent of a Zipf distribution of keys; 0: all alike

    @property
    def is_blocking(self) -> bool:
        """Whether consumers start only after producers have ended."""
        return self.partition_type == BLOCKING

    @property
    def is_max_rate(self) -> bool:
        """Whether producers emit as fast as the stack accepts records."""
        return self.rate_per_s == RATE_MAX

    @property
    def is_steady(self) -> bool:
        """Whether producers emit at a fixed rate, without bursts, and no task is slow."""
        is_slow = bool(self.slow_consumers) or any(self.relay_delay_ns_per_record)
        return not self.is_max_rate and self.arrivals in ("constant", "poisson") and not is_slow

    @property
    def is_broadcast(self) -> bool:
        """Whether every record goes to every consumer."""
        return self.partitioner == "broadcast"

    @property
    def copies(self) -> int:
        """Number of consumers that receive a record."""
        return self.consumers if self.is_broadcast else 1

    @property
    def parallelisms(self) -> list[int]:
        """Number of subtasks of each stage: producers, relays, consumers."""
        relays = _of_each(self.relay_parallelism, self.relays, self.producers)
        return [self.producers, *relays, self.consumers]

    @property
    def relay_delays_ns(self) -> list[int]:
        """Processing time of each relay per record, in ns."""
        return _of_each(self.relay_delay_ns_per_record, self.relays, 0)


def _of_each(values: tuple[int, ...], count: int, default: int) -> list[int]:
    if len(values) > 1:
        return list(values)
    return list(values or (default,)) * count


@dataclass(frozen=True, slots=True)
class Link:
    """An emulated wire between each two TaskManagers.

    Attributes:
        rtt_ns: round trip on top of that of the sockets, half of it in each direction.
        bandwidth_bytes_per_s: of each direction, shared by all connections; 0 for no limit.
        jitter_ns: most by which the delay of a direction differs from half the round trip.
        queue_bytes: bytes of each direction that wait for a limited bandwidth before their sender
            is held up.
    """

    rtt_ns: int = 0
    bandwidth_bytes_per_s: float = 0.0
    jitter_ns: int = 0
    queue_bytes: int = 256 * 1024


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that determines one run, besides the machine."""

    network: NetworkConfig = NetworkConfig()
    workload: WorkloadConfig = WorkloadConfig()
    task_managers: int = 2
    seed: int = 1
    flow_control: str = CREDIT
    placement: str = "split"  # one of PLACEMENTS
    link: Link | None = None  # None: plain sockets
    heartbeat_interval_ns: int = 10_000_000_000
    heartbeat_timeout_ns: int = 50_000_000_000  # a silent TaskManager or worker is lost
    flink_release: str | None = None  # of the Flink whose file has the settings; None: no file

    def to_dict(self) -> dict[str, Any]:
        """The scenario as JSON-ready plain data; passwords are replaced by HIDDEN."""
        plain = asdict(self)
        network = plain["network"]
        for name in network:
            if "password" in name and network[name] is not None:
                network[name] = HIDDEN
        return plain
