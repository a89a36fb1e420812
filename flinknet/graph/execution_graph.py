"""ExecutionGraph: the parallel form of a job, with the attempts of its subtasks and their states.

Each vertex of the JobGraph has one vertex per subtask, and each data set one partition per subtask
of its producer. Channels are never stored one by one: an edge is its wiring.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from flinknet.core.producer.channel_selector import default_max_parallelism
from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire import ids
from flinknet.core.wiring import Wiring
from flinknet.errors import ConfigError, LocalProtocolError

from .job_graph import IntermediateDataSet, JobEdge, JobGraph, JobVertex


class ExecutionState(Enum):
    """State of an attempt (Flink: ExecutionState)."""

    CREATED = "created"
    SCHEDULED = "scheduled"
    DEPLOYING = "deploying"
    INITIALIZING = "initializing"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELING = "canceling"
    CANCELED = "canceled"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        return not TRANSITIONS[self]


_S = ExecutionState
TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _S.CREATED: frozenset((_S.SCHEDULED, _S.CANCELED, _S.FAILED)),
    _S.SCHEDULED: frozenset((_S.DEPLOYING, _S.CANCELED, _S.FAILED)),
    _S.DEPLOYING: frozenset((_S.INITIALIZING, _S.CANCELING, _S.FAILED)),
    _S.INITIALIZING: frozenset((_S.RUNNING, _S.CANCELING, _S.FAILED)),
    _S.RUNNING: frozenset((_S.FINISHED, _S.CANCELING, _S.FAILED)),
    _S.CANCELING: frozenset((_S.CANCELED, _S.FAILED)),
    _S.FINISHED: frozenset(),
    _S.CANCELED: frozenset(),
    _S.FAILED: frozenset(),
}


@dataclass(eq=False)
class Execution:
    """An attempt of a subtask (Flink: Execution).

    Attributes:
        task_manager: None: not deployed yet.
        timestamps_ns: when it entered each state, where known (Flink: getStateTimestamp).
        first_output_ns: when any of its partitions first had something to read; None if no reader
            waited for that.
    """

    attempt_id: ids.ExecutionAttemptID
    state: ExecutionState = ExecutionState.CREATED
    task_manager: int | None = None
    failure: str = ""
    timestamps_ns: dict[ExecutionState, int] = field(default_factory=dict)
    first_output_ns: int | None = None

    @property
    def attempt_number(self) -> int:
        return self.attempt_id.attempt_number

    def switch_to(self, state: ExecutionState, *, now_ns: int | None = None) -> None:
        """Switch to another state; a failure while canceling counts as canceled.

        Raises: LocalProtocolError if the transition is not allowed.
        """
        if self.state is _S.CANCELING and state is _S.FAILED:
            state = _S.CANCELED
        if state not in TRANSITIONS[self.state]:
            raise LocalProtocolError(
                f"an execution cannot go from {self.state.value} to {state.value}"
            )
        self.state = state
        if now_ns is not None:
            self.timestamps_ns[state] = now_ns


def aggregate_state(states: Iterable[ExecutionState]) -> ExecutionState:
    """Flink: ExecutionJobVertex.getAggregateJobVertexState."""
    known = list(states)
    for state in (_S.FAILED, _S.CANCELING, _S.CANCELED, _S.INITIALIZING, _S.RUNNING):
        if state in known:
            return state
    if _S.FINISHED in known:
        return _S.FINISHED if all(each is _S.FINISHED for each in known) else _S.RUNNING
    return _S.CREATED


class ExecutionVertex:
    """One subtask (Flink: ExecutionVertex), with its current and its latest earlier attempts."""

    def __init__(self, job_vertex: ExecutionJobVertex, subtask_index: int) -> None:
        self.job_vertex = job_vertex
        self.subtask_index = subtask_index
        self.id = ids.ExecutionVertexID(job_vertex.id, subtask_index)
        history_size = job_vertex.graph.job.config.attempts_history_size
        self.prior: deque[Execution] = deque(maxlen=history_size)
        self.current = self._attempt(0)

    @property
    def name(self) -> str:
        vertex = self.job_vertex
        return f"{vertex.name} ({self.subtask_index + 1}/{vertex.parallelism})"

    @property
    def state(self) -> ExecutionState:
        return self.current.state

    def reset_for_new_execution(self) -> Execution:
        """Begin the next attempt (Flink: resetForNewExecution). An attempt that was never scheduled
        is kept. Raises: LocalProtocolError while the current attempt has not ended.
        """
        if self.state is ExecutionState.CREATED:
            return self.current
        if not self.state.is_terminal:
            raise LocalProtocolError(
                f"attempt {self.current.attempt_number} has not ended ({self.state.value})"
            )
        self.prior.append(self.current)
        self.current = self._attempt(self.current.attempt_number + 1)
        return self.current

    def _attempt(self, number: int) -> Execution:
        return Execution(ids.ExecutionAttemptID(self.job_vertex.graph.id, self.id, number))


@dataclass(slots=True, eq=False)
class IntermediateResultPartition:
    """One subtask's part of a data set, in any attempt (Flink: IntermediateResultPartition)."""

    result: IntermediateResult
    producer: ExecutionVertex
    is_released: bool = False

    @property
    def id(self) -> ids.IntermediateResultPartitionID:
        return ids.IntermediateResultPartitionID(self.result.id, self.producer.subtask_index)

    @property
    def result_partition_id(self) -> ids.ResultPartitionID:
        return ids.ResultPartitionID(self.id, self.producer.current.attempt_id)

    @property
    def subpartitions(self) -> int:
        return self.result.edges[0].wiring.subpartitions(self.producer.subtask_index)


@dataclass(frozen=True, slots=True)
class ExecutionEdge:
    """One channel: a partition and a subtask that reads it (Flink until 1.12: ExecutionEdge)."""

    source: IntermediateResultPartition
    target: ExecutionVertex
    subpartition: int


@dataclass(slots=True, eq=False)
class ConnectedEdge:
    """All channels of a job edge."""

    job_edge: JobEdge
    result: IntermediateResult
    target: ExecutionJobVertex
    wiring: Wiring

    def execution_edges(self) -> Iterator[ExecutionEdge]:
        """The channels one by one, by producer."""
        for producer, consumer, subpartition in self.wiring:
            yield ExecutionEdge(
                self.result.partitions[producer], self.target.task_vertices[consumer], subpartition
            )


class IntermediateResult:
    """The output of all subtasks of a vertex to a data set (Flink: IntermediateResult)."""

    def __init__(self, data_set: IntermediateDataSet, producer: ExecutionJobVertex) -> None:
        self.id: ids.IntermediateDataSetID = data_set.id
        self.producer = producer
        self.partition_type: ResultPartitionType = data_set.partition_type
        self.partitions = [
            IntermediateResultPartition(self, vertex) for vertex in producer.task_vertices
        ]
        self.edges: list[ConnectedEdge] = []

    @property
    def buffer_timeout_ns(self) -> int:
        """Longest time a record waits in a buffer of its partitions; -1: until it is full."""
        config = self.producer.job_vertex.config
        outputs = () if config is None else config.outputs
        data_set_id = str(self.id)
        return next(each.buffer_timeout_ns for each in outputs if each.data_set_id == data_set_id)


class ExecutionJobVertex:
    """A vertex with its subtasks and their inputs (Flink: ExecutionJobVertex).

    Raises: ConfigError if the parallelism is above its maximum, for an input that does not exist
        (yet), and for the second reader of a pipelined result.
    """

    def __init__(self, job_vertex: JobVertex, graph: ExecutionGraph) -> None:
        self.job_vertex = job_vertex
        self.graph = graph
        self.id: ids.JobVertexID = job_vertex.id
        self.name = job_vertex.name
        self.parallelism = job_vertex.parallelism
        self.max_parallelism = job_vertex.max_parallelism
        if self.max_parallelism == -1:
            self.max_parallelism = default_max_parallelism(self.parallelism)
        if self.parallelism > self.max_parallelism:
            raise ConfigError(
                f"{self.name}: parallelism {self.parallelism} is above its max parallelism"
                f" {self.max_parallelism}; lower the one or raise the other"
            )
        self.task_vertices = [ExecutionVertex(self, index) for index in range(self.parallelism)]
        self.results = [IntermediateResult(each, self) for each in job_vertex.results]
        self.inputs: list[ConnectedEdge] = []
        for edge in job_vertex.inputs:
            result = graph.results.get(edge.source.id)
            if result is None:
                raise ConfigError(
                    f"{self.name}: it reads data set {edge.source.id}, which no vertex before it"
                    " writes; attach vertices in topological order"
                )
            if result.edges and not result.partition_type.is_reconsumable:
                raise ConfigError(
                    f"{result.producer.name}: a {result.partition_type.label} result has one"
                    f" consumer; {result.edges[0].target.name} and {self.name} both read it"
                )
            wiring = Wiring(edge.pattern, result.producer.parallelism, self.parallelism)
            connected = ConnectedEdge(edge, result, self, wiring)
            result.edges.append(connected)
            self.inputs.append(connected)

    @property
    def state(self) -> ExecutionState:
        return aggregate_state(each.state for each in self.task_vertices)


class ExecutionGraph:
    """The parallel form of a job (Flink: DefaultExecutionGraph), with its vertices in topological
    order and a plan for display.
    """

    def __init__(self, job: JobGraph, graph_id: ids.ExecutionGraphID) -> None:
        self.job = job
        self.id = graph_id
        self.vertices: dict[ids.JobVertexID, ExecutionJobVertex] = {}
        self.results: dict[ids.IntermediateDataSetID, IntermediateResult] = {}
        self.json_plan = "{}"
        self.total_vertices = 0

    @property
    def edges(self) -> list[ConnectedEdge]:
        return [edge for vertex in self.vertices.values() for edge in vertex.inputs]

    @property
    def channels(self) -> int:
        return sum(edge.wiring.channels for edge in self.edges)

    def attach(self, vertices: Sequence[JobVertex]) -> None:
        """Add vertices in topological order. Raises: ConfigError, also for duplicate data sets."""
        for job_vertex in vertices:
            vertex = ExecutionJobVertex(job_vertex, self)
            self.vertices[vertex.id] = vertex
            for result in vertex.results:
                if result.id in self.results:
                    raise ConfigError(
                        f"{vertex.name} and {self.results[result.id].producer.name} write the same"
                        f" data set {result.id}"
                    )
                self.results[result.id] = result
            self.total_vertices += vertex.parallelism

    def subtasks(self) -> Iterator[ExecutionVertex]:
        for vertex in self.vertices.values():
            yield from vertex.task_vertices

    def subtask(self, vertex_id: ids.ExecutionVertexID) -> ExecutionVertex:
        return self.vertices[vertex_id.job_vertex_id].task_vertices[vertex_id.subtask_index]

    def producer_state(self, partition_id: ids.ResultPartitionID) -> ExecutionState | None:
        """State of the attempt that writes a partition; None if another attempt has replaced it
        (Flink: SchedulerBase.requestPartitionState).

        Raises: LocalProtocolError if the partition does not belong to this job.
        """
        asked = partition_id.partition_id
        result = self.results.get(asked.intermediate_data_set_id)
        if result is None or not 0 <= asked.partition_number < len(result.partitions):
            raise LocalProtocolError(f"the job has no partition {asked}")
        current = result.partitions[asked.partition_number].producer.current
        return current.state if current.attempt_id == partition_id.producer_id else None

    def lose(self, task_manager: int) -> list[ExecutionVertex]:
        """Mark the partitions on a TaskManager as lost. Returns: its subtasks still running."""
        for result in self.results.values():
            for partition in result.partitions:
                if partition.producer.current.task_manager == task_manager:
                    partition.is_released = True
        return [
            each
            for each in self.subtasks()
            if each.current.task_manager == task_manager and not each.state.is_terminal
        ]


def initialize_on_master(job: JobGraph) -> None:
    """Let the vertices of a job check their preconditions, once, before anything is deployed
    (Flink: JobVertex.initializeOnMaster). Only the JobManager calls it.

    Raises: ConfigError naming the vertex.
    """
    for vertex in job.vertices.values():
        for hook in vertex.master_hooks:
            try:
                hook(vertex.parallelism)
            except Exception as error:
                raise ConfigError(
                    f"{vertex.name}: it cannot be initialized on the master: {error}"
                ) from error


def execution_graph_of(
    job: JobGraph, run: str = "", *, warn: Callable[[str], None] = lambda text: None
) -> ExecutionGraph:
    """The ExecutionGraph of a job (Flink: DefaultExecutionGraphBuilder).

    Args:
        run: distinguishes runs of one job; determines the ids.
        warn: called with the reason if the plan for display cannot be made; it is empty then.

    Raises: ConfigError for a vertex without an invokable class, or one that cannot be attached.
    """
    seed = " ".join(["flinknet", run, job.name, *map(str, job.vertices)])
    graph = ExecutionGraph(job, ids.ExecutionGraphID(hashlib.sha256(seed.encode()).digest()[:16]))
    try:
        graph.json_plan = job.json_plan()
    except Exception as error:
        warn(f"the job has no plan for display: {error}")
    for vertex in job.vertices.values():
        if not vertex.invokable:
            raise ConfigError(f"{vertex.name}: the vertex has no invokable class")
    graph.attach(job.sorted_vertices())
    return graph
