"""One value of an option: parsed and checked by type and limits, and formatted as in Flink."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from math import inf
from typing import Any

from flinknet.errors import ConfigError
from flinknet.units import (
    DURATION_UNITS_NS,
    NS_PER_MS,
    NS_PER_S,
    format_duration_ns,
    format_size_bytes,
    parse_duration_ns,
    parse_size_bytes,
)

from .keys import BUFFER_TIMEOUT, BUFFER_TIMEOUT_ENABLED, DATA_PORT, FLOATING_BUFFERS, Option

UNLIMITED = "unlimited"
"""An unlimited memory size, as Flink's documentation writes its MemorySize.MAX_VALUE."""

UNLIMITED_BYTES = (1 << 63) - 1

TYPE_NAMES = {
    **{"I": "integer", "L": "integer", "B": "boolean", "F": "number", "S": "text"},
    **{"E": "choice", "P": "ports", "D": "duration", "T": "seconds", "M": "size"},
    "N": "milliseconds",
}
"""Letter of a type -> its name."""

_EXPECTED = {
    **{"I": "an integer", "L": "an integer", "F": "a number"},
    **{"T": "a number of seconds", "N": "a number of milliseconds"},
}

BLANKS = "".join(map(chr, range(33)))
"""Characters that Java's String.trim removes."""

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_QUANTITY = re.compile(r"(\d+)\s*(\D*)", re.ASCII)
_SIZE_LABEL = re.compile(r"|b|bytes|[kmgt]b?|(kibi|mebi|gibi|tebi)bytes")
_DURATION_LABEL = re.compile(r"(?!us$|μs$).*")
"""The units of flinknet that Flink reads, too."""

_DURATION_MAX_NS = ((1 << 63) - 1) // NS_PER_MS * NS_PER_MS
"""Longest duration, in place of those of more than 292 years that Flink reads."""

_ISO_DURATION = re.compile(
    r"P(?=[+-]?\d|T)(?:([+-]?\d+)D)?(?:T(?=[+-]?\d)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?"
    r"(?:([+-]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_ISO_UNITS_S = (86_400, 3_600, 60, 1)


def parse_value(option: Option, text: str) -> Any:
    """Parse a value of an option for NetworkConfig: bytes, ns, numbers, text.

    Raises: ConfigError that names the key, the reason, and valid values.
    """
    key = option.key
    if option.kind == "M":
        is_unlimited = text.strip() == UNLIMITED and option.default == UNLIMITED
        return UNLIMITED_BYTES if is_unlimited else parse_size_bytes(text, key)
    if option.kind == "D":
        return parse_duration_ns(text, key, allow_never=key == BUFFER_TIMEOUT)
    if option.kind == "B":
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{key}: {text!r} is not a boolean; write true or false")
        return text.lower() == "true"
    if option.kind == "P":
        return _checked_ports(key, text)
    if option.kind == "E":
        return _chosen_word(option, text)
    if option.kind == "S":
        return text
    return _number(option, text)


def flink_text(option: Option, text: str, release: str) -> tuple[str, str | None]:
    """Read a value of a file as strictly as Flink (TimeUtils, MemorySize, Java's own parsers). The
    command line of flinknet also takes fractions, `us`, and -1 as a buffer timeout.

    Returns: a text from which `parse_value` gives Flink's value; a sentence if Flink rounds it,
        else None.

    Raises: ConfigError that names the key, for a value that Flink refuses. Limits of flinknet's own
        are left to `parse_value`.
    """
    if option.kind in "DM":
        return _flink_quantity(option, text, release)
    if option.key == DATA_PORT and not _WHOLE.fullmatch(text):
        raise ConfigError(f"{option.key}: {text!r} is not a port; write one of 0 to 65535")
    if option.kind == "F":
        text = text.strip(BLANKS).rstrip("fFdD")
    if option.kind == "E" and option.are_limits_own:
        return text, None
    if option.kind not in "SP" and text != text.strip(BLANKS):
        raise ConfigError(f"{option.key}: {text!r} has blanks, which Flink does not read")
    if option.are_limits_own:
        option = replace(option, limits=())
    value = parse_value(option, text)
    if option.key == FLOATING_BUFFERS and value == 0:
        raise ConfigError(f"{option.key}: Flink 1.x needs at least 1")
    if option.kind in "INT" and not -(1 << 31) <= int(text) < 1 << 31:
        raise ConfigError(f"{option.key}: {text} does not fit 32 bits, as Flink reads it")
    return str(value) if option.kind == "F" else text, None


def _flink_quantity(option: Option, text: str, release: str) -> tuple[str, str | None]:
    """A duration or size, of a whole number (see `flink_text`)."""
    key, is_size = option.key, option.kind == "M"
    quantity = _QUANTITY.fullmatch(text.strip(BLANKS))
    is_iso = not is_size and _ISO_DURATION.fullmatch(text.strip(BLANKS)) is not None
    if is_iso and not release.startswith("1."):
        value = _iso_duration_ns(key, text)
    elif quantity is None or not (_SIZE_LABEL if is_size else _DURATION_LABEL).fullmatch(
        label := quantity[2].lower()
    ):
        units = "b, kb, mb, gb or tb" if is_size else "ns, µs, ms, s, min, h or d"
        advice = f"write a whole number with {units}"
        if key == BUFFER_TIMEOUT and text.strip(BLANKS).startswith("-"):
            advice = f"for never write {BUFFER_TIMEOUT_ENABLED}: false"
        which = "Flink 1.x" if is_iso else "Flink"
        raise ConfigError(f"{key}: {which} does not read {text!r} in a file; {advice}")
    elif is_size or (unit_ns := DURATION_UNITS_NS.get(label or "ms")) is None:
        parse_value(option, text)
        return text, None
    else:
        value = int(quantity[1]) * unit_ns
    whole_ms = min(value, _DURATION_MAX_NS) // NS_PER_MS
    shown = f"{whole_ms} ms"
    if value % NS_PER_MS == 0:
        return (shown if is_iso or value > _DURATION_MAX_NS else text), None
    effect = ": every record is flushed" if key == BUFFER_TIMEOUT and not whole_ms else ""
    return shown, f"{key}: {text} is {shown} to Flink, which counts whole milliseconds{effect}"


def _iso_duration_ns(key: str, text: str) -> int:
    """An ISO 8601 duration, as Java's Duration.parse reads it."""
    parts = _ISO_DURATION.fullmatch(text.strip(BLANKS))
    assert parts is not None
    amounts = (Decimal((part or "0").replace(",", ".")) for part in parts.groups())
    seconds = sum(each * unit_s for each, unit_s in zip(amounts, _ISO_UNITS_S, strict=True))
    if seconds < 0:
        raise ConfigError(f"{key}: {text!r} is negative; give 0 or more")
    return int(seconds * NS_PER_S)


def format_value(option: Option, value: Any) -> str:
    """Format a NetworkConfig value in Flink's spelling."""
    if option.kind == "M":
        if value == UNLIMITED_BYTES:
            return UNLIMITED
        return format_size_bytes(value, separator=" ")
    if option.kind == "D":
        return format_duration_ns(value, separator=" ")
    if option.kind == "B":
        return str(value).lower()
    return str(value // NS_PER_S) if option.kind == "T" else str(value)


def _number(option: Option, text: str) -> float:
    key = option.key
    if not (_NUMBER if option.kind == "F" else _WHOLE).fullmatch(text.strip()):
        raise ConfigError(f"{key}: {text!r} is not {_EXPECTED[option.kind]}")
    number = float(text) if option.kind == "F" else int(text)
    if "<1" in option.limits and not 0 <= number < 1:
        raise ConfigError(f"{key}: {text} is not a fraction; give 0 or more and less than 1")
    if ">0" in option.limits and not 0 < number < inf:
        raise ConfigError(f"{key}: {text} is not an amount; give more than 0")
    for limit in option.limits:
        if limit.startswith(">=") and number < int(limit[2:]):
            raise ConfigError(f"{key}: {text} is too little; give {limit[2:]} or more")
    return int(number * NS_PER_S) if option.kind == "T" else number


def _chosen_word(option: Option, text: str) -> str:
    for word in option.limits:
        if word.lower() == text.strip().lower():  # case does not matter to Flink
            return word
    raise ConfigError(f"{option.key}: {text!r} is not one of {', '.join(option.limits)}")


def _checked_ports(key: str, text: str) -> str:
    """A port, a range or a list of both, as Flink's NetUtils.getPortRangeFromString reads them."""
    for part in text.split(","):
        numbers = [int(each) if each.strip().isdecimal() else -1 for each in part.split("-")]
        if len(numbers) > 2 or not 0 <= numbers[0] <= numbers[-1] <= 65_535:
            raise ConfigError(
                f"{key}: {text!r} is not a port; write 0 to let the system choose, a port up to"
                " 65535, or a range such as 50100-50200"
            )
    return text
