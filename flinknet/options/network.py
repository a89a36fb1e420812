"""Conversion of settings to NetworkConfig, with Flink's own rules, and back to Flink's keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, CREDIT, HIDDEN, TCP, NetworkConfig
from flinknet.errors import ConfigError
from flinknet.results import RunWarning
from flinknet.units import format_duration_ns, format_size_bytes

from . import keys
from .memory import Derived, inert_sizes, network_memory, shadowed_sizes
from .values import TYPE_NAMES, format_value, parse_value

_TLS_1_3 = re.compile("TLS_(AES|CHACHA20)_")
_BEFORE_TLS_1_3 = re.compile("TLS_.*_WITH_")
"""Names of ciphers."""


def network_config(
    settings: Mapping[str, str], release: str | None = None
) -> tuple[NetworkConfig, tuple[RunWarning, ...]]:
    """Convert settings without comma-separated lists. Returns: the configuration, and warnings.

    Args:
        release: of the Flink whose settings they are; None: 2.3. With 1.20, its defaults hold, and
            no warning is about what 2.x ignores.

    Raises: ConfigError for a value that Flink would reject.
    """
    release = release or keys.FLINK_2
    settings = {**keys.own_defaults_of(release), **settings}
    numbers: dict[str, Any] = {}
    warnings: list[RunWarning] = []
    inert, shadowed = inert_sizes(settings), shadowed_sizes(settings)
    for key, text in settings.items():
        option = keys.find_option(key)
        if key in shadowed:
            text = f"{key}: ignored by Flink, which takes {shadowed[key]}"
            warnings.append(RunWarning("option-not-acted-on", text))
            continue
        value = parse_value(option, text)
        if option.field is not None:
            numbers[option.field] = value
        if not option.is_acted_on:
            warnings += _not_acted_on(option, value)
        elif key in inert:
            text = (
                f"{key}: ignored by Flink and flinknet without taskmanager.memory.flink.size or"
                " taskmanager.memory.process.size"
            )
            warnings.append(RunWarning("option-not-acted-on", text))
        elif not option.is_read_in(release) and option.fixed_in_2_x != format_value(option, value):
            text = (
                f"{key}: ignored by Flink 2.x, which always uses {option.fixed_in_2_x}; this result"
                " holds for Flink 1.x only"
            )
            warnings.append(RunWarning("fixed-in-flink-2", text, text))
    if settings.get(keys.BUFFER_TIMEOUT_ENABLED, "true").lower() == "false":
        numbers["buffer_timeout_ns"] = BUFFER_TIMEOUT_NEVER_NS
    derived = network_memory(settings)
    if derived:
        numbers["network_memory_bytes"] = derived[keys.NETWORK_MIN].size_bytes
    network = NetworkConfig(**numbers)
    if network.unaligned_checkpoints and network.checkpoint_mode != "EXACTLY_ONCE":
        network = replace(network, unaligned_checkpoints=False)
        why = f"{keys.CHECKPOINT_MODE} is {network.checkpoint_mode}"
        text = f"{keys.UNALIGNED}: ignored by Flink, as {why}"
        warnings.append(RunWarning("option-not-acted-on", text))
    is_below = network.starting_segment_size_bytes < network.min_segment_size_bytes
    if is_below and keys.STARTING_SEGMENT_SIZE not in settings:
        network = replace(network, starting_segment_size_bytes=network.segment_size_bytes)
        text = (
            f"{keys.MIN_SEGMENT_SIZE}: buffers begin with the largest size, as in Flink 1.x; Flink"
            f" 2.x does not start without a {keys.STARTING_SEGMENT_SIZE} that is no less"
        )
        if release == keys.FLINK_2:
            warnings.append(RunWarning("fixed-in-flink-2", text, text))
    check_rules(network)
    return network, tuple(warnings)


def effective_flink_keys(network: NetworkConfig) -> dict[str, str]:
    """Every key that affects a run, with its value in Flink's spelling; parses back to `network`,
    except for secrets, which are left out.

    A timeout of -1 has two keys, since Flink reads it from `execution.buffer-timeout.enabled`.
    """
    found = {}
    for field in fields(NetworkConfig):
        option = keys.options()[field.metadata["key"]]
        value = getattr(network, field.name)
        if value is not None and not option.is_secret:
            found[option.key] = format_value(option, value)
    found[keys.BUFFER_TIMEOUT_ENABLED] = str(network.buffer_timeout_ns >= 0).lower()
    return dict(sorted(found.items()))


def flow_control_of(settings: Mapping[str, str]) -> str:
    """The flow control by the switch of Flink 1.5 to 1.8: `credit`, or `tcp` if it is off."""
    return TCP if settings.get(keys.CREDIT_MODEL, "true").lower() == "false" else CREDIT


def heartbeats_of(settings: Mapping[str, str]) -> tuple[int, int]:
    """Interval and timeout of heartbeats, in ns.

    Raises: ConfigError unless the interval is above 0 and below the timeout.
    """
    interval_ns, timeout_ns = (
        parse_value(option, settings.get(option.key, option.default or ""))
        for option in map(keys.find_option, (keys.HEARTBEAT_INTERVAL, keys.HEARTBEAT_TIMEOUT))
    )
    if not 0 < interval_ns < timeout_ns:
        raise ConfigError(
            f"{keys.HEARTBEAT_INTERVAL}: {format_duration_ns(interval_ns)} is not above 0 and below"
            f" {keys.HEARTBEAT_TIMEOUT} ({format_duration_ns(timeout_ns)}); set both"
        )
    return interval_ns, timeout_ns


def check_rules(network: NetworkConfig) -> None:
    """Check Flink's rules beyond limits of one number (NettyShuffleEnvironmentConfiguration and
    others).

    Raises: ConfigError.
    """
    size = network.segment_size_bytes
    if size < 4096 or size & (size - 1):
        raise ConfigError(
            f"{keys.SEGMENT_SIZE}: {format_size_bytes(size)} must be a power of two and at least"
            " 4096 bytes; write 4kb, 8kb, 16kb, 32kb, …"
        )
    if size > 1 << 30 or network.network_memory_bytes // size >= 1 << 31:
        raise ConfigError(
            f"{keys.SEGMENT_SIZE}: {format_size_bytes(network.network_memory_bytes)} of network"
            f" memory in segments of {format_size_bytes(size)} are more than Flink can count; give"
            " segments of 1gb or less, and fewer than 2147483648"
        )
    if network.network_memory_bytes < size:
        raise ConfigError(
            f"{keys.NETWORK_MIN}: {format_size_bytes(network.network_memory_bytes)} does not hold"
            f" one segment of {format_size_bytes(size)}; give more memory or smaller segments"
        )
    if network.batch_shuffle_read_bytes < size:
        raise ConfigError(
            f"{keys.BATCH_SHUFFLE_READ_SIZE}: {format_size_bytes(network.batch_shuffle_read_bytes)}"
            f" does not hold one segment of {format_size_bytes(size)}; give more or smaller"
            " segments"
        )
    if network.checkpoint_interval_ns is not None and network.checkpoint_interval_ns < 10_000_000:
        raise ConfigError(
            "execution.checkpointing.interval:"
            f" {format_duration_ns(network.checkpoint_interval_ns)} is too short; the shortest is"
            " 10ms"
        )
    if network.exclusive_buffers + network.floating_buffers == 0:
        raise ConfigError(
            f"{keys.FLOATING_BUFFERS}: with no exclusive buffers ({keys.EXCLUSIVE_BUFFERS}=0) a"
            " gate needs at least 1 floating buffer"
        )
    _check_debloating(network)
    if network.is_tls:
        _check_ciphers(network)


def _check_ciphers(network: NetworkConfig) -> None:
    """Check that a cipher fits a protocol: with none, every handshake of Flink fails."""
    ciphers = [each.strip() for each in network.ssl_algorithms.split(",")]
    for protocol in (each.strip() for each in network.ssl_protocol.split(",")):
        # Only names before TLS 1.3 have the key exchange.
        other = _TLS_1_3 if protocol != "TLSv1.3" else _BEFORE_TLS_1_3
        if not all(other.match(name) for name in ciphers):
            return
    fitting = NetworkConfig().ssl_algorithms if other is _TLS_1_3 else "TLS_AES_128_GCM_SHA256"
    raise ConfigError(
        f"security.ssl.algorithms: no cipher of {network.ssl_protocol}; with it set"
        f" security.ssl.algorithms: {fitting}"
    )


def _check_debloating(network: NetworkConfig) -> None:
    """Check the rules of Flink's BufferDebloatConfiguration, which hold even without debloating,
    and of its BufferDebloater.
    """
    for name in ("target", "period"):
        value_ns = getattr(network, f"debloating_{name}_ns")
        if value_ns < 1_000_000 and (name == "target" or network.debloating_enabled):
            raise ConfigError(
                f"{keys.DEBLOATING}.{name}: {format_duration_ns(value_ns)} is too short; give 1ms"
                " or more"
            )
    sizes = {
        keys.MIN_SEGMENT_SIZE: network.min_segment_size_bytes,
        keys.STARTING_SEGMENT_SIZE: network.starting_segment_size_bytes,
        keys.SEGMENT_SIZE: network.segment_size_bytes,
    }
    smallest, starting, largest = sizes.values()
    if not 0 < smallest <= starting <= largest:
        given = ", ".join(f"{key}={format_size_bytes(size)}" for key, size in sizes.items())
        raise ConfigError(
            f"{keys.MIN_SEGMENT_SIZE}: buffers are debloated between the smallest and the largest"
            f" size, and begin between them; these are not in order: {given}"
        )


def _not_acted_on(option: keys.Option, value: Any) -> tuple[RunWarning, ...]:
    if option.default is not None and value == parse_value(option, option.default):
        return ()
    why = "ignored by flinknet"
    if option.key == keys.ADAPTIVE_PARTITIONER:
        why = (
            "not followed by flinknet, whose rebalance and rescale take turns where Flink's choose"
            " the idlest channel; the numbers of buffers are the same"
        )
    elif option.key.startswith("execution.state-recovery."):
        why = "not acted on by flinknet, whose checkpoints store no state"
    return (RunWarning("option-not-acted-on", f"{option.key}: {why}"),)


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
    settings: Mapping[str, str], origins: Mapping[str, str], release: str | None = None
) -> tuple[EffectiveKey, ...]:
    """Every key of the table under these settings, in the table's order.

    Args:
        settings: without comma-separated lists.
        origins: the origin of each setting.
        release: as of `network_config`.

    Raises: ConfigError for a value that Flink would reject.
    """
    inert, shadowed = inert_sizes(settings), shadowed_sizes(settings)
    found = dict(_defaults(inert, release or keys.FLINK_2))
    for key, text in settings.items():
        option, value = keys.options()[key], text
        if option.is_secret:
            value = HIDDEN
        elif key not in shadowed:
            value = format_value(option, parse_value(option, text))
        found[key] = _effective(option, value, origins[key], "", inert)
    for key, (value, how) in _derived(settings).items():
        found[key] = _effective(keys.options()[key], value, "derived", how, inert)
    return tuple(found.values())


def _effective(
    option: keys.Option, value: str, origin: str, how: str, inert: frozenset[str]
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
def _defaults(inert: frozenset[str], release: str) -> Mapping[str, EffectiveKey]:
    """Every key as it is where nothing is set, in the table's order."""
    inert |= {keys.NUMBER_OF_BUFFERS}  # counts only where it is set
    network, _ = network_config({}, release)
    return {
        key: _effective(option, *_default(option, release, network), "", inert)
        for key, option in keys.options().items()
    }


def _default(option: keys.Option, release: str, network: NetworkConfig) -> tuple[str, str]:
    """A default and its origin; `network` has those of flinknet."""
    text = option.default_in(release)
    value = UNSET if text is None else format_value(option, parse_value(option, text))
    if option.field is not None:
        ours = getattr(network, option.field)
        if (held := UNSET if ours is None else format_value(option, ours)) != value:
            return held, "default of flinknet"
    if not option.is_in(release, option.key):
        release = keys.FLINK_1 if release == keys.FLINK_2 else keys.FLINK_2
    is_fixed = not option.is_read_in(release) or option.is_of_the_past
    return value, f"{'fixed in' if is_fixed else 'default of'} {release}"


def _derived(settings: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    sizes = network_memory(settings)
    if keys.NETWORK_MIN in sizes:
        sizes[keys.NETWORK_MAX] = Derived(
            sizes[keys.NETWORK_MIN].size_bytes, f"equal to {keys.NETWORK_MIN}"
        )
    derived = {
        key: (format_size_bytes(size.size_bytes, separator=" "), size.how)
        for key, size in sizes.items()
    }
    network, _ = network_config(settings)
    if settings.get(keys.BUFFER_TIMEOUT_ENABLED, "true").lower() == "false":
        never = format_value(keys.options()[keys.BUFFER_TIMEOUT], BUFFER_TIMEOUT_NEVER_NS)
        derived[keys.BUFFER_TIMEOUT] = never, f"{keys.BUFFER_TIMEOUT_ENABLED} is false"
    elif network.buffer_timeout_ns < 0:
        derived[keys.BUFFER_TIMEOUT_ENABLED] = "false", f"{keys.BUFFER_TIMEOUT} is -1"
    if settings.get(keys.UNALIGNED, "").lower() == "true" and not network.unaligned_checkpoints:
        derived[keys.UNALIGNED] = "false", f"{keys.CHECKPOINT_MODE} is {network.checkpoint_mode}"
    starting_bytes = network.starting_segment_size_bytes
    if starting_bytes == network.segment_size_bytes and keys.STARTING_SEGMENT_SIZE not in settings:
        size = format_size_bytes(starting_bytes, separator=" ")
        derived[keys.STARTING_SEGMENT_SIZE] = size, f"equal to {keys.SEGMENT_SIZE}, as in Flink 1.x"
    return derived
