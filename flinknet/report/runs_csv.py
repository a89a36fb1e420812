"""Runs as CSV: one row each, with units in the names of the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from flinknet.results import RunResult, is_disturbed

from .csv_rows import csv_text
from .figures import CPU, named, of_run


@dataclass(frozen=True, slots=True)
class CsvRun:
    """One run of a configuration.

    Attributes:
        is_counted: false for a disturbed try that was repeated.
    """

    config: str
    round: int
    result: RunResult
    is_counted: bool = True


_MEASURED = (
    *("records", "duration_ns", "throughput_records_per_s", "throughput_bytes_per_s"),
    *("buffers_per_s", "buffers_by_timeout", "buffers_full", "buffers_with_event"),
    *(f"latency_{each}_ns" for each in ("mean", "p50", "p90", "p99", "p99_9", "p99_99", "max")),
    *("uncorrected_latency_p50_ns", "uncorrected_latency_p99_ns"),
    *("backlog_mean_buffers", "backlog_max_buffers", "credit_starved_ns"),
)
"""Measured figures in the order of the columns."""

_COLUMNS: Mapping[str, Callable[[RunResult], object]] = {
    "seed": lambda run: run.workload.get("seed"),
    "validity": lambda run: run.validity.name.lower(),
    "is_disturbed": lambda run: is_disturbed(run.warnings),
    "taken_cpu_share": lambda run: run.processors and run.processors.taken_share,
    CPU.field: CPU.read,
    **{each.field: each.read for each in map(of_run, named(_MEASURED))},
    "limited_by": lambda run: run.limited_by,
    "warnings": lambda run: " ".join(each.code for each in run.warnings),
}


def runs_csv(runs: Iterable[CsvRun]) -> str:
    """The table with its header, and with Flink's keys that differ between runs; a cell is empty
    where the value is unknown."""
    known = list(runs)
    varied = [
        key
        for key in (known[0].result.config if known else ())
        if len({run.result.config.get(key) for run in known}) > 1
    ]
    return csv_text(
        [
            {
                "config": run.config,
                "round": run.round,
                "is_counted": run.is_counted,
                **{name: read(run.result) for name, read in _COLUMNS.items()},
                **{key: run.result.config.get(key) for key in varied},
            }
            for run in known
        ],
        ["config", "round", "is_counted", *_COLUMNS],
    )
