# mypyc
"""Stages: deploys vertices one after another, and logs the instants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.core.consumer import SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.scheduling import SchedulingType, has_output, is_consumable, is_result_consumable

from .task_manager import SimulatedTaskManager

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

    def advance(self, *, now_ns: int) -> None:
        """Deploy vertices and request channels according to the state of all partitions."""
        self._note_output(now_ns)
        if not self._unrequested:  # then all vertices are deployed, too
            return
        for vertex, read in self._read.items():
            if vertex not in self.deployed_ns:
                partitions = [self._partition_of[each] for each in read]
                if is_result_consumable(partitions, self._scheduling):
                    self.deployed_ns[vertex] = now_ns
        waiting, self._unrequested = self._unrequested, []
        for channel in waiting:
            _, task, edge, position, producer = channel
            partition = self._partition_of[edge, producer]
            if task.vertex in self.deployed_ns and is_consumable(partition, self._scheduling):
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
