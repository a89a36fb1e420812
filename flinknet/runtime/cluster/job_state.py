"""The state of a job, when it restarts after failures, and which of its tasks may start."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache

from flinknet.core.wire.ids import ExecutionAttemptID, JobVertexID
from flinknet.graph.execution_graph import (
    ConnectedEdge,
    ExecutionGraph,
    ExecutionJobVertex,
    ExecutionState,
    ExecutionVertex,
    IntermediateResult,
)
from flinknet.graph.failover import SchedulingTopology
from flinknet.graph.job_config import EXPONENTIAL_DELAY, FIXED_DELAY, NONE, JobConfig
from flinknet.job.scheduling import may_start
from flinknet.units import NS_PER_S


class JobState(Enum):
    """State of the job (Flink: JobStatus)."""

    CREATED = "created"
    RUNNING = "running"
    RESTARTING = "restarting"
    FAILING = "failing"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELED = "canceled"
    FINISHED = "finished"

    @property
    def is_terminal(self) -> bool:
        return self in (JobState.FAILED, JobState.CANCELED, JobState.FINISHED)

    @property
    def is_ending(self) -> bool:
        return self in (JobState.CANCELLING, JobState.FAILING)


INITIAL_NS = NS_PER_S
MAX_NS = 60 * NS_PER_S
RESET_NS = 3600 * NS_PER_S


class RestartStrategy:
    """The restart strategy that a job configures (see JobConfig.restart_strategy).

    An exponential delay grows by half with every failure, up to a minute, and starts over after an
    hour without one; failures during the delay share one restart. It mirrors
    ExponentialDelayRestartBackoffTimeStrategy with its defaults, but for the jitter, which keeps
    jobs of one cluster apart.
    """

    def __init__(self, config: JobConfig) -> None:
        strategy = config.restart_strategy
        if strategy is None:
            strategy = NONE if config.network.checkpoint_interval_ns is None else EXPONENTIAL_DELAY
        self._is_growing = strategy == EXPONENTIAL_DELAY
        self._restarts_max = config.restart_attempts if strategy == FIXED_DELAY else 0
        self._delay_ns = 0 if self._is_growing else config.restart_delay_ns
        self._restart_at_ns: int | None = None

    def may_restart(self, restarts: int) -> bool:
        return self._is_growing or restarts < self._restarts_max

    def restart_at_ns(self, *, now_ns: int) -> int:
        """A task has failed now. Returns: when to begin again."""
        if not self._is_growing:
            return now_ns + self._delay_ns
        last_ns = self._restart_at_ns
        if last_ns is not None and now_ns <= last_ns:
            return last_ns
        if last_ns is None or now_ns - last_ns >= RESET_NS + self._delay_ns:
            self._delay_ns = INITIAL_NS
        else:
            self._delay_ns = min(self._delay_ns * 3 // 2, MAX_NS)
        self._restart_at_ns = now_ns + self._delay_ns
        return self._restart_at_ns


class InputDependencies:
    """The inputs that the tasks of a job wait for.

    Args:
        stage_of: stage of each vertex; a stage begins when lower stages have ended or are readable.
        depth_of: depth of each vertex; joined tasks of the same depth are deployed together.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        topology: SchedulingTopology,
        stage_of: Mapping[JobVertexID, int],
        depth_of: Mapping[JobVertexID, int],
    ) -> None:
        self._graph = graph
        self._topology = topology
        self._stage_of = stage_of
        self._depth_of = depth_of
        self._constraint = graph.job.config.input_dependency_constraint
        self._has_output: set[tuple[ExecutionAttemptID, int]] = set()
        self._unread: dict[ExecutionVertex, tuple[ConnectedEdge, ...]] = {}

    def note_output(self, subtask: ExecutionVertex, output: int, *, now_ns: int) -> None:
        current = subtask.current
        self._has_output.add((current.attempt_id, output))
        if current.first_output_ns is None:
            current.first_output_ns = now_ns

    def to_deploy(self) -> list[ExecutionVertex]:
        """Tasks that have not started and may now, by region."""
        ahead = [each for each in self._graph.vertices.values() if not self._is_past(each)]
        stage = min((self._stage_of[each.id] for each in ahead), default=None)
        can_be_read = cache(self._can_be_read)

        def has_inputs(subtask: ExecutionVertex) -> bool:
            edges = subtask.job_vertex.inputs
            readable = [not self._waits(each) or can_be_read(each.result) for each in edges]
            return may_start(readable, self._constraint)

        chosen: list[ExecutionVertex] = []
        for region in self._topology.regions:
            new = [each for each in region.subtasks if each.state is ExecutionState.CREATED]
            new = [each for each in new if self._stage_of[each.job_vertex.id] == stage]
            if all(map(has_inputs, new)):
                chosen += new
        return chosen

    def begin(self, subtask: ExecutionVertex, edges: Mapping[int, ConnectedEdge]) -> frozenset[int]:
        """Note the start of a task. Returns: the numbers of its edges that are not readable yet."""
        unread = {at: each for at, each in edges.items() if not self._is_consumable(each)}
        if unread:
            self._unread[subtask] = tuple(unread.values())
        return frozenset(unread)

    def take_readable(self) -> list[tuple[ExecutionVertex, list[ConnectedEdge]]]:
        """Return tasks that started with some of their inputs, with inputs that became readable."""
        found = []
        for subtask, unread in self._unread.items():
            readable = [each for each in unread if self._is_consumable(each)]
            if readable:
                self._unread[subtask] = tuple(each for each in unread if each not in readable)
                found.append((subtask, readable))
        return found

    def end(self, subtask: ExecutionVertex) -> None:
        self._unread.pop(subtask, None)

    def _is_consumable(self, edge: ConnectedEdge) -> bool:
        return not self._waits(edge) or self._can_be_read(edge.result)

    def _waits(self, edge: ConnectedEdge) -> bool:
        """Whether the ends of an edge are not deployed together."""
        return self._depth_of[edge.result.producer.id] != self._depth_of[edge.target.id]

    def _is_past(self, vertex: ExecutionJobVertex) -> bool:
        """Whether later stages no longer wait for a vertex."""
        is_over = all(each.state is ExecutionState.FINISHED for each in vertex.task_vertices)
        return is_over or (bool(vertex.results) and all(map(self._can_be_read, vertex.results)))

    def _can_be_read(self, result: IntermediateResult) -> bool:
        at = result.producer.results.index(result)
        is_complete = (each.producer.state is ExecutionState.FINISHED for each in result.partitions)
        if result.partition_type.is_blocking_or_blocking_persistent:
            return all(is_complete)
        return any(is_complete) or any(
            (each.producer.current.attempt_id, at) in self._has_output for each in result.partitions
        )
