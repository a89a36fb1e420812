"""The checkpoints of a cluster; messages to and from its coordinator take no time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from flinknet.errors import InvariantViolatedError
from flinknet.job.checkpoint_coordinator import (
    AcknowledgeCheckpoint,
    Answer,
    CheckpointCoordinator,
    Command,
    TriggerCheckpoint,
)
from flinknet.job.descriptor import SubtaskKey, TaskDeploymentDescriptor
from flinknet.job.stream_task import StreamTask
from flinknet.results import CheckpointSummary

from .faults import LostTriggers
from .scheduler import Scheduler
from .task_manager import SimulatedTaskManager


class SimulatedCheckpoints:
    """Drives the coordinator of a cluster. Timestamps of barriers are milliseconds of virtual time.

    Args:
        subtasks: subtasks of the job; the tasks acknowledge under their names.
        tasks: tasks by subtask; filled later.
        is_over: whether the cluster has finished or failed.
        interval_ns: time from the beginning of a checkpoint to that of the next.
        start_ns: start of the tasks.
        end_ns: instant from which no checkpoint begins; None for no end.
        lost_triggers: chooses the triggers that do not reach sources.
    """

    def __init__(
        self,
        subtasks: Sequence[TaskDeploymentDescriptor],
        scheduler: Scheduler,
        task_managers: Sequence[SimulatedTaskManager],
        tasks: Mapping[SubtaskKey, StreamTask],
        is_over: Callable[[], bool],
        *,
        interval_ns: int,
        timeout_ns: int,
        start_ns: int,
        end_ns: int | None,
        lost_triggers: LostTriggers,
        seed: int,
    ) -> None:
        self.lost_triggers = lost_triggers
        self._seed = seed
        self._acknowledged: set[str] = set()
        self._scheduler = scheduler
        self._task_managers = task_managers
        self._tasks = tasks
        self._is_over = is_over
        self._place_of = {each.key: each.task_manager for each in subtasks}
        self.coordinator = CheckpointCoordinator(
            [each.execution_vertex_id for each in subtasks],
            interval_ns=interval_ns,
            timeout_ns=timeout_ns,
            start_ns=start_ns,
            end_ns=end_ns,
        )
        self._planned: int | None = None

    def advance(self) -> None:
        """Send the coordinator's commands to the tasks, and schedule the next call."""
        self._planned = None
        if self._is_over():
            return
        if all(task.is_finished for task in self._tasks.values() if task.is_source):
            self.coordinator.stop()
        self._send(self.coordinator.advance(now_ns=self._scheduler.now_ns))
        self._plan()

    def receive(self, answer: Answer) -> None:
        """Give a task's answer to the coordinator, which may begin a postponed checkpoint.

        Raises: InvariantViolatedError for a checkpoint that is complete but lacks an answer.
        """
        coordinator = self.coordinator
        pending_id = coordinator.pending_id
        commands = coordinator.receive(answer, now_ns=self._scheduler.now_ns)
        if answer.checkpoint_id == pending_id and isinstance(answer, AcknowledgeCheckpoint):
            self._acknowledged.add(answer.task)
            if coordinator.pending_id is None and len(self._acknowledged) < len(self._place_of):
                text = f"checkpoint {pending_id} is complete with {len(self._acknowledged)} answers"
                raise InvariantViolatedError(f"{text} of {len(self._place_of)}", self._seed)
        self._send(commands)
        if pending_id is not None and coordinator.pending_id is None:
            self._plan()

    def summary(self) -> CheckpointSummary:
        """Summary of the checkpoints so far."""
        return self.coordinator.summary()

    def _send(self, commands: Iterable[Command]) -> None:
        for command in commands:
            is_trigger = isinstance(command, TriggerCheckpoint)
            if is_trigger:
                self._acknowledged.clear()
            for key, task in self._tasks.items():
                if is_trigger and task.is_source and self.lost_triggers.is_next_lost():
                    continue
                task.execute(command, now_ns=self._task_managers[self._place_of[key]].now_ns)
            for task_manager in self._task_managers:
                task_manager.wake(self._scheduler.now_ns)

    def _plan(self) -> None:
        """Replace the scheduled call of `advance` by one at the coordinator's next deadline."""
        if self._planned is not None:
            self._scheduler.cancel(self._planned)
            self._planned = None
        due_ns = self.coordinator.next_deadline_ns()
        if due_ns is not None:
            self._planned = self._scheduler.at(due_ns, self.advance)
