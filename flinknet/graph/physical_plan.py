"""PhysicalPlan: the placement of a job: tasks in slots, channels over sockets, buffers.

Flink has no such data structure, only running tasks; here it is computed before anything runs. An
edge is stored as its wiring and the places of its ends; single channels are created on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from flinknet.config import TCP, NetworkConfig
from flinknet.core.buffers import pool_sizes
from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import ExecutionAttemptID, IntermediateDataSetID, ResultPartitionID
from flinknet.core.wiring import Traffic, Wiring, traffic_of

from .execution_graph import ConnectedEdge, ExecutionGraph, ExecutionJobVertex, IntermediateResult
from .slots import PlacedSlot


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection: the consumers' TaskManager opens it to the server of the producers'.
    Without several connections per pair of TaskManagers and direction, its index is 0.
    """

    producer: int
    consumer: int
    index: int = 0

    def __str__(self) -> str:
        number = f"#{self.index}" if self.index else ""
        return f"tm-{self.producer}->tm-{self.consumer}{number}"


@dataclass(frozen=True, slots=True)
class PlannedVertex:
    """A vertex whose subtask i runs in slot `slots[i]` of TaskManager `task_managers[i]`. It begins
    when all lower stages have ended; in streaming there is only stage 0.
    """

    index: int
    vertex: ExecutionJobVertex
    task_managers: tuple[int, ...]
    slots: tuple[int, ...]
    stage: int

    @property
    def name(self) -> str:
        return self.vertex.name

    @property
    def parallelism(self) -> int:
        return self.vertex.parallelism


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """An edge between two vertices, given by index, with its partitioner as spelled in options, and
    the number of its connection among those of a pair of TaskManagers.
    """

    index: int
    source: int
    target: int
    partitioner: str
    edge: ConnectedEdge
    connection_index: int

    @property
    def wiring(self) -> Wiring:
        return self.edge.wiring

    @property
    def partition_type(self) -> ResultPartitionType:
        return self.edge.result.partition_type


@dataclass(frozen=True, slots=True)
class PlannedChannel:
    """A channel and its ends (Flink: InputChannel); `index` counts over all edges, as in traces."""

    index: int
    edge: int
    producer: int
    consumer: int
    subpartition: int
    producer_task_manager: int
    consumer_task_manager: int
    connection_index: int

    @property
    def is_local(self) -> bool:
        return self.producer_task_manager == self.consumer_task_manager

    @property
    def connection(self) -> Connection:
        """Its TCP connection; from a TaskManager to itself if it is local, and has none."""
        ends = self.producer_task_manager, self.consumer_task_manager
        return Connection(*ends, self.connection_index)


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """The output of a task (Flink: ResultPartition), with a subpartition per consumer."""

    id: ResultPartitionID
    partition_type: ResultPartitionType
    subpartitions: int
    pool: pool_sizes.PoolSize
    overdraft_buffers: int


@dataclass(frozen=True, slots=True)
class PlannedGate:
    """The input of a task along one edge (Flink: SingleInputGate); channels are by producer."""

    edge: int
    data_set_id: IntermediateDataSetID
    partitions: range
    remote_channels: int
    buffers: pool_sizes.GateBuffers

    @property
    def channels(self) -> int:
        return len(self.partitions)


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One subtask in its slot (Flink: Task)."""

    vertex: int
    subtask: int
    name: str
    attempt_id: ExecutionAttemptID
    task_manager: int
    slot: int
    partitions: tuple[PlannedPartition, ...]
    gates: tuple[PlannedGate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalPlan:
    """Tasks, channels, connections and buffers of a job on a number of TaskManagers; vertices are
    in topological order, edges by consumer.
    """

    graph: ExecutionGraph
    network: NetworkConfig
    task_managers: int
    slots_per_task_manager: int
    vertices: tuple[PlannedVertex, ...]
    edges: tuple[PlannedEdge, ...]
    slots: tuple[PlacedSlot, ...]

    @property
    def tasks_total(self) -> int:
        return sum(vertex.parallelism for vertex in self.vertices)

    @property
    def channels_total(self) -> int:
        return sum(edge.wiring.channels for edge in self.edges)

    @property
    def local_channels(self) -> int:
        return sum(self.traffic(edge).local_channels for edge in self.edges)

    @property
    def stages(self) -> int:
        return 1 + max(vertex.stage for vertex in self.vertices)

    def inputs_of(self, vertex: int) -> list[PlannedEdge]:
        return [edge for edge in self.edges if edge.target == vertex]

    def traffic(self, edge: PlannedEdge) -> Traffic:
        return traffic_of(
            edge.wiring,
            self.vertices[edge.source].task_managers,
            self.vertices[edge.target].task_managers,
        )

    def connections(self) -> Iterator[tuple[Connection, dict[int, int]]]:
        """Each TCP connection with its channels per edge, in order."""
        for producer, index, known, shared, more in self._reached():
            for consumer in sorted((shared | more) - {producer}):
                counts = {
                    edge: count
                    for edge, traffic in known
                    if (count := traffic.between(producer, consumer))
                }
                yield Connection(producer, consumer, index), counts

    @property
    def connections_total(self) -> int:
        return sum(
            len(shared) - (producer in shared) + len(more - {producer})
            for producer, _, _, shared, more in self._reached()
        )

    def _reached(
        self,
    ) -> Iterator[tuple[int, int, list[tuple[int, Traffic]], frozenset[int], set[int]]]:
        """For each producing TaskManager and connection index: the edges with their traffic, and
        the consuming TaskManagers, in two parts: most producers share a set, which is made once.
        """
        unions: dict[tuple[int, ...], frozenset[int]] = {}
        by_index: dict[int, list[tuple[int, Traffic]]] = {}
        for edge in sorted(self.edges, key=lambda each: each.connection_index):
            by_index.setdefault(edge.connection_index, []).append((edge.index, self.traffic(edge)))
        for producer in range(self.task_managers):
            for index, known in by_index.items():
                products = {
                    edge: traffic.consumers
                    for edge, traffic in known
                    if traffic.joined is None and producer in traffic.producers
                }
                key = tuple(products)
                if key not in unions:
                    unions[key] = frozenset[int]().union(*products.values())
                more = {
                    c for _, each in known if each.joined for c in each.joined.get(producer, ())
                }
                yield producer, index, known, unions[key], more - unions[key]

    def channels(self) -> Iterator[PlannedChannel]:
        """All channels, by edge, producer and consumer."""
        indices = count()
        for edge in self.edges:
            sources = self.vertices[edge.source].task_managers
            targets = self.vertices[edge.target].task_managers
            for producer, consumer, subpartition in edge.wiring:
                ends = sources[producer], targets[consumer]
                yield PlannedChannel(
                    *(next(indices), edge.index, producer, consumer, subpartition),
                    *(*ends, edge.connection_index),
                )

    def tasks(self) -> Iterator[PlannedTask]:
        """All tasks with their partitions and gates, by vertex."""
        producers_on = {
            edge.index: Counter(self.vertices[edge.source].task_managers) for edge in self.edges
        }
        for vertex in self.vertices:
            inputs = self.inputs_of(vertex.index)
            for subtask, execution in enumerate(vertex.vertex.task_vertices):
                task_manager = vertex.task_managers[subtask]
                yield PlannedTask(
                    vertex.index,
                    subtask,
                    execution.name,
                    execution.current.attempt_id,
                    task_manager,
                    vertex.slots[subtask],
                    tuple(self._partition(each, subtask) for each in vertex.vertex.results),
                    tuple(
                        self._gate(edge, subtask, task_manager, producers_on[edge.index])
                        for edge in inputs
                    ),
                )

    def buffers(self) -> list[pool_sizes.TaskManagerBuffers]:
        """The demand of each TaskManager, in its most demanding stage."""
        return pool_sizes.buffers_by_task_manager(
            (
                pool_sizes.task_buffers(
                    task.task_manager,
                    self.vertices[task.vertex].stage,
                    ((each.pool, each.overdraft_buffers) for each in task.partitions),
                    ((each.remote_channels, each.buffers) for each in task.gates),
                )
                for task in self.tasks()
            ),
            self.task_managers,
            self.network.segments,
        )

    def shortage(self) -> str | None:
        """Why the job would not start with the given memory, and the remedy; None if it would."""
        return pool_sizes.shortage(self.buffers(), self.network.segment_size_bytes)

    def partition_pool(self, kind: ResultPartitionType, subpartitions: int) -> pool_sizes.PoolSize:
        """Pool size of a partition."""
        network = self.network
        return pool_sizes.partition_pool_size(
            subpartitions,
            network.exclusive_buffers,
            network.floating_buffers,
            network.sort_shuffle_min_buffers,
            is_bounded=kind.is_bounded,
            is_blocking=kind.is_blocking_or_blocking_persistent,
        )

    def gate_buffers(self, channels: int, kind: ResultPartitionType) -> pool_sizes.GateBuffers:
        """Exclusive buffers per channel of a gate, and its pool size."""
        numbers = (channels, self.network.exclusive_buffers, self.network.floating_buffers)
        if self.graph.job.config.flow_control == TCP:
            return pool_sizes.creditless_gate_buffers(*numbers, is_bounded=kind.is_bounded)
        return pool_sizes.gate_buffers(
            *numbers,
            required_max=self.network.required_buffers_per_gate_max,
            must_be_pipelined=kind.must_be_pipelined_consumed,
        )

    def _partition(self, result: IntermediateResult, subtask: int) -> PlannedPartition:
        kind, partition = result.partition_type, result.partitions[subtask]
        return PlannedPartition(
            partition.result_partition_id,
            kind,
            partition.subpartitions,
            self.partition_pool(kind, partition.subpartitions),
            self.network.max_overdraft_buffers if kind.has_overdraft else 0,
        )

    def _gate(
        self, edge: PlannedEdge, subtask: int, task_manager: int, producers_on: Counter[int]
    ) -> PlannedGate:
        partitions = edge.wiring.partitions_of(subtask)
        if edge.wiring.is_all_to_all:
            local = producers_on[task_manager]
        else:
            places = self.vertices[edge.source].task_managers
            local = sum(places[producer] == task_manager for producer in partitions)
        return PlannedGate(
            edge.index,
            edge.edge.result.id,
            partitions,
            len(partitions) - local,
            self.gate_buffers(len(partitions), edge.partition_type),
        )
