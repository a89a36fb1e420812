"""Runs as CSV: one row each, with units in the names of the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from flinknet.results import RunResult, is_disturbed

from .csv_rows import csv_text


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
    "validity": lambda run: run.validity.name.lower(),
    "is_disturbed": lambda run: is_disturbed(run.warnings),
    "taken_cpu_share": lambda run: run.processors and run.processors.taken_share,
    "used_cpu_cores": lambda run: run.processors and run.processors.cpu_cores,
    "records": lambda run: run.measured.records,
    "duration_ns": lambda run: run.measured.duration_ns,
    "throughput_records_per_s": lambda run: run.measured.throughput_records_per_s,
    "throughput_bytes_per_s": lambda run: run.measured.throughput_bytes_per_s,
    "buffers_per_s": lambda run: run.measured.buffers / run.measured.duration_ns * 1e9,
    "buffers_by_timeout": lambda run: run.measured.flushes.timeout,
    "buffers_full": lambda run: run.measured.flushes.full,
    "buffers_with_event": lambda run: run.measured.flushes.event,
    "latency_mean_ns": lambda run: run.measured.latency_ns.mean,
    "latency_p50_ns": lambda run: run.measured.latency_ns.p50,
    "latency_p90_ns": lambda run: run.measured.latency_ns.p90,
    "latency_p99_ns": lambda run: run.measured.latency_ns.p99,
    "latency_p99_9_ns": lambda run: run.measured.latency_ns.p99_9,
    "latency_p99_99_ns": lambda run: run.measured.latency_ns.p99_99,
    "latency_max_ns": lambda run: run.measured.latency_ns.max,
    "uncorrected_latency_p50_ns": lambda run: run.measured.latency_uncorrected_ns.p50,
    "uncorrected_latency_p99_ns": lambda run: run.measured.latency_uncorrected_ns.p99,
    "backlog_mean_buffers": lambda run: run.measured.backlog_buffers.mean,
    "backlog_max_buffers": lambda run: run.measured.backlog_buffers.max,
    "credit_starved_ns": lambda run: run.measured.credits.starved_ns,
    "limited_by": lambda run: run.limited_by,
    "warnings": lambda run: " ".join(each.code for each in run.warnings),
}


def runs_csv(runs: Iterable[CsvRun]) -> str:
    """The table with its header, and with Flink's keys that differ between runs; an empty cell is
    what is not known.
    """
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
