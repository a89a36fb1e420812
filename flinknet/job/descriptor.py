"""What a TaskManager needs to run a subtask: plain values, derived from a plan.

Pure. Ids depend on the plan and on the attempts, so messages to or from an old attempt never match
the current one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate

from flinknet.core.buffers.pool_sizes import GateBuffers, PoolSize, TaskBuffers, task_buffers
from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    InputChannelID,
    IntermediateDataSetID,
    ResultPartitionID,
)
from flinknet.core.wiring import Wiring
from flinknet.graph.job_graph import StreamConfig
from flinknet.graph.physical_plan import PhysicalPlan, PlannedChannel, PlannedTask

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
        channels: by producer.
        is_consumable: whether the partitions may be requested already; if not, the JobManager
            announces them later (Flink: UnknownInputChannel).
    """

    edge: int
    stream_edge_id: str
    data_set_id: IntermediateDataSetID
    partition_type: ResultPartitionType
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
    """The values that all subtasks of a vertex share, with the head of its chain."""

    vertex_id: str
    vertex_name: str
    parallelism: int
    max_parallelism: int
    stream_config: StreamConfig


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


def deployed_channels(tasks: Iterable[TaskDeploymentDescriptor]) -> list[InputChannelDescriptor]:
    """The channels that tasks read, by index."""
    channels = (each for task in tasks for gate in task.inputs for each in gate.channels)
    return sorted(channels, key=lambda each: each.index)


def descriptors_of(
    plan: PhysicalPlan, *, only: Collection[SubtaskKey] | None = None
) -> list[list[TaskDeploymentDescriptor]]:
    """The tasks of each TaskManager of a plan, by vertex and subtask: all, or `only` those that
    restart.
    """
    found: list[list[TaskDeploymentDescriptor]] = [[] for _ in range(plan.task_managers)]
    # index in the job of the first channel of each edge
    offsets = [0, *accumulate(edge.wiring.channels for edge in plan.edges)]
    graph = plan.graph
    job_id = hashlib.sha256(b"flinknet job " + graph.id.raw).hexdigest()[:32]
    job = JobInformation(job_id, graph.job.name)
    information: dict[int, TaskInformation] = {}
    for task in plan.tasks():
        if only is not None and (task.vertex, task.subtask) not in only:
            continue
        planned = plan.vertices[task.vertex]
        if task.vertex not in information:
            config = planned.vertex.job_vertex.config
            assert config is not None
            information[task.vertex] = TaskInformation(
                str(planned.vertex.id),
                planned.name,
                planned.parallelism,
                planned.vertex.max_parallelism,
                config,
            )
        found[task.task_manager].append(
            TaskDeploymentDescriptor(
                task.vertex,
                task.subtask,
                task.attempt_id,
                task.task_manager,
                task.slot,
                planned.stage,
                tuple(_outputs(plan, task, offsets)),
                tuple(_inputs(plan, task, offsets)),
                job,
                information[task.vertex],
            )
        )
    return found


def _channel_index(wiring: Wiring, producer: int, consumer: int) -> int:
    """Index of a channel in its edge, by producer, then by consumer."""
    if wiring.is_all_to_all:
        return producer * wiring.consumers + consumer
    return producer if wiring.producers >= wiring.consumers else consumer


def receiver_id_of(
    index: int, reader: ExecutionAttemptID, partition_id: ResultPartitionID
) -> InputChannelID:
    """The id of the channel of this index through which an attempt reads a partition."""
    seed = b"flinknet channel %d" % index + reader.encode() + partition_id.encode()
    return InputChannelID(hashlib.sha256(seed).digest()[:16])


def _outputs(
    plan: PhysicalPlan, task: PlannedTask, offsets: list[int]
) -> Iterable[ResultPartitionDeploymentDescriptor]:
    producer = task.subtask
    for result, planned in zip(
        plan.vertices[task.vertex].vertex.results, task.partitions, strict=True
    ):
        edge = next(each for each in plan.edges if each.edge is result.edges[0])
        wiring, offset = edge.wiring, offsets[edge.index]
        channels = sorted(
            (
                wiring.subpartition(producer, consumer),
                offset + _channel_index(wiring, producer, consumer),
            )
            for consumer in wiring.consumers_of(producer)
        )
        yield ResultPartitionDeploymentDescriptor(
            edge.index,
            planned.id,
            planned.partition_type,
            edge.partitioner,
            edge.edge.target.max_parallelism,
            tuple(index for _, index in channels),
            result.buffer_timeout_ns,
            planned.pool,
            planned.overdraft_buffers,
        )


def _inputs(
    plan: PhysicalPlan, task: PlannedTask, offsets: list[int]
) -> Iterable[InputGateDeploymentDescriptor]:
    for planned in task.gates:
        edge = plan.edges[planned.edge]
        places = plan.vertices[edge.source].task_managers
        channels = []
        for producer in planned.partitions:
            index = offsets[edge.index] + _channel_index(edge.wiring, producer, task.subtask)
            partition_id = edge.edge.result.partitions[producer].result_partition_id
            subpartition = edge.wiring.subpartition(producer, task.subtask)
            channels.append(
                InputChannelDescriptor(
                    index,
                    edge.index,
                    producer,
                    task.subtask,
                    subpartition,
                    places[producer],
                    task.task_manager,
                    edge.connection_index,
                    receiver_id_of(index, task.attempt_id, partition_id),
                    partition_id,
                )
            )
        yield InputGateDeploymentDescriptor(
            edge.index,
            edge.edge.job_edge.stream_edge_id,
            planned.data_set_id,
            edge.partition_type,
            planned.buffers,
            tuple(channels),
        )
