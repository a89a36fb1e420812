"""`flinknet bench again` of a job that `job run` recorded: the program again, with other buffer
timeouts of its tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.errors import ConfigError, RunFailedError
from flinknet.options.what_if import TIMEOUT
from flinknet.units import format_duration_ns

from .job_run import attend, call_of
from .replay_options import edge_timeouts_of

if TYPE_CHECKING:
    from flinknet.replay.read import RecordedRun
    from flinknet.replay.rerun import PredictedTimeouts

    from .job_run import JobCall

_UNUSED = ("flow_control", "edge", "exclusive_buffers", "floating_buffers", "segment_size")
"""Options of a bench that have no effect on a job, by click's name."""


def is_job(run: RecordedRun) -> bool:
    """Whether a run is of a program, by `job run`."""
    scenario = run.manifest.scenario
    return not run.manifest.is_from_between and bool(scenario.get("job"))


def predicted_again(run: RecordedRun, values: Mapping[str, Any]) -> list[PredictedTimeouts]:
    """The timeouts to run a job with, as predicted; the recorded ones first.

    Raises: ConfigError for other options.
    """
    from flinknet.replay.rerun import predict_timeouts

    for name in (*_UNUSED, "report", "plot"):
        if values[name] is not None:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option}: of a job, only timeouts can differ; leave it out")
    texts = [each.strip() for each in (values["buffer_timeout"] or "").split(",")]
    for_all = [TIMEOUT.kind.read(each, "--buffer-timeout") for each in texts if each]
    asked = [edge_timeouts_of(each) for each in values["edge_timeout"]]
    found = predict_timeouts(run, for_all, asked)
    return [each for each in found if values["control"] or not each.point.is_recorded]


def name_of(predicted: PredictedTimeouts) -> str:
    """ "buffer-timeout=5ms" where all tasks have the same one, else each task with its own."""
    from flinknet.report.advice import task_timeout

    timeouts_ns = predicted.timeouts_ns
    if len({*timeouts_ns.values()}) == 1:
        name = f"buffer-timeout={format_duration_ns(next(iter(timeouts_ns.values())))}"
    else:
        name = ", ".join(task_timeout(*each) for each in timeouts_ns.items())
    return f"{name} (as recorded)" if predicted.point.is_recorded else name


def call_again(run: RecordedRun, before: Mapping[str, Any], values: Mapping[str, Any]) -> JobCall:
    """The call of `job run` that recorded a run, as far as it was recorded.

    Raises: ConfigError if it cannot be repeated, or would be another job now.
    """
    job = run.manifest.scenario["job"]
    if not before.get("task_managers"):
        raise ConfigError(f"{run.path}: it has no result, so how it ran is unknown")
    managers = before["task_managers"]
    call = call_of(
        {
            **values,
            **dict.fromkeys(("cluster", "start_condition", "buffer_timeout", "warmup")),
            "file": job["path"],
            "arguments": tuple(job["arguments"]),
            "detached": False,
            "slots": managers[0]["slots"],
            "task_managers": str(len(managers)),
            "duration": values["duration"] or format_duration_ns(run.duration_ns),
            "seed": run.manifest.seed,
        },
        {**run.manifest.flink_keys},
    )
    named = [(each["name"], each["parallelism"]) for each in job["vertices"]]
    if sorted(call.vertices) != sorted(named):
        now = ", ".join(f"{name} x {parallelism}" for name, parallelism in call.vertices)
        raise ConfigError(
            f"{job['path']} is not the recorded job any more; its tasks are {now}: give the same"
            " -D keys as then, such as parallelism.default"
        )
    return call


def run_again(call: JobCall, out: Path, timeouts_ns: Mapping[str, int]) -> dict[str, Any]:
    """Run a job. Returns: its result. Raises: RunFailedError if it did not finish."""
    from flinknet.graph.job_config import TASK_TIMEOUTS

    out.mkdir(parents=True)
    settings = {**call.settings, TASK_TIMEOUTS: json.dumps(dict(timeouts_ns))}
    ended, result = attend(replace(call, settings=settings), out, sys.stderr)
    if ended.exit_code:
        raise RunFailedError(ended.reason)
    return result


def measured_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Throughput and latency of the only task that measured it; None where unknown."""
    ends = [each for each in result["vertices"] if each["latency_ns"] is not None]
    names = {each["name"] for each in ends}
    into = [each for each in result["edges"] if each["target"] in names]
    rates = [each["throughput_records_per_s"] for each in into]
    latency_ns = ends[0]["latency_ns"] if len(ends) == 1 else {}
    buffers, measured_ns = sum(each["buffers"] for each in result["edges"]), result["measured_ns"]
    return {
        "throughput_records_per_s": None if None in rates else sum(rates),
        "buffers_per_s": buffers * 1e9 / measured_ns if measured_ns else None,
        "latency_ns": {"p50": None, "p99": None, **latency_ns},
    }
