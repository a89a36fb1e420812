"""When the vertices of a job were deployed, became readable, and finished."""

from __future__ import annotations

from collections.abc import Iterable

from flinknet.graph.execution import ExecutionState
from flinknet.graph.execution_graph import ExecutionGraph, ExecutionJobVertex
from flinknet.results import VertexTimes


def first_deployed_ns(graph: ExecutionGraph) -> int:
    """When the first task of a job was deployed, in any attempt; 0 if none was."""
    executions = (
        execution
        for subtask in graph.subtasks()
        for execution in (*subtask.attempts.prior, subtask.current)
    )
    instants = (each.timestamps_ns.get(ExecutionState.DEPLOYING) for each in executions)
    return min((each for each in instants if each is not None), default=0)


def finished_ns(vertices: Iterable[ExecutionJobVertex]) -> int | None:
    """When the last task of some vertices finished; None while one of them has not."""
    subtasks = [subtask for vertex in vertices for subtask in vertex.task_vertices]
    ends = [each.current.timestamps_ns.get(ExecutionState.FINISHED) for each in subtasks]
    known = [each for each in ends if each is not None]
    return max(known) if known and len(known) == len(ends) else None


def times_of(vertex: ExecutionJobVertex, since_ns: int) -> VertexTimes:
    """The times of a vertex, from its current attempts."""
    executions = [each.current for each in vertex.task_vertices]
    deployed = [each.timestamps_ns.get(ExecutionState.DEPLOYING) for each in executions]
    known = [each for each in deployed if each is not None]
    outputs = [each.first_output_ns for each in executions if each.first_output_ns is not None]
    ended_ns = finished_ns([vertex])
    return VertexTimes(
        min(known) - since_ns if known else None,
        min(outputs) - since_ns if outputs else None,
        None if ended_ns is None else ended_ns - since_ns,
    )
