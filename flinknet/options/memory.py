"""Network memory derived from total sizes, as a TaskManager does at its start (Flink:
TaskExecutorProcessUtils, TaskExecutorFlinkMemoryUtils, ProcessMemoryUtils).

    process = flink + metaspace + JVM overhead
    flink   = framework heap + task heap + managed + framework off-heap + task off-heap + network

The given sizes determine which are derived. Without any of them, when Flink would not start,
network memory is NETWORK_MIN.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from flinknet.errors import ConfigError
from flinknet.units import format_size_bytes

from .keys import (
    FLINK_SIZE,
    FRAMEWORK_HEAP,
    FRAMEWORK_OFF_HEAP,
    MANAGED_FRACTION,
    MANAGED_SIZE,
    MEMORY_SIZES,
    METASPACE,
    NETWORK_FRACTION,
    NETWORK_MAX,
    NETWORK_MIN,
    OVERHEAD_FRACTION,
    OVERHEAD_MAX,
    OVERHEAD_MIN,
    PROCESS_SIZE,
    TASK_HEAP,
    TASK_OFF_HEAP,
    options,
)
from .values import parse_value

_PARTS_OF_A_TOTAL = frozenset(MEMORY_SIZES) - {NETWORK_MAX}


@dataclass(frozen=True, slots=True)
class Derived:
    """A size derived from others, and how."""

    size_bytes: int
    how: str


def is_total_given(settings: Mapping[str, str]) -> bool:
    """Whether settings contain the total that network memory is a part of."""
    is_fine_grained = TASK_HEAP in settings and MANAGED_SIZE in settings
    return is_fine_grained or FLINK_SIZE in settings or PROCESS_SIZE in settings


def inert_sizes(settings: Mapping[str, str]) -> frozenset[str]:
    """The sizes without effect in these settings; network.min and .max always have one."""
    if is_total_given(settings):
        return frozenset()
    return _PARTS_OF_A_TOTAL


def network_memory(settings: Mapping[str, str]) -> dict[str, Derived]:
    """The sizes that Flink derives from these settings, by key; empty if there is nothing to derive
    them from. NETWORK_MIN is network memory itself: Flink starts a TaskManager with both bounds set
    to it.

    Raises: ConfigError if the sizes contradict each other.
    """
    sizes = _Sizes(settings)
    _check_range(sizes, NETWORK_MIN, NETWORK_MAX)
    if not is_total_given(settings):
        return {}
    _check_range(sizes, OVERHEAD_MIN, OVERHEAD_MAX)
    derived: dict[str, Derived] = {}
    if FLINK_SIZE in settings:
        flink_bytes: int | None = sizes.of(FLINK_SIZE)
    elif TASK_HEAP in settings and MANAGED_SIZE in settings:
        flink_bytes = None
    else:
        derived[FLINK_SIZE] = _flink_size(sizes)
        flink_bytes = derived[FLINK_SIZE].size_bytes
    if flink_bytes is None:
        derived[NETWORK_MIN] = _inverse_network(sizes)
        flink_bytes = _fixed_bytes(sizes) + derived[NETWORK_MIN].size_bytes
    else:
        derived |= _parts_of(sizes, settings, flink_bytes)
    if PROCESS_SIZE in settings and FLINK_SIZE not in derived:
        _check_overhead(sizes, flink_bytes)
    return derived


class _Sizes:
    """Sizes and fractions of the settings, or their defaults."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    def of(self, key: str) -> int:
        """A size in bytes."""
        size = self._value(key)
        assert isinstance(size, int)
        return size

    def fraction(self, key: str) -> float:
        """A fraction, rounded to the 32-bit float of Flink: 0.1 is 0.10000000149011612."""
        single: float = array("f", [float(self._value(key))])[0]
        return single

    def fraction_text(self, key: str) -> str:
        """A key with its fraction as written, for a message."""
        return f"{key} ({self._value(key)})"

    def text(self, *keys: str) -> str:
        """Keys with their sizes, for a message."""
        return ", ".join(f"{key} ({format_size_bytes(self.of(key))})" for key in keys)

    def _value(self, key: str) -> float:
        text = self._settings.get(key)
        if text is None:
            return _default_value(key)
        value: float = parse_value(options()[key], text)
        return value


@cache
def _default_value(key: str) -> float:
    """A size or fraction that is not set."""
    option = options()[key]
    assert option.default is not None
    value: float = parse_value(option, option.default)
    return value


def _parts_of(sizes: _Sizes, settings: Mapping[str, str], flink_bytes: int) -> dict[str, Derived]:
    """The parts of total Flink memory."""
    total = f"{FLINK_SIZE} ({format_size_bytes(flink_bytes)})"
    derived: dict[str, Derived] = {}
    if MANAGED_SIZE in settings:
        managed_bytes = sizes.of(MANAGED_SIZE)
    else:
        managed_bytes = _share(flink_bytes, sizes.fraction(MANAGED_FRACTION))
        derived[MANAGED_SIZE] = Derived(
            managed_bytes, f"{sizes.fraction_text(MANAGED_FRACTION)} of {total}"
        )
    others = (FRAMEWORK_HEAP, FRAMEWORK_OFF_HEAP, TASK_OFF_HEAP)
    taken_bytes = managed_bytes + sum(sizes.of(key) for key in others)
    if TASK_HEAP in settings:
        taken_bytes += sizes.of(TASK_HEAP)
        _check_sum(sizes, total, flink_bytes, taken_bytes, (*others, TASK_HEAP))
        network = Derived(flink_bytes - taken_bytes, f"what other parts leave of {total}")
        _check_left(sizes, network.size_bytes)
        return derived | {NETWORK_MIN: network}
    share_bytes = _share(flink_bytes, sizes.fraction(NETWORK_FRACTION))
    network = _clamped_network(
        sizes, share_bytes, f"{sizes.fraction_text(NETWORK_FRACTION)} of {total}"
    )
    taken_bytes += network.size_bytes
    _check_sum(sizes, total, flink_bytes, taken_bytes, others)
    heap = Derived(flink_bytes - taken_bytes, f"what other parts leave of {total}")
    return derived | {NETWORK_MIN: network, TASK_HEAP: heap}


def _flink_size(sizes: _Sizes) -> Derived:
    """Total Flink memory of a process."""
    process_bytes = sizes.of(PROCESS_SIZE)
    overhead_bytes = _clamp(
        _share(process_bytes, sizes.fraction(OVERHEAD_FRACTION)),
        sizes.of(OVERHEAD_MIN),
        sizes.of(OVERHEAD_MAX),
    )
    size_bytes = process_bytes - sizes.of(METASPACE) - overhead_bytes
    if size_bytes < 0:
        raise ConfigError(
            f"{PROCESS_SIZE}: {format_size_bytes(process_bytes)} does not hold"
            f" {sizes.text(METASPACE)} and a JVM overhead of {format_size_bytes(overhead_bytes)};"
            " raise it"
        )
    how = (
        f"{sizes.text(PROCESS_SIZE)} less {sizes.text(METASPACE)} and"
        f" {format_size_bytes(overhead_bytes)} of JVM overhead"
    )
    return Derived(size_bytes, how)


def _inverse_network(sizes: _Sizes) -> Derived:
    """Network memory if all other parts are given: the fraction is one of the total."""
    rest_bytes = _fixed_bytes(sizes)
    fraction = sizes.fraction(NETWORK_FRACTION)
    text = sizes.fraction_text(NETWORK_FRACTION)
    how = f"{text} of itself and {format_size_bytes(rest_bytes)} of other parts"
    return _clamped_network(sizes, _share(rest_bytes, fraction / (1 - fraction)), how)


def _fixed_bytes(sizes: _Sizes) -> int:
    """Total Flink memory without network memory, if all other parts are given."""
    parts = (FRAMEWORK_HEAP, FRAMEWORK_OFF_HEAP, TASK_OFF_HEAP, TASK_HEAP, MANAGED_SIZE)
    return sum(sizes.of(key) for key in parts)


def _clamped_network(sizes: _Sizes, share_bytes: int, how: str) -> Derived:
    least_bytes, most_bytes = sizes.of(NETWORK_MIN), sizes.of(NETWORK_MAX)
    size_bytes = _clamp(share_bytes, least_bytes, most_bytes)
    if size_bytes != share_bytes:
        bound = NETWORK_MIN if size_bytes == least_bytes else NETWORK_MAX
        how += f" is {format_size_bytes(share_bytes)}; bound by {sizes.text(bound)}"
    return Derived(size_bytes, how)


def _share(size_bytes: int, fraction: float) -> int:
    """A share of a size, by Flink's decimal product (Flink: MemorySize.multiply)."""
    return int(Decimal(size_bytes) * Decimal(repr(fraction)))


def _clamp(size_bytes: int, least_bytes: int, most_bytes: int) -> int:
    return max(least_bytes, min(size_bytes, most_bytes))


def _check_range(sizes: _Sizes, least: str, most: str) -> None:
    if sizes.of(most) < sizes.of(least):
        raise ConfigError(
            f"{most}: {format_size_bytes(sizes.of(most))} is less than {sizes.text(least)};"
            " raise it or lower the other"
        )


def _check_sum(
    sizes: _Sizes, total: str, flink_bytes: int, taken_bytes: int, parts: tuple[str, ...]
) -> None:
    if taken_bytes > flink_bytes:
        raise ConfigError(
            f"{total} does not hold its parts, {format_size_bytes(taken_bytes)} with managed and"
            f" network memory: {sizes.text(*parts)}; raise it, or lower a part"
        )


def _check_left(sizes: _Sizes, network_bytes: int) -> None:
    if not sizes.of(NETWORK_MIN) <= network_bytes <= sizes.of(NETWORK_MAX):
        raise ConfigError(
            f"{format_size_bytes(network_bytes)} are left for network memory, outside"
            f" {sizes.text(NETWORK_MIN)} to {NETWORK_MAX}; change {FLINK_SIZE} or {TASK_HEAP}"
        )


def _check_overhead(sizes: _Sizes, flink_bytes: int) -> None:
    overhead_bytes = sizes.of(PROCESS_SIZE) - flink_bytes - sizes.of(METASPACE)
    if not sizes.of(OVERHEAD_MIN) <= overhead_bytes <= sizes.of(OVERHEAD_MAX):
        raise ConfigError(
            f"{PROCESS_SIZE}: {format_size_bytes(sizes.of(PROCESS_SIZE))} leaves"
            f" {overhead_bytes} bytes of JVM overhead next to {format_size_bytes(flink_bytes)} of"
            f" Flink memory, outside {sizes.text(OVERHEAD_MIN, OVERHEAD_MAX)}; give one total only"
        )
