"""What latency markers told, next to how old the records were, as a user reads it."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from flinknet import results
from flinknet.report.job import WHY, marker_parts, trust_of
from tests.report.printing import printed

MS = 1_000_000


def measured(
    latencies_ms: list[int], records_p99_ms: float | None, source: str = "Source: S"
) -> results.LatencyMarkersMeasured:
    records = None
    if records_p99_ms is not None:
        records = results.LatencySummary(900, p50=records_p99_ms * MS / 2, p99=records_p99_ms * MS)
    summary = results.MarkerSummary.of(latencies_ms)
    operators = (
        results.MarkedOperator(source, "Map", 5, summary, None),
        results.MarkedOperator(source, "Sink: [T]", 5, summary, records),
    )
    return results.LatencyMarkersMeasured(20 * MS, "operator", 128, operators, ())


def shown(result: results.LatencyMarkersMeasured) -> list[str]:
    return printed(*marker_parts(asdict(result)), width=400).splitlines()


def test_markers_stand_next_to_the_records() -> None:
    heading, names, other, sink, trust = shown(measured([10, 20, 30], 400.0))
    assert heading == "Latency markers every 20.0 ms; each subtask keeps the last 128"
    assert names.split("  ")[-1] == "records p99"
    assert other.split() == ["Map", "Source:", "S", "5", "20.0", "ms", "30.0", "ms", "30.0", "ms"]
    expected = "Sink: [T] Source: S 5 20.0 ms 30.0 ms 30.0 ms 200 ms 400 ms"
    assert sink.split() == expected.split()
    assert trust.startswith(
        "How far to trust them: at Sink: [T] their p99 is 7.5% of that of the records. A marker"
    )


@pytest.mark.parametrize(
    ("marker_ms", "records_ms", "said"),
    [
        (30, 31.9, "near that of the records"),  # two roundings to whole ms
        (95, 100.0, "near that of the records"),
        (300, 100.0, "3.0 times that of the records"),
        (0, 100.0, "0.0% of that of the records"),
    ],
)
def test_how_far_they_agree(marker_ms: int, records_ms: float, said: str) -> None:
    assert f"p99 is {said}. " in trust_of(asdict(measured([marker_ms], records_ms)))


def test_without_the_truth_it_says_how_to_get_it() -> None:
    lines = shown(measured([10], None, source=""))
    assert "from" not in lines[1]
    assert "records" not in lines[1]
    assert lines[-1] == (
        f"To see how far to trust them, measure the true latency with measure_latency(). {WHY}"
    )


def test_no_marker_came() -> None:
    nothing = results.LatencyMarkersMeasured(20 * MS, "operator", 128, (), ())
    (line,) = shown(nothing)
    assert line.endswith("None came to an operator.")
