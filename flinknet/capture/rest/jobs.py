"""Answers of Flink's REST API as values: jobs with their vertices and places, TaskManagers.

Releases 1.20 and 2.x give the same fields; fields that one of them lacks are None. Answers come
from outside: any that does not look like Flink's is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flinknet.core.wire.ids import JobVertexID
from flinknet.errors import RemoteTransportError
from flinknet.graph import running_job
from flinknet.graph.running_job import RunningJob, RunningTaskManager, RunningVertex

from .answers import NOT_AS_FLINK, OVERVIEW, RestAnswers
from .http_client import printable

ENDED = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})
"""States of a job that has ended."""

SUBTASKS_MAX = 32_768
"""Flink's limit of parallelism."""

NAME_CHARACTERS_MAX = 80
"""Longest name of a vertex, in characters; Flink cuts names at this length in its metrics."""

_HEX_ID = re.compile(r"[0-9a-f]{32}")

Answer = Mapping[str, Any]


def job_overviews(answers: RestAnswers) -> list[Answer]:
    """All jobs that the cluster knows: jid, name, state, time of the last change. Raises:
    RemoteTransportError, as all functions that read answers."""
    return _objects(answers, OVERVIEW, "jobs")


def read_job(answers: RestAnswers, job_id: str) -> RunningJob:
    """A job, without the places of its subtasks."""
    path = f"/jobs/{job_id}"
    found = answers.get(path)
    with refusing(answers, path):
        nodes = {str(each["id"]): each for each in found["plan"]["nodes"]}
        vertices = tuple(_vertex(each, nodes) for each in found["vertices"])
        return RunningJob(
            id=hex_id(found["jid"]),
            name=printable(str(found["name"])),
            state=str(found["state"]),
            is_batch=str(found.get("job-type") or found["plan"].get("type")).upper() == "BATCH",
            started_at_ms=int(found["start-time"]),
            vertices=_in_order(vertices),
        )


def vertex_details(answers: RestAnswers, job_id: str, vertex: RunningVertex) -> list[Answer]:
    return _objects(answers, f"/jobs/{job_id}/vertices/{vertex.id}", "subtasks")


def placed(vertex: RunningVertex, details: Sequence[Answer]) -> RunningVertex:
    """The vertex with the places of its subtasks. Raises: NOT_AS_FLINK."""
    subtasks = []
    for each in details:
        place = each.get("taskmanager-id") or "(unassigned)"
        subtasks.append(
            running_job.RunningSubtask(
                int(each["subtask"]),
                int(each.get("attempt", 0)),
                str(each.get("status", "")),
                None if place == "(unassigned)" else printable(str(place)),
            )
        )
    return replace(vertex, subtasks=tuple(sorted(subtasks, key=lambda each: each.index)))


def read_jobs(answers: RestAnswers, *, may_lack_places: bool = False) -> tuple[RunningJob, ...]:
    """The running jobs with the places of their subtasks; all known jobs if none runs. Vertices
    without an answer are unplaced if they `may_lack_places`."""
    known = job_overviews(answers)
    wanted = [each for each in known if str(each.get("state")) not in ENDED] or known
    found = []
    for each in wanted:
        job = read_job(answers, hex_id(each.get("jid")))
        path = f"/jobs/{job.id}/vertices"
        with refusing(answers, path):
            vertices = [
                vertex
                if may_lack_places and not answers.has(f"{path}/{vertex.id}")
                else placed(vertex, vertex_details(answers, job.id, vertex))
                for vertex in job.vertices
            ]
        found.append(replace(job, vertices=tuple(vertices)))
    return tuple(found)


def read_task_managers(
    answers: RestAnswers, *, with_memory: bool = False
) -> tuple[RunningTaskManager, ...]:
    """The TaskManagers of the cluster; `with_memory` queries each for its network memory."""
    path = "/taskmanagers"
    found = []
    for each in _objects(answers, path, "taskmanagers"):
        with refusing(answers, path):
            task_manager = RunningTaskManager(
                id=path_segment(each["id"]),
                host=_host_of(str(each.get("path", ""))),
                data_port=int(each["dataPort"]),
                slots=int(each["slotsNumber"]),
            )
        own = f"{path}/{task_manager.id}"
        if with_memory and answers.has(own):
            details = answers.get(own)
            memory, metrics = (_part(details, name) for name in ("memoryConfiguration", "metrics"))
            task_manager = replace(
                task_manager,
                network_memory_bytes=_whole(memory.get("networkMemory")),
                network_segments=_whole(metrics.get("nettyShuffleMemorySegmentsTotal")),
                network_segments_used=_whole(metrics.get("nettyShuffleMemorySegmentsUsed")),
            )
        found.append(task_manager)
    return tuple(found)


def read_settings(answers: RestAnswers) -> dict[str, str]:
    path = "/jobmanager/config"
    found = answers.get(path)
    with refusing(answers, path):
        return {str(each["key"]): str(each["value"]) for each in found}


def _part(answer: Any, name: str) -> Answer:
    found = answer.get(name) if isinstance(answer, dict) else None
    return found if isinstance(found, dict) else {}


def path_segment(value: Any) -> str:
    """An id for use in a path. Raises: ValueError for an id that would change the path."""
    text = str(value)
    if not text.isprintable() or text in ("", ".", "..") or set(text) & set("/\\?#%"):
        raise ValueError(f"{text!r} is not an id")
    return text


def _vertex(answer: Answer, nodes: Mapping[str, Answer]) -> RunningVertex:
    name = printable(str(answer["name"]))
    if len(name) > NAME_CHARACTERS_MAX:
        name = name[: NAME_CHARACTERS_MAX - 1] + "…"
    parallelism = int(answer["parallelism"])
    if parallelism == -1:
        raise RemoteTransportError(
            f"--rest: {name} has no parallelism yet, which Flink chooses when its inputs are"
            " complete (AdaptiveBatchScheduler); ask again then"
        )
    if not 0 < parallelism <= SUBTASKS_MAX:
        raise ValueError(f"parallelism {parallelism}")
    node = nodes.get(str(answer["id"]), {})
    group = answer.get("slotSharingGroupId")
    return RunningVertex(
        id=_vertex_id(answer["id"]),
        name=name,
        parallelism=parallelism,
        max_parallelism=int(answer.get("maxParallelism", -1)),
        inputs=tuple(
            running_job.RunningInput(
                _vertex_id(each["id"]),
                printable(str(each.get("ship_strategy", ""))),
                str(each.get("exchange", "")).lower(),
            )
            for each in sorted(node.get("inputs") or (), key=lambda each: int(each["num"]))
        ),
        subtasks=(),
        slot_sharing_group=None if group is None else str(group),
    )


def _in_order(vertices: Sequence[RunningVertex]) -> tuple[RunningVertex, ...]:
    """Sort vertices so that each follows all its inputs."""
    waiting, ordered = list(vertices), list[RunningVertex]()
    done: set[JobVertexID] = set()
    known = {each.id for each in vertices}
    while waiting:
        ready = [
            each
            for each in waiting
            if all(one.source in done or one.source not in known for one in each.inputs)
        ]
        if not ready:
            raise ValueError("the plan has a cycle")
        ordered += ready
        done |= {each.id for each in ready}
        waiting = [each for each in waiting if each.id not in done]
    return tuple(ordered)


def _objects(answers: RestAnswers, path: str, name: str) -> list[Answer]:
    found = answers.get(path)
    listed = found.get(name) if isinstance(found, dict) else None
    with refusing(answers, path):
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise KeyError(name)
    return listed


def _host_of(akka_path: str) -> str:
    """The host in pekko.tcp://flink@HOST:PORT/user/…"""
    return akka_path.partition("@")[2].partition("/")[0].rpartition(":")[0].strip("[]")


def hex_id(value: Any) -> str:
    """The id of a job or a vertex, for use in a path. Raises: RemoteTransportError for others."""
    text = str(value)
    if not _HEX_ID.fullmatch(text):
        raise RemoteTransportError(f"--rest: {text[:40]!r} is not an id of Flink's")
    return text


def _vertex_id(value: Any) -> JobVertexID:
    return JobVertexID(bytes.fromhex(hex_id(value)))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@contextmanager
def refusing(answers: RestAnswers, path: str) -> Iterator[None]:
    """Refuse an answer whose form is not Flink's."""
    try:
        yield
    except NOT_AS_FLINK as error:
        why = f"{type(error).__name__}: {error}"
        text = f"--rest: {answers.name}{path}: not as expected of Flink ({why})"
        raise RemoteTransportError(text) from None
