"""Executions: the attempts at running a subtask, and the states they go through."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID, ExecutionVertexID
from flinknet.errors import LocalProtocolError


class ExecutionState(Enum):
    """State of one attempt (Flink: ExecutionState)."""

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
        """Whether nothing follows."""
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
    """One attempt (Flink: Execution).

    Attributes:
        task_manager: where it was deployed; None: it was not.
        failure: why it failed; empty if it did not.
        timestamps_ns: when it came into each state, as far as that was told (Flink:
            getStateTimestamp).
        first_output_ns: when there was something to read in its first partition that had anything;
            None if nobody waited for that.
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
        """Counts from 0."""
        return self.attempt_id.attempt_number

    def switch_to(self, state: ExecutionState, *, now_ns: int | None = None) -> None:
        """Go on to a state; a failure that comes while it is being cancelled counts as that.

        Raises: LocalProtocolError when it is not possible from here.
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
    """The attempts at one subtask: the one that counts, and the last of those before it."""

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
        """Begin the next attempt (Flink: ExecutionVertex.resetForNewExecution).

        Raises: LocalProtocolError while the current one has not ended; one that was not begun
            stays.
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
    """The state of a vertex, from those of its subtasks (Flink:
    ExecutionJobVertex.getAggregateJobVertexState).
    """
    known = list(states)
    for state in (_S.FAILED, _S.CANCELING, _S.CANCELED, _S.INITIALIZING, _S.RUNNING):
        if state in known:
            return state
    if _S.FINISHED in known:
        return _S.FINISHED if all(each is _S.FINISHED for each in known) else _S.RUNNING
    return _S.CREATED
