"""Network memory derived from total sizes, as a TaskManager does at its start (Flink:
TaskExecutorProcessUtils, TaskExecutorFlinkMemoryUtils, ProcessMemoryUtils).

    process = flink + metaspace + JVM overhead
    flink   = framework heap + task heap + managed + framework off-heap + task off-heap + network

The given sizes determine which are derived. Two keys of Flink 1.x count as well: its heap size is
total Flink memory where that is not set (MemoryBackwardsCompatibilityUtils), and its number of
buffers is network memory where none of that has a key. Without a total, Flink does not start
(`check_total`); flinknet then takes NETWORK_MIN.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from flinknet.errors import ConfigError
from flinknet.units import format_size_bytes

from . import keys
from .values import parse_value

_PARTS_OF_A_TOTAL = frozenset(keys.MEMORY_SIZES) - {keys.NETWORK_MAX}
_FIXED = (keys.FRAMEWORK_HEAP, keys.FRAMEWORK_OFF_HEAP, keys.TASK_OFF_HEAP)
_OF_NETWORK = (keys.NETWORK_FRACTION, keys.NETWORK_MIN, keys.NETWORK_MAX)

_MB = 1 << 20
_TOTALS_MB = [1 << bit for bit in range(22)]
"""Totals that are tried for a suggestion, in mb, before those between two of them."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A size derived from others, and how."""

    size_bytes: int
    how: str


def is_total_given(settings: Mapping[str, str]) -> bool:
    """Whether settings contain the total that network memory is a part of."""
    is_fine_grained = keys.TASK_HEAP in settings and keys.MANAGED_SIZE in settings
    totals = (keys.FLINK_SIZE, keys.PROCESS_SIZE, keys.HEAP_SIZE, keys.HEAP_MB)
    return is_fine_grained or any(key in settings for key in totals)


def check_total(settings: Mapping[str, str]) -> None:
    """Raises: ConfigError for settings without a total size, with which Flink does not start."""
    if not is_total_given(settings):
        raise ConfigError(
            f"has no total size of memory, so Flink does not start; set {keys.PROCESS_SIZE} or"
            f" {keys.FLINK_SIZE}, there or with -D"
        )


def inert_sizes(settings: Mapping[str, str]) -> frozenset[str]:
    """The sizes without effect in these settings; network.min and .max always have one."""
    if is_total_given(settings):
        return frozenset(shadowed_sizes(settings))
    return _PARTS_OF_A_TOTAL


def shadowed_sizes(settings: Mapping[str, str]) -> dict[str, str]:
    """The keys that Flink does not read, each with the key that it reads instead."""
    shadows = {
        **{keys.MANAGED_FRACTION: (keys.MANAGED_SIZE,), keys.NUMBER_OF_BUFFERS: _OF_NETWORK},
        **{keys.HEAP_SIZE: (keys.FLINK_SIZE,), keys.HEAP_MB: (keys.FLINK_SIZE, keys.HEAP_SIZE)},
    }
    return {
        key: next(other for other in others if other in settings)
        for key, others in shadows.items()
        if key in settings and any(other in settings for other in others)
    }


def network_memory(settings: Mapping[str, str]) -> dict[str, Derived]:
    """The sizes that Flink derives from these settings, by key; empty if there is nothing to derive
    them from. NETWORK_MIN is network memory itself: Flink starts a TaskManager with both bounds set
    to it.

    Raises: ConfigError if the sizes contradict each other.
    """
    try:
        return _derived(settings)
    except _TooSmallError as error:
        raise ConfigError(f"{error}; {_remedy(settings, error)}") from None


class _TooSmallError(ConfigError):
    """A total that does not hold its parts; carries its key and the largest part that is set."""

    def __init__(self, text: str, total: str, culprit: str | None) -> None:
        super().__init__(text)
        self.total = total
        self.culprit = culprit


def _remedy(settings: Mapping[str, str], error: _TooSmallError) -> str:
    """The smallest total that would do, found by trying, and the part that can be lowered."""

    def is_enough(total_mb: int) -> bool:
        size = total_mb if error.total == keys.HEAP_MB else f"{total_mb} mb"
        try:
            _derived({**settings, error.total: str(size)})
        except ConfigError:
            return False
        return True

    advice = []
    enough_mb = next(filter(is_enough, _TOTALS_MB), None)  # a far larger one may not do
    if enough_mb is not None:
        near = range(enough_mb // 2 + 1, enough_mb)
        enough_mb = near.start + bisect_left(near, True, key=is_enough)
        unit = "" if error.total == keys.HEAP_MB else "m"
        advice.append(f"set {error.total} to {enough_mb}{unit}")
    if error.culprit is not None:
        advice.append(f"lower {error.culprit}")
    return ", or ".join(advice) or f"lower the parts of {error.total}"


def _derived(settings: Mapping[str, str]) -> dict[str, Derived]:
    sizes = _Sizes(settings)
    settings = sizes.settings
    _check_range(sizes, keys.NETWORK_MIN, keys.NETWORK_MAX)
    if not is_total_given(settings):
        legacy = sizes.legacy_network
        return {} if legacy is None else {keys.NETWORK_MIN: legacy}
    _check_range(sizes, keys.OVERHEAD_MIN, keys.OVERHEAD_MAX)
    derived: dict[str, Derived] = {}
    if keys.FLINK_SIZE in settings:
        flink_bytes = sizes.of(keys.FLINK_SIZE)
        if sizes.heap_key is not None:
            derived[keys.FLINK_SIZE] = Derived(flink_bytes, sizes.text(keys.FLINK_SIZE))
        derived |= _parts_of(sizes, flink_bytes)
    elif keys.TASK_HEAP in settings and keys.MANAGED_SIZE in settings:
        rest_bytes = sum(sizes.of(key) for key in (*_FIXED, keys.TASK_HEAP, keys.MANAGED_SIZE))
        derived[keys.NETWORK_MIN] = _inverse_network(sizes, rest_bytes)
        flink_bytes = rest_bytes + derived[keys.NETWORK_MIN].size_bytes
    else:
        derived[keys.FLINK_SIZE] = _flink_size(sizes)
        return derived | _parts_of(sizes, derived[keys.FLINK_SIZE].size_bytes)
    if keys.PROCESS_SIZE in settings:
        _check_overhead(sizes, flink_bytes)
    return derived


class _Sizes:
    """Sizes and fractions of the settings, or their defaults.

    Attributes:
        settings: with the heap size of Flink 1.x as total Flink memory.
        heap_key: the key of that heap size; None if total Flink memory has its own.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self.heap_key: str | None = None
        if keys.FLINK_SIZE not in settings and (
            keys.HEAP_SIZE in settings or keys.HEAP_MB in settings
        ):
            self.heap_key = keys.HEAP_SIZE if keys.HEAP_SIZE in settings else keys.HEAP_MB
            unit = "" if self.heap_key == keys.HEAP_SIZE else " mb"
            self.settings = {**settings, keys.FLINK_SIZE: settings[self.heap_key] + unit}

    @property
    def legacy_network(self) -> Derived | None:
        """Network memory that the number of buffers sets, as in Flink 1.x; None if it does not."""
        given = self.settings
        if keys.NUMBER_OF_BUFFERS not in given or any(key in given for key in _OF_NETWORK):
            return None
        buffers = self.of(keys.NUMBER_OF_BUFFERS)
        how = f"{keys.NUMBER_OF_BUFFERS} ({buffers}) of {self.text(keys.SEGMENT_SIZE)}"
        return Derived(buffers * self.of(keys.SEGMENT_SIZE), how)

    @property
    def total(self) -> str:
        """The key of the total that network memory is a part of."""
        is_flink = keys.FLINK_SIZE in self.settings
        return self.name(keys.FLINK_SIZE) if is_flink else keys.PROCESS_SIZE

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

    def name(self, key: str) -> str:
        """A key as the settings have it."""
        return self.heap_key if key == keys.FLINK_SIZE and self.heap_key is not None else key

    def text(self, *names: str) -> str:
        """Keys with their sizes, for a message."""
        return ", ".join(f"{self.name(key)} ({_size(self.of(key))})" for key in names)

    def _value(self, key: str) -> float:
        option = keys.options()[key]
        value: float = parse_value(option, self.settings.get(key, option.default or ""))
        return value


def _parts_of(sizes: _Sizes, flink_bytes: int) -> dict[str, Derived]:
    settings = sizes.settings
    total = f"{sizes.name(keys.FLINK_SIZE)} ({format_size_bytes(flink_bytes)})"
    derived: dict[str, Derived] = {}
    parts = {key: sizes.of(key) for key in _FIXED}
    if keys.MANAGED_SIZE in settings:
        parts[keys.MANAGED_SIZE] = sizes.of(keys.MANAGED_SIZE)
    else:
        managed_bytes = _share(flink_bytes, sizes.fraction(keys.MANAGED_FRACTION))
        parts[keys.MANAGED_FRACTION] = managed_bytes
        derived[keys.MANAGED_SIZE] = Derived(
            managed_bytes, f"{sizes.fraction_text(keys.MANAGED_FRACTION)} of {total}"
        )
    if keys.TASK_HEAP in settings:
        parts[keys.TASK_HEAP] = sizes.of(keys.TASK_HEAP)
        _check_sum(sizes, flink_bytes, parts)
        network = Derived(flink_bytes - sum(parts.values()), f"what other parts leave of {total}")
        _check_left(sizes, network.size_bytes)
        return derived | {keys.NETWORK_MIN: network}
    if (legacy := sizes.legacy_network) is not None:
        network = legacy
        parts[keys.NUMBER_OF_BUFFERS] = network.size_bytes
    else:
        share_bytes = _share(flink_bytes, sizes.fraction(keys.NETWORK_FRACTION))
        how = f"{sizes.fraction_text(keys.NETWORK_FRACTION)} of {total}"
        network = _clamped_network(sizes, share_bytes, how)
        is_least = network.size_bytes > share_bytes
        parts[keys.NETWORK_MIN if is_least else keys.NETWORK_FRACTION] = network.size_bytes
    _check_sum(sizes, flink_bytes, parts)
    heap = Derived(flink_bytes - sum(parts.values()), f"what other parts leave of {total}")
    return derived | {keys.NETWORK_MIN: network, keys.TASK_HEAP: heap}


def _flink_size(sizes: _Sizes) -> Derived:
    process_bytes = sizes.of(keys.PROCESS_SIZE)
    overhead_bytes = _clamp(
        _share(process_bytes, sizes.fraction(keys.OVERHEAD_FRACTION)),
        sizes.of(keys.OVERHEAD_MIN),
        sizes.of(keys.OVERHEAD_MAX),
    )
    size_bytes = process_bytes - sizes.of(keys.METASPACE) - overhead_bytes
    if size_bytes < 0:
        raise _TooSmallError(
            f"{sizes.text(keys.PROCESS_SIZE)} does not hold {sizes.text(keys.METASPACE)} and a JVM"
            f" overhead of {_size(overhead_bytes)}",
            keys.PROCESS_SIZE,
            keys.METASPACE if keys.METASPACE in sizes.settings else None,
        )
    how = (
        f"{sizes.text(keys.PROCESS_SIZE)} less {sizes.text(keys.METASPACE)} and"
        f" {format_size_bytes(overhead_bytes)} of JVM overhead"
    )
    return Derived(size_bytes, how)


def _inverse_network(sizes: _Sizes, rest_bytes: int) -> Derived:
    """Network memory if all other parts are given: the fraction is one of the total."""
    if (legacy := sizes.legacy_network) is not None:
        return legacy
    fraction = sizes.fraction(keys.NETWORK_FRACTION)
    text = sizes.fraction_text(keys.NETWORK_FRACTION)
    how = f"{text} of itself and {format_size_bytes(rest_bytes)} of other parts"
    return _clamped_network(sizes, _share(rest_bytes, fraction / (1 - fraction)), how)


def _clamped_network(sizes: _Sizes, share_bytes: int, how: str) -> Derived:
    least_bytes, most_bytes = sizes.of(keys.NETWORK_MIN), sizes.of(keys.NETWORK_MAX)
    size_bytes = _clamp(share_bytes, least_bytes, most_bytes)
    if size_bytes != share_bytes:
        bound = keys.NETWORK_MIN if size_bytes == least_bytes else keys.NETWORK_MAX
        how += f" is {format_size_bytes(share_bytes)}; bound by {sizes.text(bound)}"
    return Derived(size_bytes, how)


def _share(size_bytes: int, fraction: float) -> int:
    """A share of a size, by Flink's decimal product (Flink: MemorySize.multiply)."""
    return int(Decimal(size_bytes) * Decimal(repr(fraction)))


def _clamp(size_bytes: int, least_bytes: int, most_bytes: int) -> int:
    return max(least_bytes, min(size_bytes, most_bytes))


def _size(size_bytes: int) -> str:
    """A size in Flink's units, rounded to a tenth of an mb where it has one."""
    if size_bytes < _MB or size_bytes % _MB == 0:
        return format_size_bytes(size_bytes)
    return f"{size_bytes / _MB:.1f}mb"


def _check_range(sizes: _Sizes, least: str, most: str) -> None:
    if sizes.of(most) < sizes.of(least):
        raise ConfigError(
            f"{most}: {_size(sizes.of(most))} is less than {sizes.text(least)};"
            " raise it or lower the other"
        )


def _check_sum(sizes: _Sizes, flink_bytes: int, parts: Mapping[str, int]) -> None:
    """Check that total Flink memory holds its parts, sizes by the key that sets them."""
    taken_bytes = sum(parts.values())
    if taken_bytes <= flink_bytes:
        return
    settings = sizes.settings
    largest = sorted(parts, key=lambda key: (key not in settings, -parts[key]))
    named = [
        f"{key} ({f'{sizes.fraction(key):.4g}: ' if key.endswith('fraction') else ''}"
        f"{_size(parts[key])})"
        for key in largest
        if key in settings
    ]
    if others_bytes := sum(parts[key] for key in largest if key not in settings):
        named.append(f"{_size(others_bytes)} of parts at their defaults")
    text = f"{' + '.join(named)} exceed "
    if keys.FLINK_SIZE in settings:
        text += sizes.text(keys.FLINK_SIZE)
    else:
        text += f"{sizes.text(keys.PROCESS_SIZE)}, which leaves {_size(flink_bytes)} to Flink"
    raise _TooSmallError(text, sizes.total, largest[0] if largest[0] in settings else None)


def _check_left(sizes: _Sizes, network_bytes: int) -> None:
    least_bytes, most_bytes = sizes.of(keys.NETWORK_MIN), sizes.of(keys.NETWORK_MAX)
    why = f"outside {sizes.text(keys.NETWORK_MIN)} to {sizes.text(keys.NETWORK_MAX)};"
    if (legacy := sizes.legacy_network) is not None:
        least_bytes = most_bytes = legacy.size_bytes
        why = f"but {keys.NUMBER_OF_BUFFERS} is {_size(least_bytes)}; leave it out, or"
    if not least_bytes <= network_bytes <= most_bytes:
        raise ConfigError(
            f"{_size(network_bytes)} are left for network memory, {why} change {sizes.total} or"
            f" {keys.TASK_HEAP}"
        )


def _check_overhead(sizes: _Sizes, flink_bytes: int) -> None:
    overhead_bytes = sizes.of(keys.PROCESS_SIZE) - flink_bytes - sizes.of(keys.METASPACE)
    if not sizes.of(keys.OVERHEAD_MIN) <= overhead_bytes <= sizes.of(keys.OVERHEAD_MAX):
        left = _size(overhead_bytes) if overhead_bytes >= 0 else f"-{_size(-overhead_bytes)}"
        raise ConfigError(
            f"{sizes.text(keys.PROCESS_SIZE)} leaves {left} of JVM overhead next to"
            f" {_size(flink_bytes)} of Flink memory and {sizes.text(keys.METASPACE)}, outside"
            f" {sizes.text(keys.OVERHEAD_MIN)} to {sizes.text(keys.OVERHEAD_MAX)}; give one total"
            " only"
        )
