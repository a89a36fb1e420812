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
class ConnectionStatus:
    """A TCP connection between two TaskManagers, as a job uses it now.

    Attributes:
        name: "tm-0->tm-1": from the producers' TaskManager to the consumers', which has opened it;
            with "#1" and so on for those that were opened later.
        channels: of the job that are open on it.
        shared_with: names of the jobs that have channels on it, too.
        jobs_before: how many jobs used it that have ended.
    """

    name: str
    channels: int
    shared_with: tuple[str, ...] = ()
    jobs_before: int = 0


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A job of a cluster, in short."""

    job_id: str
    name: str
    state: str
    run_dir: str
    slots: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Where a cluster stands.

    Attributes:
        is_session: it was started for jobs to come, and goes on without any.
        settings: Flink's keys that it was started with.
        jobs: that have not ended.
    """

    is_session: bool
    slots_each: int
    settings: dict[str, str]
    jobs: tuple[ClusterJob, ...]
    task_managers: tuple[TaskManagerStatus, ...]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where a job stands that runs.

    Attributes:
        state: as Flink names those of jobs.
        reason: why it failed, or last restarted.
        elapsed_ns: since it was submitted.
        failed_attempts: of the prior attempts that are kept, those that failed; the last ones.
        connections: over which it reads.
        other_jobs: of its cluster.
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
    connections: tuple[ConnectionStatus, ...] = ()
    other_jobs: tuple[ClusterJob, ...] = ()
