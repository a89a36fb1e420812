"""Flink's own metrics over time, as lines of the metrics file of a trace (`trace.metrics`).

Each look takes one request, and one more for each vertex. The JobManager fetches metrics from
TaskManagers on request, at most every metrics.fetcher.update-interval (10 s by default), so most
looks find nothing new. Only subtasks whose counters have changed are queried for their other
metrics and get a line, with the instant at which the change was noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flinknet.errors import RemoteTransportError
from flinknet.graph.running_job import RunningJob, RunningTaskManager, RunningVertex

from .answers import RestAnswers
from .jobs import (
    ENDED,
    hex_id,
    job_overviews,
    path_segment,
    placed,
    read_job,
    read_task_managers,
    refusing,
    vertex_details,
)

CHECKPOINTS_EVERY_LOOKS = 5

CHECKPOINTS_IN_DETAIL = 8
"""Most new checkpoints per look whose task details are requested (the latest ones); each takes one
request per vertex."""

JOB_AGAIN_LOOKS = 5
"""Looks after a change in which a job is requested again, because the JobManager answers from a
copy that is up to 3 s old."""

NO_WATERMARK_MS = -(1 << 63)
"""Watermark of a task that has received none yet, in ms."""

_COUNTERS = {
    "read-records": "numRecordsIn",
    "write-records": "numRecordsOut",
    "read-bytes": "numBytesIn",
    "write-bytes": "numBytesOut",
    "accumulated-busy-time": "accumulateBusyTimeMs",
    "accumulated-idle-time": "accumulateIdleTimeMs",
    "accumulated-backpressured-time": "accumulateBackPressuredTimeMs",
}
"""Names of counters in a subtask's description, with the name of each as a metric."""

TASK_METRICS = (
    *("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond"),
    *("numBuffersOut", "checkpointAlignmentTime", "checkpointStartDelayNanos"),
    *("debloatedBufferSize", "estimatedTimeToConsumeBuffersMs", "currentInputWatermark"),
    *(f"Shuffle.Netty.Input.num{what}In{where}" for what in ("Bytes", "Buffers")
      for where in ("Local", "Remote")),
    *(f"Shuffle.Netty.Input.Buffers.{name}" for name in ("inputQueueLength", "inPoolUsage",
      "inputExclusiveBuffersUsage", "inputFloatingBuffersUsage")),
    *(f"Shuffle.Netty.Output.Buffers.{name}" for name in ("outputQueueLength", "outPoolUsage")),
)  # fmt: skip
"""Metrics requested of each subtask; the answer omits those that it does not have."""

TASK_MANAGER_METRICS = (
    *("Status.JVM.CPU.Load", "Status.JVM.CPU.Time"),
    *(f"Status.Shuffle.Netty.{name}" for name in ("TotalMemorySegments", "AvailableMemorySegments",
      "UsedMemorySegments", "TotalMemory", "AvailableMemory", "UsedMemory",
      "RequestedMemoryUsage")),
)  # fmt: skip

_CHECKPOINT_FIELDS = {
    "status": "status",
    "checkpoint_type": "type",
    "trigger_timestamp": "triggered_at_ms",
    "end_to_end_duration": "duration_ms",
    "state_size": "state_bytes",
    "checkpointed_size": "checkpointed_bytes",
    "processed_data": "processed_bytes",
    "persisted_data": "persisted_bytes",
    "num_subtasks": "subtasks",
}

_TASK_DETAILS = {"start_delays_ms": (0, "start_delay"), "alignments_ms": (1, "duration")}
"""Place (0: the subtask itself, 1: its alignment) and key of each task detail of a checkpoint."""

Line = dict[str, Any]


class Sampler:
    """Samples the metrics of a cluster, once per look.

    Attributes:
        jobs: all jobs that have run since the start, by their ids, with the places of subtasks.
    """

    def __init__(self, answers: RestAnswers, now_ns: Callable[[], int]) -> None:
        self._answers = answers
        self._now_ns = now_ns
        self._looks = 0
        self.jobs: dict[str, RunningJob] = {}
        self._modified: dict[str, tuple[Any, int]] = {}
        self._before: dict[tuple[Any, ...], Any] = {}
        self._checkpoints: dict[str, set[Any]] = {}  # ended ones in the last history, by job
        self.task_managers: tuple[RunningTaskManager, ...] = ()

    def ask_for_new(self) -> None:
        """Make the JobManager fetch new values if its own are old enough: any request does so, but
        is answered with the old values."""
        with suppress(RemoteTransportError):
            self._answers.get("/jobmanager/metrics")

    def look(self) -> list[Line]:
        """Lines for all changes since the last look. Raises: RemoteTransportError without an
        answer, or if the answer's form is not Flink's."""
        with refusing(self._answers, ": metrics"):
            return self._look()

    def _look(self) -> list[Line]:
        lines: list[Line] = []
        running = [
            each for each in job_overviews(self._answers) if str(each.get("state")) not in ENDED
        ]
        for overview in running:
            try:
                job_id = hex_id(overview.get("jid"))
                lines += self._look_at(job_id, overview.get("last-modification"))
            except RemoteTransportError:
                if len(running) == 1 and not self.jobs:
                    raise
                # it has ended between two requests; the next look will show it
        for each in self.task_managers if running else ():
            found = self._metrics(f"/taskmanagers/{each.id}/metrics", TASK_MANAGER_METRICS)
            if found and self._before.get(("tm", each.id)) != found:
                self._before["tm", each.id] = found
                lines.append({"at_ns": self._now_ns(), "task_manager": each.id, **found})
        self._looks += 1
        return lines

    def _look_at(self, job_id: str, modified: Any) -> list[Line]:
        before, again = self._modified.get(job_id, (None, 0))
        if before != modified or job_id not in self.jobs:
            again = JOB_AGAIN_LOOKS
        if again:
            known = read_job(self._answers, job_id)
            self.task_managers = read_task_managers(self._answers)
        else:
            known = self.jobs[job_id]
        self._modified[job_id] = modified, max(again - 1, 0)
        lines: list[Line] = []
        vertices = []
        for vertex in known.vertices:
            details = vertex_details(self._answers, known.id, vertex)
            vertex = placed(vertex, details)
            vertices.append(_last_placed(vertex, self.jobs.get(job_id)))
            for each in details:
                lines += self._look_at_subtask(known, vertex, each)
        self.jobs[job_id] = replace(known, vertices=tuple(vertices))
        if self._looks % CHECKPOINTS_EVERY_LOOKS == 0:
            lines += self._new_checkpoints(known)
        return lines

    def _look_at_subtask(
        self, job: RunningJob, vertex: RunningVertex, details: Mapping[str, Any]
    ) -> list[Line]:
        counters = _numbers(details.get("metrics") or {}, _COUNTERS)
        subtask, attempt = int(details["subtask"]), int(details.get("attempt", 0))
        key = job.id, vertex.id, subtask
        now = attempt, counters
        if not any(counters.values()) or self._before.get(key) == now:
            return []
        self._before[key] = now
        path = f"/jobs/{job.id}/vertices/{vertex.id}/subtasks/{subtask}/metrics"
        place = next((each.task_manager for each in vertex.subtasks if each.index == subtask), None)
        line = {
            "at_ns": self._now_ns(),
            "task_manager": place,
            "task": vertex.task_name(subtask),
            "job": job.id,
            "vertex": str(vertex.id),
            "subtask": subtask,
            "attempt": attempt,
        }
        metrics = self._metrics(path, TASK_METRICS)
        if metrics.get("currentInputWatermark") == NO_WATERMARK_MS:
            del metrics["currentInputWatermark"]
        return [line | counters | metrics]

    def _new_checkpoints(self, job: RunningJob) -> list[Line]:
        try:
            found = self._answers.get(f"/jobs/{job.id}/checkpoints")
        except RemoteTransportError:  # checkpoints are off
            return []
        lines: list[Line] = []
        history = (found.get("history") if isinstance(found, dict) else None) or ()
        ended = {each.get("id"): each for each in history if each.get("status") != "IN_PROGRESS"}
        before, self._checkpoints[job.id] = self._checkpoints.get(job.id, set()), {*ended}
        for number in reversed([each for each in ended if each not in before]):
            each = ended[number]
            fields = {name: each[key] for key, name in _CHECKPOINT_FIELDS.items() if key in each}
            lines.append({"at_ns": self._now_ns(), "job": job.id, "checkpoint": number} | fields)
        for line in lines[-CHECKPOINTS_IN_DETAIL:]:
            if line.get("status") == "COMPLETED":
                line |= self._task_details(job, line["checkpoint"])
        return lines

    def _task_details(self, job: RunningJob, checkpoint: Any) -> Line:
        """Start delays and alignment times of a checkpoint by vertex, in each task with inputs."""
        found: dict[str, dict[str, list[float]]] = {name: {} for name in _TASK_DETAILS}
        for vertex in job.vertices:
            if not vertex.inputs:
                continue
            path = f"/jobs/{job.id}/checkpoints/details/{checkpoint}/subtasks/{vertex.id}"
            try:
                answer = self._answers.get(path)
            except RemoteTransportError:  # it is no longer among the last ones
                return {}
            for each in (answer.get("subtasks") if isinstance(answer, dict) else None) or ():
                durations = each, each.get("alignment") or {}
                for name, (place, key) in _TASK_DETAILS.items():
                    value = _number(durations[place].get(key))
                    if value is not None and value >= 0:
                        found[name].setdefault(str(vertex.id), []).append(value)
        return {name: values for name, values in found.items() if values}

    def _metrics(self, path: str, names: tuple[str, ...]) -> dict[str, float]:
        try:
            found = self._answers.get(f"{path}?get={','.join(names)}")
        except RemoteTransportError:  # a subtask or TaskManager that is gone
            return {}
        listed = found if isinstance(found, list) else []
        values = {
            path_segment(each.get("id")): each.get("value")
            for each in listed
            if isinstance(each, dict)
        }
        return _numbers(values, {name: short_name(name) for name in values})


def _last_placed(vertex: RunningVertex, before: RunningJob | None) -> RunningVertex:
    """The vertex with the last known places of subtasks that have none now, as after a failure of
    the job: their data was recorded there."""
    known = None if before is None else before.vertex(vertex.id)
    if known is None or None not in vertex.task_managers:
        return vertex
    places = {each.index: each.task_manager for each in known.subtasks}
    subtasks = (
        replace(each, task_manager=each.task_manager or places.get(each.index))
        for each in vertex.subtasks
    )
    return replace(vertex, subtasks=tuple(subtasks))


def short_name(metric: str) -> str:
    """A metric's name without its scope, except JVM metrics: inPoolUsage, JVM.CPU.Load."""
    if metric.startswith("Status.JVM."):
        return metric.removeprefix("Status.")
    return metric.rpartition(".")[2]


def _numbers(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    return {
        name: value
        for key, name in names.items()
        if (value := _number(values.get(key))) is not None
    }


def _number(value: Any) -> float | int | None:
    """A number from a JSON number or text; None for NaN. Large counters are not rounded."""
    try:
        if isinstance(value, str) and value.removeprefix("-").isdecimal():
            return int(value)
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(value) if number.is_integer() and not isinstance(value, str) else number
