"""Parsers of the values of bench options: from texts to values of the configuration.

All raise ConfigError, which names the option and a correct value.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from flinknet.config import (
    CUSTOM_PARTITIONER,
    EXPONENTIAL,
    PARTITIONERS,
    RATE_MAX,
    RecordSize,
    SlowConsumer,
    check_arrivals,
)
from flinknet.core.probe import MessageKind
from flinknet.errors import ConfigError
from flinknet.units import parse_duration_ns, parse_rate_per_s, parse_size_bytes

RECORD_SIZE_MIN_BYTES = 8
"""Smallest record's value, in bytes; the first 8 bytes identify the record."""

RECORD_SIZE_MAX_BYTES = 1 << 30
"""Largest record, in bytes: half of a 31-bit length, which already takes seconds per record."""

EXPONENTIAL_LARGEST = 100
"""Largest record of an exponential distribution, as a multiple of the mean; never reached."""

EXPONENT_MAX = 100
"""Upper limit of --key-skew, at which only one key occurs."""


EXPONENTIAL_SIZE = "exponential:"
"""Prefix of a record size that is given by its mean."""


def record_size(text: str) -> RecordSize:
    """Parse a size, a range SMALLEST..LARGEST, or exponential:MEAN."""
    if text.startswith(EXPONENTIAL_SIZE):
        mean = parse_size_bytes(text.removeprefix(EXPONENTIAL_SIZE), "--record-size")
        low, high = RECORD_SIZE_MIN_BYTES, mean * EXPONENTIAL_LARGEST
        size = RecordSize(low, high, EXPONENTIAL, mean)
        is_small, high = mean <= low, mean
    else:
        low_text, dots, high_text = text.partition("..")
        low = parse_size_bytes(low_text, "--record-size")
        high = parse_size_bytes(high_text, "--record-size") if dots else low
        size = RecordSize(low, high)
        is_small = low < RECORD_SIZE_MIN_BYTES
    if is_small:
        raise ConfigError(
            f"--record-size: {text!r} is too small; a record needs {RECORD_SIZE_MIN_BYTES}b at"
            " least, to be distinguished"
        )
    if high > RECORD_SIZE_MAX_BYTES:
        raise ConfigError(f"--record-size: {text!r} is too large; a record can have 1gb at most")
    if low > high:
        raise ConfigError(f"--record-size: {text!r} runs backwards; write SMALLEST..LARGEST")
    return size


def arrivals(text: str) -> str:
    check_arrivals(text, "--arrivals")
    return text


def each_of(parse: Callable[[str], int]) -> Callable[[str], tuple[int, ...]]:
    """Parser of one or more values, separated by commas."""
    return lambda text: tuple(parse(part.strip()) for part in text.split(","))


def exponent(name: str) -> Callable[[str], float]:
    """Parser of a decimal number of 0 or more."""

    def parse(text: str) -> float:
        with suppress(ValueError):
            if 0 <= (value := float(text)) < EXPONENT_MAX:
                return value
        raise ConfigError(f"{name}: {text!r} is not a number from 0 to {EXPONENT_MAX}")

    return parse


def slow_consumers(text: str) -> tuple[SlowConsumer, ...]:
    """Parse INDEX:DELAY or INDEX:DELAY:TIME, separated by commas; DELAY may be `pause`."""
    slow = []
    for part in text.split(","):
        index, _, delay = part.strip().partition(":")
        delay, colon, length = delay.partition(":")
        if not delay.strip() or not index.isdecimal() or (colon and not length.strip()):
            raise ConfigError(
                f"--slow-consumer: {part!r} is not of the form INDEX:DELAY or INDEX:DELAY:TIME;"
                " write 0:5ms, 0:pause or 0:5ms:10s"
            )
        parse = duration("--slow-consumer")
        delay_ns = -1 if delay.strip() == "pause" else parse(delay)
        slow.append(SlowConsumer(int(index), delay_ns, parse(length) if colon else None))
    return tuple(slow)


def duration(name: str) -> Callable[[str], int]:
    """Parser of a time with its unit, in ns; `name` is the option, for errors."""
    return lambda text: parse_duration_ns(text, name, bare_unit=None)


def measured_part(text: str) -> int:
    """Length of the measured part, in ns."""
    duration_ns = duration("--duration")(text)
    if not duration_ns:
        raise ConfigError("--duration: 0 measures nothing; give some seconds, such as 3s")
    return duration_ns


def rate(text: str) -> float:
    """Records per second; max is RATE_MAX."""
    rate_per_s = parse_rate_per_s(text, "--rate")
    return RATE_MAX if rate_per_s is None else rate_per_s


def count(name: str) -> Callable[[str], int]:
    """Parser of a number of 1 or more."""

    def parse(text: str) -> int:
        digits = text.replace("_", "")
        if not digits.isdecimal() or not int(digits):
            raise ConfigError(f"{name}: {text!r} is not a number of 1 or more")
        return int(digits)

    return parse


def partitioner(text: str) -> str:
    """Check a partitioner: a known one, or custom:MODULE:FUNCTION that can be imported."""
    if text in PARTITIONERS:
        return text
    if text.startswith(CUSTOM_PARTITIONER):
        from flinknet.job.selectors import find_custom

        # As with `python -m`; the processes of a run get this path, too.
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        find_custom(text)
        return text
    raise ConfigError(
        f"--partitioner: {text!r} is not one of {', '.join(PARTITIONERS)} and"
        " custom:MODULE:FUNCTION"
    )


def number(name: str) -> Callable[[str], int]:
    """Parser of a number of 0 or more."""

    def parse(text: str) -> int:
        if not text.isdecimal():
            raise ConfigError(f"{name}: {text!r} is not a number of 0 or more")
        return int(text)

    return parse


def choice(name: str, choices: tuple[str, ...]) -> Callable[[str], str]:
    """Parser that takes one of `choices`."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ConfigError(f"{name}: {text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def channels(text: str) -> list[int]:
    """The numbers in a list such as "0,3"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--channel: {text!r} is not a list of channel numbers, such as 0,3")
    return [int(part) for part in parts]


def kinds(text: str) -> list[str]:
    """The kinds of messages in a list such as "ADD_CREDIT,BUFFER_RESPONSE"."""
    known = [each.name for each in MessageKind]
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if part not in known:
            raise ConfigError(f"--kind: there is no {part!r}; there are {', '.join(known)}")
    return parts
