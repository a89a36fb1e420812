"""Units: text to numbers and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet import units
from flinknet.errors import ConfigError

MS = 1_000_000
INT64_MAX = (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("100ms", 100 * MS),
        ("5 ms", 5 * MS),
        ("  5 MS ", 5 * MS),
        ("1s", 1_000 * MS),
        ("2 sec", 2_000 * MS),
        ("1min", 60_000 * MS),
        ("1 m", 60_000 * MS),
        ("1 h", 3_600_000 * MS),
        ("1 d", 86_400_000 * MS),
        ("7ns", 7),
        ("7 micros", 7_000),
        ("7µs", 7_000),
        ("0.1ms", 100_000),
        ("0", 0),
        ("100", 100 * MS),
    ],
)
def test_durations_are_read_in_flinks_spellings(text: str, expected_ns: int) -> None:
    assert units.parse_duration_ns(text, "timeout") == expected_ns


@pytest.mark.parametrize("text", ["-1", "-1 ms", "-1ms"])
def test_minus_one_is_never_only_where_allowed(text: str) -> None:
    assert units.parse_duration_ns(text, "timeout", allow_never=True) == -1
    with pytest.raises(ConfigError, match="negative"):
        units.parse_duration_ns(text, "timeout")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a duration"),
        ("ms", "not a duration"),
        ("five ms", "not a duration"),
        ("5 parsecs", "not a unit of time"),
        ("5ms5", "not a duration"),
        ("-2s", "negative"),
        ("0.1ns", "whole number"),
        ("1e3ms", "not a duration"),
        ("300000000 h", "too large"),
        ("٣ms", "not a duration"),
    ],
)
def test_a_bad_duration_names_the_value_and_says_why(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        units.parse_duration_ns(text, "--duration")
    assert str(caught.value).startswith("--duration: ")


def test_a_bare_number_can_be_refused_but_zero_needs_no_unit() -> None:
    assert units.parse_duration_ns("0", "--warmup", bare_unit=None) == 0
    with pytest.raises(ConfigError, match="no unit; write 5s or 5ms"):
        units.parse_duration_ns("5", "--warmup", bare_unit=None)


@pytest.mark.parametrize(
    ("text", "expected_bytes"),
    [
        ("100b", 100),
        ("32kb", 32_768),
        ("32 kb", 32_768),
        ("32 KiB", 32_768),
        ("1mb", 1 << 20),
        ("1 g", 1 << 30),
        ("4096", 4_096),
        ("0.5 kb", 512),
    ],
)
def test_sizes_count_in_powers_of_1024(text: str, expected_bytes: int) -> None:
    assert units.parse_size_bytes(text, "size") == expected_bytes


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (units.parse_size_bytes, ["", "kb", "12 parsecs", "-1kb", "0.3b", "1..2kb"]),
        (units.parse_rate_per_s, ["", "fast", "-1/s", "0/s", "20x/s", "1/year"]),
        (units.parse_percent, ["10"]),
    ],
)
def test_a_bad_value_is_refused_by_its_name(parse: Callable[..., object], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ConfigError, match=r"^name: "):
            parse(text, "name")


@pytest.mark.parametrize(
    ("text", "expected_per_s"),
    [
        *(("20000/s", 20_000), ("20k/s", 20_000), ("1.5M/s", 1_500_000), ("30/min", 0.5)),
        *(("7", 7), ("max", None)),
    ],
)
def test_rates_are_per_second(text: str, expected_per_s: float | None) -> None:
    assert units.parse_rate_per_s(text, "rate") == expected_per_s


@pytest.mark.parametrize(("text", "ratio"), [("95%", 0.95), ("+10%", 0.1), ("-5%", -0.05)])
def test_percents_are_ratios(text: str, ratio: float) -> None:
    assert units.parse_percent(text, "limit") == ratio


@given(st.integers(min_value=-1, max_value=INT64_MAX), st.sampled_from(["", " "]))
def test_every_duration_parses_back(duration_ns: int, separator: str) -> None:
    text = units.format_duration_ns(duration_ns, separator=separator)
    assert units.parse_duration_ns(text, "d", allow_never=True) == duration_ns


@given(st.integers(min_value=0, max_value=INT64_MAX), st.sampled_from(["", " "]))
def test_every_size_parses_back(size_bytes: int, separator: str) -> None:
    assert units.parse_size_bytes(
        units.format_size_bytes(size_bytes, separator=separator), "s"
    ) == (size_bytes)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (None, units.MISSING),
        (0, "0 s"),
        (999, "999 ns"),
        (1_234, "1.23 us"),
        (12_345_678, "12.3 ms"),
        (999_999, "1.00 ms"),
        (99_990_000, "100 ms"),
        (2.5e9, "2.50 s"),
    ],
)
def test_durations_for_reading_have_three_digits(duration_ns: float | None, text: str) -> None:
    assert units.human_duration(duration_ns) == text


def test_counts_and_bytes_for_reading() -> None:
    assert units.human_count(8_012_345) == "8.01 M"
    assert units.human_count(42) == "42"
    assert units.human_count(0.5) == "0.50"
    assert units.human_count(None) == units.MISSING
    assert units.human_bytes(3 << 29) == "1.50 GiB"
    assert units.human_bytes(10) == "10 B"
    assert units.human_change(0.1234) == "+12.3%"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "run 3 of 7"),
        ([2, 1], "runs 1 and 2 of 7"),
        ([7, 1, 3, 2, 4], "runs 1 to 4 and 7 of 7"),
        ([1, 3, 5, 6, 7], "runs 1, 3 and 5 to 7 of 7"),
        ([5, 6, 7], "runs 5 to 7 of 7"),
        ([1, 2, 3, 4, 5, 6, 7], "all 7 runs"),
    ],
)
def test_runs_are_named_by_their_numbers(numbers: list[int], text: str) -> None:
    assert units.which_runs(numbers, 7) == text
