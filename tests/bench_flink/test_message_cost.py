"""What a buffer costs on a real Flink: the table of what was learnt and what was used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.flink.exchange import Exchange
from bench.flink.message_cost import Used, arguments_parser, settings, show, table
from bench.flink.tap import tap_command


def point(timeout_ms: int, buffers_per_s: float, change: float | None) -> dict[str, Any]:
    return {
        "config": {"execution.buffer-timeout.interval": f"{timeout_ms} ms"},
        "buffers_per_s": buffers_per_s,
        "price": None if change is None else {"cpu_cores_change": change},
        "notes": ["recorded with x (JobManager)", "else"],
    }


def test_changes_are_against_the_recorded_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "trade_offs": [point(5, 1000, 0.0), point(1, 2100, 0.066), point(100, 200, None)],
        "cpu_cost": {"ns_per_message": 60_000.0, "how": "measured by counters"},
    }
    used = [Used(1, 2000, 0.55), Used(5, 1000, 0.5), Used(100, 200, 0.46)]
    found = table(answer, used, Exchange(buffer_timeout_ms=5))
    first, base, last = found["rows"]
    assert first["change"] == pytest.approx(0.05)
    assert first["ns_per_buffer"] == pytest.approx(50_000)
    assert first["learnt_change"] == 0.066
    assert first["assumed_change"] == pytest.approx(1100 * 90e-6)
    assert (base["change"], base["ns_per_buffer"]) == (0, None)
    assert last["learnt_change"] is None
    assert found["notes"] == ["recorded with x (JobManager)"]
    show(found)
    out = capsys.readouterr().out
    row = "1 ms 2.00 k 2.10 k 0.550 +0.050 +0.066 +0.099 50.0 us"
    assert row in [" ".join(line.split()) for line in out.splitlines()]
    assert "a buffer and its credit: 60.0 us, measured by counters" in out


def test_the_load_steps_and_the_cluster_sets_the_timeout() -> None:
    exchange, _ = settings(arguments_parser().parse_args(["--step", "1s", "--recorded", "20ms"]))
    arguments = exchange.arguments()
    assert (arguments["arrivals"], arguments["on-ns"]) == ("steps", "1000000000")
    assert arguments["buffer-timeout-ms"] == "20"
    by_cluster = Exchange(sets_timeout=False)
    assert by_cluster.arguments()["buffer-timeout-ms"] == ""
    assert "--flink-conf" not in tap_command([], Path("out"), None, "http://x")
