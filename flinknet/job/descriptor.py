"""What a TaskManager needs to run a subtask: plain values, derived from a plan.

Pure. Ids depend on the plan and on attempt numbers, so messages to or from an old attempt never
match the current one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from flinknet.core.buffers.pool_sizes import GateBuffers, PoolSize, TaskBuffers, task_buffers
from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    InputChannelID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    ResultPartitionID,
)
from flinknet.graph.job_graph import StreamConfig
from flinknet.graph.physical_plan import PhysicalPlan, PlannedChannel, PlannedEdge, PlannedTask

SubtaskKey = tuple[int, int]
"""Index of a vertex in the plan, and of a subtask in the vertex."""


@dataclass(frozen=True, slots=True)
class ResultPartitionDeploymentDescriptor:
    """A partition that a task writes (Flink: ResultPartitionDeploymentDescriptor).

    Attributes:
        edge: index of the edge it feeds; the first edge if several read it.
        partitioner: how records are distributed, such as "hash".
        target_key_groups: maximum parallelism of the readers.
        channels: index in the job of each subpartition's channel.
        buffer_timeout_ns: longest time a record waits in a buffer; -1: until the buffer is full.
    """

    edge: int
    partition_id: ResultPartitionID
    partition_type: ResultPartitionType
    partitioner: str
    target_key_groups: int
    channels: tuple[int, ...]
    buffer_timeout_ns: int
    pool: PoolSize
    overdraft_buffers: int

    @property
    def subpartitions(self) -> int:
        return len(self.channels)

    @property
    def data_set_id(self) -> IntermediateDataSetID:
        return self.partition_id.partition_id.intermediate_data_set_id


@dataclass(frozen=True, slots=True)
class InputChannelDescriptor(PlannedChannel):
    """A channel between two attempts (Flink: NettyShuffleDescriptor)."""

    receiver_id: InputChannelID
    partition_id: ResultPartitionID


@dataclass(frozen=True, slots=True)
class InputGateDeploymentDescriptor:
    """A task's input along one edge (Flink: InputGateDeploymentDescriptor).

    Attributes:
        edge: index of the edge in the job.
        stream_edge_id: name in the StreamGraph; identifies the operator that reads it.
        partitioner: how the records are distributed.
        channels: by producer.
        is_consumable: whether the partitions may be requested already; if not, the JobManager
            announces them later (Flink: UnknownInputChannel).
    """

    edge: int
    stream_edge_id: str
    data_set_id: IntermediateDataSetID
    partition_type: ResultPartitionType
    partitioner: str
    buffers: GateBuffers
    channels: tuple[InputChannelDescriptor, ...]
    is_consumable: bool = True

    @property
    def remote_channels(self) -> int:
        return sum(not each.is_local for each in self.channels)


@dataclass(frozen=True, slots=True)
class Start:
    """The instants of a run, for its tasks.

    Attributes:
        start_ns: when generated records begin.
        measured_from_ns, measured_to_ns: records due in between count for latency; None: no end.
        end_ns: when their sources stop; None: never, or after their number of records.
        timestamp_epoch_ns: instant at which timestamps of barriers are 0.
        give_up_ns: when sources drop records that are due but unsent; None: never.
    """

    start_ns: int
    measured_from_ns: int
    measured_to_ns: int | None = None
    end_ns: int | None = None
    timestamp_epoch_ns: int = 0
    give_up_ns: int | None = None


@dataclass(frozen=True, slots=True)
class JobInformation:
    """The values that all tasks of a job share (Flink: JobInformation)."""

    job_id: str
    job_name: str


@dataclass(frozen=True, slots=True)
class TaskInformation:
    """The values that all subtasks of a vertex share, with its chain's head as JSON."""

    vertex_id: str
    vertex_name: str
    parallelism: int
    max_parallelism: int
    stream_config: str


@dataclass(frozen=True, slots=True)
class TaskDeploymentDescriptor:
    """All that a TaskManager needs to run one attempt of a subtask, except the functions, which it
    gets by running the program (Flink: TaskDeploymentDescriptor).

    Attributes:
        vertex: index in the plan, in topological order.
        stage: tasks of a stage start when those of lower stages have ended.
        job_information, task_information: None on the wire if the TaskManager has them already
            (Flink: MaybeOffloaded).
    """

    vertex: int
    subtask: int
    attempt_id: ExecutionAttemptID
    task_manager: int
    slot: int
    stage: int
    outputs: tuple[ResultPartitionDeploymentDescriptor, ...]
    inputs: tuple[InputGateDeploymentDescriptor, ...]
    job_information: JobInformation | None = None
    task_information: TaskInformation | None = None

    @property
    def information(self) -> TaskInformation:
        assert self.task_information is not None
        return self.task_information

    @property
    def parallelism(self) -> int:
        return self.information.parallelism

    @property
    def name(self) -> str:
        """Name of the task (Flink: getTaskNameWithSubtasks)."""
        return f"{self.information.vertex_name} ({self.subtask + 1}/{self.parallelism})"

    @property
    def execution_vertex_id(self) -> str:
        """The subtask as text, for checkpoints: task names may repeat across vertices."""
        return str(self.attempt_id.execution_vertex_id)

    @property
    def attempt_number(self) -> int:
        return self.attempt_id.attempt_number

    @property
    def key(self) -> SubtaskKey:
        return self.vertex, self.subtask

    @property
    def buffers(self) -> TaskBuffers:
        """Its demand on the TaskManager's network memory."""
        return task_buffers(
            self.task_manager,
            self.stage,
            ((each.pool, each.overdraft_buffers) for each in self.outputs),
            ((each.remote_channels, each.buffers) for each in self.inputs),
        )

    @property
    def config(self) -> StreamConfig:
        return StreamConfig.from_json(self.information.stream_config)


def deployed_channels(tasks: Iterable[TaskDeploymentDescriptor]) -> list[InputChannelDescriptor]:
    """The channels that tasks read, by index."""
    channels = (each for task in tasks for gate in task.inputs for each in gate.channels)
    return sorted(channels, key=lambda each: each.index)


def descriptors_of(
    plan: PhysicalPlan,
    attempt_numbers: Mapping[SubtaskKey, int] | None = None,
    *,
    only: Collection[SubtaskKey] | None = None,
) -> list[list[TaskDeploymentDescriptor]]:
    """The tasks of each TaskManager of a plan, by vertex and subtask.

    Args:
        attempt_numbers: by subtask; others have the current attempt of the plan's graph.
        only: subtasks to deploy, when a region restarts; None: all.
    """
    found: list[list[TaskDeploymentDescriptor]] = [[] for _ in range(plan.task_managers)]
    numbers = attempt_numbers or {}
    attempts: _Attempts = {}
    for planned in plan.vertices:
        for subtask, execution_vertex in enumerate(planned.vertex.task_vertices):
            key, known = (planned.index, subtask), execution_vertex.current.attempt_id
            is_current = key not in numbers
            attempts[key] = known if is_current else replace(known, attempt_number=numbers[key])
    # index in the job of the first channel of each edge
    offsets = [0, *accumulate(edge.wiring.channels for edge in plan.edges)]
    graph = plan.graph
    job_id = hashlib.sha256(b"flinknet job " + graph.id.raw).hexdigest()[:32]
    job = JobInformation(job_id, graph.job.name)
    information: dict[int, TaskInformation] = {}
    for task in plan.tasks():
        if only is None or (task.vertex, task.subtask) in only:
            if task.vertex not in information:
                vertex = plan.vertices[task.vertex].vertex
                assert vertex.job_vertex.config is not None
                information[task.vertex] = TaskInformation(
                    str(vertex.job_vertex.id),
                    plan.vertices[task.vertex].name,
                    plan.vertices[task.vertex].parallelism,
                    vertex.max_parallelism,
                    vertex.job_vertex.config.to_json(),
                )
            found[task.task_manager].append(
                TaskDeploymentDescriptor(
                    task.vertex,
                    task.subtask,
                    attempts[task.vertex, task.subtask],
                    task.task_manager,
                    task.slot,
                    plan.vertices[task.vertex].stage,
                    tuple(_outputs(plan, task, attempts, offsets)),
                    tuple(_inputs(plan, task, attempts, offsets)),
                    job,
                    information[task.vertex],
                )
            )
    return found


def channel_index(edge: PlannedEdge, offset: int, producer: int, consumer: int) -> int:
    """Index in the job of a channel of an edge whose first channel has index `offset`. Within an
    edge, channels are ordered by producer, then by consumer.
    """
    wiring = edge.wiring
    if wiring.is_all_to_all:
        return offset + producer * wiring.consumers + consumer
    return offset + (producer if wiring.producers >= wiring.consumers else consumer)


def receiver_id_of(
    index: int, reader: ExecutionAttemptID, partition_id: ResultPartitionID
) -> InputChannelID:
    """The id of the channel of this index through which an attempt reads a partition."""
    seed = b"flinknet channel %d" % index + reader.encode() + partition_id.encode()
    return InputChannelID(hashlib.sha256(seed).digest()[:16])


_Attempts = dict[SubtaskKey, ExecutionAttemptID]


def _partition_id(edge: PlannedEdge, producer: int, attempts: _Attempts) -> ResultPartitionID:
    """The partition of a producer along an edge."""
    partition_id = IntermediateResultPartitionID(edge.edge.result.id, producer)
    return ResultPartitionID(partition_id, attempts[edge.source, producer])


def _outputs(
    plan: PhysicalPlan, task: PlannedTask, attempts: _Attempts, offsets: list[int]
) -> Iterable[ResultPartitionDeploymentDescriptor]:
    for result, planned in zip(
        plan.vertices[task.vertex].vertex.results, task.partitions, strict=True
    ):
        edge = next(each for each in plan.edges if each.edge is result.edges[0])
        yield ResultPartitionDeploymentDescriptor(
            edge.index,
            _partition_id(edge, task.subtask, attempts),
            planned.partition_type,
            edge.partitioner,
            edge.edge.target.max_parallelism,
            tuple(
                index
                for _, index in sorted(
                    (
                        edge.wiring.subpartition(task.subtask, consumer),
                        channel_index(edge, offsets[edge.index], task.subtask, consumer),
                    )
                    for consumer in edge.wiring.consumers_of(task.subtask)
                )
            ),
            result.buffer_timeout_ns,
            planned.pool,
            planned.overdraft_buffers,
        )


def _inputs(
    plan: PhysicalPlan, task: PlannedTask, attempts: _Attempts, offsets: list[int]
) -> Iterable[InputGateDeploymentDescriptor]:
    reader = attempts[task.vertex, task.subtask]
    for planned in task.gates:
        edge = plan.edges[planned.edge]
        places = plan.vertices[edge.source].task_managers
        channels = []
        for producer in planned.partitions:
            index = channel_index(edge, offsets[edge.index], producer, task.subtask)
            partition_id = _partition_id(edge, producer, attempts)
            channels.append(
                InputChannelDescriptor(
                    index,
                    edge.index,
                    producer,
                    task.subtask,
                    edge.wiring.subpartition(producer, task.subtask),
                    places[producer],
                    task.task_manager,
                    edge.connection_index,
                    receiver_id_of(index, reader, partition_id),
                    partition_id,
                )
            )
        yield InputGateDeploymentDescriptor(
            edge.index,
            edge.edge.job_edge.stream_edge_id,
            planned.data_set_id,
            edge.partition_type,
            edge.partitioner,
            planned.buffers,
            tuple(channels),
        )
