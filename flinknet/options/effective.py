"""The effective value of every key, and its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from flinknet.config import HIDDEN, NetworkConfig
from flinknet.units import format_size_bytes

from .keys import (
    BUFFER_TIMEOUT,
    BUFFER_TIMEOUT_ENABLED,
    CHECKPOINT_MODE,
    NETWORK_MAX,
    NETWORK_MIN,
    NUMBER_OF_BUFFERS,
    SEGMENT_SIZE,
    STARTING_SEGMENT_SIZE,
    UNALIGNED,
    Option,
    options,
)
from .memory import Derived, inert_sizes, network_memory, shadowed_sizes
from .network import network_config
from .values import TYPE_NAMES, format_value, parse_value

UNSET = "unset"


@dataclass(frozen=True, slots=True)
class EffectiveKey:
    """One key with its effective value in a run.

    Attributes:
        value: in Flink's spelling; `unset` for none, stars for a secret.
        origin: a default, the place where it was set, or `derived`.
        how: for a derived value, its sources; empty for others.
        type: name of its type.
        limits: limits of its values: the words of a choice, or `>=n` and `<n`.
        is_acted_on: whether it affects the run.
    """

    group: str
    key: str
    value: str
    origin: str
    how: str
    type: str
    limits: tuple[str, ...]
    is_acted_on: bool


def effective_keys(
    settings: Mapping[str, str], origins: Mapping[str, str]
) -> tuple[EffectiveKey, ...]:
    """Every key of the table under these settings, in the table's order.

    Args:
        settings: without comma-separated lists.
        origins: the origin of each setting.

    Raises: ConfigError for a value that Flink would reject.
    """
    inert, shadowed = inert_sizes(settings), shadowed_sizes(settings)
    keys = dict(_defaults(inert))
    derived = _derived(settings)
    for key, text in settings.items():
        if key not in derived:
            option = options()[key]
            value = text
            if option.is_secret:
                value = HIDDEN
            elif key not in shadowed:
                value = format_value(option, parse_value(option, text))
            keys[key] = _effective(option, value, origins[key], "", inert)
    for key, (value, how) in derived.items():
        keys[key] = _effective(options()[key], value, "derived", how, inert)
    return tuple(keys.values())


def _effective(
    option: Option, value: str, origin: str, how: str, inert: frozenset[str]
) -> EffectiveKey:
    return EffectiveKey(
        option.group,
        option.key,
        value,
        origin,
        how,
        TYPE_NAMES[option.kind],
        option.limits,
        option.is_acted_on and option.key not in inert,
    )


@cache
def _defaults(inert: frozenset[str]) -> Mapping[str, EffectiveKey]:
    """Every key as it is where nothing is set, in the table's order."""
    inert |= {NUMBER_OF_BUFFERS}  # counts only where it is set
    return {
        key: _effective(option, *_default(option), "", inert) for key, option in options().items()
    }


def _default(option: Option) -> tuple[str, str]:
    """A default and its origin."""
    release = "1.20" if option.default_2_3 == "-" else "2.3"
    text = option.default
    value = UNSET if text is None else format_value(option, parse_value(option, text))
    if option.field is not None:
        ours = getattr(NetworkConfig(), option.field)
        if (held := UNSET if ours is None else format_value(option, ours)) != value:
            return held, "default of flinknet"
    if option.fixed_in_2_x is not None:
        return value, f"fixed in {release}"
    return value, f"default of {release}"


def _derived(settings: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Values derived from others, each with its sources."""
    sizes = network_memory(settings)
    if NETWORK_MIN in sizes:
        sizes[NETWORK_MAX] = Derived(sizes[NETWORK_MIN].size_bytes, f"equal to {NETWORK_MIN}")
    derived = {
        key: (format_size_bytes(size.size_bytes, separator=" "), size.how)
        for key, size in sizes.items()
    }
    timeout = options()[BUFFER_TIMEOUT]
    if settings.get(BUFFER_TIMEOUT_ENABLED, "true").lower() == "false":
        derived[BUFFER_TIMEOUT] = (format_value(timeout, -1), f"{BUFFER_TIMEOUT_ENABLED} is false")
    elif BUFFER_TIMEOUT in settings and parse_value(timeout, settings[BUFFER_TIMEOUT]) < 0:
        derived[BUFFER_TIMEOUT_ENABLED] = ("false", f"{BUFFER_TIMEOUT} is -1")
    network, _ = network_config(settings)
    if settings.get(UNALIGNED, "").lower() == "true" and not network.unaligned_checkpoints:
        derived[UNALIGNED] = ("false", f"{CHECKPOINT_MODE} is {network.checkpoint_mode}")
    starting_bytes = network.starting_segment_size_bytes
    if starting_bytes == network.segment_size_bytes and STARTING_SEGMENT_SIZE not in settings:
        size = format_size_bytes(starting_bytes, separator=" ")
        derived[STARTING_SEGMENT_SIZE] = (size, f"equal to {SEGMENT_SIZE}, as in Flink 1.x")
    return derived
