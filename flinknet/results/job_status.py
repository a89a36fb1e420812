"""A job while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from .measures import VertexTimes


@dataclass(frozen=True, slots=True)
class VertexStatus:
    """A vertex of the running job: how many subtasks are in which state."""

    name: str
    parallelism: int
    state: str
    attempt: int
    records_in: int = 0
    records_in_per_s: float = 0.0
    records_out: int = 0
    busy: float = 0.0
    idle: float = 0.0
    back_pressured: float = 0.0
    times: VertexTimes | None = None


@dataclass(frozen=True, slots=True)
class PriorAttempt:
    """An attempt at a task that is over, of which a later one was begun.

    Attributes:
        failure: why it failed; empty if it ended because another one did.
    """

    task: str
    attempt: int
    state: str
    task_manager: str | None
    failure: str


@dataclass(frozen=True, slots=True)
class TaskManagerStatus:
    """A TaskManager as the JobManager knows it.

    Attributes:
        heartbeats: that it has answered.
        silent_ns: since it said anything.
    """

    index: int
    pid: int
    state: str
    slots: int
    slots_in_use: int
    heartbeats: int
    silent_ns: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where a job stands that runs.

    Attributes:
        state: as Flink names those of jobs.
        reason: why it failed, or last restarted.
        elapsed_ns: since it was submitted.
        failed_attempts: of the prior attempts that are kept, those that failed; the last ones.
    """

    job_id: str
    name: str
    state: str
    reason: str
    restarts: int
    elapsed_ns: int
    checkpoints: int
    vertices: tuple[VertexStatus, ...]
    task_managers: tuple[TaskManagerStatus, ...]
    latency_ns_p50: float | None = None
    latency_ns_p99: float | None = None
    failed_attempts: tuple[PriorAttempt, ...] = ()
