"""The throughput of the measured part of a run."""

from __future__ import annotations

import pytest

from flinknet.results import sustained_per_s

S = 1_000_000_000


@pytest.mark.parametrize(
    ("records", "duration_ns", "taken_per_s", "is_max_rate", "expected"),
    [
        pytest.param(2_000, S + S // 10, 2_100.0, False, 2_000, id="arrivals are kept up with"),
        pytest.param(0, S, None, False, None, id="no records"),
        pytest.param(1_000, 2 * S, None, False, 500, id="consumption by the clock is unknown"),
    ],
)
def test_throughput_is_that_of_the_records_of_the_measured_part(
    records: int,
    duration_ns: int,
    taken_per_s: float | None,
    is_max_rate: bool,
    expected: float | None,
) -> None:
    found = sustained_per_s(records, duration_ns, S, [taken_per_s], is_max_rate=is_max_rate)
    assert found == expected


@pytest.mark.parametrize("is_max_rate", [False, True])
def test_records_that_were_queued_before_the_measured_part_do_not_lower_its_throughput(
    is_max_rate: bool,
) -> None:
    """4 s of older records are read first; the consumer takes 5 000 records each second."""
    found = sustained_per_s(5_000, 5 * S, S, [2_000.0, 3_000.0], is_max_rate=is_max_rate)
    assert found == 5_000
