# mypyc
"""Cluster: a job in virtual time, with the core and the tasks that the runtime drives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flinknet.config import Scenario
from flinknet.core.consumer import SingleInputGate
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import ResultPartition
from flinknet.core.producer.partition_type import ReleaseBy
from flinknet.errors import FlinknetError, SimulationError, StalledError
from flinknet.job.barriers import ignore
from flinknet.job.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.job.descriptor import SubtaskKey, TaskDeploymentDescriptor
from flinknet.job.load.plan import listed_load_plan
from flinknet.job.stream_task import StreamTask

from .channels import Channels, SimulatedHosts
from .checkpoints import SimulatedCheckpoints
from .cost_model import TYPICAL_COSTS, CostModel, Preemptions
from .faults import NO_FAULTS, Faults
from .link import LinkSettings
from .simulated_job import OPENING_NS, SimulatedJob, SimulatedLoad
from .source_plan import SourcePlan
from .task_manager import START_NS, SimulatedTaskManager, SteppedTask

__all__ = ["OPENING_NS", "START_NS", "TYPICAL_COSTS", "Cluster"]

NO_PREEMPTIONS: Mapping[int, Preemptions] = {}


class Cluster:
    """All TaskManagers of a job, with their connections and tasks.

    The subtasks of the first stage are deployed at once, those of each later stage when all tasks
    of the stage before have ended. An error of a task or of the stack cancels the job.

    Attributes:
        error: why the job was cancelled.
        tasks: started tasks, in the order of the job's subtasks.

    Args:
        probes: one for each TaskManager; none to record nothing.
        link: bandwidth and capacity of the links. Their latency is the `transit_ns` of the job's
            costs, which counts from the hand-over of a message, minus the time for sending it.
        preemptions: preemptions by TaskManager, counted from the start of the tasks.
        hosts: hosts that are or were used by other jobs; None for new ones.
    """

    def __init__(
        self,
        job: SimulatedJob,
        *,
        probes: Sequence[Probe] = (),
        link: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
        faults: Faults = NO_FAULTS,
        preemptions: Mapping[int, Preemptions] = NO_PREEMPTIONS,
        hosts: SimulatedHosts | None = None,
    ) -> None:
        self.job = job
        self.network = job.network
        self.seed = job.seed
        self.faults = faults
        if hosts is None:
            hosts = SimulatedHosts(
                job.segments(), job.network, start_ns=job.start_ns - job.opening_ns, faults=faults
            )
        self.hosts = hosts
        self.scheduler = hosts.scheduler
        self.error: FlinknetError | None = None
        self._start_ns = job.start_ns
        self.task_managers = tuple(hosts.task_managers)
        if job.costs.wake_ns:  # not while channels are opened, which the compiled model leaves out
            self.scheduler.at(job.start_ns, self._let_loops_sleep)
        for index, each in preemptions.items():
            self.task_managers[index].set_preemptions(each, start_ns=job.start_ns)
        self._probes = tuple(probes) or tuple(NullProbe() for _ in self.task_managers)
        self.channels = Channels(job, hosts, self._probes, link, faults, self.cancel)
        self.partition_of = self.channels.partition_of
        self.gate_of = self.channels.gate_of
        self.links = self.channels.links
        self.tasks: dict[SubtaskKey, StreamTask] = {}
        self.debloated_gates: list[GateDebloating] = []
        self._stepped: list[SteppedTask] = []
        self._request: Callable[[int], None] | None = job.requester(self)
        self.checkpoints: SimulatedCheckpoints | None = None
        if self.network.checkpoint_interval_ns is not None:
            self.checkpoints = SimulatedCheckpoints(
                job,
                self.scheduler,
                self.task_managers,
                self.tasks,
                lambda: self.is_over,
                faults,
                self.network.checkpoint_interval_ns,
            )
        self._stage = 0
        self._last_stage = max(each.stage for each in job.subtasks)
        self._deploy_stage()

    @staticmethod
    def of_exchange(
        scenario: Scenario,
        places: tuple[Sequence[int], Sequence[int]],
        channels: Mapping[int, tuple[int, int, int]],
        plans: Sequence[SourcePlan],
        costs: CostModel,
        *,
        start_ns: int = START_NS,
        flush_overhead_ns: int = 0,
        **options: Any,
    ) -> Cluster:
        """The cluster of one exchange with given channels, with the options of Cluster."""
        load = listed_load_plan(scenario, places, channels)
        job = SimulatedLoad(
            load, plans, costs, start_ns=start_ns, flush_overhead_ns=flush_overhead_ns
        )
        return Cluster(job, **options)

    @property
    def partitions(self) -> list[ResultPartition]:
        return list(self.partition_of.values())

    @property
    def gates(self) -> list[SingleInputGate]:
        return list(self.gate_of.values())

    @property
    def sources(self) -> list[StreamTask]:
        return [task for task in self.tasks.values() if task.is_source]

    @property
    def relays(self) -> list[StreamTask]:
        return [x for x in self.tasks.values() if not x.is_source and x.outputs.each]

    @property
    def sinks(self) -> list[StreamTask]:
        return [task for task in self.tasks.values() if not task.outputs.each]

    @property
    def is_finished(self) -> bool:
        """Whether all tasks have ended and all partitions that are not kept were released."""
        return (
            self._stage == self._last_stage
            and all(task.is_finished for task in self.tasks.values())
            and all(
                partition.is_consumed
                for partition in self.partition_of.values()
                if partition.partition_type.release_by is ReleaseBy.UPSTREAM
            )
        )

    @property
    def is_over(self) -> bool:
        return self.error is not None or self.is_finished

    @property
    def now_ns(self) -> int:
        return self.scheduler.now_ns

    def _let_loops_sleep(self) -> None:
        for task_manager in self.task_managers:
            task_manager.wake_ns = int(self.job.costs.wake_ns)

    def step(self) -> bool:
        """Run the next action; errors cancel the job, as in Flink. Returns: False without any."""
        try:
            has_stepped = self.scheduler.step()
        except SimulationError:
            raise
        except FlinknetError as error:
            self.cancel(error)
            return True
        self.advance()
        return has_stepped

    def advance(self) -> None:
        """Deploy the next stage, and request channels, as far as possible now."""
        if self.error is not None:
            return
        try:
            is_last = self._stage == self._last_stage
            if not is_last and all(task.is_finished for task in self.tasks.values()):
                self._stage += 1
                self._deploy_stage()
            if self._request is not None:
                self._request(self.now_ns)
        except FlinknetError as error:
            self.cancel(error)

    def run_until_idle(self, limit: int = 100_000_000) -> None:
        """Run until there is no action left, or until there were `limit`, so that a livelock fails.
        Raises: StalledError then, or if the job has not ended.
        """
        for _ in range(limit):
            if not self.step():
                break
        else:
            raise StalledError(f"not finished after {limit} steps", self.seed)
        if self.error is None and not self.is_finished:
            raise StalledError("nothing can happen any more, but records are left", self.seed)

    def cancel(self, error: FlinknetError, *, breaks_links: bool = True) -> None:
        """End the job and return its memory; the first error is kept. Connections stay open, as a
        TaskManager's do, unless this `breaks_links`.
        """
        self.error = self.error or error
        self._step_instead([])
        if breaks_links:
            for link in self.links.values():
                link.reset(now_ns=self.now_ns)
        if self.faults.closes_gates_first:
            self._close_gates()
        for task in self.tasks.values():
            task.cancel()
        for partition in self.partitions:
            partition.release()
        self.close()
        for task_manager in self.task_managers:
            task_manager.wake(self.now_ns)

    def close(self) -> None:
        """Return the memory of the gates, and release kept results, after the job's end."""
        for partition in self.partitions:
            if partition.is_finished:
                partition.release()
        self._close_gates()

    def _close_gates(self) -> None:
        for gate in self.gates:
            gate.close()

    # Deploying

    def _deploy_stage(self) -> None:
        """Create all partitions and gates of the current stage, then start its tasks."""
        subtasks = [each for each in self.job.subtasks if each.stage == self._stage]
        late_ns = self.faults.late_partitions_ns
        if late_ns is None or self._request is not None or self.now_ns >= self._start_ns:
            self.channels.create_partitions(subtasks)
        else:
            at_ns = min(self.now_ns + late_ns, self._start_ns)
            self.scheduler.at(at_ns, partial(self.channels.create_partitions, subtasks))
        self.channels.create_gates(subtasks)
        if self._request is None:
            self.channels.request(subtasks)
        if self.now_ns < self._start_ns:
            self.scheduler.at(self._start_ns, partial(self._start_tasks, subtasks))
        else:
            self._start_tasks(subtasks)

    def _start_tasks(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
        """Start the tasks of a stage in place of those of the stage before."""
        if self.error is not None:
            return
        self._step_instead([(each.task_manager, self._create_task(each)) for each in subtasks])
        for index, task_manager in enumerate(self.task_managers):
            task_manager.has_local_channels |= any(
                channel.is_local
                for each in subtasks
                if each.task_manager == index
                for gate in each.inputs
                for channel in gate.channels
            )
            task_manager.wake(self.now_ns)
            if self.network.debloating_enabled:
                self._start_debloating(task_manager)
        if self._stage == 0:
            self.faults.begin(self)
            if self.checkpoints is not None:
                self.checkpoints.advance()

    def _create_task(self, subtask: TaskDeploymentDescriptor) -> SteppedTask:
        stepped = self.job.create_task(
            subtask,
            [self.partition_of[each.edge, subtask.subtask] for each in subtask.outputs],
            [self.gate_of[each.edge, subtask.subtask] for each in subtask.inputs],
            self.task_managers[subtask.task_manager],
            self._probes[subtask.task_manager],
            ignore if self.checkpoints is None else self.checkpoints.receive,
        )
        self.tasks[subtask.key] = stepped.task
        return stepped

    def _step_instead(self, placed: Sequence[tuple[int, SteppedTask]]) -> None:
        """Let TaskManagers step these tasks in place of those of the stage before."""
        for each in self._stepped:
            each.is_cancelled = True
        self._stepped = [each for _, each in placed]
        for each in self._stepped:
            each.fail = self.cancel
        for index, task_manager in enumerate(self.task_managers):
            own = [each for where, each in placed if where == index]
            task_manager.tasks = [e for e in task_manager.tasks if not e.is_cancelled] + own

    def _start_debloating(self, task_manager: SimulatedTaskManager) -> None:
        network, now_ns = self.network, task_manager.now_ns
        own = [each.task for each in self._stepped if each in task_manager.tasks]
        gates = debloated_gates(own, network, now_ns=now_ns)
        debloating = BufferDebloating(gates, network.debloating_period_ns, start_ns=now_ns)
        self.debloated_gates += gates

        def debloat() -> None:
            if self.is_over:
                return
            debloating.handle_deadline(now_ns=task_manager.now_ns)
            task_manager.wake(self.now_ns)
            due_ns = debloating.next_deadline_ns()
            if due_ns is not None:
                self.scheduler.at(task_manager.virtual_ns(due_ns), debloat)

        debloat()
