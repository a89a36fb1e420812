"""Results as files: JSON documents that others build on, and CSV with a row for each run or
setting. Files are whole or not there. CSV columns have units in their names, and a cell is empty
for an unknown value."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinknet.plain_values import to_plain
from flinknet.results import (
    EdgeAnswer,
    JobAnswer,
    RunResult,
    TradeOffPoint,
    WatchLook,
    is_disturbed,
)
from flinknet.results.comparison import Comparison, Configuration, Difference, Verdict
from flinknet.results.figures import CPU, FIGURES, fields_of, named, of_run, reader
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from . import advice
from .comparison_texts import effect_sentence
from .trade_words import settings_of, trades

SCHEMA_VERSION = 2
"""Version of the documents; history: 1, the first; 2: bench without `references`, compare-configs
without `trends`, trace watch without `batch`, whose `events` counted those of its updates."""

_RUN_FIELDS = (
    *("validity", "config", "workload", "measured", "warnings", "trace"),
    *("wiring", "buffering", "blocking", "debloating", "metrics", "processors"),
    *("deployments", "verdict", "link_records_per_s"),
)


def bench_document(environment: Mapping[str, Any], results: Sequence[RunResult]) -> dict[str, Any]:
    """The document that `flinknet bench --json` writes. A result.json holds all fields of one
    run."""
    runs = [result.to_dict() for result in results]
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": dict(environment),
        "runs": [{name: run[name] for name in _RUN_FIELDS} for run in runs],
    }


def replay_document(jobs: Sequence[JobAnswer]) -> dict[str, Any]:
    """The document that `flinknet trace replay --json` writes: one edge as it is, several in a
    list, and jobs of several exchanges."""
    documents = [answer_document(each) for job in jobs for each in job.answers]
    if len(documents) == 1:
        return documents[0]
    wholes = [job_document(each) for each in jobs if not each.is_exchange]
    document = {"schema_version": documents[0]["schema_version"], "replays": documents}
    return document | ({"jobs": wholes} if wholes else {})


def job_document(job: JobAnswer) -> dict[str, Any]:
    """The answer about a job of several exchanges; its edges are documents of their own."""
    document: dict[str, Any] = to_plain(replace(job, answers=()))
    del document["answers"], document["advice"]
    by_task = document.pop("by_task")
    trade_texts = [each.to_dict() for each in trades(job)]
    return document | {"choice": to_plain(job.choice), "by_task": by_task, "trades": trade_texts}


def answer_document(answer: EdgeAnswer) -> dict[str, Any]:
    """The answer about one edge, without the fields that do not apply to it."""
    document: dict[str, Any] = to_plain(answer)
    if answer.trace.edge is None:
        del document["is_bottleneck"]
    if answer.trace.link is None:
        del document["trace"]["link"]
    for name in ("details", "flink", "cpu_cost", "channels_left_out"):
        if not document[name]:
            del document[name]
    for channel in document["channels"]:
        if channel["name"] is None:
            del channel["name"]
    found = [*zip(document["diagnosis"], answer.diagnosis, strict=True)]
    if answer.bottleneck is not None:
        found.append((document["bottleneck"], answer.bottleneck))
    for each, said in found:
        each |= {"cause": said.cause.value, "helps": [helps.value for helps in said.helps]}
    if answer.trace.is_of_run:
        del document["model_error"]["latency_at_most"]
    return document | {"trades": [each.to_dict() for each in trades(answer.alone)]}


def watch_document(look: WatchLook) -> dict[str, Any]:
    """A line of what `flinknet trace watch --json` writes."""
    document: dict[str, Any] = to_plain(look)
    return {"schema_version": SCHEMA_VERSION} | document


def difference_document(difference: Difference) -> dict[str, Any]:
    """One metric of a comparison.

    `change` and its `interval` are relative to the base. Where a value is zero there are none, but
    a `difference` in the metric's own unit.
    """
    interval = None if difference.low is None else {"low": difference.low, "high": difference.high}
    is_unclear = difference.verdict is Verdict.UNCLEAR
    is_ratio = difference.is_ratio
    return {
        "base_median": difference.base_median,
        "median": difference.candidate_median,
        "base_mean": difference.base_mean,
        "mean": difference.candidate_mean,
        "change": difference.change if is_ratio else None,
        "interval": interval if is_ratio else None,
        "difference": None if is_ratio else {"change": difference.change, "interval": interval},
        "rounds": difference.rounds,
        "verdict": difference.verdict.value,
        "runs_needed": difference.runs_needed() if is_unclear else None,
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """The document that `flinknet compare-configs --json` writes, and reads back as a baseline."""
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": dict(comparison.environment),
        "seed": comparison.seed,
        "base": comparison.base.name,
        "baseline": to_plain(comparison.baseline),
        "confidence": comparison.confidence,
        "configs": [
            _configuration_document(
                each, is_earlier=comparison.baseline is not None and each is comparison.base
            )
            for each in comparison.configurations
        ],
        "comparisons": [
            {
                "config": candidate.name,
                "unlike_workload": list(candidate.unlike),
                "settings": to_plain(candidate.changes),
                "metrics": {
                    name: difference_document(each) for name, each in candidate.differences.items()
                },
                "sentence": effect_sentence(comparison, candidate),
                "notes": list(candidate.notes),
            }
            for candidate in comparison.candidates
        ],
        "limits": [
            {
                "config": candidate.name,
                "limit": each.limit.text,
                "outcome": each.outcome.value,
                "reason": each.reason or None,
                "step": each.step or None,
            }
            for candidate, each in comparison.decisions
        ],
        "disturbed": {"repeated": comparison.repeated, "still": comparison.disturbed},
        "invalid": {"still": comparison.invalid},
        "outcome": comparison.outcome.value,
    }


def _configuration_document(configuration: Configuration, *, is_earlier: bool) -> dict[str, Any]:
    runs = bench_document({}, configuration.results)["runs"]
    if is_earlier:
        names = ("config", "workload", "measured", "warnings")
        runs = [
            {name: each[name] for name in names}
            | {"processors": {"cpu_cores": each["processors"]["cpu_cores"]}}
            for each in runs
        ]
    for document, run in zip(runs, configuration.runs, strict=True):
        document["tries"] = run.tries
        document["number"] = run.number
    discarded = [result for run in configuration.runs for result in run.discarded]
    return {
        "name": configuration.name,
        "runs": runs,
        "discarded": bench_document({}, discarded)["runs"],
    }


def dump(document: Any) -> str:
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def write_json(path: AnyPath, document: Any) -> None:
    """Put a document into a file, at once: a reader sees the old file or the new one."""
    write_text(path, dump(document))


def write_text(path: AnyPath, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(text.encode())


Row = Mapping[str, Any]

JOB = "job"
"""In the column `edge`: the job as a whole."""

_OF_JOB = [
    *named(["throughput_records_per_s", "buffers_per_s"]),
    *(each for each in FIGURES.values() if each.group == "latency"),
]
_PREDICTED = [*_OF_JOB, *named(["backlog_mean_buffers", "backlog_max_buffers"])]
_COSTS = {
    "memory_bytes": "memory_bytes",
    "packets_per_s": "price.packets_per_s",
    "network_bytes_per_s": "price.bytes_per_s",
    "cpu_change_cores": "price.cpu_cores_change",
}
_OBSERVED = [each for each in FIGURES.values() if each.group != "buffers"]


def csv_text(rows: Sequence[Row], first: Sequence[str] = ()) -> str:
    """Rows as CSV with a header, whose first columns are there even without rows; a row may lack
    columns that others have."""
    names = list(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({x: str(y).lower() if isinstance(y, bool) else y for x, y in row.items()})
    return file.getvalue()


def replay_rows(jobs: Sequence[JobAnswer]) -> list[Row]:
    """A row of observed figures for each edge and each job of several, and a row for each predicted
    setting.
    """
    rows: list[Row] = []
    for answer in (each for job in jobs for each in job.answers):
        trace = answer.trace
        own = {"run": trace.path, "edge_number": trace.edge_number, "edge": trace.edge}
        rows += _rows_of(answer.alone, own, fields_of(answer.observed, _OBSERVED))
    for job in jobs:
        if not job.is_exchange:
            own = {"run": job.path, "edge_number": None, "edge": JOB}
            rows += _rows_of(job, own, fields_of(job.observed, _OF_JOB))
    return rows


def _rows_of(job: JobAnswer, own: Row, observed: Row) -> Iterator[Row]:
    recorded = next((_names_of(each) for each in job.points if each.is_recorded), {})
    known = {"kind": "observed", "is_recorded": True, "is_reliable": True}
    yield {**own, **known, **recorded, **observed}
    for point in job.points:
        yield {
            **own,
            "kind": "predicted",
            "is_recorded": point.is_recorded,
            "is_reliable": advice.is_reliable(job.model_error),
            **_names_of(point),
            **fields_of(point, _PREDICTED),
            **{name: reader(path)(point) for name, path in _COSTS.items()},
        }


def _names_of(point: TradeOffPoint) -> dict[str, str]:
    return {name.replace(" ", "_"): value for name, value in settings_of(point).items()}


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


def runs_csv(settings: Sequence[Configuration]) -> str:
    """A row for each run, and before it for each of its tries that do not count, with a header and
    with Flink's keys that differ between runs; a cell is empty where the value is unknown."""
    tries = [
        (each.name, number, result, result is run.result)
        for each in settings
        for number, run in enumerate(each.runs, start=1)
        for result in (*run.discarded, run.result)
    ]
    configs = [result.config for _, _, result, _ in tries]
    varied = [
        key
        for key in (configs[0] if configs else ())
        if len({each.get(key) for each in configs}) > 1
    ]
    first = ("config", "round", "is_counted")
    return csv_text(
        [
            {
                **dict(zip(first, (name, number, is_counted), strict=True)),
                **{column: read(result) for column, read in _COLUMNS.items()},
                **{key: result.config.get(key) for key in varied},
            }
            for name, number, result, is_counted in tries
        ],
        [*first, *_COLUMNS],
    )
