"""A load of bench in virtual time, with what predictions never run: relays, consumers that are slow
for a while, and vertices that are deployed one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flinknet.config import STEPS_PER_TURN
from flinknet.core.consumer import SingleInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import ResultPartition
from flinknet.job.barriers import CheckpointResponder
from flinknet.job.descriptor import Start, TaskDeploymentDescriptor
from flinknet.job.gates import input_of
from flinknet.job.load.load_tasks import LoadTask, delay_of
from flinknet.job.load.plan import LoadPlan
from flinknet.job.load.run_input import PAUSED_NS
from flinknet.job.load.sink import LatencySink
from flinknet.job.scheduling import SchedulingType, has_output, scheduling_of
from flinknet.job.stream_task import StreamTask
from flinknet.simulator.cluster import START_NS, TYPICAL_COSTS, Cluster
from flinknet.simulator.cost_model import CostModel
from flinknet.simulator.simulated_job import SimulatedLoad
from flinknet.simulator.source_plan import SourcePlan
from flinknet.simulator.task_manager import NEVER_NS, SimulatedTaskManager, SteppedTask
from tests.driving import set_delay

_PartitionKey = tuple[int, int]
"""Key of a partition: index of its edge, index of the subtask that writes it."""


class Stages:
    """Deploys a vertex when its input can be read. A deployed vertex requests each channel when its
    partition can be consumed. Partitions and gates are filled in later.

    Attributes:
        deployed_ns: instant of deployment of each vertex; the start for vertices without inputs.
        first_record_ns, finished_ns: when each vertex that writes had its first output, and when
            all its partitions were complete.
    """

    def __init__(
        self,
        subtasks: Sequence[TaskDeploymentDescriptor],
        task_managers: Sequence[SimulatedTaskManager],
        partition_of: Mapping[tuple[int, int], ResultPartition],
        gate_of: Mapping[tuple[int, int], SingleInputGate],
        scheduling: SchedulingType,
    ) -> None:
        self._task_managers = task_managers
        self._partition_of = partition_of
        self._gate_of = gate_of
        self._scheduling = scheduling
        self._written: dict[int, list[_PartitionKey]] = {each.vertex: [] for each in subtasks}
        self._read: dict[int, set[_PartitionKey]] = {each.vertex: set() for each in subtasks}
        unrequested: list[tuple[int, TaskDeploymentDescriptor, int, int, int]] = []
        for task in subtasks:
            self._written[task.vertex] += [(each.edge, task.subtask) for each in task.outputs]
            for gate in task.inputs:
                self._read[task.vertex] |= {(gate.edge, each.producer) for each in gate.channels}
                unrequested += [
                    (each.index, task, gate.edge, position, each.producer)
                    for position, each in enumerate(gate.channels)
                ]
        self._unrequested = sorted(unrequested, key=lambda each: each[0])
        self.deployed_ns: dict[int, int] = {}
        self.first_record_ns: dict[int, int] = {}
        self.finished_ns: dict[int, int] = {}

    def advance(self, now_ns: int) -> None:
        """Deploy vertices and request channels according to the state of all partitions."""
        self._note_output(now_ns)
        if not self._unrequested:  # then all vertices are deployed, too
            return
        for vertex, read in self._read.items():
            if vertex not in self.deployed_ns:
                partitions = [self._partition_of[each] for each in read]
                if _is_result_consumable(partitions, self._scheduling):
                    self.deployed_ns[vertex] = now_ns
        waiting, self._unrequested = self._unrequested, []
        for channel in waiting:
            _, task, edge, position, producer = channel
            partition = self._partition_of[edge, producer]
            if task.vertex in self.deployed_ns and _is_consumable(partition, self._scheduling):
                gate = self._gate_of[edge, task.subtask]
                task_manager = self._task_managers[task.task_manager]
                gate.channels[position].request_subpartition(now_ns=task_manager.now_ns)
                task_manager.wake(now_ns)
            else:
                self._unrequested.append(channel)

    def _note_output(self, now_ns: int) -> None:
        for vertex, written in self._written.items():
            if vertex in self.finished_ns:
                continue
            partitions = [self._partition_of[each] for each in written]
            if any(has_output(each) for each in partitions):
                self.first_record_ns.setdefault(vertex, now_ns)
            if partitions and all(each.is_finished for each in partitions):
                self.finished_ns.setdefault(vertex, now_ns)


def _is_consumable(partition: ResultPartition, scheduling: SchedulingType) -> bool:
    """Whether a partition has what its readers wait for."""
    if scheduling is SchedulingType.ALL_AT_ONCE:
        return True
    if scheduling is SchedulingType.ON_COMPLETE_OUTPUT:
        return partition.is_finished
    return has_output(partition)


def _is_result_consumable(
    partitions: Sequence[ResultPartition], scheduling: SchedulingType
) -> bool:
    """Whether readers of these partitions of one result may be deployed: with the first output of
    any, or when all are complete; at once if there are none.
    """
    if scheduling is SchedulingType.ON_FIRST_OUTPUT and partitions:
        return any(map(has_output, partitions))
    return all(_is_consumable(each, scheduling) for each in partitions)


class WholeLoad(SimulatedLoad):
    """A load with relays, too, whose vertices wait for their inputs if its scheduling says so.

    Attributes:
        stages: deploys the vertices; None if all of them are deployed at once.
    """

    stages: Stages | None = None

    def requester(self, cluster: Cluster) -> Callable[[int], None] | None:
        """What requests the channels; None: the cluster does at once."""
        scheduling = scheduling_of(self._scenario)
        is_asked_for = self._scenario.workload.scheduling is not None
        if not is_asked_for and scheduling is SchedulingType.ALL_AT_ONCE:
            return None
        self.stages = Stages(
            self.subtasks,
            cluster.task_managers,
            cluster.partition_of,
            cluster.gate_of,
            scheduling,
        )
        return self.stages.advance

    def create_task(
        self,
        subtask: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        task_manager: SimulatedTaskManager,
        probe: Probe,
        respond: CheckpointResponder,
    ) -> SteppedTask:
        """Create the task of a subtask."""
        if not (partitions and gates):
            return super().create_task(subtask, partitions, gates, task_manager, probe, respond)
        start = Start(self.start_ns, self.start_ns)
        task, gate = LoadTask(subtask, self._scenario, probe, respond, start=start), input_of(gates)
        sinks = tuple(
            LatencySink(epoch_ns=self.start_ns, delay_ns_per_record=0, is_open_loop=False)
            for _ in gate.channels
        )
        # a unique number for the phase of its flusher, after the numbers of the sources
        number = subtask.vertex * subtask.parallelism + subtask.subtask
        relay = task.relay(gate, sinks, partitions[0], self._create_flusher(number))
        return SteppedTask(relay, partial(_step_relay, relay, self.costs))

    def _delay_ns(self, consumer: int) -> int:
        """Time of a consumer per record: of the scenario, and of the costs."""
        delay_ns = delay_of(consumer, self._scenario.workload.slow_consumers)
        return delay_ns if delay_ns == PAUSED_NS else delay_ns + super()._delay_ns(consumer)


def _step_relay(task: StreamTask, costs: CostModel, now_ns: int) -> tuple[int, int]:
    """Step a relay, and charge the loop for each buffer it takes and each record it emits."""
    receive_ns = int(costs.receive_ns_per_message)
    for _ in range(STEPS_PER_TURN):
        emitted = task.emitted_records
        next_ns = task.step(now_ns=now_ns)
        count = task.emitted_records - emitted
        now_ns += int(count * costs.emit_ns_per_record) + (receive_ns if count else 0)
        if next_ns is None:
            return now_ns, NEVER_NS
        if next_ns > now_ns:
            return now_ns, next_ns
    return now_ns, now_ns


def load_cluster(
    load: LoadPlan,
    plans: Sequence[SourcePlan],
    costs: CostModel = TYPICAL_COSTS,
    *,
    start_ns: int = START_NS,
    flush_overhead_ns: int = 0,
    **options: Any,
) -> Cluster:
    """The cluster of a planned load, with the options of Cluster."""
    job = WholeLoad(load, plans, costs, start_ns=start_ns, flush_overhead_ns=flush_overhead_ns)
    cluster = Cluster(job, **options)
    at = cluster.scheduler.at
    for slow in load.scenario.workload.slow_consumers:
        if slow.slow_ns is not None:
            slowed = partial(set_delay, cluster, slow.index)
            at(start_ns, partial(slowed, slow.delay_ns_per_record))
            at(start_ns + slow.slow_ns, partial(slowed, 0))
    return cluster


def stages_of(cluster: Cluster) -> Stages | None:
    """What deploys the vertices of a load's cluster; None if all of them are deployed at once."""
    assert isinstance(cluster.job, WholeLoad)
    return cluster.job.stages
