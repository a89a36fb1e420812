"""The table of a sweep over buffer timeouts holds the trade-off; the runs are in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import Result

from flinknet.config import Scenario
from flinknet.results import LatencySummary, Progress, RunResult
from flinknet.simulator.cluster import START_NS
from flinknet.units import NS_PER_S, parse_duration_ns
from tests.simulated_scenario import cluster_of
from tests.simulation import finished, latency_of

from .conftest import RecordingRun

TIMEOUTS = ("0", "1ms", "10ms", "100ms", "-1")
_MULTIPLES = {"": 1.0, "k": 1e3, "M": 1e6}


class SimulatedRun(RecordingRun):
    """Measures each scenario in the simulator."""

    def __call__(
        self,
        scenario: Scenario,
        *,
        out_dir: Path | None,
        trace: bool,
        on_progress: Callable[[Progress], None],
    ) -> RunResult:
        result = super().__call__(scenario, out_dir=out_dir, trace=trace, on_progress=on_progress)
        cluster = finished(cluster_of(scenario))
        latency = latency_of(cluster).summary()
        ends_ns = [sink.last_measured_ns for task in cluster.sinks for sink in task.receivers]
        measured = replace(
            result.measured,
            records=latency.count,
            throughput_records_per_s=latency.count / (max(ends_ns) - START_NS) * NS_PER_S,
            latency_ns=latency,
            latency_uncorrected_ns=LatencySummary(count=0),
        )
        return replace(result, measured=measured)


@pytest.fixture
def run() -> RecordingRun:
    """What stands in for the runtime."""
    return SimulatedRun()


def table(output: str) -> list[tuple[str, float, int]]:
    """Setting, records/s and p99 in ns of each row, as they are printed."""
    rows = []
    for line in output.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if cells[0].startswith("buffer-timeout=") and len(cells) > 1:
            number, _, multiple = cells[1].partition(" ")
            rate = float(number) * _MULTIPLES[multiple]
            rows.append((cells[0].partition("=")[2], rate, parse_duration_ns(cells[3], "p99")))
    return rows


@pytest.mark.row("S030")
def test_with_the_timeout_the_p99_grows_and_the_rate_does_not_fall(
    flinknet: Callable[..., Result],
) -> None:
    result = flinknet(
        *("bench", "--no-trace", "--rate", "2k/s", "--records", "10000"),
        *("--buffer-timeout", ",".join(TIMEOUTS)),
    )
    assert result.exit_code == 0, result.output
    settings, rates, tails_ns = zip(*table(result.stdout), strict=True)
    assert settings == TIMEOUTS
    assert all(shorter < longer for shorter, longer in pairwise(tails_ns))
    assert rates == (2000.0,) * len(TIMEOUTS)


@pytest.mark.row("S030")
def test_at_the_highest_rate_no_longer_timeout_sends_less(flinknet: Callable[..., Result]) -> None:
    result = flinknet(
        *("bench", "--no-trace", "--records", "100000", "--buffer-timeout", ",".join(TIMEOUTS))
    )
    assert result.exit_code == 0, result.output
    settings, rates, _ = zip(*table(result.stdout), strict=True)
    assert settings == TIMEOUTS
    assert all(longer > 0.98 * shorter for shorter, longer in pairwise(rates))
    assert max(rates[1:]) > rates[0]
