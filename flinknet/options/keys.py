"""Option, and the lookup by any of its spellings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError

from .table import TABLE

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
        *(NUMBER_OF_BUFFERS, HEAP_SIZE, HEAP_MB),
    )
)

FAMILIES = (
    *("taskmanager.network.", "taskmanager.memory.", "taskmanager.data.", "taskmanager.net."),
    *("execution.buffer-timeout", "security.ssl.internal."),
)
"""A config.yaml has keys for many parts of Flink; in these families an unknown key is reported."""


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
        text = self.default_1_20 if self.default_2_3 == "-" else self.default_2_3
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
    near = nearest_key(key, 0.5)
    hint = f"did you mean {near}?" if near else "see Flink's configuration page for its keys"
    raise ConfigError(f"{key}: Flink has no such key; {hint}")


def nearest_key(key: str, cutoff: float) -> str | None:
    """The current key that is most similar to an unknown one; None if none is similar enough."""
    import difflib

    near = [known for known in options() if known.endswith("." + key)]
    near = near or difflib.get_close_matches(key, current_keys(), n=1, cutoff=cutoff)
    return current_keys()[near[0]] if near else None


def is_of_network(key: str) -> bool:
    """Whether a key belongs to a family of the network stack, even if Flink does not have it."""
    return key.startswith(FAMILIES)
