"""DeployedTasks: the tasks of a cluster, and the TaskManagers that step them; SimulatedCheckpoints:
the coordinator of their checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from flinknet.config import NetworkConfig
from flinknet.core.probe import Probe
from flinknet.errors import FlinknetError, InvariantViolatedError
from flinknet.job.barriers import ignore
from flinknet.job.checkpoint_coordinator import (
    AcknowledgeCheckpoint,
    Answer,
    CheckpointCoordinator,
    Command,
    TriggerCheckpoint,
)
from flinknet.job.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.job.descriptor import SubtaskKey, TaskDeploymentDescriptor
from flinknet.job.stream_task import StreamTask
from flinknet.results import CheckpointSummary

from .channels import Channels
from .faults import Faults
from .simulated_job import SimulatedJob
from .task_manager import Scheduler, SimulatedTaskManager, SteppedTask


class SimulatedCheckpoints:
    """Drives the coordinator of a cluster. Timestamps of barriers are milliseconds of virtual time.

    Args:
        tasks: tasks by subtask; filled later. They acknowledge under their names.
        is_over: whether the cluster has finished or failed.
        interval_ns: time from the beginning of a checkpoint to that of the next.
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
        self.lost_triggers = faults.triggers()
        self._seed = job.seed
        self._acknowledged: set[str] = set()
        self._scheduler = scheduler
        self._task_managers = task_managers
        self._tasks = tasks
        self._is_over = is_over
        self._place_of = {each.key: each.task_manager for each in job.subtasks}
        end_ns = faults.checkpoints_end_ns
        self.coordinator = CheckpointCoordinator(
            [each.execution_vertex_id for each in job.subtasks],
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


def start_debloating(
    tasks: Sequence[StreamTask],
    task_manager: SimulatedTaskManager,
    scheduler: Scheduler,
    network: NetworkConfig,
    is_over: Callable[[], bool],
) -> Sequence[GateDebloating]:
    """Evaluate the gates of a TaskManager's tasks until their job is over. Returns: the gates."""
    now_ns = task_manager.now_ns
    debloating = BufferDebloating(
        debloated_gates(tasks, network, now_ns=now_ns),
        network.debloating_period_ns,
        start_ns=now_ns,
    )

    def debloat() -> None:
        if is_over():
            return
        debloating.handle_deadline(now_ns=task_manager.now_ns)
        task_manager.wake(scheduler.now_ns)
        due_ns = debloating.next_deadline_ns()
        if due_ns is not None:
            scheduler.at(task_manager.virtual_ns(due_ns), debloat)

    debloat()
    return debloating.gates


class DeployedTasks:
    """Starts the tasks of one stage after another, and ends them.

    Attributes:
        each: started tasks, in the order of the job's subtasks.
        debloated_gates: gates of the tasks, if debloating is enabled.

    Args:
        probes: one for each TaskManager.
        fail: called with the error of a task.
        is_over: whether the cluster has finished or failed.
    """

    def __init__(
        self,
        job: SimulatedJob,
        scheduler: Scheduler,
        task_managers: Sequence[SimulatedTaskManager],
        probes: Sequence[Probe],
        channels: Channels,
        fail: Callable[[FlinknetError], None],
        is_over: Callable[[], bool],
    ) -> None:
        self.each: dict[SubtaskKey, StreamTask] = {}
        self.debloated_gates: list[GateDebloating] = []
        self._job = job
        self._scheduler = scheduler
        self._task_managers = task_managers
        self._probes = probes
        self._channels = channels
        self._fail = fail
        self._is_over = is_over
        self._stepped: list[SteppedTask] = []

    def start(
        self, subtasks: Sequence[TaskDeploymentDescriptor], checkpoints: SimulatedCheckpoints | None
    ) -> None:
        """Start the tasks of a stage in place of those of the stage before."""
        self._replace([(each.task_manager, self._create(each, checkpoints)) for each in subtasks])
        network = self._job.network
        for index, task_manager in enumerate(self._task_managers):
            task_manager.has_local_channels |= any(
                channel.is_local
                for each in subtasks
                if each.task_manager == index
                for gate in each.inputs
                for channel in gate.channels
            )
            task_manager.wake(self._scheduler.now_ns)
            if network.debloating_enabled:
                own = [each.task for each in self._stepped if each in task_manager.tasks]
                self.debloated_gates += start_debloating(
                    own, task_manager, self._scheduler, network, self._is_over
                )

    def stop_stepping(self) -> None:
        self._replace([])

    def _replace(self, placed: Sequence[tuple[int, SteppedTask]]) -> None:
        """Let TaskManagers step these tasks in place of those of the stage before."""
        for each in self._stepped:
            each.is_cancelled = True
        self._stepped = [each for _, each in placed]
        for each in self._stepped:
            each.fail = self._fail
        for index, task_manager in enumerate(self._task_managers):
            own = [each for where, each in placed if where == index]
            task_manager.tasks = [e for e in task_manager.tasks if not e.is_cancelled] + own

    def _create(
        self, subtask: TaskDeploymentDescriptor, checkpoints: SimulatedCheckpoints | None
    ) -> SteppedTask:
        channels = self._channels
        stepped = self._job.create_task(
            subtask,
            [channels.partition_of[each.edge, subtask.subtask] for each in subtask.outputs],
            [channels.gate_of[each.edge, subtask.subtask] for each in subtask.inputs],
            self._task_managers[subtask.task_manager],
            self._probes[subtask.task_manager],
            ignore if checkpoints is None else checkpoints.receive,
        )
        self.each[subtask.key] = stepped.task
        return stepped
