"""Measurements: the reports of a job's TaskManagers, aggregated by vertex and by edge, and when
vertices were deployed, became readable, and finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flinknet import results
from flinknet.core.wire.ids import ExecutionAttemptID, JobVertexID
from flinknet.graph.execution_graph import (
    Execution,
    ExecutionGraph,
    ExecutionJobVertex,
    ExecutionState,
    ExecutionVertex,
)
from flinknet.graph.physical_plan import PhysicalPlan, PlannedEdge, PlannedVertex
from flinknet.histogram import LogLinearHistogram
from flinknet.job import TaskDeploymentDescriptor
from flinknet.trace.job_names import Edge, numbered

from .collected import Collected, backlog_of, latency_of
from .control_messages import Start
from .reports import ReadChannel, Statistics


def first_deployed_ns(graph: ExecutionGraph) -> int:
    """When the first task of a job was deployed, in any attempt; 0 if none was."""
    attempts = [each for x in graph.subtasks() for each in (*x.prior, x.current)]
    return min(_instants(attempts, ExecutionState.DEPLOYING), default=0)


def finished_ns(vertices: Iterable[ExecutionJobVertex]) -> int | None:
    """When the last task of some vertices finished; None while one of them has not."""
    subtasks = [subtask.current for vertex in vertices for subtask in vertex.task_vertices]
    ends = _instants(subtasks, ExecutionState.FINISHED)
    return max(ends) if ends and len(ends) == len(subtasks) else None


def _instants(executions: Iterable[Execution], state: ExecutionState) -> list[int]:
    """Instants at which attempts entered a state."""
    return [each.timestamps_ns[state] for each in executions if state in each.timestamps_ns]


def times_of(vertex: ExecutionJobVertex, since_ns: int) -> results.VertexTimes:
    """The times of a vertex, from its current attempts."""
    executions = [each.current for each in vertex.task_vertices]
    deployed = _instants(executions, ExecutionState.DEPLOYING)
    outputs = [each.first_output_ns for each in executions if each.first_output_ns is not None]
    ended_ns = finished_ns([vertex])
    return results.VertexTimes(
        min(deployed) - since_ns if deployed else None,
        min(outputs) - since_ns if outputs else None,
        None if ended_ns is None else ended_ns - since_ns,
    )


_TIMES = {
    "busy": "accumulateBusyTimeMs",
    "idle": "accumulateIdleTimeMs",
    "back_pressured": "accumulateBackPressuredTimeMs",
}

Shares = Mapping[str, float | None]
"""Shares of the time in which a task was busy, idle and back-pressured."""

_UNKNOWN: Shares = dict.fromkeys(_TIMES)


@dataclass(slots=True)
class Measurements(Collected):
    """Everything that has been measured of a job so far.

    Attributes:
        started_at: when it was submitted, UTC.
        deployed_ns: when the first tasks were deployed; `ended_ns`: when it ended.
        start_ns, end_ns: when generated records begin and end; None: without end.
        plan: the latest placement of all tasks.
    """

    started_at: str = ""
    deployed_ns: int | None = None
    ended_ns: int | None = None
    start_ns: int = 0
    measured_from_ns: int = 0
    end_ns: int | None = None
    plan: PhysicalPlan | None = None
    _times_before: dict[ExecutionAttemptID, dict[str, float]] = field(default_factory=dict)
    _early: set[int] = field(default_factory=set)  # edges with records before start_ns
    _edge_of: dict[int, int] = field(default_factory=dict)

    def begin(self, start: Start, now_ns: int) -> None:
        self.deployed_ns, self.start_ns = now_ns, start.start_ns
        self.measured_from_ns, self.end_ns = start.measured_from_ns, start.end_ns

    def deploy(self, plan: PhysicalPlan, tasks: Iterable[TaskDeploymentDescriptor]) -> None:
        self.plan = plan
        self._edge_of.update((each.index, each.edge) for each in self.note_channels(tasks))

    def add(self, task_manager: int, statistics: Statistics) -> None:
        Collected.add(self, task_manager, statistics)
        if statistics.at_ns <= self.start_ns:
            # text and collections do not wait for the start of generated records
            self._early.update(self._edge_of[each.channel] for each in statistics.read)
        if statistics.at_ns >= self.measured_from_ns:
            for each in statistics.tasks:
                if each.metrics:
                    self._times_before.setdefault(each.attempt_id, _times(each.metrics))

    @property
    def ended_in_warm_up(self) -> bool:
        """Whether the job, or all of its sources, ended before the measured part began."""
        made_ns = self._made_ns()
        known = [each for each in (self.ended_ns, made_ns) if each is not None]
        return bool(known) and min(known) <= self.measured_from_ns

    @property
    def measured_part(self) -> tuple[int, int | None]:
        """Start and end of the part of the job whose records count, by the instants at which they
        were due: from the end of the warm-up to the end of generated records, or of the job if
        there are later ones; None while the job runs. All of the job if it, or its sources, ended
        in the warm-up.
        """
        from_ns, ended_ns = self.measured_from_ns, self.ended_ns
        if ended_ns is None:
            return from_ns, None
        if self.ended_in_warm_up:
            return min(self.deployed_ns or 0, ended_ns), ended_ns
        last_due_ns = max((each.last_due_ns for each in self.read.values()), default=0)
        if self.end_ns is not None and last_due_ns < self.end_ns:
            return from_ns, min(self.end_ns, ended_ns)
        return from_ns, ended_ns

    def _made_ns(self) -> int | None:
        if self.plan is None:
            return None
        return finished_ns(
            each.vertex for each in self.plan.vertices if not self.plan.inputs_of(each.index)
        )

    def latency(self, vertex: JobVertexID | None = None) -> LogLinearHistogram:
        """Latency of the records that the sinks of one vertex, or of all, have measured."""
        return latency_of(
            counts.latency
            for attempt_id, counts in self.tasks.items()
            if vertex is None or attempt_id.execution_vertex_id.job_vertex_id == vertex
        )

    def vertices(self) -> tuple[results.VertexMeasured, ...]:
        """The figures of every vertex; none before the deployment."""
        plan = self.plan
        return () if plan is None else tuple(self._vertex(plan, each) for each in plan.vertices)

    def edges(self) -> tuple[results.EdgeMeasured, ...]:
        """The figures of every edge; none before the deployment."""
        plan = self.plan
        if plan is None:
            return ()
        ends = (Edge(0, each.index, each.source, each.target, "", "") for each in plan.edges)
        numbers = {each.index: each.number for each in numbered(ends)}
        return tuple(self._edge(plan, each, numbers[each.index]) for each in plan.edges)

    def vertices_now(self) -> tuple[results.VertexStatus, ...]:
        """The state of every vertex at present; none before the deployment."""
        plan = self.plan
        return () if plan is None else tuple(self._state(plan, each) for each in plan.vertices)

    def _state(self, plan: PhysicalPlan, vertex: PlannedVertex) -> results.VertexStatus:
        attempts = [each.current for each in vertex.vertex.task_vertices]
        metrics = [self.metrics_of(each.attempt_id) for each in attempts]
        shares = [_UNKNOWN if each is None else results.shares_of(each) for each in metrics]
        return results.VertexStatus(
            **self._figures(plan, vertex, shares),
            state=vertex.vertex.state.value,
            attempt=max(each.attempt_number for each in attempts),
            records_in_per_s=sum(
                self._per_s(edge.index) or 0.0 for edge in plan.inputs_of(vertex.index)
            ),
            times=times_of(vertex.vertex, first_deployed_ns(plan.graph)),
        )

    def _vertex(self, plan: PhysicalPlan, vertex: PlannedVertex) -> results.VertexMeasured:
        executions = vertex.vertex.task_vertices
        shares = [self._shares(each.current.attempt_id) for each in executions]
        tasks = [
            results.TaskMeasured(
                x.name,
                x.current.attempt_number,
                x.state.value,
                f"tm-{place}",
                **own,
                metrics=dict(self.metrics_of(x.current.attempt_id) or {}),
                prior_attempts=prior_attempts(x),
            )
            for x, place, own in zip(executions, vertex.task_managers, shares, strict=True)
        ]
        return results.VertexMeasured(
            **self._figures(plan, vertex, shares),
            latency_ns=self._summary(vertex),
            tasks=tuple(tasks),
            times=times_of(vertex.vertex, first_deployed_ns(plan.graph)),
        )

    def _summary(self, vertex: PlannedVertex) -> results.LatencySummary | None:
        summary: results.LatencySummary = self.latency(vertex.vertex.id).summary()
        return summary if summary.count else None

    def _figures(
        self, plan: PhysicalPlan, vertex: PlannedVertex, shares: Sequence[Shares]
    ) -> dict[str, Any]:
        """The fields of VertexFigures, from the shares of the tasks."""
        emitted = (
            each.metrics.get("numRecordsOut", 0)
            for attempt_id, each in self.tasks.items()
            if attempt_id.execution_vertex_id.job_vertex_id == vertex.vertex.id
        )
        return {
            **{"index": vertex.index, "name": vertex.name, "parallelism": vertex.parallelism},
            "records_in": sum(self._totals(x.index)[0] for x in plan.inputs_of(vertex.index)),
            "records_out": int(sum(emitted)),
            **{name: _mean([each[name] for each in shares]) for name in _TIMES},
        }

    def _shares(self, attempt_id: ExecutionAttemptID) -> Shares:
        """Shares of an attempt in the measured part, or in its whole life if it ended by then."""
        metrics = self.metrics_of(attempt_id)
        if metrics is None:
            return _UNKNOWN
        now, before = _times(metrics), self._times_before.get(attempt_id, {})
        passed = {name: last - before.get(name, 0.0) for name, last in now.items()}
        if sum(passed.values()) <= 0:
            passed = now
        total = sum(passed.values())
        return {name: each / total for name, each in passed.items()} if total > 0 else _UNKNOWN

    def _edge(self, plan: PhysicalPlan, edge: PlannedEdge, number: int) -> results.EdgeMeasured:
        index, edge_of = edge.index, self._edge_of
        records, size_bytes = self._totals(index)
        per_s = self._per_s(index)
        sent = [each for report in self.reports.values() for each in report.producer_channels]
        sent = [each for each in sent if edge_of.get(each.channel) == index]
        written = [each for at, each in self.written.items() if edge_of.get(at) == index]
        return results.EdgeMeasured(
            index,
            plan.vertices[edge.source].name,
            plan.vertices[edge.target].name,
            edge.partitioner,
            edge.wiring.channels,
            plan.traffic(edge).local_channels,
            records,
            size_bytes,
            per_s,
            None if per_s is None else per_s * size_bytes / max(records, 1),
            sum(each.buffers for each in sent),
            backlog_of(sent),
            sum(each.starved_ns for each in written) if written else None,
            number,
        )

    def _channels(self, edge: int) -> list[ReadChannel]:
        return [each for channel, each in self.read.items() if self._edge_of[channel] == edge]

    def _totals(self, edge: int) -> tuple[int, int]:
        own = self._channels(edge)
        return sum(each.records for each in own), sum(each.size_bytes for each in own)

    def _per_s(self, edge: int) -> float | None:
        """Records per second of an edge in the measured part, or in all of the job if none was read
        in it. Records that waited in a buffer when it began were due earlier: each channel counts
        from then on, to the end of generated records, or until the last was read if that takes
        longer.
        """
        own = self._channels(edge)
        last_ns = max((each.last_read_ns for each in own), default=0)
        if not any(each.measured_records for each in own):
            since_ns = self.deployed_ns if edge in self._early else None
            length_ns = last_ns - (self.start_ns if since_ns is None else since_ns)
            return sum(each.records for each in own) / length_ns * 1e9 if length_ns > 0 else None
        made_ns = self._made_ns() or last_ns
        if self.end_ns is not None:
            made_ns = min(made_ns, self.end_ns)
        reading_ns = last_ns - self.measured_from_ns
        return sum(
            each.measured_records / max(made_ns - each.waiting_since_ns, reading_ns, 1) * 1e9
            for each in own
        )


def prior_attempts(subtask: ExecutionVertex) -> tuple[results.PriorAttempt, ...]:
    """The prior attempts at a subtask that are kept, oldest first."""
    return tuple(
        results.PriorAttempt(
            subtask.name,
            each.attempt_number,
            each.state.value,
            None if each.task_manager is None else f"tm-{each.task_manager}",
            each.failure,
        )
        for each in subtask.prior
    )


def _times(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: metrics[metric] for name, metric in _TIMES.items()}


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [each for each in shares if each is not None]
    return sum(known) / len(known) if known else None
