"""bench/flow_control.py: what credit costs, in the numbers it prints."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from flinknet.config import CREDIT, TCP, SlowConsumer

BENCH = Path(__file__).parents[2] / "bench"
LATENCY_NS = 1_000_000


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The benchmark's own names."""
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setattr(sys, "argv", ["flow_control.py"])
    return runpy.run_path(str(BENCH / "flow_control.py"))


@pytest.mark.row("S113")
def test_credit_costs_messages_and_a_round_trip_and_shows_pressure_earlier(
    bench: dict[str, Any],
) -> None:
    slow = (SlowConsumer(0, 100_000),)
    burst, slowed = (
        {mode: bench["run"](mode, LATENCY_NS, rate_per_s=rate, slow=who) for mode in (CREDIT, TCP)}
        for rate, who in ((0.0, ()), (20_000.0, slow))
    )
    assert 0 < bench["add_credits_per_buffer"](burst[CREDIT]) < 1
    assert bench["add_credits_per_buffer"](burst[TCP]) == 0
    full_speed_ns = {mode: bench["time_to_full_speed_ns"](burst[mode]) for mode in burst}
    extra_ns = full_speed_ns[CREDIT] - full_speed_ns[TCP]
    assert LATENCY_NS < extra_ns < 4 * LATENCY_NS  # a round trip, with what sending takes
    trips = bench["round_trips"](burst[CREDIT], LATENCY_NS)
    assert 5 < sum(trips[2:12]) / 10 < 7  # half of 10 buffers of the producer and 2 exclusive ones
    assert len(bench["round_trips"](burst[TCP], LATENCY_NS)) == 1
    waits_ns = {mode: bench["time_until_the_writer_waits_ns"](slowed[mode]) for mode in slowed}
    assert waits_ns[CREDIT] < waits_ns[TCP]


@pytest.mark.row("S113")
def test_the_benchmark_prints_all_three_for_both_modes(
    bench: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    bench["main"]()
    header, *rows = capsys.readouterr().out.splitlines()
    for name in ("AddCredits per buffer", "burst at full speed after", "writer first waits after"):
        assert name in header
    assert [row.split()[0] for row in rows] == [CREDIT, TCP]
    assert rows[1].split()[1] == "0.000"
