"""The status of a job, for its clients."""

from __future__ import annotations

from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.results import JobStatus, PriorAttempt, TaskManagerStatus, VertexStatus
from flinknet.units import counted, format_duration_ns

from .job_master import JobMaster
from .job_measurements import Measurements, prior_attempts
from .vertex_times import first_deployed_ns, times_of

FAILED_ATTEMPTS_MAX = 16
"""The most failed attempts in a status; result.json has all that are kept."""


def status_of(
    run: str,
    master: JobMaster,
    measurements: Measurements,
    task_managers: tuple[TaskManagerStatus, ...],
    *,
    elapsed_ns: int,
    checkpoints: int,
) -> JobStatus:
    """The status of a job.

    Args:
        checkpoints: number of completed checkpoints.
    """
    plan = measurements.plan
    p50 = p99 = None
    vertices: tuple[VertexStatus, ...] = ()
    if plan is not None:
        latency = measurements.latency(plan)
        p50, p99 = latency.percentile(0.5), latency.percentile(0.99)
        vertices = tuple(_vertex(plan, each.index, measurements) for each in plan.vertices)
    return JobStatus(
        run,
        master.graph.job.name,
        master.state.name,
        master.shortage() or _canceling(master) or master.reason,
        master.restarts,
        elapsed_ns,
        checkpoints,
        vertices,
        task_managers,
        p50,
        p99,
        _failed_attempts(master),
    )


def _canceling(master: JobMaster) -> str:
    """The tasks that a cancelled job waits for, and how long, in words; empty if there are none."""
    attempts = list(master.canceling_since_ns)
    if not attempts:
        return ""
    first = master.graph.subtask(attempts[0].execution_vertex_id).name
    more = f" and {counted(len(attempts) - 1, 'other task')}" if len(attempts) > 1 else ""
    waits = format_duration_ns(master.cancellation_timeout_ns)
    return f"waits up to {waits} (task.cancellation.timeout) for {first}{more} to return"


def _failed_attempts(master: JobMaster) -> tuple[PriorAttempt, ...]:
    failed = [
        attempt
        for subtask in master.graph.subtasks()
        for attempt in prior_attempts(subtask)
        if attempt.failure
    ]
    failed.sort(key=lambda each: each.attempt)
    return tuple(failed[-FAILED_ATTEMPTS_MAX:])


def _vertex(plan: PhysicalPlan, index: int, measurements: Measurements) -> VertexStatus:
    vertex = plan.vertices[index]
    executions = vertex.vertex.task_vertices
    shares = [measurements.shares_now(each.current.attempt_id) for each in executions]
    busy, idle, back_pressured = (
        sum(each[at] or 0.0 for each in shares) / len(shares) for at in range(3)
    )
    return VertexStatus(
        vertex.name,
        vertex.parallelism,
        vertex.vertex.state.value,
        max(each.current.attempt_number for each in executions),
        measurements.records_in(plan, index),
        measurements.records_in_per_s(plan, index),
        measurements.records_out(plan, index),
        busy,
        idle,
        back_pressured,
        times_of(vertex.vertex, first_deployed_ns(plan.graph)),
    )
