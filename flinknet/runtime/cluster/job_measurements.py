"""Measurements: the reports of a job's TaskManagers, aggregated by vertex and by edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.graph.execution_graph import ExecutionVertex
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.histogram import LogLinearHistogram
from flinknet.job import TaskDeploymentDescriptor
from flinknet.results import (
    EdgeMeasured,
    LatencyMarkersMeasured,
    LatencySummary,
    PriorAttempt,
    TaskMeasured,
    VertexMeasured,
)

from .collected import Collected, backlog_of
from .marked_latency import markers_measured
from .reports import Statistics
from .vertex_times import first_deployed_ns, times_of

TIMES = ("accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs")
SHARES_NOW = ("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")

Shares = tuple[float | None, float | None, float | None]
"""Busy, idle, back-pressured."""

PRESSED_SHARE = 0.1
"""A vertex that is back-pressured for this share of its time is limited by those downstream."""

NEGLIGIBLE_SHARE = 0.01
"""A smaller back-pressured share of a vertex is not mentioned."""

SKEWED_FROM = 1.5
"""A task this many times as busy as the mean of its vertex is named itself."""

UNKNOWN_SHARES: Shares = (None, None, None)


@dataclass(slots=True)
class _Flow:
    """Records and bytes of an edge at the start and the end of the measured part."""

    first: tuple[int, int, int] | None = None  # at_ns, records, bytes
    last: tuple[int, int, int] | None = None

    def add(self, at_ns: int, records: int, size_bytes: int) -> None:
        if self.first is None:
            self.first = (at_ns, records, size_bytes)
        if self.last is None or records != self.last[1]:
            self.last = (at_ns, records, size_bytes)

    def per_s(self, at: int) -> float | None:
        """Records (1) or bytes (2) per second."""
        if self.first is None or self.last is None or self.last[0] <= self.first[0]:
            return None
        return (self.last[at] - self.first[at]) / (self.last[0] - self.first[0]) * 1e9


@dataclass(slots=True)
class Measurements(Collected):
    """Everything that has been measured of a job so far.

    Attributes:
        deployed_ns: when the first tasks were deployed; `start_ns`: when generated records begin.
        plan: the latest placement of all tasks.
    """

    deployed_ns: int = 0
    start_ns: int = 0
    measured_from_ns: int = 0
    plan: PhysicalPlan | None = None
    _times_before: dict[ExecutionAttemptID, tuple[float, ...]] = field(default_factory=dict)
    _flows: dict[int, _Flow] = field(default_factory=dict)
    _whole: dict[int, _Flow] = field(default_factory=dict)
    _edge_of: dict[int, int] = field(default_factory=dict)

    def deploy(self, plan: PhysicalPlan, tasks: Iterable[TaskDeploymentDescriptor]) -> None:
        """Add the channels of tasks that start."""
        self.plan = plan
        self._edge_of.update((each.index, each.edge) for each in self.note_channels(tasks))

    def add(self, task_manager: int, statistics: Statistics) -> None:
        """Add the statistics of a TaskManager."""
        Collected.add(self, task_manager, statistics)
        edges = {self._edge_of[each.channel] for each in statistics.read}
        for edge in edges:
            # text and collections do not wait for the start of generated records
            is_early = statistics.at_ns <= self.start_ns
            began_ns = self.deployed_ns if is_early else self.start_ns
            whole = self._whole.setdefault(edge, _Flow((began_ns, 0, 0)))
            whole.add(statistics.at_ns, *self._totals(edge))
        if statistics.at_ns >= self.measured_from_ns:
            for each in statistics.tasks:
                if each.metrics:
                    self._times_before.setdefault(each.attempt_id, _times(each.metrics))
            for edge in edges:
                flow = self._flows.setdefault(edge, _Flow())
                flow.add(statistics.at_ns, *self._totals(edge))

    def records_in(self, plan: PhysicalPlan, vertex: int) -> int:
        """Number of records that a vertex has read."""
        return sum(self._totals(edge.index)[0] for edge in plan.inputs_of(vertex))

    def records_in_per_s(self, plan: PhysicalPlan, vertex: int) -> float:
        """Records per second that a vertex reads, over the measured part so far."""
        flows = (self._flows.get(edge.index) for edge in plan.inputs_of(vertex))
        return sum((flow.per_s(1) or 0.0) for flow in flows if flow is not None)

    def records_out(self, plan: PhysicalPlan, vertex: int) -> int:
        """Number of records that all attempts of a vertex have emitted."""
        return int(
            sum(
                each.metrics.get("numRecordsOut", 0)
                for attempt_id, each in self.tasks.items()
                if attempt_id.execution_vertex_id.job_vertex_id == plan.vertices[vertex].vertex.id
            )
        )

    def latency(self, plan: PhysicalPlan, vertex: int | None = None) -> LogLinearHistogram:
        """Latency of the records that the sinks of one vertex, or of all, have measured."""
        if vertex is None:
            return self.latency_of(self.tasks)
        wanted = plan.vertices[vertex].vertex.id
        return self.latency_of(
            each for each in self.tasks if each.execution_vertex_id.job_vertex_id == wanted
        )

    def latency_markers(self, plan: PhysicalPlan) -> LatencyMarkersMeasured | None:
        """The latency that markers measured; None if no source emits any."""
        if plan.graph.job.config.latency_interval_ns <= 0:
            return None
        marked = {each: counts.marked for each, counts in self.tasks.items()}
        return markers_measured(plan, marked, lambda vertex: self.latency(plan, vertex).summary())

    def vertices(self, plan: PhysicalPlan) -> tuple[VertexMeasured, ...]:
        """The figures of every vertex."""
        return tuple(self._vertex(plan, index) for index in range(len(plan.vertices)))

    def edges(self, plan: PhysicalPlan) -> tuple[EdgeMeasured, ...]:
        """The figures of every edge."""
        return tuple(self._edge(plan, index) for index in range(len(plan.edges)))

    def _vertex(self, plan: PhysicalPlan, index: int) -> VertexMeasured:
        vertex = plan.vertices[index]
        tasks = []
        for subtask, execution in enumerate(vertex.vertex.task_vertices):
            attempt_id = execution.current.attempt_id
            metrics = self.metrics_of(attempt_id)
            tasks.append(
                TaskMeasured(
                    execution.name,
                    execution.current.attempt_number,
                    execution.state.value,
                    f"tm-{vertex.task_managers[subtask]}",
                    *self._shares(attempt_id),
                    dict(metrics or {}),
                    prior_attempts(execution),
                )
            )
        latency: LatencySummary = self.latency(plan, index).summary()
        return VertexMeasured(
            index,
            vertex.name,
            vertex.parallelism,
            self.records_in(plan, index),
            self.records_out(plan, index),
            _mean([each.busy for each in tasks]),
            _mean([each.idle for each in tasks]),
            _mean([each.back_pressured for each in tasks]),
            latency if latency.count else None,
            tuple(tasks),
            times_of(vertex.vertex, first_deployed_ns(plan.graph)),
        )

    def shares_now(self, attempt_id: ExecutionAttemptID) -> Shares:
        """Busy, idle and back-pressured share of an attempt at present."""
        metrics = self.metrics_of(attempt_id)
        if metrics is None:
            return UNKNOWN_SHARES
        busy, idle, back_pressured = (metrics[name] / 1000 for name in SHARES_NOW)
        return busy, idle, back_pressured

    def _shares(self, attempt_id: ExecutionAttemptID) -> Shares:
        """Busy, idle and back-pressured share of an attempt in the measured part, or in its whole
        life if it ended before that or soon after.
        """
        metrics = self.metrics_of(attempt_id)
        if metrics is None:
            return UNKNOWN_SHARES
        now, before = _times(metrics), self._times_before.get(attempt_id, (0.0, 0.0, 0.0))
        passed = [last - first for last, first in zip(now, before, strict=True)]
        if sum(passed) <= 0:
            passed = list(now)
        total = sum(passed)
        if total <= 0:
            return UNKNOWN_SHARES
        return passed[0] / total, passed[1] / total, passed[2] / total

    def _edge(self, plan: PhysicalPlan, index: int) -> EdgeMeasured:
        edge = plan.edges[index]
        own = {channel for channel, at in self._edge_of.items() if at == index}
        records, size_bytes = self._totals(index)
        flow = self._flows.get(index, _Flow())
        if flow.per_s(1) is None:
            flow = self._whole.get(index, flow)
        reports = self.reports.values()
        sent = [each for report in reports for each in report.producer_channels]
        sent = [each for each in sent if each.channel in own]
        written = [each for channel, each in self.written.items() if channel in own]
        return EdgeMeasured(
            index,
            plan.vertices[edge.source].name,
            plan.vertices[edge.target].name,
            edge.partitioner,
            edge.wiring.channels,
            plan.traffic(edge).local_channels,
            records,
            size_bytes,
            flow.per_s(1),
            flow.per_s(2),
            sum(each.buffers for each in sent),
            backlog_of(sent),
            sum(each.starved_ns for each in written) if written else None,
        )

    def _totals(self, edge: int) -> tuple[int, int]:
        own = [each for channel, each in self.read.items() if self._edge_of[channel] == edge]
        return sum(each.records for each in own), sum(each.size_bytes for each in own)


def prior_attempts(subtask: ExecutionVertex) -> tuple[PriorAttempt, ...]:
    """The prior attempts at a subtask that are kept, oldest first."""
    return tuple(
        PriorAttempt(
            subtask.name,
            each.attempt_number,
            each.state.value,
            None if each.task_manager is None else f"tm-{each.task_manager}",
            each.failure,
        )
        for each in subtask.attempts.prior
    )


def limited_by(vertices: Sequence[VertexMeasured], edges: Sequence[EdgeMeasured]) -> str:
    """What limited the job, by the times of its tasks: among the back-pressured vertices and all
    downstream of them, the one with the busiest task, not counting its own back-pressured time.
    Empty if nothing is known.
    """
    pressed = {each.name for each in vertices if _most_pressed(each) >= PRESSED_SHARE}
    if not pressed:
        if all(each.busy is None for each in vertices):
            return ""
        return "its sources: no task waited for its output for a tenth of its time or more."
    behind = _downstream(pressed, edges)
    slowest = max(
        (each for each in reversed(vertices) if each.name in behind),
        key=lambda each: max(_own_work(task) for task in _tasks_of(each)),
    )
    waits = {each.name: _most_pressed(each) for each in vertices}
    inputs = [each for each in edges if each.target == slowest.name]
    edge = max(inputs, key=lambda each: waits[each.source], default=None)
    said = _busy_text(slowest)
    if edge is None or waits[edge.source] < NEGLIGIBLE_SHARE:
        return f"{said}."
    return (
        f"{said}, and {edge.source} waits {waits[edge.source]:.0%} of the time for its output"
        f" (edge {edge.index})."
    )


def _tasks_of(vertex: VertexMeasured) -> Sequence[TaskMeasured | VertexMeasured]:
    """The tasks of a vertex that reported; the vertex itself if none did."""
    return [each for each in vertex.tasks if each.busy is not None] or [vertex]


def _own_work(task: TaskMeasured | VertexMeasured) -> float:
    return (task.busy or 0) - (task.back_pressured or 0)


def _most_pressed(vertex: VertexMeasured) -> float:
    return max(each.back_pressured or 0 for each in _tasks_of(vertex))


def _busy_text(vertex: VertexMeasured) -> str:
    """How busy a vertex is, in words; a task much busier than the others is named."""
    if vertex.busy is None:
        return f"{vertex.name}: its busy time is unknown"
    tasks = _tasks_of(vertex)
    busiest = max(tasks, key=_own_work)
    most, mean = busiest.busy or 0, vertex.busy
    if most < SKEWED_FROM * mean or not most:
        return f"{vertex.name}: it is busy {mean:.0%} of the time"
    others = [each.busy or 0 for each in tasks if each is not busiest]
    why = _why_busier(vertex, busiest)
    return (
        f"{busiest.name}: it is busy {most:.0%} of the time, the other subtasks"
        f" {sum(others) / len(others):.0%}{why}"
    )


def _why_busier(vertex: VertexMeasured, busiest: TaskMeasured | VertexMeasured) -> str:
    """The task's share of the records, if that explains why it is busier."""
    records = {each.name: each.metrics.get("numRecordsIn", 0.0) for each in vertex.tasks}
    total = sum(records.values())
    own = records.get(busiest.name, 0.0)
    if not total or own * len(records) < SKEWED_FROM * total:
        return ""
    return f" (it has {own / total:.0%} of the records)"


def _downstream(names: Iterable[str], edges: Sequence[EdgeMeasured]) -> set[str]:
    """These vertices and all vertices downstream of them."""
    found: set[str] = set()
    to_visit = list(names)
    while to_visit:
        name = to_visit.pop()
        if name not in found:
            found.add(name)
            to_visit += [each.target for each in edges if each.source == name]
    return found


def _times(metrics: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(metrics[name] for name in TIMES)


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [each for each in shares if each is not None]
    return sum(known) / len(known) if known else None
