"""DeployedTasks: the tasks of a cluster, and the TaskManagers that step them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.config import NetworkConfig
from flinknet.core.probe import Probe
from flinknet.errors import FlinknetError
from flinknet.job.barriers import ignore
from flinknet.job.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.job.descriptor import SubtaskKey, TaskDeploymentDescriptor
from flinknet.job.stream_task import StreamTask

from .channels import Channels
from .checkpoints import SimulatedCheckpoints
from .scheduler import Scheduler
from .simulated_job import SimulatedJob
from .task_manager import SimulatedTaskManager, SteppedTask


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
        """Remove all tasks of the job from the TaskManagers."""
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
