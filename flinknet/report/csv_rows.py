"""Runs, replays and distributions of latency as CSV: a row for each run, setting or range. Columns
have units in their names, and a cell is empty for an unknown value.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from flinknet.results import (
    ERROR_TO_BET_ON,
    JobAnswer,
    JobPoint,
    ReplayAnswer,
    RunResult,
    TradeOffPoint,
    is_disturbed,
)
from flinknet.results.figures import CPU, FIGURES, fields_of, named, of_run
from flinknet.units import format_duration_ns

from .model_error import model_error_text
from .settings_in_words import settings_of

Row = Mapping[str, Any]

JOB = "job"
"""In the column `edge`: the job as a whole."""

_OF_JOB = [
    *named(["throughput_records_per_s", "buffers_per_s"]),
    *(each for each in FIGURES.values() if each.group == "latency"),
]
_PREDICTED = [*_OF_JOB, *named(["backlog_mean_buffers", "backlog_max_buffers"])]
_OBSERVED = [each for each in FIGURES.values() if each.group != "buffers"]


def csv_text(rows: Sequence[Row], first: Sequence[str] = ()) -> str:
    """Rows as CSV with a header; a row may lack columns that others have.

    Args:
        first: names of columns that are there even without rows.
    """
    names = list(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def histogram_rows(settings: Sequence[tuple[str, Sequence[RunResult]]]) -> list[Row]:
    """A row for each range of the latency that records of a run fell into."""
    return [
        {"config": name, "round": number, "low_ns": low, "high_ns": high, "records": records}
        for name, results in settings
        for number, result in enumerate(results, start=1)
        if (known := result.latency_distribution) is not None
        for low, high, records in zip(known.low_ns, known.high_ns, known.records, strict=True)
    ]


def replay_rows(answers: Sequence[ReplayAnswer], jobs: Sequence[JobAnswer] = ()) -> list[Row]:
    """A row of observed figures for each run or edge and each job as a whole, and a row for each
    predicted setting.
    """
    rows = [row for answer in answers for row in _answer_rows(answer)]
    return rows + [row for job in jobs for row in _job_rows(job)]


def _job_rows(answer: JobAnswer) -> Iterator[Row]:
    job = {"run": answer.path, "edge_number": None, "edge": JOB}
    known = [each for each in astuple(answer.model_error) if each is not None]
    is_reliable = bool(known) and all(abs(each) <= ERROR_TO_BET_ON for each in known)
    recorded = next((each for each in answer.points if each.total.is_recorded), None)
    seen = answer.observed
    yield {
        **job,
        "kind": "observed",
        "is_recorded": True,
        "is_reliable": True,
        **(_names_of_job(recorded) if recorded is not None else {}),
        **fields_of(seen, _OF_JOB),
    }
    for point in answer.points:
        yield {**job, **_predicted(point.total, is_reliable), **_names_of_job(point)}


def _names_of_job(point: JobPoint) -> dict[str, str]:
    """The setting of a job; timeouts edge by edge where they differ."""
    timeouts = ["-1" if each < 0 else format_duration_ns(each) for each in point.timeouts_ns]
    timeout = timeouts[0] if len({*timeouts}) == 1 else " / ".join(timeouts)
    return _names_of(point.total) | {"buffer_timeout": timeout}


def _answer_rows(answer: ReplayAnswer) -> Iterator[Row]:
    trace = answer.trace
    run = {"run": trace.path, "edge_number": trace.edge_number, "edge": trace.edge}
    is_reliable = not model_error_text(answer).is_doubtful
    recorded = next((each for each in answer.trade_offs if each.is_recorded), None)
    yield {
        **run,
        "kind": "observed",
        "is_recorded": True,
        "is_reliable": True,
        **(_names_of(recorded) if recorded is not None else {}),
        **fields_of(answer.observed, _OBSERVED),
    }
    for point in answer.trade_offs:
        yield {**run, **_predicted(point, is_reliable)}


def _predicted(point: TradeOffPoint, is_reliable: bool) -> Row:
    price = point.price
    return {
        "kind": "predicted",
        "is_recorded": point.is_recorded,
        "is_reliable": is_reliable,
        **_names_of(point),
        **fields_of(point, _PREDICTED),
        "memory_bytes": point.memory_bytes,
        "packets_per_s": None if price is None else price.packets_per_s,
        "network_bytes_per_s": None if price is None else price.bytes_per_s,
        "cpu_change_cores": None if price is None else price.cpu_cores_change,
    }


def _names_of(point: TradeOffPoint) -> dict[str, str]:
    return {name.replace(" ", "_"): value for name, value in settings_of(point).items()}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


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
