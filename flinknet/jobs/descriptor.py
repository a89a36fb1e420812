"""What a TaskManager is told to run a subtask: plain values, made from a plan.

Pure. Ids follow from the plan and from the numbers of the attempts, so that what was sent to or by
an attempt that is over has another id than what belongs to the one that counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from flinknet.core.buffers.pool_sizes import PoolSize
from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    InputChannelID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    ResultPartitionID,
    input_channel_id,
)
from flinknet.graph.physical_plan import PhysicalPlan, PlannedEdge, PlannedTask
from flinknet.graph.stream_config import StreamConfig

SubtaskKey = tuple[int, int]
"""Index of a vertex in the plan, and of a subtask in the vertex."""


@dataclass(frozen=True, slots=True)
class ResultPartitionDeploymentDescriptor:
    """A partition that a task writes (Flink: ResultPartitionDeploymentDescriptor).

    Attributes:
        edge: index of the edge it feeds; the first of them, where several read it.
        partitioner: name of how records are dealt out, such as "hash".
        target_key_groups: maximum parallelism of those that read it.
        channels: index in the job of the channel of each subpartition.
        buffer_timeout_ns: as long as a record waits in a buffer at most; -1: until it is full.
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
        """How many it has."""
        return len(self.channels)

    @property
    def data_set_id(self) -> IntermediateDataSetID:
        """The data set it is a part of."""
        return self.partition_id.partition_id.intermediate_data_set_id

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "edge": self.edge,
            "partition_id": self.partition_id.encode().hex(),
            "partition_type": self.partition_type.name,
            "partitioner": self.partitioner,
            "target_key_groups": self.target_key_groups,
            "channels": list(self.channels),
            "buffer_timeout_ns": self.buffer_timeout_ns,
            "required_buffers": self.pool.required_buffers,
            "max_buffers": self.pool.max_buffers,
            "overdraft_buffers": self.overdraft_buffers,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """From `to_dict`."""
        return cls(
            document["edge"],
            ResultPartitionID.decode(bytes.fromhex(document["partition_id"])),
            ResultPartitionType[document["partition_type"]],
            document["partitioner"],
            document["target_key_groups"],
            tuple(document["channels"]),
            document["buffer_timeout_ns"],
            PoolSize(document["required_buffers"], document["max_buffers"]),
            document["overdraft_buffers"],
        )


@dataclass(frozen=True, slots=True)
class InputChannelDescriptor:
    """A channel of a gate, and where it comes from (Flink: NettyShuffleDescriptor).

    Attributes:
        index: of the channel in the job, for traces.
        producer: subtask that writes it, on TaskManager `task_manager`.
        connection_index: which of the TCP connections between the two TaskManagers carries it.
    """

    index: int
    producer: int
    partition_id: ResultPartitionID
    subpartition: int
    task_manager: int
    receiver_id: InputChannelID
    is_local: bool
    connection_index: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "index": self.index,
            "producer": self.producer,
            "partition_id": self.partition_id.encode().hex(),
            "subpartition": self.subpartition,
            "task_manager": self.task_manager,
            "receiver_id": self.receiver_id.hex(),
            "is_local": self.is_local,
            "connection_index": self.connection_index,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """From `to_dict`."""
        return cls(
            document["index"],
            document["producer"],
            ResultPartitionID.decode(bytes.fromhex(document["partition_id"])),
            document["subpartition"],
            document["task_manager"],
            input_channel_id(bytes.fromhex(document["receiver_id"])),
            document["is_local"],
            document["connection_index"],
        )


@dataclass(frozen=True, slots=True)
class InputGateDeploymentDescriptor:
    """What a task reads along one edge (Flink: InputGateDeploymentDescriptor).

    Attributes:
        edge: index of the edge in the job.
        stream_edge_id: its name in the StreamGraph, by which the operator that reads it is found.
        partitioner: name of how its records are dealt out.
        exclusive_buffers: of each remote channel.
        pool: of the gate.
        channels: by producer.
    """

    edge: int
    stream_edge_id: str
    data_set_id: IntermediateDataSetID
    partition_type: ResultPartitionType
    partitioner: str
    exclusive_buffers: int
    pool: PoolSize
    channels: tuple[InputChannelDescriptor, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "edge": self.edge,
            "stream_edge_id": self.stream_edge_id,
            "data_set_id": self.data_set_id.raw.hex(),
            "partition_type": self.partition_type.name,
            "partitioner": self.partitioner,
            "exclusive_buffers": self.exclusive_buffers,
            "required_buffers": self.pool.required_buffers,
            "max_buffers": self.pool.max_buffers,
            "channels": [each.to_dict() for each in self.channels],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """From `to_dict`."""
        return cls(
            document["edge"],
            document["stream_edge_id"],
            IntermediateDataSetID(bytes.fromhex(document["data_set_id"])),
            ResultPartitionType[document["partition_type"]],
            document["partitioner"],
            document["exclusive_buffers"],
            PoolSize(document["required_buffers"], document["max_buffers"]),
            tuple(InputChannelDescriptor.from_dict(each) for each in document["channels"]),
        )


@dataclass(frozen=True, slots=True)
class TaskDeploymentDescriptor:
    """All that a TaskManager needs to run one attempt of a subtask, but for the functions, which it
    finds by running the program (Flink: TaskDeploymentDescriptor with JobInformation and
    TaskInformation).

    Attributes:
        job_id: 32 hexadecimal digits.
        vertex: index in the plan, in topological order.
        vertex_name, name: of the vertex, and of the task: with its number among its like.
        stage: tasks of a stage start when those of lower stages have ended.
        stream_config: of the head of the chain, as JSON.
    """

    job_id: str
    job_name: str
    vertex: int
    vertex_id: str
    vertex_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt_id: ExecutionAttemptID
    task_manager: int
    slot: int
    stage: int
    stream_config: str
    outputs: tuple[ResultPartitionDeploymentDescriptor, ...]
    inputs: tuple[InputGateDeploymentDescriptor, ...]

    @property
    def name(self) -> str:
        """Name of the task (Flink: getTaskNameWithSubtasks)."""
        return f"{self.vertex_name} ({self.subtask + 1}/{self.parallelism})"

    @property
    def execution_vertex_id(self) -> str:
        """The subtask as text, under which it acknowledges checkpoints: names may be those of other
        vertices, too.
        """
        return str(self.attempt_id.execution_vertex_id)

    @property
    def attempt_number(self) -> int:
        """Counts from 0."""
        return self.attempt_id.attempt_number

    @property
    def key(self) -> SubtaskKey:
        """The subtask, whichever attempt it is."""
        return self.vertex, self.subtask

    @property
    def config(self) -> StreamConfig:
        """Configuration of the operators."""
        return StreamConfig.from_json(self.stream_config)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "job_id": self.job_id,
            "job_name": self.job_name,
            "vertex": self.vertex,
            "vertex_id": self.vertex_id,
            "vertex_name": self.vertex_name,
            "subtask": self.subtask,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "attempt_id": self.attempt_id.encode().hex(),
            "task_manager": self.task_manager,
            "slot": self.slot,
            "stage": self.stage,
            "stream_config": self.stream_config,
            "outputs": [each.to_dict() for each in self.outputs],
            "inputs": [each.to_dict() for each in self.inputs],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """From `to_dict`."""
        known = dict(document)
        known["attempt_id"] = ExecutionAttemptID.decode(bytes.fromhex(known["attempt_id"]))
        known["outputs"] = tuple(
            ResultPartitionDeploymentDescriptor.from_dict(each) for each in known["outputs"]
        )
        known["inputs"] = tuple(
            InputGateDeploymentDescriptor.from_dict(each) for each in known["inputs"]
        )
        return cls(**known)


def descriptors_of(
    plan: PhysicalPlan,
    attempt_numbers: Mapping[SubtaskKey, int] | None = None,
    *,
    only: Collection[SubtaskKey] | None = None,
) -> list[list[TaskDeploymentDescriptor]]:
    """The tasks of each TaskManager of a plan, by vertex and subtask.

    Args:
        attempt_numbers: of subtasks; those that are not there have the attempt that counts in the
            graph of the plan.
        only: subtasks to be deployed, when a region begins again; None: all.
    """
    found: list[list[TaskDeploymentDescriptor]] = [[] for _ in range(plan.task_managers)]
    attempts = _Attempts(plan, attempt_numbers or {})
    offsets = channel_offsets(plan)
    for task in plan.tasks():
        if only is None or (task.vertex, task.subtask) in only:
            found[task.task_manager].append(_descriptor(plan, task, attempts, offsets))
    return found


def channel_offsets(plan: PhysicalPlan) -> list[int]:
    """Index in the job of the first channel of each edge; within an edge channels count by producer
    and then by consumer, as its wiring has them.
    """
    offsets, offset = [], 0
    for edge in plan.edges:
        offsets.append(offset)
        offset += edge.wiring.channels
    return offsets


def channel_index(edge: PlannedEdge, offset: int, producer: int, consumer: int) -> int:
    """Index in the job of a channel of an edge whose first channel has index `offset`."""
    wiring = edge.wiring
    if wiring.is_all_to_all:
        return offset + producer * wiring.consumers + consumer
    return offset + (producer if wiring.producers >= wiring.consumers else consumer)


class _Attempts:
    """Ids of the attempts of a plan, and of what they write and read."""

    def __init__(self, plan: PhysicalPlan, numbers: Mapping[SubtaskKey, int]) -> None:
        self._plan = plan
        self._numbers = numbers
        self._known: dict[SubtaskKey, ExecutionAttemptID] = {}

    def id_of(self, vertex: int, subtask: int) -> ExecutionAttemptID:
        """The attempt at a subtask."""
        key = vertex, subtask
        if key not in self._known:
            execution_vertex = self._plan.vertices[vertex].vertex.task_vertices[subtask]
            current = execution_vertex.current.attempt_id
            self._known[key] = ExecutionAttemptID(
                current.execution_graph_id,
                current.execution_vertex_id,
                self._numbers.get(key, current.attempt_number),
            )
        return self._known[key]

    def partition_id(self, edge: PlannedEdge, producer: int) -> ResultPartitionID:
        """The partition of a producer along an edge."""
        return ResultPartitionID(
            IntermediateResultPartitionID(edge.edge.result.id, producer),
            self.id_of(edge.source, producer),
        )


def _descriptor(
    plan: PhysicalPlan, task: PlannedTask, attempts: _Attempts, offsets: list[int]
) -> TaskDeploymentDescriptor:
    vertex = plan.vertices[task.vertex]
    job_vertex = vertex.vertex.job_vertex
    assert job_vertex.config is not None
    graph = plan.graph
    return TaskDeploymentDescriptor(
        hashlib.sha256(b"flinknet job " + graph.id.raw).hexdigest()[:32],
        graph.job.name,
        task.vertex,
        str(job_vertex.id),
        vertex.name,
        task.subtask,
        vertex.parallelism,
        vertex.vertex.max_parallelism,
        attempts.id_of(task.vertex, task.subtask),
        task.task_manager,
        task.slot,
        vertex.stage,
        job_vertex.config.to_json(),
        tuple(_outputs(plan, task, attempts, offsets, job_vertex.config)),
        tuple(_inputs(plan, task, attempts, offsets)),
    )


def _outputs(
    plan: PhysicalPlan,
    task: PlannedTask,
    attempts: _Attempts,
    offsets: list[int],
    config: StreamConfig,
) -> Iterable[ResultPartitionDeploymentDescriptor]:
    timeouts = {each.data_set_id: each.buffer_timeout_ns for each in config.outputs}
    for result, planned in zip(
        plan.vertices[task.vertex].vertex.results, task.partitions, strict=True
    ):
        edge = next(each for each in plan.edges if each.edge is result.edges[0])
        yield ResultPartitionDeploymentDescriptor(
            edge.index,
            attempts.partition_id(edge, task.subtask),
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
            timeouts[str(result.id)],
            planned.pool,
            planned.overdraft_buffers,
        )


def _inputs(
    plan: PhysicalPlan, task: PlannedTask, attempts: _Attempts, offsets: list[int]
) -> Iterable[InputGateDeploymentDescriptor]:
    reader = attempts.id_of(task.vertex, task.subtask).encode()
    for planned in task.gates:
        edge = plan.edges[planned.edge]
        places = plan.vertices[edge.source].task_managers
        channels = []
        for producer in planned.partitions:
            index = channel_index(edge, offsets[edge.index], producer, task.subtask)
            partition_id = attempts.partition_id(edge, producer)
            seed = b"flinknet channel %d" % index + reader + partition_id.encode()
            channels.append(
                InputChannelDescriptor(
                    index,
                    producer,
                    partition_id,
                    edge.wiring.subpartition(producer, task.subtask),
                    places[producer],
                    InputChannelID(hashlib.sha256(seed).digest()[:16]),
                    places[producer] == task.task_manager,
                    edge.connection_index,
                )
            )
        yield InputGateDeploymentDescriptor(
            edge.index,
            edge.edge.job_edge.stream_edge_id,
            planned.data_set_id,
            edge.partition_type,
            edge.partitioner,
            planned.buffers.exclusive_per_channel,
            planned.buffers.pool,
            tuple(channels),
        )
