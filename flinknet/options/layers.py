"""Layers of settings: merged from several places, and split at commas for sweeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS
from flinknet.errors import ConfigError
from flinknet.results import RunWarning
from flinknet.units import format_size_bytes

from . import keys
from .memory import shadowed_sizes
from .values import flink_text, parse_value

_NEVER: set[object] = {BUFFER_TIMEOUT_NEVER_NS}


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `key=value`, as given to -D."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"-D {text}: not of the form key=value")
    return key.strip(), value.strip()


def network_settings(
    read: Mapping[str, str], release: str | None = None
) -> tuple[dict[str, str], tuple[RunWarning, ...]]:
    """The layer of a file or of a running cluster: its keys of the network stack, and warnings
    about those that are deprecated or ignored. Flink ignores keys that it does not have, as it does
    a mistyped key, and those that a release has fixed.

    Args:
        release: of Flink, whose keys and values a file has; None for a running cluster, where a
            value that flinknet cannot read is ignored.

    Raises: ConfigError for a value in a file that Flink refuses.
    """
    known: dict[str, str] = {}
    gone, fixed, strange = [], [], []
    for key, text in read.items():
        option = keys.options().get(keys.current_keys().get(key, ""))
        if option is None or option.is_of_the_past:
            strange += [key] if keys.is_of_network(key) else []
        elif release is not None and not option.is_in(release, key):
            gone.append(f"{key} (use {option.replacement})" if option.replacement else key)
        elif release is not None and not option.is_read_in(release):
            fixed += [] if text == option.fixed_in_2_x else [f"{key} ({option.fixed_in_2_x})"]
        else:
            known[key] = text
    layer = canonical(known)
    layer = {key: text for key, text in layer.items() if text or keys.options()[key].kind != "S"}
    unread = shadowed_sizes(layer)
    unreadable, doubts = [], []
    for key, text in layer.items():
        option = keys.options()[key]
        is_refused = release is not None
        try:
            if key not in unread:
                layer[key], doubt = flink_text(option, text, release or keys.FLINK_2)
                doubts += [] if doubt is None else [RunWarning("value-rounded", doubt)]
                is_refused = is_refused and not option.are_limits_own
                parse_value(option, layer[key])
        except ConfigError:
            if is_refused:
                raise
            unreadable.append(key)
    layer = {key: text for key, text in layer.items() if key not in unreadable}
    if release == keys.FLINK_2:
        _check_starting_size(layer)
    unknown = []
    for key in strange:
        near = keys.nearest_key(key, 0.85)
        hint = "" if near in (None, key) else f" (did you mean {near}?)"
        if key in keys.REMOVED_IN_1_10:
            hint = " (removed in Flink 1.10)"
        unknown.append(key + hint)
    warnings = (
        *left_out("ignored, Flink has no such key", unknown),
        *left_out("ignored by flinknet, values that it cannot use", unreadable),
    )
    if release is None:
        return layer, warnings
    which = f"Flink {release.partition('.')[0]}.x"
    return layer, (
        *warnings,
        *left_out(f"ignored, {which} has no such key", gone),
        *left_out(f"ignored, fixed in {which}", fixed),
        *doubts,
        *deprecated_keys({key: text for key, text in known.items() if key not in layer}),
    )


def _check_starting_size(layer: Mapping[str, str]) -> None:
    """Raises: ConfigError for buffers that begin below their smallest size, with which Flink 2.x
    does not start even without debloating.
    """
    smallest, starting = (
        int(parse_value(option, layer.get(option.key, str(option.default))))
        for option in map(keys.find_option, (keys.MIN_SEGMENT_SIZE, keys.STARTING_SEGMENT_SIZE))
    )
    if starting < smallest:
        raise ConfigError(
            f"{keys.STARTING_SEGMENT_SIZE}: {format_size_bytes(starting)} is less than"
            f" {keys.MIN_SEGMENT_SIZE} ({format_size_bytes(smallest)}), so Flink 2.x does not"
            " start; raise it or lower the other"
        )


def left_out(why: str, names: Sequence[str]) -> tuple[RunWarning, ...]:
    """A warning that names the ignored keys, briefly the first ones, and why; none without any."""
    if not names:
        return ()
    brief = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (RunWarning("keys-left-out", f"{why}: {', '.join(names)}", f"{why}: {brief}"),)


def canonical(settings: Mapping[str, str]) -> dict[str, str]:
    """One layer under current keys; the current spelling wins over an older one, as in Flink."""
    layer: dict[str, str] = {}
    for key, value in settings.items():
        option = keys.find_option(key)
        if option.key not in settings or option.key == key:
            layer[option.key] = value
    return layer


def deprecated_keys(settings: Mapping[str, str]) -> tuple[RunWarning, ...]:
    """Warnings about the deprecated keys of one layer, with their replacements."""
    warnings = []
    for key in settings:
        option = keys.find_option(key)
        if key in option.older_keys:
            text = f"{key} is deprecated: use {option.key}"
        elif key == option.key and option.replacement:
            text = f"Flink 2.x has no {key}: use {option.replacement}"
        else:
            continue
        warnings.append(RunWarning("deprecated-key", text))
    return tuple(warnings)


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """Put later layers over earlier ones.

    A later buffer timeout overrides an earlier `enabled: false`: giving a timeout enables it.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        current = canonical(layer)
        if keys.BUFFER_TIMEOUT in current and keys.BUFFER_TIMEOUT_ENABLED not in current:
            merged.pop(keys.BUFFER_TIMEOUT_ENABLED, None)
        merged |= current
    return merged


def check_agreement(defined: Mapping[str, str], named: Mapping[str, tuple[str, str]]) -> None:
    """Check that definitions (-D) and named options of a command line set no key differently.

    Args:
        named: option -> the key that it sets, and its text.

    Raises: ConfigError for the first option that contradicts a definition.
    """
    layer = canonical(defined)
    spelled = {keys.find_option(key).key: key for key in defined}
    enabled = layer.get(keys.BUFFER_TIMEOUT_ENABLED, "true").lower().split(",")
    is_disabled = "false" in map(str.strip, enabled)  # a sweep has several
    for option, (key, text) in named.items():
        if key in layer and _values(key, layer[key]) != _values(key, text):
            definition = f"-D {spelled[key]}={layer[key]}"
        elif key == keys.BUFFER_TIMEOUT and is_disabled and _values(key, text) != _NEVER:
            definition = f"-D {keys.BUFFER_TIMEOUT_ENABLED}={layer[keys.BUFFER_TIMEOUT_ENABLED]}"
        else:
            continue
        raise ConfigError(
            f"{option} {text} and {definition} contradict each other; drop one of them"
        )


def _values(key: str, text: str) -> set[object]:
    """The parsed values of a comma-separated list, so that 1s equals 1000ms."""
    option = keys.find_option(key)
    return {parse_value(option, part.strip()) for part in text.split(",")}


def origins_of(layers: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The name of the layer that each key of the merged layers comes from."""
    return {key: name for name, layer in layers for key in canonical(layer)}


def expand(settings: Mapping[str, str]) -> list[dict[str, str]]:
    """One setting for each combination of the values in lists; the last key varies fastest."""
    values = []
    for key, text in settings.items():
        parts = text.split(",") if keys.find_option(key).can_be_swept else [text]
        alternatives = list(dict.fromkeys(part.strip() for part in parts))
        if not all(alternatives):
            raise ConfigError(f"{key}: {text!r} has an empty value; write one or more: a,b,c")
        values.append(alternatives)
    return [dict(zip(settings, choice, strict=True)) for choice in itertools.product(*values)]


def swept_keys(settings: Mapping[str, str]) -> list[str]:
    """The keys that a sweep varies."""
    return [k for k, text in settings.items() if keys.find_option(k).can_be_swept and "," in text]
