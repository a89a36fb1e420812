"""Results as JSON: the documents that others build on, and files that are whole or not there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinknet.plain_values import to_plain
from flinknet.results import JobAnswer, RecordingSet, ReplayAnswer, RunResult, WatchLook
from flinknet.results.comparison import Comparison, Configuration, Difference, Trend, Verdict
from flinknet.results.references import Reference
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from .job_answer_console import job_trades
from .trade_words import trades

POINTS_MAX = 20
"""Newest points of a trend in a document, at most; the others are in files of their own."""

SCHEMA_VERSION = 1
"""Version of the documents; history: 1, the first."""

_RUN_FIELDS = (
    *("validity", "config", "workload", "measured", "warnings", "trace"),
    *("wiring", "buffering", "blocking", "debloating", "metrics", "processors"),
    *("deployments", "verdict"),
)


def bench_document(
    environment: Mapping[str, Any],
    results: Sequence[RunResult],
    references: Sequence[Reference] = (),
) -> dict[str, Any]:
    """The document that `flinknet bench --json` writes. A result.json holds all fields of one
    run."""
    runs = [result.to_dict() for result in results]
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": dict(environment),
        "runs": [{name: run[name] for name in _RUN_FIELDS} for run in runs],
        **({"references": [each.to_dict() for each in references]} if references else {}),
    }


def replay_document(
    answers: Sequence[ReplayAnswer], jobs: Sequence[JobAnswer] = ()
) -> dict[str, Any]:
    """The document that `flinknet trace replay --json` writes: one run as it is, several in a list,
    and jobs of several exchanges."""
    documents = [answer_document(each) for each in answers]
    if len(documents) == 1:
        return documents[0]
    document = {"schema_version": SCHEMA_VERSION, "replays": documents}
    return document | ({"jobs": [job_document(each) for each in jobs]} if jobs else {})


def job_document(answer: JobAnswer) -> dict[str, Any]:
    """The answer about a job of several exchanges."""
    document: dict[str, Any] = to_plain(answer)
    return document | {"trades": [each.to_dict() for each in job_trades(answer)]}


def answer_document(answer: ReplayAnswer) -> dict[str, Any]:
    """The answer about one run, without the fields that do not apply to it."""
    document: dict[str, Any] = to_plain(answer)
    if answer.trace.edge is None:
        del document["is_bottleneck"]
    for name in ("details", "flink", "cpu_cost"):
        if document[name] is None:
            del document[name]
    if not answer.channels_left_out:
        del document["channels_left_out"]
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
    return document | {"trades": [each.to_dict() for each in trades(answer)]}


def sets_document(sets: Sequence[RecordingSet]) -> list[dict[str, Any]]:
    """Recordings that are one run, as `flinknet trace info --json` prints them."""
    return [to_plain(each) for each in sets]


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


def comparison_document(
    comparison: Comparison,
    results: Mapping[str, Sequence[RunResult]],
    discarded: Mapping[str, Sequence[RunResult]],
    trends: Sequence[Trend],
) -> dict[str, Any]:
    """The document that `flinknet compare-configs --json` writes, and reads back as a baseline.

    Args:
        results: the runs of this call that count, by configuration.
        discarded: disturbed or invalid tries that were repeated.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": dict(comparison.environment),
        "seed": comparison.seed,
        "base": comparison.base.name,
        "baseline": to_plain(comparison.baseline),
        "confidence": comparison.confidence,
        "configs": [
            _configuration_document(each, results.get(each.name), discarded.get(each.name, ()))
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
                "sentence": sentence,
                "notes": list(candidate.notes),
            }
            for candidate, sentence in zip(
                comparison.candidates, comparison.sentences(), strict=True
            )
        ],
        "limits": [
            {
                "config": candidate.name,
                "limit": each.limit.text,
                "outcome": each.outcome.value,
                "reason": each.reason or None,
            }
            for candidate, each in comparison.decisions
        ],
        "disturbed": {
            "repeated": comparison.repeated,
            "still": comparison.disturbed,
        },
        "invalid": {"still": comparison.invalid},
        "trends": [to_plain(replace(each, points=each.points[-POINTS_MAX:])) for each in trends],
        "outcome": comparison.outcome.value,
    }


def _configuration_document(
    configuration: Configuration,
    results: Sequence[RunResult] | None,
    discarded: Sequence[RunResult],
) -> dict[str, Any]:
    """One configuration with its runs; those of an earlier result as far as they were read."""
    if results is None:
        runs = [
            {
                "config": dict(run.config),
                "workload": dict(run.workload),
                "measured": to_plain(run.measured),
                "warnings": to_plain(run.warnings),
                "processors": {"cpu_cores": run.cpu_cores},
            }
            for run in configuration.runs
        ]
    else:
        runs = bench_document({}, results)["runs"]
    for document, run in zip(runs, configuration.runs, strict=True):
        document["tries"] = run.tries
        document["number"] = run.number
    return {
        "name": configuration.name,
        "runs": runs,
        "discarded": bench_document({}, discarded)["runs"],
    }


def dump(document: Any) -> str:
    """A document as text."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def write_json(path: AnyPath, document: Any) -> None:
    """Put a document into a file, at once: a reader sees the old file or the new one."""
    write_text(path, dump(document))


def write_text(path: AnyPath, text: str) -> None:
    """The document with a text left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(text.encode())
