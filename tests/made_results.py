"""Results of runs that never were, with the figures that a test needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from flinknet.results import (
    BacklogSummary,
    CreditSummary,
    FlushCounts,
    LatencySummary,
    Measured,
    RunResult,
)
from flinknet.results.comparison import Configuration, CountedRun

NO_LATENCY = LatencySummary(count=0)


def measured(**figures: Any) -> Measured:
    """Measurements in which all else is nothing or unknown."""
    nothing: dict[str, Any] = {
        **dict.fromkeys(("records", "bytes", "buffers", "events"), 0),
        **dict.fromkeys(("throughput_records_per_s", "throughput_bytes_per_s")),
        **dict.fromkeys(("latency_ns", "latency_uncorrected_ns"), NO_LATENCY),
        "duration_ns": 1,
        "backlog_buffers": BacklogSummary(None, None),
        "credits": CreditSummary(0, 0, None),
        "flushes": FlushCounts(0, 0, 0),
    }
    return Measured(**nothing | figures)


def run_result(figures: Measured | None = None, **more: Any) -> RunResult:
    """A run of these measurements."""
    nothing: dict[str, Any] = {
        **{"config": {}, "workload": {}, "channels": (), "warnings": ()},
        **{"limited_by": "the requested rate.", "trace": None},
    }
    return RunResult(measured=figures or measured(), **nothing | more)


def configuration(
    name: str, results: Sequence[RunResult], numbers: Sequence[int] = ()
) -> Configuration:
    """A configuration with its runs, which may have numbers."""
    runs = zip_longest(results, numbers)
    return Configuration(name, tuple(CountedRun(result, number) for result, number in runs))
