"""Layers of settings: merged from several places, and split at commas for sweeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS
from flinknet.errors import ConfigError
from flinknet.results import RunWarning

from .keys import (
    BUFFER_TIMEOUT,
    BUFFER_TIMEOUT_ENABLED,
    current_keys,
    find_option,
    is_of_network,
    nearest_key,
)
from .values import parse_value

_NEVER: set[object] = {BUFFER_TIMEOUT_NEVER_NS}


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `key=value`, as given to -D."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"-D {text}: not of the form key=value")
    return key.strip(), value.strip()


def network_settings(
    read: Mapping[str, str], *, of_running: bool = False
) -> tuple[dict[str, str], tuple[RunWarning, ...]]:
    """Keys of the network stack in a file, and a warning that names those which Flink does not
    have: it ignores them, as it does a mistyped key.

    Args:
        of_running: they come from a running cluster, so a value that flinknet cannot read is left
            out with a warning.
    """
    known = {key: text for key, text in read.items() if key in current_keys()}
    strange = []
    for key in read:
        if key not in known and is_of_network(key):
            near = nearest_key(key, 0.85)
            strange.append(f"{key} (did you mean {near}?)" if near else key)
    unreadable = [key for key, text in known.items() if of_running and not _is_readable(key, text)]
    return {key: text for key, text in known.items() if key not in unreadable}, (
        *left_out("ignored, Flink has no such key", strange),
        *left_out("ignored by flinknet, values that it cannot read", unreadable),
    )


def _is_readable(key: str, text: str) -> bool:
    try:
        parse_value(find_option(key), text)
    except ConfigError:
        return False
    return True


def left_out(why: str, names: Sequence[str]) -> tuple[RunWarning, ...]:
    """A warning that names what is ignored, and why; none if nothing is."""
    if not names:
        return ()
    named = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (RunWarning("keys-left-out", f"{why}: {named}"),)


def canonical(settings: Mapping[str, str]) -> dict[str, str]:
    """One layer under current keys; the current spelling wins over an older one, as in Flink."""
    layer: dict[str, str] = {}
    for key, value in settings.items():
        option = find_option(key)
        if option.key not in settings or option.key == key:
            layer[option.key] = value
    return layer


def deprecated_keys(settings: Mapping[str, str]) -> tuple[RunWarning, ...]:
    """Warnings about the deprecated keys of one layer, with their replacements."""
    warnings = []
    for key in settings:
        option = find_option(key)
        if key in option.older_keys:
            text = f"{key}: this key is deprecated; use {option.key}"
            line = f"{key} is deprecated: use {option.key}"
        elif key == option.key and option.replacement:
            text = f"{key}: Flink 2.x no longer has this key; in its place: {option.replacement}"
            line = f"Flink 2.x has no {key}: use {option.replacement}"
        else:
            continue
        warnings.append(RunWarning("deprecated-key", text, line))
    return tuple(warnings)


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """Put later layers over earlier ones.

    A later buffer timeout overrides an earlier `enabled: false`: giving a timeout enables it.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        current = canonical(layer)
        if BUFFER_TIMEOUT in current and BUFFER_TIMEOUT_ENABLED not in current:
            merged.pop(BUFFER_TIMEOUT_ENABLED, None)
        merged |= current
    return merged


def check_agreement(defined: Mapping[str, str], named: Mapping[str, tuple[str, str]]) -> None:
    """Check that definitions (-D) and named options of a command line set no key differently.

    Args:
        named: option -> the key that it sets, and its text.

    Raises: ConfigError for the first option that contradicts a definition.
    """
    layer = canonical(defined)
    spelled = {find_option(key).key: key for key in defined}
    for option, (key, text) in named.items():
        if key in layer and _values(key, layer[key]) != _values(key, text):
            definition = f"-D {spelled[key]}={layer[key]}"
        elif key == BUFFER_TIMEOUT and _is_disabled(layer) and _values(key, text) != _NEVER:
            definition = f"-D {BUFFER_TIMEOUT_ENABLED}={layer[BUFFER_TIMEOUT_ENABLED]}"
        else:
            continue
        raise ConfigError(
            f"{option} {text} and {definition} contradict each other; drop one of them"
        )


def _is_disabled(layer: Mapping[str, str]) -> bool:
    """Whether a layer disables the buffer timeout, even as one value of a sweep."""
    words = layer.get(BUFFER_TIMEOUT_ENABLED, "true").lower().split(",")
    return "false" in (word.strip() for word in words)


def _values(key: str, text: str) -> set[object]:
    """The parsed values of a comma-separated list, so that 1s equals 1000ms."""
    option = find_option(key)
    return {parse_value(option, part.strip()) for part in text.split(",")}


def origins_of(layers: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The name of the layer that each key of the merged layers comes from."""
    return {key: name for name, layer in layers for key in canonical(layer)}


def expand(settings: Mapping[str, str]) -> list[dict[str, str]]:
    """One setting for each combination of the values in lists; the last key varies fastest."""
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
