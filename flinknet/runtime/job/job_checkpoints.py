"""JobCheckpoints: the checkpoints of a job whose tasks come and go (Flink: CheckpointCoordinator as
the JobMaster drives it). Sans-IO.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinknet.graph.execution import ExecutionState
from flinknet.graph.execution_graph import ExecutionGraph
from flinknet.job.checkpoint_coordinator import (
    AcknowledgeCheckpoint,
    Answer,
    CheckpointCoordinator,
    Command,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flinknet.results import CheckpointSummary


class JobCheckpoints:
    """Begins checkpoints while every task runs or has finished; one that goes on when tasks begin
    again is given up.

    Attributes:
        to_tell: what to tell every TaskManager, for the driver to take.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        *,
        interval_ns: int,
        timeout_ns: int,
        start_ns: int,
        measured_from_ns: int,
        epoch_ns: int,
    ) -> None:
        self._graph = graph
        self._coordinator = CheckpointCoordinator(
            [str(each.id) for each in graph.subtasks()],
            interval_ns=interval_ns,
            timeout_ns=timeout_ns,
            start_ns=start_ns,
            measured_from_ns=measured_from_ns,
            epoch_ns=epoch_ns,
        )
        self._is_running = False
        self.to_tell: list[Command] = []

    @property
    def completed(self) -> int:
        """How many are complete."""
        return self._coordinator.summary().completed

    def set_running(self, is_running: bool, *, now_ns: int) -> None:
        """Whether every task runs or has finished."""
        if is_running == self._is_running:
            return
        self._is_running = is_running
        if not is_running and self._coordinator.pending_id is not None:
            given_up = DeclineCheckpoint("", self._coordinator.pending_id, "tasks begin again")
            self._tell(self._coordinator.receive(given_up, now_ns=now_ns), now_ns)

    def next_deadline_ns(self) -> int | None:
        """When `handle_deadline` wants to be called, None for never."""
        return self._coordinator.next_deadline_ns() if self._is_running else None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Begin or give up what is due; tasks that have finished have nothing to add."""
        if self._is_running:
            self._tell(self._coordinator.advance(now_ns=now_ns), now_ns)

    def finish(self, task: str, *, now_ns: int) -> None:
        """A task has finished: it will not answer any more."""
        pending = self._coordinator.pending_id
        if pending is not None:
            self._tell(
                self._coordinator.receive(AcknowledgeCheckpoint(task, pending), now_ns=now_ns),
                now_ns,
            )

    def receive(self, answer: Answer, *, now_ns: int) -> None:
        """Take a task's answer."""
        self._tell(self._coordinator.receive(answer, now_ns=now_ns), now_ns)

    def summary(self) -> CheckpointSummary:
        """What became of them."""
        return self._coordinator.summary()

    def _tell(self, commands: Iterable[Command], now_ns: int) -> None:
        for command in commands:
            self.to_tell.append(command)
            if isinstance(command, TriggerCheckpoint):
                for subtask in self._graph.subtasks():
                    if subtask.state is ExecutionState.FINISHED:
                        self.finish(str(subtask.id), now_ns=now_ns)
