"""SimulatedCheckpoints: drives the coordinator of a cluster's checkpoints."""

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
from flinknet.job.descriptor import SubtaskKey
from flinknet.job.stream_task import StreamTask

from .faults import Faults
from .simulated_job import SimulatedJob
from .task_manager import Scheduler, SimulatedTaskManager


class SimulatedCheckpoints:
    """The checkpoints of a cluster. Timestamps of barriers are milliseconds of virtual time. Its
    tasks, filled in later, acknowledge under their names.
    """

    def __init__(
        self,
        job: SimulatedJob,
        scheduler: Scheduler,
        task_managers: Sequence[SimulatedTaskManager],
        tasks: Mapping[SubtaskKey, StreamTask],
        is_over: Callable[[], bool],
        faults: Faults,
        interval_ns: int,
    ) -> None:
        self.is_next_lost = faults.triggers()
        self._seed = job.seed
        self._acknowledged: set[str] = set()
        self._scheduler = scheduler
        self._task_managers = task_managers
        self._tasks = tasks
        self._is_over = is_over
        self._place_of = {each.key: each.task_manager for each in job.subtasks}
        end_ns = faults.checkpoints_end_ns
        self.coordinator = CheckpointCoordinator(
            {each.execution_vertex_id for each in job.subtasks},
            interval_ns=interval_ns,
            timeout_ns=job.network.checkpoint_timeout_ns,
            start_ns=job.start_ns,
            end_ns=end_ns and job.start_ns + end_ns,
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
        """Give a task's answer to the coordinator, which may begin a postponed checkpoint. Raises:
        InvariantViolatedError for a checkpoint that is complete but lacks an answer.
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

    def _send(self, commands: Iterable[Command]) -> None:
        for command in commands:
            is_trigger = isinstance(command, TriggerCheckpoint)
            if is_trigger:
                self._acknowledged.clear()
            for key, task in self._tasks.items():
                if is_trigger and task.is_source and self.is_next_lost and self.is_next_lost():
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
