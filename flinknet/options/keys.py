"""Option, and the lookup by any of its spellings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError

TABLE = """
[memory and buffers]
taskmanager.memory.segment-size | M | 32 kb | 32 kb |  |
taskmanager.memory.min-segment-size | M | 256 b | 256 b |  |
taskmanager.memory.starting-segment-size | M | - | 1 kb |  |
taskmanager.memory.network.fraction | F <1 | 0.1 | 0.1 | taskmanager.network.memory.fraction |
taskmanager.memory.network.min | M | 64 mb | 64 mb | taskmanager.network.memory.min |
taskmanager.memory.network.max | M | unlimited | unlimited | taskmanager.network.memory.max |
taskmanager.network.numberOfBuffers | I >=0 | 2048 | - |  | taskmanager.memory.network.fraction, .min and .max
taskmanager.network.memory.buffers-per-channel | I >=0 | 2 | fixed 2 |  |
taskmanager.network.memory.floating-buffers-per-gate | I >=0 | 8 | fixed 8 |  |
taskmanager.network.memory.max-buffers-per-channel | I >=2 ~ | 10 | fixed 10 |  |
taskmanager.network.memory.max-overdraft-buffers-per-gate | I >=0 ~ | 5 | fixed 20 |  |
taskmanager.network.memory.read-buffer.required-per-gate.max | I >=1 | unset | unset |  |
taskmanager.network.memory.buffers-request-timeout | D | 30 s | 30 s | taskmanager.network.memory.exclusive-buffers-request-timeout-ms |
taskmanager.network.memory.buffer-debloat.enabled | B | false | false |  |
taskmanager.network.memory.buffer-debloat.target | D | 1 s | 1 s |  |
taskmanager.network.memory.buffer-debloat.period | D | 200 ms | 200 ms |  |
taskmanager.network.memory.buffer-debloat.samples | I >=1 | 20 | 20 |  |
taskmanager.network.memory.buffer-debloat.threshold-percentages | I >=0 ~ | 25 | 25 |  |
taskmanager.memory.framework.off-heap.batch-shuffle.size | M | 64 mb | 64 mb |  |
taskmanager.memory.flink.size | M | unset | unset |  |
taskmanager.memory.process.size | M | unset | unset |  |
taskmanager.memory.task.heap.size | M | unset | unset |  |
taskmanager.memory.task.off-heap.size | M | 0 b | 0 b |  |
taskmanager.memory.managed.size | M | unset | unset | taskmanager.memory.size |
taskmanager.memory.managed.fraction | F <1 | 0.4 | 0.4 |  |
taskmanager.memory.managed.consumer-weights | S | OPERATOR:70,STATE_BACKEND:70,PYTHON:30 | OPERATOR:70,STATE_BACKEND:70,PYTHON:30 |  |
taskmanager.memory.framework.heap.size | M | 128 mb | 128 mb |  |
taskmanager.memory.framework.off-heap.size | M | 128 mb | 128 mb |  |
taskmanager.memory.jvm-metaspace.size | M | 256 mb | 256 mb |  |
taskmanager.memory.jvm-overhead.min | M | 192 mb | 192 mb |  |
taskmanager.memory.jvm-overhead.max | M | 1 gb | 1 gb |  |
taskmanager.memory.jvm-overhead.fraction | F <1 | 0.1 | 0.1 |  |
taskmanager.heap.size | M | unset | - |  | taskmanager.memory.flink.size
taskmanager.heap.mb | I >=0 | unset | - |  | taskmanager.memory.flink.size
taskmanager.cpu.cores | F >0 | unset | unset |  |
taskmanager.numberOfTaskSlots | I >=1 | 1 | 1 |  |
[shuffle]
execution.buffer-timeout.enabled | B | true | true |  |
execution.buffer-timeout.interval | D | 100 ms | 100 ms | execution.buffer-timeout |
execution.batch-shuffle-mode | E ALL_EXCHANGES_PIPELINED ALL_EXCHANGES_BLOCKING ALL_EXCHANGES_HYBRID_FULL ALL_EXCHANGES_HYBRID_SELECTIVE | ALL_EXCHANGES_BLOCKING | ALL_EXCHANGES_BLOCKING |  |
execution.runtime-mode | E STREAMING BATCH AUTOMATIC | STREAMING | STREAMING |  |
taskmanager.network.compression.codec | E NONE LZ4 LZO ZSTD | LZ4 | LZ4 |  |
taskmanager.network.batch-shuffle.compression.enabled | B | true | - | taskmanager.network.blocking-shuffle.compression.enabled | taskmanager.network.compression.codec
taskmanager.network.sort-shuffle.min-buffers | I >=1 ~ | 512 | 512 |  |
taskmanager.network.sort-shuffle.min-parallelism | I | 1 | fixed 1 |  |
taskmanager.network.blocking-shuffle.type | E auto file mmap ~ | file | fixed file |  |
taskmanager.network.hybrid-shuffle.enable-new-mode | B | true | - |  | nothing, tiered storage is always used
taskmanager.network.hybrid-shuffle.spill-index-region-group-size | I | 1024 | - | taskmanager.network.hybrid-shuffle.spill-index-segment-size | nothing, tiered storage is always used
taskmanager.network.hybrid-shuffle.num-retained-in-memory-regions-max | L | 1048576 | - |  | nothing, tiered storage is always used
taskmanager.network.hybrid-shuffle.remote.path | S | unset | unset |  |
taskmanager.network.hybrid-shuffle.external-remote-tier-factory.class | S | unset | unset |  |
taskmanager.network.adaptive-partitioner.enabled | B | - | false |  |
taskmanager.network.adaptive-partitioner.max-traverse-size | I >=2 ~ | - | 4 |  |
taskmanager.network.request-backoff.initial | N >=0 ~ | 100 | 100 | taskmanager.net.request-backoff.initial |
taskmanager.network.request-backoff.max | N >=0 ~ | 10000 | 10000 | taskmanager.net.request-backoff.max |
taskmanager.network.partition-request-timeout | D | 10 s | 10 s |  |
taskmanager.network.credit-model.enabled | B | fixed true | fixed true |  |
taskmanager.network.detailed-metrics | B | false | false |  |
jobmanager.partition.release-during-job-execution | B | true | true |  |
jobmanager.partition.hybrid.partition-data-consume-constraint | E ALL_PRODUCERS_FINISHED ONLY_FINISHED_PRODUCERS UNFINISHED_PRODUCERS | unset | unset |  |
[transport]
taskmanager.data.port | P | 0 | 0 |  |
taskmanager.data.bind-port | P | unset | unset |  |
taskmanager.host | S | unset | unset |  |
taskmanager.bind-host | S | unset | unset |  |
taskmanager.network.bind-policy | E ip name | ip | ip |  |
taskmanager.data.ssl.enabled | B | true | true |  |
taskmanager.network.netty.client.connectTimeoutSec | T >=1 ~ | 120 | 120 | taskmanager.net.client.connectTimeoutSec |
taskmanager.network.netty.client.tcp.keepIdleSec | I >=1 ~ | unset | unset |  |
taskmanager.network.netty.client.tcp.keepIntervalSec | I >=1 ~ | unset | unset |  |
taskmanager.network.netty.client.tcp.keepCount | I >=1 ~ | unset | unset |  |
taskmanager.network.retries | I >=0 ~ | 0 | 0 |  |
taskmanager.network.tcp-connection.enable-reuse-across-jobs | B | true | true |  |
taskmanager.network.max-num-tcp-connections | I >=1 ~ | 1 | fixed 1 |  |
taskmanager.network.netty.num-arenas | I | -1 | - | taskmanager.net.num-arenas | taskmanager.numberOfTaskSlots
taskmanager.network.netty.server.numThreads | I | -1 | - | taskmanager.net.server.numThreads | taskmanager.numberOfTaskSlots
taskmanager.network.netty.client.numThreads | I | -1 | - | taskmanager.net.client.numThreads | taskmanager.numberOfTaskSlots
taskmanager.network.netty.server.backlog | I >=0 ~ | 0 | - | taskmanager.net.server.backlog | nothing, the system's own is used
taskmanager.network.netty.sendReceiveBufferSize | I >=0 ~ | 0 | - | taskmanager.net.sendReceiveBufferSize | nothing, the system's own is used
taskmanager.network.netty.transport | E auto nio epoll ~ | auto | - | taskmanager.net.transport | nothing, epoll is used where there is one
security.ssl.internal.enabled | B | false | false | ~security.ssl.enabled |
security.ssl.internal.keystore | S | unset | unset | ~security.ssl.keystore |
security.ssl.internal.keystore-password | S | unset | unset | ~security.ssl.keystore-password |
security.ssl.internal.key-password | S | unset | unset | ~security.ssl.key-password |
security.ssl.internal.truststore | S | unset | unset | ~security.ssl.truststore |
security.ssl.internal.truststore-password | S | unset | unset | ~security.ssl.truststore-password |
security.ssl.internal.keystore-type | S | pkcs12 | pkcs12 |  |
security.ssl.internal.truststore-type | S | pkcs12 | pkcs12 |  |
security.ssl.internal.cert.fingerprint | S | unset | unset |  |
security.ssl.internal.session-cache-size | I | -1 | -1 | security.ssl.session-cache-size |
security.ssl.internal.session-timeout | N | -1 | -1 | security.ssl.session-timeout |
security.ssl.internal.handshake-timeout | N | -1 | -1 | security.ssl.handshake-timeout |
security.ssl.internal.close-notify-flush-timeout | N | -1 | -1 | security.ssl.close-notify-flush-timeout |
security.ssl.protocol | S | TLSv1.2 | TLSv1.2 |  |
security.ssl.algorithms | S | TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 | TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 |  |
security.ssl.provider | E JDK OPENSSL | JDK | JDK |  |
[checkpoints, graph and cluster]
execution.checkpointing.interval | D | unset | unset |  |
execution.checkpointing.timeout | D | 10 min | 10 min |  |
execution.checkpointing.mode | E EXACTLY_ONCE AT_LEAST_ONCE | EXACTLY_ONCE | EXACTLY_ONCE |  |
execution.checkpointing.unaligned.enabled | B | false | false | execution.checkpointing.unaligned |
execution.checkpointing.aligned-checkpoint-timeout | D | 0 s | 0 s | execution.checkpointing.alignment-timeout |
execution.checkpointing.unaligned.forced | B | false | false |  |
execution.checkpointing.unaligned.max-subtasks-per-channel-state-file | I | 5 | 5 |  |
execution.checkpointing.unaligned.interruptible-timers.enabled | B | false | false |  |
execution.checkpointing.checkpoints-after-tasks-finish | B | true | true | execution.checkpointing.checkpoints-after-tasks-finish.enabled |
execution.checkpointing.during-recovery.enabled | B | - | false |  |
execution.checkpointing.unaligned.recover-output-on-downstream.enabled | B | - | false |  |
execution.state-recovery.path | S | unset | unset | execution.savepoint.path |
execution.state-recovery.ignore-unclaimed-state | B | false | false | execution.savepoint.ignore-unclaimed-state |
execution.state-recovery.claim-mode | E NO_CLAIM CLAIM LEGACY | NO_CLAIM | NO_CLAIM | execution.savepoint-restore-mode |
execution.state-recovery.approximate-local-recovery | B | false | false | execution.checkpointing.approximate-local-recovery |
pipeline.operator-chaining.enabled | B | true | true | pipeline.operator-chaining |
pipeline.operator-chaining.chain-operators-with-different-max-parallelism | B | true | true |  |
pipeline.max-parallelism | I | -1 | -1 |  |
parallelism.default | I | 1 | 1 |  |
pipeline.auto-generate-uids | B | true | true |  |
pipeline.vertex-description-mode | E TREE CASCADING | TREE | TREE |  |
pipeline.vertex-name-include-index-prefix | B | false | false |  |
heartbeat.interval | D | 10 s | 10 s |  |
heartbeat.timeout | D | 50 s | 50 s |  |
heartbeat.rpc-failure-threshold | I | 2 | 2 |  |
slot.request.timeout | D | 5 min | 5 min |  |
slot.idle.timeout | D | 50 s | 50 s |  |
taskmanager.slot.timeout | D | 10 s | 10 s | ~pekko.ask.timeout |
taskmanager.load-balance.mode | E NONE SLOTS MIN_RESOURCES TASKS | NONE | NONE |  |
jobmanager.execution.attempts-history-size | I >=0 ~ | 16 | 16 | job-manager.max-attempts-history-size |
jobmanager.execution.failover-strategy | E region full | region | region |  |
task.cancellation.interval | D | 30 s | 30 s | task.cancellation-interval |
task.cancellation.timeout | D | 3 min | 3 min |  |
restart-strategy.type | S | unset | unset | restart-strategy |
restart-strategy.fixed-delay.attempts | I >=0 ~ | 1 | 1 |  |
restart-strategy.fixed-delay.delay | D | 1 s | 1 s |  |
pipeline.auto-watermark-interval | D | 200 ms | 200 ms |  |
metrics.latency.interval | D | 0 ms | 0 ms |  |
metrics.latency.granularity | E single operator subtask ~ | operator | operator |  |
metrics.latency.history-size | I >=1 ~ | 128 | 128 |  |
"""  # noqa: E501 - one line for each key

FLINK_1, FLINK_2 = "1.20", "2.3"
"""Releases of Flink whose keys and values files have."""

BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.enabled"
CREDIT_MODEL = "taskmanager.network.credit-model.enabled"
RUNTIME_MODE = "execution.runtime-mode"
BATCH_SHUFFLE_MODE = "execution.batch-shuffle-mode"
BATCH_SHUFFLE_READ_SIZE = "taskmanager.memory.framework.off-heap.batch-shuffle.size"
COMPRESSION_CODEC = "taskmanager.network.compression.codec"
BATCH_SHUFFLE_COMPRESSION = "taskmanager.network.batch-shuffle.compression.enabled"
DATA_PORT = "taskmanager.data.port"
BIND_PORT = "taskmanager.data.bind-port"
ADAPTIVE_PARTITIONER = "taskmanager.network.adaptive-partitioner.enabled"
ADDRESSES = (DATA_PORT, BIND_PORT, "taskmanager.bind-host")
"""Where a TaskManager listens, and what it advertises."""

EXCLUSIVE_BUFFERS = "taskmanager.network.memory.buffers-per-channel"
FLOATING_BUFFERS = "taskmanager.network.memory.floating-buffers-per-gate"
SEGMENT_SIZE = "taskmanager.memory.segment-size"
MIN_SEGMENT_SIZE = "taskmanager.memory.min-segment-size"
STARTING_SEGMENT_SIZE = "taskmanager.memory.starting-segment-size"
DEBLOATING = "taskmanager.network.memory.buffer-debloat"
CHECKPOINT_INTERVAL = "execution.checkpointing.interval"
CHECKPOINT_MODE = "execution.checkpointing.mode"
UNALIGNED = "execution.checkpointing.unaligned.enabled"
NETWORK_FRACTION = "taskmanager.memory.network.fraction"
NETWORK_MIN = "taskmanager.memory.network.min"
NETWORK_MAX = "taskmanager.memory.network.max"
NUMBER_OF_BUFFERS = "taskmanager.network.numberOfBuffers"
HEAP_SIZE = "taskmanager.heap.size"
HEAP_MB = "taskmanager.heap.mb"
FLINK_SIZE = "taskmanager.memory.flink.size"
PROCESS_SIZE = "taskmanager.memory.process.size"
TASK_HEAP = "taskmanager.memory.task.heap.size"
TASK_OFF_HEAP = "taskmanager.memory.task.off-heap.size"
MANAGED_SIZE = "taskmanager.memory.managed.size"
MANAGED_FRACTION = "taskmanager.memory.managed.fraction"
FRAMEWORK_HEAP = "taskmanager.memory.framework.heap.size"
FRAMEWORK_OFF_HEAP = "taskmanager.memory.framework.off-heap.size"
METASPACE = "taskmanager.memory.jvm-metaspace.size"
OVERHEAD_MIN = "taskmanager.memory.jvm-overhead.min"
OVERHEAD_MAX = "taskmanager.memory.jvm-overhead.max"
OVERHEAD_FRACTION = "taskmanager.memory.jvm-overhead.fraction"
HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT = "heartbeat.interval", "heartbeat.timeout"

MEMORY_SIZES = (
    *(NETWORK_FRACTION, NETWORK_MAX, FLINK_SIZE, PROCESS_SIZE, TASK_HEAP, TASK_OFF_HEAP),
    *(MANAGED_SIZE, MANAGED_FRACTION, FRAMEWORK_HEAP, FRAMEWORK_OFF_HEAP, METASPACE),
    *(OVERHEAD_MIN, OVERHEAD_MAX, OVERHEAD_FRACTION),
)
"""Keys from which network memory is derived, besides NETWORK_MIN."""

_ACTED_ON_WITHOUT_FIELD = frozenset(
    (
        *(BUFFER_TIMEOUT_ENABLED, CREDIT_MODEL, RUNTIME_MODE),
        *(BATCH_SHUFFLE_MODE, BATCH_SHUFFLE_COMPRESSION, *MEMORY_SIZES),
        *(NUMBER_OF_BUFFERS, HEAP_SIZE, HEAP_MB, HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT),
    )
)

FAMILIES = (
    *("taskmanager.network.", "taskmanager.memory.", "taskmanager.data.", "taskmanager.net."),
    *("execution.buffer-timeout", "security.ssl.internal."),
)
"""A config.yaml has keys for many parts of Flink; in these families an unknown key is reported."""

REMOVED_IN_1_10 = (
    *("taskmanager.network.credit-model", "taskmanager.network.credit-based-flow-control.enabled"),
)
"""Keys that releases before those of the table had."""

_ONLY_IN_1_X = frozenset(("security.ssl.enabled",))
"""Spellings that Flink 2.x no longer has, of options that it has."""


@dataclass(frozen=True, slots=True)
class Option:
    """One of Flink's keys.

    Attributes:
        group: its part of the network stack.
        kind: its type, a letter of the table.
        limits: limits of its values: words (E), or `>=n`, `>0` and `<n`.
        are_limits_own: whether the limits are flinknet's, and Flink has none.
        older_keys: deprecated spellings.
        fallback_keys: broader keys that apply if this one is not set.
        replacement: its replacement in Flink 2.x, empty if the key still exists.
        field: the NetworkConfig field it sets, if any.
    """

    key: str
    group: str
    kind: str
    limits: tuple[str, ...]
    are_limits_own: bool
    default_1_20: str
    default_2_3: str
    older_keys: tuple[str, ...]
    fallback_keys: tuple[str, ...]
    replacement: str
    field: str | None

    @property
    def is_acted_on(self) -> bool:
        """Whether the key affects a run."""
        return self.field is not None or self.key in _ACTED_ON_WITHOUT_FIELD

    @property
    def can_be_swept(self) -> bool:
        """Whether a comma in its value separates values (a port list has commas of its own)."""
        return self.is_acted_on and self.kind not in ("S", "P")

    @property
    def is_secret(self) -> bool:
        """Whether its value must not be shown or stored."""
        return "password" in self.key

    @property
    def fixed_in_2_x(self) -> str | None:
        """The number at which Flink 2.x fixed this option, None if it is still an option."""
        prefix, _, number = self.default_2_3.partition("fixed ")
        return number if not prefix and number else None

    def is_in(self, release: str, spelling: str) -> bool:
        """Whether a release of Flink has this option under this spelling."""
        if release.startswith("1."):
            return self.default_1_20 != "-"
        return self.default_2_3 != "-" and spelling not in _ONLY_IN_1_X

    def is_read_in(self, release: str) -> bool:
        """Whether a release reads the option; 2.x has fixed some, whatever a file says."""
        return release.startswith("1.") or self.fixed_in_2_x is None

    @property
    def is_of_the_past(self) -> bool:
        """Whether only releases before those of the table have the option; flinknet has it, too."""
        return self.default_1_20.startswith("fixed ")

    @property
    def default(self) -> str | None:
        """The default of 2.3, else of 1.20; None if there is none."""
        return self.default_in(FLINK_2)

    def default_in(self, release: str) -> str | None:
        """The default of a release, or of the other one if only that has it; None without one."""
        own, other = self.default_1_20, self.default_2_3
        if release == FLINK_2:
            own, other = other, own
        text = other if own == "-" else own
        return None if text == "unset" else text.removeprefix("fixed ")


@cache
def options() -> Mapping[str, Option]:
    """Every key of the table, in its order."""
    acted = {field.metadata["key"]: field.name for field in fields(NetworkConfig)}
    table = {}
    group = ""
    for line in TABLE.strip().splitlines():
        if line.startswith("["):
            group = line.strip("[]")
            continue
        key, kind, classic, current, older, replacement = (x.strip() for x in line.split("|"))
        letter, *limits = kind.split()
        spellings = older.split()
        table[key] = Option(
            key,
            group,
            letter,
            tuple(limit for limit in limits if limit != "~"),
            "~" in limits,
            classic,
            current,
            tuple(old for old in spellings if not old.startswith("~")),
            tuple(old[1:] for old in spellings if old.startswith("~")),
            replacement,
            acted.get(key),
        )
    return table


@cache
def own_defaults_of(release: str) -> Mapping[str, str]:
    """Defaults of a release that differ from those of 2.3, for the options of NetworkConfig."""
    return {
        key: default
        for key, option in options().items()
        if option.field is not None
        and (default := option.default_in(release)) not in (None, option.default)
    }


@cache
def current_keys() -> Mapping[str, str]:
    """Every spelling -> the current one."""
    older = {
        old: option.key
        for option in options().values()
        for old in (*option.older_keys, *option.fallback_keys)
    }
    return older | {key: key for key in options()}


def find_option(key: str) -> Option:
    """The option of a key in any spelling.

    Raises: ConfigError with the nearest key if Flink has no such option.
    """
    current = current_keys().get(key)
    if current is not None:
        return options()[current]
    whole = [known for known in options() if known.endswith("." + key)]
    near = whole[0] if whole else nearest_key(key, 0.5)
    hint = f"did you mean {near}?" if near else "see Flink's configuration page for its keys"
    raise ConfigError(f"{key}: Flink has no such key; {hint}")


def nearest_key(key: str, cutoff: float) -> str | None:
    """The current key most like an unknown one, in any case; None if none is similar enough."""
    import difflib

    current = {known.lower(): found for known, found in current_keys().items()}
    near = difflib.get_close_matches(key.lower(), current, n=1, cutoff=cutoff)
    return current[near[0]] if near else None


@cache
def is_of_network(key: str) -> bool:
    """Whether a key belongs to a family of the network stack, even if Flink does not have it, or is
    a misspelt key of the table: all other keys of Flink are less similar to those."""
    return key.startswith(FAMILIES) or nearest_key(key, 0.94) is not None
