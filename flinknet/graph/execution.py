"""Executions: the attempts of a subtask and their states."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID, ExecutionVertexID
from flinknet.errors import LocalProtocolError


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
        """Whether the state is final."""
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


class Execution:
    """An attempt of a subtask (Flink: Execution).

    Attributes:
        task_manager: where it was deployed; None: not yet.
        failure: why it failed; empty if it did not.
        timestamps_ns: when it entered each state, where known (Flink: getStateTimestamp).
        first_output_ns: when any of its partitions first had something to read; None if no reader
            waited for that.
    """

    def __init__(self, attempt_id: ExecutionAttemptID) -> None:
        self.attempt_id = attempt_id
        self.state = ExecutionState.CREATED
        self.task_manager: int | None = None
        self.failure = ""
        self.timestamps_ns: dict[ExecutionState, int] = {}
        self.first_output_ns: int | None = None

    @property
    def attempt_number(self) -> int:
        """Number of the attempt, from 0."""
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


class ExecutionAttempts:
    """The attempts of a subtask: the current one, and the latest earlier ones."""

    def __init__(
        self,
        graph_id: ExecutionGraphID,
        vertex_id: ExecutionVertexID,
        history_size: int,
    ) -> None:
        self._graph_id, self._vertex_id = graph_id, vertex_id
        self.prior: deque[Execution] = deque(maxlen=history_size)
        self.current = self._attempt(0)

    def reset_for_new_execution(self) -> Execution:
        """Begin the next attempt (Flink: ExecutionVertex.resetForNewExecution). An attempt that was
        never scheduled is kept.

        Raises: LocalProtocolError while the current attempt has not ended.
        """
        if self.current.state is ExecutionState.CREATED:
            return self.current
        if not self.current.state.is_terminal:
            raise LocalProtocolError(
                f"attempt {self.current.attempt_number} has not ended ({self.current.state.value})"
            )
        self.prior.append(self.current)
        self.current = self._attempt(self.current.attempt_number + 1)
        return self.current

    def _attempt(self, number: int) -> Execution:
        return Execution(ExecutionAttemptID(self._graph_id, self._vertex_id, number))


def aggregate_state(states: Iterable[ExecutionState]) -> ExecutionState:
    """The state of a vertex, aggregated over its subtasks (Flink:
    ExecutionJobVertex.getAggregateJobVertexState).
    """
    known = list(states)
    for state in (_S.FAILED, _S.CANCELING, _S.CANCELED, _S.INITIALIZING, _S.RUNNING):
        if state in known:
            return state
    if _S.FINISHED in known:
        return _S.FINISHED if all(each is _S.FINISHED for each in known) else _S.RUNNING
    return _S.CREATED
