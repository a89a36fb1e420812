"""Flink's configuration keys: which exist, what they mean here, from text to NetworkConfig.

Settings are `dict[str, str]`: current key -> text as the user wrote it. They come in layers (a
config.yaml, then `-D key=value`, then named options); `merge` puts a later layer over an earlier
one, `expand` makes one setting of each combination of comma lists, `network_config` gives them
meaning.

A key that Flink knows and flinknet does not act on is accepted with a warning; a key that Flink
does not know is an error that names the nearest one. Keys that Flink 2.x turned into fixed numbers
still work here, and a warning says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, NetworkConfig
from flinknet.errors import ConfigError
from flinknet.results import Warning
from flinknet.units import (
    NS_PER_S,
    format_duration_ns,
    format_size_bytes,
    parse_duration_ns,
    parse_size_bytes,
)

BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.enabled"
BIND_PORT = "taskmanager.data.bind-port"
EXCLUSIVE_BUFFERS = "taskmanager.network.memory.buffers-per-channel"
FLOATING_BUFFERS = "taskmanager.network.memory.floating-buffers-per-gate"
SEGMENT_SIZE = "taskmanager.memory.segment-size"
NETWORK_MIN = "taskmanager.memory.network.min"
NETWORK_MAX = "taskmanager.memory.network.max"

_FAMILIES = ("taskmanager.network.", "taskmanager.memory.", "taskmanager.data.", "execution.buffer")
"""A config.yaml holds keys of many subjects; in these families an unknown key is a mistake."""

# key | type | default in 1.20 | default in 2.3 | older spellings
# Types: I int, L long, B bool, F float, S text, P ports, D duration, T seconds, M memory size.
# "unset": no default; "-": not in that release; "fixed n": no longer an option, always n.
_TABLE = """
taskmanager.memory.segment-size | M | 32 kb | 32 kb |
taskmanager.memory.min-segment-size | M | 256 b | 256 b |
taskmanager.memory.starting-segment-size | M | - | 1 kb |
taskmanager.memory.network.fraction | F | 0.1 | 0.1 | taskmanager.network.memory.fraction
taskmanager.memory.network.min | M | 64 mb | 64 mb | taskmanager.network.memory.min
taskmanager.memory.network.max | M | unset | unset | taskmanager.network.memory.max
taskmanager.network.numberOfBuffers | I | 2048 | - |
taskmanager.network.memory.buffers-per-channel | I | 2 | fixed 2 |
taskmanager.network.memory.floating-buffers-per-gate | I | 8 | fixed 8 |
taskmanager.network.memory.max-buffers-per-channel | I | 10 | fixed 10 |
taskmanager.network.memory.max-overdraft-buffers-per-gate | I | 5 | fixed 20 |
taskmanager.network.memory.read-buffer.required-per-gate.max | I | unset | unset |
taskmanager.network.memory.buffers-request-timeout | D | 30 s | 30 s | taskmanager.network.memory.exclusive-buffers-request-timeout-ms
taskmanager.network.memory.buffer-debloat.enabled | B | false | false |
taskmanager.network.memory.buffer-debloat.target | D | 1 s | 1 s |
taskmanager.network.memory.buffer-debloat.period | D | 200 ms | 200 ms |
taskmanager.network.memory.buffer-debloat.samples | I | 20 | 20 |
taskmanager.network.memory.buffer-debloat.threshold-percentages | I | 25 | 25 |
taskmanager.memory.framework.off-heap.batch-shuffle.size | M | 64 mb | 64 mb |
taskmanager.memory.flink.size | M | unset | unset |
taskmanager.memory.process.size | M | unset | unset |
taskmanager.memory.task.heap.size | M | unset | unset |
taskmanager.memory.task.off-heap.size | M | 0 b | 0 b |
taskmanager.memory.managed.size | M | unset | unset |
taskmanager.memory.managed.fraction | F | 0.4 | 0.4 |
taskmanager.memory.framework.heap.size | M | 128 mb | 128 mb |
taskmanager.memory.framework.off-heap.size | M | 128 mb | 128 mb |
taskmanager.memory.jvm-metaspace.size | M | 256 mb | 256 mb |
taskmanager.memory.jvm-overhead.min | M | 192 mb | 192 mb |
taskmanager.memory.jvm-overhead.max | M | 1 gb | 1 gb |
taskmanager.memory.jvm-overhead.fraction | F | 0.1 | 0.1 |
taskmanager.numberOfTaskSlots | I | 1 | 1 |
execution.buffer-timeout.enabled | B | true | true |
execution.buffer-timeout.interval | D | 100 ms | 100 ms | execution.buffer-timeout
execution.batch-shuffle-mode | S | ALL_EXCHANGES_BLOCKING | ALL_EXCHANGES_BLOCKING |
execution.runtime-mode | S | STREAMING | STREAMING |
taskmanager.network.compression.codec | S | LZ4 | LZ4 |
taskmanager.network.batch-shuffle.compression.enabled | B | true | - | taskmanager.network.blocking-shuffle.compression.enabled
taskmanager.network.sort-shuffle.min-buffers | I | 512 | 512 |
taskmanager.network.sort-shuffle.min-parallelism | I | 1 | fixed 1 |
taskmanager.network.blocking-shuffle.type | S | file | fixed file |
taskmanager.network.hybrid-shuffle.enable-new-mode | B | true | - |
taskmanager.network.hybrid-shuffle.spill-index-region-group-size | I | 1024 | - |
taskmanager.network.hybrid-shuffle.num-retained-in-memory-regions-max | L | 1048576 | - |
taskmanager.network.hybrid-shuffle.remote.path | S | unset | unset |
taskmanager.network.hybrid-shuffle.external-remote-tier-factory.class | S | unset | unset |
taskmanager.network.adaptive-partitioner.enabled | B | - | false |
taskmanager.network.adaptive-partitioner.max-traverse-size | I | - | 4 |
taskmanager.network.request-backoff.initial | I | 100 | 100 | taskmanager.net.request-backoff.initial
taskmanager.network.request-backoff.max | I | 10000 | 10000 | taskmanager.net.request-backoff.max
taskmanager.network.partition-request-timeout | D | 10 s | 10 s |
taskmanager.network.detailed-metrics | B | false | false |
jobmanager.partition.release-during-job-execution | B | true | true |
jobmanager.partition.hybrid.partition-data-consume-constraint | S | unset | unset |
taskmanager.data.port | P | 0 | 0 |
taskmanager.data.bind-port | P | unset | unset |
taskmanager.host | S | unset | unset |
taskmanager.bind-host | S | unset | unset |
taskmanager.network.bind-policy | S | ip | ip |
taskmanager.data.ssl.enabled | B | true | true |
taskmanager.network.netty.client.connectTimeoutSec | T | 120 | 120 | taskmanager.net.client.connectTimeoutSec
taskmanager.network.netty.client.tcp.keepIdleSec | I | unset | unset |
taskmanager.network.netty.client.tcp.keepIntervalSec | I | unset | unset |
taskmanager.network.netty.client.tcp.keepCount | I | unset | unset |
taskmanager.network.retries | I | 0 | 0 |
taskmanager.network.tcp-connection.enable-reuse-across-jobs | B | true | true |
taskmanager.network.max-num-tcp-connections | I | 1 | fixed 1 |
taskmanager.network.netty.num-arenas | I | -1 | - |
taskmanager.network.netty.server.numThreads | I | -1 | - |
taskmanager.network.netty.client.numThreads | I | -1 | - |
taskmanager.network.netty.server.backlog | I | 0 | - |
taskmanager.network.netty.sendReceiveBufferSize | I | 0 | - |
taskmanager.network.netty.transport | S | auto | - |
security.ssl.enabled | B | false | - |
security.ssl.internal.enabled | B | false | false |
security.ssl.internal.keystore | S | unset | unset | security.ssl.keystore
security.ssl.internal.keystore-password | S | unset | unset | security.ssl.keystore-password
security.ssl.internal.key-password | S | unset | unset | security.ssl.key-password
security.ssl.internal.truststore | S | unset | unset | security.ssl.truststore
security.ssl.internal.truststore-password | S | unset | unset | security.ssl.truststore-password
security.ssl.internal.keystore-type | S | pkcs12 | pkcs12 |
security.ssl.internal.truststore-type | S | pkcs12 | pkcs12 |
security.ssl.internal.cert.fingerprint | S | unset | unset |
security.ssl.internal.session-cache-size | I | -1 | -1 | security.ssl.session-cache-size
security.ssl.internal.session-timeout | I | -1 | -1 | security.ssl.session-timeout
security.ssl.internal.handshake-timeout | I | -1 | -1 | security.ssl.handshake-timeout
security.ssl.internal.close-notify-flush-timeout | I | -1 | -1 | security.ssl.close-notify-flush-timeout
security.ssl.protocol | S | TLSv1.2 | TLSv1.2 |
security.ssl.algorithms | S | TLS_RSA_WITH_AES_128_CBC_SHA | TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 |
security.ssl.provider | S | JDK | JDK |
execution.checkpointing.mode | S | EXACTLY_ONCE | EXACTLY_ONCE |
execution.checkpointing.unaligned.enabled | B | false | false | execution.checkpointing.unaligned
execution.checkpointing.aligned-checkpoint-timeout | D | 0 s | 0 s | execution.checkpointing.alignment-timeout
execution.checkpointing.unaligned.forced | B | false | false |
execution.checkpointing.unaligned.max-subtasks-per-channel-state-file | I | 5 | 5 |
execution.checkpointing.unaligned.interruptible-timers.enabled | B | false | false |
execution.checkpointing.checkpoints-after-tasks-finish | B | true | true |
execution.checkpointing.during-recovery.enabled | B | - | false |
execution.checkpointing.unaligned.recover-output-on-downstream.enabled | B | - | false |
pipeline.operator-chaining.enabled | B | true | true | pipeline.operator-chaining
pipeline.operator-chaining.chain-operators-with-different-max-parallelism | B | true | true |
pipeline.max-parallelism | I | -1 | -1 |
parallelism.default | I | 1 | 1 |
pipeline.auto-generate-uids | B | true | true |
pipeline.vertex-description-mode | S | TREE | TREE |
pipeline.vertex-name-include-index-prefix | B | false | false |
heartbeat.interval | D | 10 s | 10 s |
heartbeat.timeout | D | 50 s | 50 s |
heartbeat.rpc-failure-threshold | I | 2 | 2 |
slot.request.timeout | D | 5 min | 5 min |
slot.idle.timeout | D | 50 s | 50 s |
taskmanager.slot.timeout | D | 10 s | 10 s |
taskmanager.load-balance.mode | S | NONE | NONE |
jobmanager.execution.attempts-history-size | I | 16 | 16 |
jobmanager.execution.failover-strategy | S | region | region |
task.cancellation.interval | D | 30 s | 30 s |
task.cancellation.timeout | D | 3 min | 3 min |
"""  # noqa: E501 - one line for each key

_TYPE_NAMES = {"I": "an integer", "L": "an integer", "T": "a number of seconds", "F": "a number"}


@dataclass(frozen=True, slots=True)
class Option:
    """One of Flink's keys; `field` is the NetworkConfig field it sets, if flinknet acts on it."""

    key: str
    kind: str
    default_1_20: str
    default_2_3: str
    older_keys: tuple[str, ...]
    field: str | None

    @property
    def is_acted_on(self) -> bool:
        """Whether a run differs when this key does."""
        return self.field is not None or self.key in (BUFFER_TIMEOUT_ENABLED, BIND_PORT)

    @property
    def can_be_swept(self) -> bool:
        """Whether a comma in its value separates values (a port list has commas of its own)."""
        return self.is_acted_on and self.kind not in ("S", "P")

    @property
    def fixed_in_2_x(self) -> str | None:
        """The number that Flink 2.x made of this option, None if it still is one."""
        prefix, _, number = self.default_2_3.partition("fixed ")
        return number if not prefix and number else None


@cache
def options() -> Mapping[str, Option]:
    """Every key of the table, in its order."""
    acted = {field.metadata["key"]: field.name for field in fields(NetworkConfig)}
    table = {}
    for line in _TABLE.strip().splitlines():
        key, kind, classic, current, older = (cell.strip() for cell in line.split("|"))
        table[key] = Option(key, kind, classic, current, tuple(older.split()), acted.get(key))
    return table


@cache
def _current_keys() -> Mapping[str, str]:
    """Every spelling -> the current one."""
    older = {old: option.key for option in options().values() for old in option.older_keys}
    return older | {key: key for key in options()}


def find_option(key: str) -> Option:
    """The option of a key in any spelling.

    Raises: ConfigError with the nearest key when Flink has no such option.
    """
    current = _current_keys().get(key)
    if current is not None:
        return options()[current]
    import difflib

    near = [known for known in options() if known.endswith("." + key)]
    near = near or difflib.get_close_matches(key, _current_keys(), n=1, cutoff=0.5)
    hint = "see Flink's configuration page for its keys"
    if near:
        hint = f"did you mean {_current_keys()[near[0]]}?"
    raise ConfigError(f"{key}: Flink has no such key; {hint}")


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `key=value`, as given to -D."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"-D {text}: not of the form key=value")
    return key.strip(), value.strip()


def read_flink_conf(path: Path) -> tuple[dict[str, str], tuple[Warning, ...]]:
    """Read Flink's config.yaml, nested or with dotted keys, as one layer of settings.

    Keys of other subjects (JobManager, state, metrics …) are left out, and a warning names them.
    """
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give the path of Flink's config.yaml") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{path}: cannot be read as Flink's config.yaml: {why}") from None
    if document is None:
        return {}, ()
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: holds no keys; lines of the form `key: value` are expected")
    known: dict[str, str] = {}
    strange: list[str] = []
    for key, value in flatten(document):
        if key in _current_keys() or key.startswith(_FAMILIES):
            known[key] = value
        else:
            strange.append(key)
    try:
        return canonical(known), _strange_keys(path, strange)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def flatten(node: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and texts of a nested document; YAML's own types go back to Flink's spelling."""
    for name, value in node.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from flatten(value, key + ".")
        elif isinstance(value, list):
            yield key, ";".join(str(item) for item in value)
        elif isinstance(value, bool):
            yield key, str(value).lower()
        elif value is not None:
            yield key, str(value)


def canonical(settings: Mapping[str, str]) -> dict[str, str]:
    """One layer under current keys; the current spelling wins over an older one, as in Flink."""
    layer: dict[str, str] = {}
    for key, value in settings.items():
        option = find_option(key)
        if option.key not in settings or option.key == key:
            layer[option.key] = value
    return layer


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """Put later layers over earlier ones.

    A later buffer timeout undoes an earlier `enabled: false`: to say how long is to say that.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        current = canonical(layer)
        if BUFFER_TIMEOUT in current and BUFFER_TIMEOUT_ENABLED not in current:
            merged.pop(BUFFER_TIMEOUT_ENABLED, None)
        merged |= current
    return merged


def expand(settings: Mapping[str, str]) -> list[dict[str, str]]:
    """One setting for each combination of the values in comma lists; the last key turns first."""
    values = []
    for key, text in settings.items():
        parts = text.split(",") if find_option(key).can_be_swept else [text]
        alternatives = list(dict.fromkeys(part.strip() for part in parts))
        if not all(alternatives):
            raise ConfigError(f"{key}: {text!r} has an empty value; write one or more: a,b,c")
        values.append(alternatives)
    return [dict(zip(settings, choice, strict=True)) for choice in itertools.product(*values)]


def swept_keys(settings: Mapping[str, str]) -> list[str]:
    """The keys that a sweep varies."""
    return [k for k, text in settings.items() if find_option(k).can_be_swept and "," in text]


def network_config(settings: Mapping[str, str]) -> tuple[NetworkConfig, tuple[Warning, ...]]:
    """The meaning of settings without comma lists, and what to know about them.

    Raises: ConfigError for a value that Flink would refuse.
    """
    numbers: dict[str, Any] = {}
    warnings: list[Warning] = []
    for key, text in settings.items():
        option = find_option(key)
        value = _parse(option, text)
        if option.field is not None:
            numbers[option.field] = value
        if not option.is_acted_on and key != NETWORK_MAX:
            warnings.append(_not_acted_on(option))
        elif option.fixed_in_2_x is not None and str(value) != option.fixed_in_2_x:
            warnings.append(_fixed(option))
    if settings.get(BUFFER_TIMEOUT_ENABLED, "true").lower() == "false":
        numbers["buffer_timeout_ns"] = BUFFER_TIMEOUT_NEVER_NS
    if BIND_PORT in settings:
        numbers["data_port"] = settings[BIND_PORT]
    network = NetworkConfig(**numbers)
    _check(network, settings)
    return network, tuple(warnings)


def effective_flink_keys(network: NetworkConfig) -> dict[str, str]:
    """Every key that acts on a run, with its value in Flink's spelling; parses back to `network`.

    A timeout of -1 is told twice, since Flink reads it from `execution.buffer-timeout.enabled`.
    """
    keys = {}
    for field in fields(NetworkConfig):
        option = options()[field.metadata["key"]]
        keys[option.key] = _format(option, getattr(network, field.name))
    keys[BUFFER_TIMEOUT_ENABLED] = str(network.buffer_timeout_ns >= 0).lower()
    return dict(sorted(keys.items()))


def _parse(option: Option, text: str) -> Any:
    """The value of one option as NetworkConfig holds it."""
    key = option.key
    if option.kind == "M":
        return parse_size_bytes(text, key)
    if option.kind == "D":
        return parse_duration_ns(text, key, allow_never=key == BUFFER_TIMEOUT)
    if option.kind == "B":
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{key}: {text!r} is not a boolean; write true or false")
        return text.lower() == "true"
    if option.kind == "P":
        return _checked_ports(key, text)
    if option.kind == "S":
        return text
    try:
        number = float(text) if option.kind == "F" else int(text)
    except ValueError:
        raise ConfigError(f"{key}: {text!r} is not {_TYPE_NAMES[option.kind]}") from None
    return int(number * NS_PER_S) if option.kind == "T" else number


def _format(option: Option, value: Any) -> str:
    """A NetworkConfig value in Flink's spelling."""
    if option.kind == "M":
        return format_size_bytes(value, separator=" ")
    if option.kind == "D":
        return format_duration_ns(value, separator=" ")
    return str(value // NS_PER_S) if option.kind == "T" else str(value)


def _checked_ports(key: str, text: str) -> str:
    """A port, a range or a list of both, as Flink's NetUtils.getPortRangeFromString reads them."""
    for part in text.split(","):
        bounds = [bound.strip() for bound in part.split("-")]
        if len(bounds) > 2 or not all(b.isdecimal() and int(b) <= 65_535 for b in bounds):
            raise ConfigError(
                f"{key}: {text!r} is no port; write 0 to let the system choose, a port up to 65535,"
                " or a range such as 50100-50200"
            )
    return text


def _check(network: NetworkConfig, settings: Mapping[str, str]) -> None:
    """Flink's own rules (NettyShuffleEnvironmentConfiguration, TaskExecutorProcessUtils)."""
    size = network.segment_size_bytes
    if size < 4096 or size & (size - 1):
        raise ConfigError(
            f"{SEGMENT_SIZE}: {format_size_bytes(size)} must be a power of two and at least 4096"
            " bytes; write 4kb, 8kb, 16kb, 32kb, …"
        )
    if network.network_memory_bytes < size:
        raise ConfigError(
            f"{NETWORK_MIN}: {format_size_bytes(network.network_memory_bytes)} does not hold one"
            f" segment of {format_size_bytes(size)}; give more memory or smaller segments"
        )
    if NETWORK_MAX in settings:
        limit = parse_size_bytes(settings[NETWORK_MAX], NETWORK_MAX)
        if limit < network.network_memory_bytes:
            raise ConfigError(
                f"{NETWORK_MAX}: {format_size_bytes(limit)} is less than {NETWORK_MIN}"
                f" ({format_size_bytes(network.network_memory_bytes)}); raise it or lower the other"
            )
    if network.connect_timeout_ns <= 0:
        raise ConfigError(f"{_key('connect_timeout_ns')}: must be at least 1 second")
    for name, least in (
        ("exclusive_buffers", 0),
        ("floating_buffers", 0),
        ("max_buffers_per_channel", 2),
        ("max_overdraft_buffers", 0),
    ):
        count = getattr(network, name)
        if count < least:
            raise ConfigError(f"{_key(name)}: {count} is too few; give {least} or more")
    if network.exclusive_buffers + network.floating_buffers == 0:
        raise ConfigError(
            f"{FLOATING_BUFFERS}: with no exclusive buffers ({EXCLUSIVE_BUFFERS}=0) a gate needs at"
            " least 1 floating buffer"
        )


def _key(field_name: str) -> str:
    return next(o.key for o in options().values() if o.field == field_name)


def _strange_keys(path: Path, keys: list[str]) -> tuple[Warning, ...]:
    if not keys:
        return ()
    named = ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    text = f"{path}: keys of other subjects than the network stack were left out: {named}"
    return (Warning("keys-left-out", text),)


def _not_acted_on(option: Option) -> Warning:
    text = f"{option.key}: Flink knows this key, flinknet does not act on it; the run is without it"
    return Warning("option-not-acted-on", text)


def _fixed(option: Option) -> Warning:
    text = (
        f"{option.key}: Flink 2.x always uses {option.fixed_in_2_x} and silently ignores this key;"
        " expect this result from Flink 1.x only"
    )
    return Warning("fixed-in-flink-2", text)
