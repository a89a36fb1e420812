"""One value of an option: parsed and checked by type and limits, and formatted as in Flink."""

from __future__ import annotations

from math import inf
from typing import Any

from flinknet.errors import ConfigError
from flinknet.units import (
    NS_PER_S,
    format_duration_ns,
    format_size_bytes,
    parse_duration_ns,
    parse_size_bytes,
)

from .keys import BUFFER_TIMEOUT, Option

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
    try:
        number = float(text) if option.kind == "F" else int(text)
    except ValueError:
        raise ConfigError(f"{key}: {text!r} is not {_EXPECTED[option.kind]}") from None
    is_fraction = "<1" in option.limits
    if option.kind == "F" and not 0 <= number < (1 if is_fraction else inf):
        what = "fraction" if is_fraction else "amount"
        below = " and less than 1" if is_fraction else ""
        raise ConfigError(f"{key}: {text} is not a {what}; give 0 or more{below}")
    for limit in option.limits:
        if limit.startswith(">=") and number < int(limit[2:]):
            raise ConfigError(f"{key}: {text} is too little; give {limit[2:]} or more")
    return int(number * NS_PER_S) if option.kind == "T" else number


def _chosen_word(option: Option, text: str) -> str:
    """A word of a list, in the list's spelling; case does not matter, as in Flink."""
    by_lower = {word.lower(): word for word in option.limits}
    word = by_lower.get(text.strip().lower())
    if word is None:
        raise ConfigError(f"{option.key}: {text!r} is not one of {', '.join(option.limits)}")
    return word


def _checked_ports(key: str, text: str) -> str:
    """A port, a range or a list of both, as Flink's NetUtils.getPortRangeFromString reads them."""
    for part in text.split(","):
        bounds = [bound.strip() for bound in part.split("-")]
        if len(bounds) > 2 or not all(b.isdecimal() and int(b) <= 65_535 for b in bounds):
            raise ConfigError(
                f"{key}: {text!r} is not a port; write 0 to let the system choose, a"
                " port up to 65535,"
                " or a range such as 50100-50200"
            )
    return text
