"""Parsers of the values of bench options: from texts to values of the configuration.

All raise ConfigError, which names the option and a correct value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from flinknet import config
from flinknet.errors import ConfigError
from flinknet.units import parse_duration_ns, parse_rate_per_s, parse_size_bytes

Parser = Callable[[str, str], Any]
"""A parser of a text; the second argument names the option in errors."""

RECORD_SIZE_MAX_BYTES = 1 << 30
"""Largest record, in bytes: half of a 31-bit length, which already takes seconds per record."""

EXPONENTIAL_LARGEST = 100
"""Largest record of an exponential distribution, as a multiple of the mean; never reached."""

EXPONENT_MAX = 100
"""Upper limit of --key-skew, at which only one key occurs."""


_SLOW_CONSUMER = re.compile(r"(\d+):([^:]+)(?::([^:]+))?", re.ASCII)
_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^\[\]:]+)):(\d+)", re.ASCII)

EXPONENTIAL_SIZE = "exponential:"
"""Prefix of a record size that is given by its mean."""


def record_size(text: str, name: str) -> config.RecordSize:
    """Parse a size, a range SMALLEST..LARGEST, or exponential:MEAN."""
    if text.startswith(EXPONENTIAL_SIZE):
        mean = parse_size_bytes(text.removeprefix(EXPONENTIAL_SIZE), name)
        low, high = config.SMALLEST_VALUE_BYTES, mean * EXPONENTIAL_LARGEST
        size = config.RecordSize(low, high, config.EXPONENTIAL, mean)
        is_small, high = mean <= low, mean
    else:
        low_text, dots, high_text = text.partition("..")
        low = parse_size_bytes(low_text, name)
        high = parse_size_bytes(high_text, name) if dots else low
        size = config.RecordSize(low, high)
        is_small = low < config.SMALLEST_VALUE_BYTES
    if is_small:
        raise ConfigError(
            f"{name}: {text!r} is too small; a record needs {config.SMALLEST_VALUE_BYTES}b at"
            " least, to be distinguished"
        )
    if high > RECORD_SIZE_MAX_BYTES:
        raise ConfigError(f"{name}: {text!r} is too large; a record can have 1gb at most")
    if low > high:
        raise ConfigError(f"{name}: {text!r} runs backwards; write SMALLEST..LARGEST")
    return size


def arrivals(text: str, name: str) -> str:
    config.check_arrivals(text, name)
    return text


def each_of(parse: Parser) -> Parser:
    """Parser of one or more values, separated by commas."""
    return lambda text, name: tuple(parse(part.strip(), name) for part in text.split(","))


def exponent(text: str, name: str) -> float:
    with suppress(ValueError):
        if 0 <= (value := float(text)) < EXPONENT_MAX:
            return value
    raise ConfigError(f"{name}: {text!r} is not a number from 0 to {EXPONENT_MAX}")


def slow_consumers(text: str, name: str) -> tuple[config.SlowConsumer, ...]:
    """Parse INDEX:DELAY or INDEX:DELAY:TIME, separated by commas; DELAY may be `pause`."""
    slow = []
    for part in text.split(","):
        match = _SLOW_CONSUMER.fullmatch(part.strip())
        if match is None:
            raise ConfigError(
                f"{name}: {part!r} is not of the form INDEX:DELAY or INDEX:DELAY:TIME; write"
                " 0:5ms, 0:pause or 0:5ms:10s"
            )
        index, delay, length = match.groups()
        delay_ns = -1 if delay.strip() == "pause" else duration(delay, name)
        slow_ns = None if length is None else duration(length, name)
        slow.append(config.SlowConsumer(int(index), delay_ns, slow_ns))
    return tuple(slow)


def duration(text: str, name: str) -> int:
    """A time with its unit, in ns."""
    return parse_duration_ns(text, name, bare_unit=None)


def some_time(text: str, name: str, why: str = "is too short", example: str = "60s") -> int:
    """A time above 0, in ns; `why` is the fault of 0."""
    duration_ns = duration(text, name)
    if not duration_ns:
        raise ConfigError(f"{name}: 0 {why}; give some seconds, such as {example}")
    return duration_ns


def measured_part(text: str, name: str) -> int:
    """Length of the measured part, in ns."""
    return some_time(text, name, "measures nothing", "3s")


def rate(text: str, name: str) -> float:
    """Records per second; max is RATE_MAX."""
    return parse_rate_per_s(text, name) or config.RATE_MAX


def count(text: str, name: str) -> int:
    """A number of 1 or more, which may have underscores."""
    digits = text.replace("_", "")
    if not digits.isdecimal() or not int(digits):
        raise ConfigError(f"{name}: {text!r} is not a number of 1 or more")
    return int(digits)


def number(text: str, name: str) -> int:
    """A number of 0 or more."""
    if not text.isdecimal():
        raise ConfigError(f"{name}: {text!r} is not a number of 0 or more")
    return int(text)


def choice(*choices: str) -> Parser:
    """Parser that takes one of `choices`."""

    def parse(text: str, name: str) -> str:
        if text not in choices:
            raise ConfigError(f"{name}: {text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def percent(text: str, name: str, example: str) -> float:
    """A share of a percentage, which may lack its sign."""
    try:
        return float(text.strip().removesuffix("%")) / 100
    except ValueError:
        raise ConfigError(f"{name}: {text!r} is not a percentage; write {example}") from None


def channels(text: str) -> list[int]:
    """The numbers in a list such as "0,3"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--channel: {text!r} is not a list of channel numbers, such as 0,3")
    return [int(part) for part in parts]


PORT_MAX = 65_535


def address(
    text: str, name: str, *, lowest: int = 0, default_port: int | None = None
) -> tuple[str, int]:
    """The host and the port, `lowest` or more, of HOST:PORT or [IPV6]:PORT."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None and default_port is not None:
        match = _ADDRESS.fullmatch(f"{text.strip()}:{default_port}")
    if match is None or not lowest <= int(match[3]) <= PORT_MAX:
        raise ConfigError(f"{name}: {text!r} is not an address; write HOST:PORT or [IPV6]:PORT")
    return match[1] or match[2], int(match[3])


def refuse(values: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    """Refuse some options, by click's names. Raises: ConfigError for the first that is given."""
    for name in names:
        if values.get(name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')}{why}")
