"""Stages: a cluster whose vertices are deployed one after the other, and a log of when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.core.consumer import SingleInputGate
from flinknet.core.producer import BufferWritingResultPartition
from flinknet.tasks.deployment import DeployedChannel, Deployment
from flinknet.tasks.scheduling import SchedulingType, StartCondition, is_consumable, may_start

from .task_manager import SimulatedTaskManager


class Stages:
    """Deploys a vertex when its inputs allow it: then it requests what can be consumed, and the
    rest when that can be (Flink: the scheduler with its input dependency constraint; channels whose
    producer is not ready are unknown until then).

    Args:
        partition_of: partitions by edge and producer; filled later.
        gate_of: gates by edge and consumer; filled later.

    Attributes:
        deployed_ns: when each vertex was deployed. Those without inputs are from the beginning.
        first_record_ns: when each vertex that writes had its first output.
        finished_ns: when the last partition of each vertex that writes was complete.
    """

    def __init__(
        self,
        deployment: Deployment,
        task_managers: Sequence[SimulatedTaskManager],
        partition_of: Mapping[tuple[int, int], BufferWritingResultPartition],
        gate_of: Mapping[tuple[int, int], SingleInputGate],
        scheduling: SchedulingType,
        condition: StartCondition,
    ) -> None:
        self._deployment = deployment
        self._task_managers = task_managers
        self._partition_of = partition_of
        self._gate_of = gate_of
        self._scheduling = scheduling
        self._condition = condition
        self._unrequested = list(deployment.channels)
        self.deployed_ns: dict[int, int] = {}
        self.first_record_ns: dict[int, int] = {}
        self.finished_ns: dict[int, int] = {}

    def advance(self, *, now_ns: int) -> None:
        """Look at what every partition has now, and deploy and request accordingly."""
        deployment = self._deployment
        self._note_output(now_ns)
        for vertex in range(len(deployment.vertices)):
            if vertex not in self.deployed_ns:
                ready = [
                    is_consumable(partition, self._scheduling)
                    for edge in deployment.inputs_of(vertex)
                    for partition in self._written(edge.index)
                ]
                if may_start(ready, self._condition):
                    self.deployed_ns[vertex] = now_ns
        waiting, self._unrequested = self._unrequested, []
        for channel in waiting:
            is_deployed = deployment.edges[channel.edge].target in self.deployed_ns
            partition = self._partition_of[channel.edge, channel.producer]
            if is_deployed and is_consumable(partition, self._scheduling):
                self._request(channel, now_ns)
            else:
                self._unrequested.append(channel)

    def _written(self, edge: int) -> list[BufferWritingResultPartition]:
        source = self._deployment.vertices[self._deployment.edges[edge].source]
        return [self._partition_of[edge, each] for each in range(source.parallelism)]

    def _request(self, channel: DeployedChannel, now_ns: int) -> None:
        deployed = self._deployment.channels_of_consumer(channel.consumer, channel.edge)
        gate = self._gate_of[channel.edge, channel.consumer]
        gate.channels[deployed.index(channel)].request_subpartition(now_ns=now_ns)
        self._task_managers[self._deployment.consumer_task_manager(channel)].wake(now_ns)

    def _note_output(self, now_ns: int) -> None:
        for edge in self._deployment.edges:
            written = self._written(edge.index)
            if any(is_consumable(each, SchedulingType.ON_FIRST_OUTPUT) for each in written):
                self.first_record_ns.setdefault(edge.source, now_ns)
            if all(each.is_finished for each in written):
                self.finished_ns.setdefault(edge.source, now_ns)
