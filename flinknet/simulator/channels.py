"""SimulatedHosts: TaskManagers that jobs run on. Channels: partitions, gates, connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    BoundedData,
    PipelinedSubpartition,
    ProducerConnection,
    ResultPartition,
    ResultPartitionManager,
)
from flinknet.core.producer.result_partition_factory import in_memory
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import FlinknetError
from flinknet.job.descriptor import InputChannelDescriptor, TaskDeploymentDescriptor
from flinknet.job.gates import (
    blocking_storage,
    create_consumer_connection,
    create_gates,
    create_partitions,
    create_producer_connection,
)

from .faults import NO_FAULTS, Faults
from .link import LinkEnd, LinkSettings, SimulatedLink
from .simulated_job import SimulatedJob
from .task_manager import Scheduler, SimulatedTaskManager


def no_wrap(connection: Connection, _is_server: bool) -> Connection:
    return connection


class SimulatedHosts:
    """TaskManagers with their memory, partitions and storages, and their common virtual time.

    Args:
        segments: number of segments of each TaskManager's network memory.
        faults: clocks and lost wake-ups.
        wrap: puts a layer, such as TLS, around a connection; the flag is set for servers.
    """

    def __init__(
        self,
        segments: Sequence[int],
        network: NetworkConfig,
        *,
        start_ns: int,
        faults: Faults = NO_FAULTS,
        create_data: Callable[[ResultPartitionID, str], BoundedData] = in_memory,
        wrap: Callable[[Connection, bool], Connection] = no_wrap,
    ) -> None:
        self.scheduler = Scheduler(start_ns=start_ns)
        self._segments = segments
        self._segment_size_bytes = network.segment_size_bytes
        self._faults = faults
        self.wrap = wrap
        self.task_managers = [self._start(index) for index in range(len(segments))]
        self.partitions = [ResultPartitionManager() for _ in segments]
        self.storages = [blocking_storage(network, create_data) for _ in segments]

    def replace(self, index: int) -> None:
        """Replace a TaskManager whose process has died, for later jobs."""
        dead = self.task_managers[index]
        dead.tasks, dead.ends = (), []
        self.task_managers[index] = self._start(index)
        self.partitions[index] = ResultPartitionManager()

    def _start(self, index: int) -> SimulatedTaskManager:
        memory = NetworkBufferPool(self._segments[index], self._segment_size_bytes)
        started = SimulatedTaskManager(f"tm-{index}", self.scheduler, memory)
        started.clock = self._faults.clock_of(index)
        started.woken_ns = self._faults.wakeups_of(index)
        return started


class Channels:
    """The partitions and gates of a cluster, which exist before its tasks, and the connections
    between its TaskManagers, each opened when its first channel needs it.

    Attributes:
        partition_of, gate_of: partitions and gates by edge and subtask.
        links: links by TaskManager of the producer, TaskManager of the consumer, and number of the
            connection between the two.
        settings: properties of all links towards consumers.

    Args:
        link: bandwidth and capacity; the latency follows from the costs of the job.
        fail: called with an error of a connection.
    """

    def __init__(
        self,
        job: SimulatedJob,
        hosts: SimulatedHosts,
        probes: Sequence[Probe],
        link: LinkSettings,
        faults: Faults,
        fail: Callable[[FlinknetError], None],
    ) -> None:
        costs = job.costs
        latency_ns = max(0, int(costs.transit_ns - costs.send_ns_per_message))
        self.settings = self._settings_back = replace(link, latency_ns=latency_ns)
        if costs.back_ns is not None:
            self._settings_back = replace(link, latency_ns=int(costs.back_ns))
        self.partition_of: dict[tuple[int, int], ResultPartition] = {}
        self.gate_of: dict[tuple[int, int], SingleInputGate] = {}
        self.links: dict[tuple[int, int, int], SimulatedLink] = {}
        self.producer_connections: list[ProducerConnection] = []
        self.consumer_connections: list[ConsumerConnection] = []
        self._connections: dict[tuple[int, int, int], ConsumerConnection] = {}
        self._job = job
        self._network = job.network
        self._hosts = hosts
        self._task_managers = tuple(hosts.task_managers)
        self._probes = probes
        self._faults = faults
        self._fail = fail
        self._send_ns = costs.send_ns_per_message, costs.send_ns_per_byte
        self._channel_of: dict[bytes, int] = {
            channel.receiver_id: channel.index
            for subtask in job.subtasks
            for gate in subtask.inputs
            for channel in gate.channels
        }

    def create_partitions(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
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
                        queue.begin_with(self._faults.first_sequence_number)
        self._wake()

    def create_gates(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
        for each in subtasks:
            place = each.task_manager
            gates = create_gates(
                each,
                self._network,
                self._task_managers[place].memory,
                partitions=self._hosts.partitions[place],
                connect=partial(self._connection_of, place),
                probe=self._probes[place],
            )
            for described, gate in zip(each.inputs, gates, strict=True):
                self.gate_of[described.edge, each.subtask] = gate
                if not described.partition_type.is_blocking_or_blocking_persistent:
                    for channel in gate.remote_channels:
                        channel.expected_sequence_number = self._faults.first_sequence_number
        self._wake()

    def request(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
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

    def _connection_of(
        self, downstream: int, channel: InputChannelDescriptor
    ) -> ConsumerConnection:
        """The connection for a channel to a TaskManager; opened if needed."""
        upstream = channel.producer_task_manager
        key = upstream, downstream, channel.connection_index
        if key in self._connections:
            return self._connections[key]
        network, flow_control = self._network, self._job.flow_control
        producer = create_producer_connection(
            network,
            flow_control,
            self._hosts.partitions[upstream],
            self._probes[upstream],
            self._channel_of,
        )
        high_bytes = self.settings.high_water_bytes
        if high_bytes:
            producer.water_marks.set(-(-high_bytes // 2), high_bytes)
        consumer = create_consumer_connection(
            network, flow_control, f"tm-{upstream}", self._probes[downstream]
        )
        self.producer_connections.append(producer)
        self.consumer_connections.append(consumer)
        wrap = self._hosts.wrap
        ends = (
            self._create_end(wrap(producer, True), upstream, side=0),
            self._create_end(wrap(consumer, False), downstream, side=1),
        )
        ends[0].join(ends[1])
        self.links[key] = SimulatedLink(*ends)
        self._connections[key] = consumer
        return consumer

    def _create_end(self, connection: Connection, index: int, *, side: int) -> LinkEnd:
        task_manager = self._hosts.task_managers[index]
        faults = self._faults.link_faults(len(self.links), side, origin_ns=self._job.start_ns)
        settings = self._settings_back if side else self.settings
        send_ns = (0.0, 0.0) if side else self._send_ns
        end = LinkEnd(connection, settings, task_manager.wake, faults, send_ns)
        end.clock = task_manager.clock
        end.fail = self._fail
        end.seed = self._job.seed
        task_manager.ends.append(end)
        return end
