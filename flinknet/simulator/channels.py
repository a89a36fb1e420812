"""Channels: the partitions and gates of a cluster, which exist before its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import PipelinedSubpartition, ResultPartition
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.gates import create_gates, create_partitions

from .faults import Faults
from .hosts import SimulatedHosts
from .task_manager import SimulatedTaskManager
from .wiring import Wiring


class Channels:
    """Makes partitions and gates, and lets gates request their partitions.

    Attributes:
        partition_of: partitions by edge and writing subtask.
        gate_of: gates by edge and reading subtask.
    """

    def __init__(
        self,
        hosts: SimulatedHosts,
        network: NetworkConfig,
        faults: Faults,
        probes: Sequence[Probe],
        wiring: Wiring,
    ) -> None:
        self.partition_of: dict[tuple[int, int], ResultPartition] = {}
        self.gate_of: dict[tuple[int, int], SingleInputGate] = {}
        self._hosts = hosts
        self._task_managers = tuple(hosts.task_managers)
        self._network = network
        self._first_number = faults.first_sequence_number
        self._probes = probes
        self._wiring = wiring

    def create_partitions(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
        """Create and register the partitions of subtasks, with their pools."""
        for each in subtasks:
            place = each.task_manager
            partitions = create_partitions(
                each,
                self._network,
                self._task_managers[place].memory,
                self._hosts.partitions[place],
                storage=self._hosts.storages[place],
            )
            for output, partition in zip(each.outputs, partitions, strict=True):
                self.partition_of[output.edge, each.subtask] = partition
                for queue in partition.subpartitions:
                    if isinstance(queue, PipelinedSubpartition):
                        queue.begin_with(self._first_number)
        self._wake()

    def create_gates(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
        """Create the gates of subtasks, with channels that are not yet requested."""
        for each in subtasks:
            place = each.task_manager
            gates = create_gates(
                each,
                self._network,
                self._task_managers[place].memory,
                partitions=self._hosts.partitions[place],
                connect=partial(self._wiring.connection_of, place),
                probe=self._probes[place],
            )
            for described, gate in zip(each.inputs, gates, strict=True):
                self.gate_of[described.edge, each.subtask] = gate
                if not described.partition_type.is_blocking_or_blocking_persistent:
                    for channel in gate.remote_channels:
                        channel.expected_sequence_number = self._first_number
        self._wake()

    def request(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
        """Let the gates of subtasks request their partitions."""
        for each in subtasks:
            task_manager = self._task_managers[each.task_manager]
            for described in each.inputs:
                gate = self.gate_of[described.edge, each.subtask]
                gate.request_partitions(now_ns=task_manager.now_ns)
                self._repeat_requests(gate, task_manager)
        self._wake()

    def _repeat_requests(self, gate: SingleInputGate, task_manager: SimulatedTaskManager) -> None:
        """Repeat the requests of local channels; connections repeat those of remote ones."""
        due_ns = gate.next_deadline_ns()
        if due_ns is None:
            return

        def repeat() -> None:
            gate.handle_deadline(now_ns=task_manager.now_ns)
            task_manager.wake(self._hosts.scheduler.now_ns)
            self._repeat_requests(gate, task_manager)

        self._hosts.scheduler.at(task_manager.virtual_ns(due_ns), repeat)

    def _wake(self) -> None:
        for task_manager in self._task_managers:
            task_manager.wake(self._hosts.scheduler.now_ns)
