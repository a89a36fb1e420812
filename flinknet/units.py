"""Values with units: durations, sizes, rates and percentages, to and from text.

Durations and sizes are spelled as in Flink (Flink: TimeUtils, MemorySize): sizes count in powers of
1024, the blank before the unit is optional, labels ignore case. Parsers raise ConfigError with the
name of the value, the reason, and valid examples. `format_*` is exact and parses back to the same
number; `human_*` rounds for reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal

from flinknet.errors import ConfigError

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

MISSING = "–"
"""Shown in tables for an absent sample."""

DURATION_UNITS_NS: Mapping[str, int] = {
    label: ns
    for ns, labels in (
        (1, "ns nano nanos nanosecond nanoseconds"),
        (1_000, "µs μs us micro micros microsecond microseconds"),
        (NS_PER_MS, "ms milli millis millisecond milliseconds"),
        (NS_PER_S, "s sec secs second seconds"),
        (60 * NS_PER_S, "min m minute minutes"),
        (3_600 * NS_PER_S, "h hour hours"),
        (86_400 * NS_PER_S, "d day days"),
    )
    for label in labels.split()
}
_DURATION_SHORT = {x: DURATION_UNITS_NS[x] for x in ("d", "h", "min", "s", "ms", "us", "ns")}
_SIZE_UNITS_BYTES: Mapping[str, int] = {
    label: size
    for size, labels in (
        (1, "b byte bytes"),
        (1 << 10, "k kb kib kibibyte kibibytes"),
        (1 << 20, "m mb mib mebibyte mebibytes"),
        (1 << 30, "g gb gib gibibyte gibibytes"),
        (1 << 40, "t tb tib tebibyte tebibytes"),
    )
    for label in labels.split()
}
_SIZE_SHORT = {x: _SIZE_UNITS_BYTES[x] for x in ("tb", "gb", "mb", "kb", "b")}
_RATE_MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}
_RATE_PERIODS_S = {"": 1, "/s": 1, "/min": 60, "/h": 3_600}

_NUMBER_WITH_LABEL = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(\D*)", re.ASCII)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)\s*(/s|/min|/h|)", re.ASCII)
_PERCENT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*%", re.ASCII)
_INT64_MAX = (1 << 63) - 1


def parse_duration_ns(
    text: str, name: str, *, bare_unit: str | None = "ms", allow_never: bool = False
) -> int:
    """Parse a duration into ns.

    Args:
        text: such as "100ms", "5 s", "0".
        name: option or key of the value, for the error.
        bare_unit: unit of a number without one (Flink: ms); None rejects every such number but 0.
        allow_never: whether -1 is valid; any spelling of it gives -1.
    """
    examples = "100ms, 5 s, 1min" + (", 0 or -1" if allow_never else " or 0")
    problem = f"{name}: {text!r} is not a duration; write a number and a unit, such as {examples}"
    match = _NUMBER_WITH_LABEL.fullmatch(text.strip())
    if match is None:
        raise ConfigError(problem)
    number, label = Decimal(match[1]), match[2].strip().lower()
    if allow_never and number == -1 and label in ("", "ms"):
        return -1
    if number < 0:
        allowed = "0, a positive duration, or -1 for never" if allow_never else "0 or more"
        raise ConfigError(f"{name}: {text!r} is negative; give {allowed}")
    if not label and number and bare_unit is None:
        first, other = ("ms", "s") if allow_never else ("s", "ms")  # buffer timeouts are short
        raise ConfigError(
            f"{name}: {text!r} has no unit; write {text.strip()}{first} or {text.strip()}{other}"
        )
    unit_ns = DURATION_UNITS_NS.get(label or bare_unit or "ns")
    if unit_ns is None:
        raise ConfigError(
            f"{name}: {label!r} is not a unit of time; use ns, us, ms, s, min, h or d"
        )
    return _whole(number * unit_ns, f"{name}: {text!r}", "nanoseconds")


def parse_size_bytes(text: str, name: str) -> int:
    """Parse a size such as "100b", "32kb" or "1 mb" into bytes; a bare number counts bytes."""
    match = _NUMBER_WITH_LABEL.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"{name}: {text!r} is not a size; write a number and a unit, such as 100b, 32kb, 1 mb"
        )
    number, label = Decimal(match[1]), match[2].strip().lower()
    if number < 0:
        raise ConfigError(f"{name}: {text!r} is negative; a size is 0 or more")
    unit_bytes = _SIZE_UNITS_BYTES.get(label or "b")
    if unit_bytes is None:
        raise ConfigError(f"{name}: {label!r} is not a unit of size; use b, kb, mb, gb or tb")
    return _whole(number * unit_bytes, f"{name}: {text!r}", "bytes")


def parse_rate_per_s(text: str, name: str) -> float | None:
    """Parse a rate such as "20000/s" or "20k/s" into events per second; "max" gives None."""
    stripped = text.strip().lower()
    if stripped == "max":
        return None
    match = _RATE.fullmatch(stripped)
    if match is None or not float(match[1]):
        why = "is not a rate" if match is None else "would never send anything"
        raise ConfigError(f"{name}: {text!r} {why}; write 20000/s, 20k/s, 30/min or max")
    return float(match[1]) * _RATE_MULTIPLES[match[2]] / _RATE_PERIODS_S[match[3]]


def parse_percent(text: str, name: str) -> float:
    """Parse a percentage such as "95%" or "+10%" into a ratio: 0.95, 0.1."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{name}: {text!r} is not a percentage; write 95%, +10% or -5%")
    return float(Decimal(match[1]) / 100)


def format_duration_ns(duration_ns: int, *, separator: str = "") -> str:
    """The exact duration in its largest whole unit: "100ms", or "100 ms" with a blank between."""
    if duration_ns <= 0:
        return f"{min(duration_ns, 0)}{separator}ms" if separator else str(duration_ns)
    return _largest_whole_unit(duration_ns, _DURATION_SHORT, separator)


def format_size_bytes(size_bytes: int, *, separator: str = "") -> str:
    """The exact size in its largest whole unit: "32kb", or "32 kb" with a blank between."""
    if not size_bytes:
        return f"0{separator}b"
    return _largest_whole_unit(size_bytes, _SIZE_SHORT, separator)


def human_duration(duration_ns: float | None) -> str:
    """Three significant digits and a unit: "12.3 ms"."""
    if duration_ns is None:
        return MISSING
    size = abs(duration_ns)
    for unit, unit_ns in (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", 1_000)):
        if size >= unit_ns * 0.9995:
            return f"{_three_digits(duration_ns / unit_ns)} {unit}"
    return f"{duration_ns:.0f} ns" if size else "0 s"


def human_count(count: float | None) -> str:
    """Three significant digits and a decimal multiple: "8.01 M"."""
    if count is None:
        return MISSING
    for multiple, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(count) >= size * 0.9995:
            return f"{_three_digits(count / size)} {multiple}"
    return f"{count:.0f}" if count == int(count) else _three_digits(count)


def human_bytes(size_bytes: float | None) -> str:
    """Three significant digits and a binary multiple: "1.50 GiB"."""
    if size_bytes is None:
        return MISSING
    for multiple, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(size_bytes) >= size * 0.9995:
            return f"{_three_digits(size_bytes / size)} {multiple}"
    return f"{size_bytes:.0f} B"


def human_number(value: float | None) -> str:
    """An integer unchanged, else two decimals: "12", "3.27"."""
    if value is None:
        return MISSING
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def human_level(count: int | float | None) -> str:
    """A number with a bar of that length, 12 marks at most."""
    return MISSING if count is None else f"{'▮' * min(int(count), 12)} {int(count):>3}"


def human_share(share: float | None) -> str:
    """A share in percent: "93%"."""
    return MISSING if share is None else f"{share:.0%}"


def signed(value: float, text: Callable[[float], str]) -> str:
    """A change with its sign, with its size formatted by `text`."""
    return f"{'−' if value < 0 else '+'}{text(abs(value))}"


def human_change(ratio: float | None) -> str:
    """A signed change in percent: "+1.5%"; without a sign where it rounds to nothing."""
    if ratio is None:
        return MISSING
    return "0.0%" if abs(ratio) < 0.0005 else signed(ratio, "{:.1%}".format)


def human_rate(per_s: float | None) -> str:
    """Events per second: "8.01 M/s"."""
    return MISSING if per_s is None else f"{human_count(per_s)}/s"


def without_zeros(text: str) -> str:
    """A number with a unit without digits that say nothing, "10 k" of "10.0 k": for settings and
    ticks of an axis; a measurement keeps its three digits."""
    number, blank, unit = text.partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + blank + unit


def counted(number: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 vertex", "1,200 vertices"; `plural` if it is not the noun and s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def ordinal(number: int) -> str:
    """A number in a sequence: "1st", "12th", "1,003rd"."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    is_teen = number // 10 % 10 == 1
    return f"{number:,}{'th' if is_teen else endings.get(number % 10, 'th')}"


def run_numbers(numbers: Iterable[int]) -> str:
    """Runs by their numbers: "run 3", "runs 1 to 4 and 7"."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    texts: list[str] = []
    for each in ranges:
        texts += [f"{each[0]} to {each[-1]}"] if len(each) > 2 else map(str, each)
    *first, last = texts
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"run {listed}" if listed.isdigit() else f"runs {listed}"


def which_runs(numbers: Collection[int], total: int) -> str:
    """Which runs of how many: "runs 1 and 3 of 6", "all 6 runs"."""
    if len(numbers) == total > 1:
        return f"all {total} runs"
    return f"{run_numbers(numbers)} of {total}"


def format_address(host: str, port: int) -> str:
    """A host name, IPv4 or IPv6 address, with a port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _whole(number: Decimal, what: str, unit: str) -> int:
    """`number` as an int64, or a ConfigError."""
    if number != int(number):
        raise ConfigError(f"{what} is not a whole number of {unit}; use a smaller unit")
    if number > _INT64_MAX:
        raise ConfigError(f"{what} is too large; it must fit 63 bits of {unit}")
    return int(number)


def _largest_whole_unit(amount: int, units: Mapping[str, int], separator: str) -> str:
    label, size = next((label, size) for label, size in units.items() if amount % size == 0)
    return f"{amount // size}{separator}{label}"


def _three_digits(value: float) -> str:
    """Three significant digits, without an exponent, for 0.001 <= |value| < 1000."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
