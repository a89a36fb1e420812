"""Runs as CSV: one row each, with units in the names of the columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from flinknet.results import RunResult, is_disturbed


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


_COLUMNS: Mapping[str, Callable[[RunResult], object]] = {
    "seed": lambda run: run.workload.get("seed"),
    "is_disturbed": lambda run: str(is_disturbed(run.warnings)).lower(),
    "taken_cpu_share": lambda run: run.processors and run.processors.taken_share,
    "records": lambda run: run.measured.records,
    "duration_ns": lambda run: run.measured.duration_ns,
    "throughput_records_per_s": lambda run: run.measured.throughput_records_per_s,
    "throughput_bytes_per_s": lambda run: run.measured.throughput_bytes_per_s,
    "buffers_per_s": lambda run: run.measured.buffers / run.measured.duration_ns * 1e9,
    "latency_mean_ns": lambda run: run.measured.latency_ns.mean,
    "latency_p50_ns": lambda run: run.measured.latency_ns.p50,
    "latency_p90_ns": lambda run: run.measured.latency_ns.p90,
    "latency_p99_ns": lambda run: run.measured.latency_ns.p99,
    "latency_p99_9_ns": lambda run: run.measured.latency_ns.p99_9,
    "latency_max_ns": lambda run: run.measured.latency_ns.max,
    "backlog_mean_buffers": lambda run: run.measured.backlog_buffers.mean,
    "backlog_max_buffers": lambda run: run.measured.backlog_buffers.max,
    "warnings": lambda run: " ".join(each.code for each in run.warnings),
}


def runs_csv(runs: Iterable[CsvRun]) -> str:
    """The table with its header; an empty cell is what is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["config", "round", "is_counted", *_COLUMNS])
    for run in runs:
        cells = [read(run.result) for read in _COLUMNS.values()]
        counted = str(run.is_counted).lower()
        writer.writerow([run.config, run.round, counted, *("" if x is None else x for x in cells)])
    return text.getvalue()
