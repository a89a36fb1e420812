"""Deployment: which task runs where, and the channels between them.

Pure; ids follow from the seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.config import PARTITIONERS, TCP, Scenario, is_partitioner
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    ExecutionGraphID,
    ExecutionVertexID,
    InputChannelID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    JobVertexID,
    ResultPartitionID,
)
from flinknet.errors import ConfigError

from ..flow_control import check_flow_control
from ..scheduling import scheduling_of

LONGEST_RUN_NS = 4 * 3600 * 10**9
"""Below the 2**44 ns that the stamp of a record holds (`payload`)."""

POINTWISE = frozenset({"forward", "rescale"})
"""Partitioners whose subtasks are joined to some of the others only; those that are not here join
all to all (Flink: DistributionPattern)."""

PLACEMENTS = ("split", "spread")


@dataclass(frozen=True, slots=True)
class DeployedVertex:
    """One task in its parallel subtasks (Flink: ExecutionJobVertex); subtask i runs on TaskManager
    `task_managers[i]`.
    """

    name: str
    task_managers: tuple[int, ...]

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""
        return len(self.task_managers)

    def subtasks_on(self, task_manager: int) -> list[int]:
        """Subtasks that run on a TaskManager."""
        return [i for i, each in enumerate(self.task_managers) if each == task_manager]


@dataclass(frozen=True, slots=True)
class DeployedEdge:
    """One exchange: the vertex `source` writes what the vertex `target` reads (Flink: JobEdge with
    its IntermediateDataSet).
    """

    index: int
    source: int
    target: int
    partitioner: str


@dataclass(frozen=True, slots=True)
class DeployedChannel:
    """One channel of an edge: a subpartition of its `producer`, read by its `consumer` as
    `receiver_id`. `index` counts over all edges, producer and consumer are subtasks.
    """

    index: int
    producer: int
    consumer: int
    subpartition: int
    receiver_id: InputChannelID
    edge: int = 0


@dataclass(frozen=True, slots=True)
class Deployment:
    """All tasks and channels of one run: the first vertex makes the records, the last one takes
    them out.

    A channel is local where its producer sits on the TaskManager of its consumer.
    """

    scenario: Scenario
    vertices: tuple[DeployedVertex, ...]
    edges: tuple[DeployedEdge, ...]
    channels: tuple[DeployedChannel, ...]

    @property
    def producer_task_managers(self) -> tuple[int, ...]:
        """Where each subtask that makes records runs."""
        return self.vertices[0].task_managers

    @property
    def consumer_task_managers(self) -> tuple[int, ...]:
        """Where each subtask that takes records out runs."""
        return self.vertices[-1].task_managers

    @property
    def task_managers(self) -> int:
        """TaskManagers that the vertices need, counted up to the last one that is used."""
        return 1 + max(max(vertex.task_managers) for vertex in self.vertices)

    def inputs_of(self, vertex: int) -> list[DeployedEdge]:
        """The edges that a vertex reads."""
        return [edge for edge in self.edges if edge.target == vertex]

    def outputs_of(self, vertex: int) -> list[DeployedEdge]:
        """The edges that a vertex writes."""
        return [edge for edge in self.edges if edge.source == vertex]

    def task_name(self, vertex: int, subtask: int) -> str:
        """What a subtask is called, wherever users read of it: source 0, relay 1.0 or sink 0."""
        if vertex == 0:
            return source_name(subtask)
        if vertex == len(self.vertices) - 1:
            return sink_name(subtask)
        return relay_name(vertex, subtask)

    def partition_id(self, producer: int, edge: int = 0) -> ResultPartitionID:
        """The result partition that a subtask writes for an edge."""
        seed, number = self.scenario.seed, f" {edge}" if edge else ""
        return ResultPartitionID(
            IntermediateResultPartitionID(
                IntermediateDataSetID(_id16(seed, f"data set{number}")), producer
            ),
            ExecutionAttemptID(
                ExecutionGraphID(_id16(seed, "execution graph")),
                ExecutionVertexID(JobVertexID(_id16(seed, f"producers{number}")), producer),
                0,
            ),
        )

    def channels_of_producer(self, producer: int, edge: int = 0) -> tuple[DeployedChannel, ...]:
        """The channels of a producer of an edge, by subpartition."""
        own = (each for each in self.channels if each.producer == producer and each.edge == edge)
        return tuple(sorted(own, key=lambda each: each.subpartition))

    def channels_of_consumer(self, consumer: int, edge: int = 0) -> tuple[DeployedChannel, ...]:
        """The channels of a consumer of an edge, by producer."""
        return tuple(
            each for each in self.channels if each.consumer == consumer and each.edge == edge
        )

    def producer_task_manager(self, channel: DeployedChannel) -> int:
        """The TaskManager that a channel comes from."""
        return self.vertices[self.edges[channel.edge].source].task_managers[channel.producer]

    def consumer_task_manager(self, channel: DeployedChannel) -> int:
        """The TaskManager that a channel leads to."""
        return self.vertices[self.edges[channel.edge].target].task_managers[channel.consumer]

    def is_local(self, channel: DeployedChannel) -> bool:
        """Whether both ends sit on one TaskManager, so that no connection is needed."""
        return self.producer_task_manager(channel) == self.consumer_task_manager(channel)

    def connections(self) -> dict[str, int]:
        """How many channels share each TCP connection, by its name "tm-0->tm-1": from the
        producers' TaskManager to the consumers', whose client opens it.
        """
        counts: dict[str, int] = {}
        for each in self.channels:
            if not self.is_local(each):
                name = (
                    f"tm-{self.producer_task_manager(each)}->tm-{self.consumer_task_manager(each)}"
                )
                counts[name] = counts.get(name, 0) + 1
        return counts

    def is_last(self, channel: DeployedChannel) -> bool:
        """Whether what is read here leaves the job: latency ends there, and records count once."""
        return self.edges[channel.edge].target == len(self.vertices) - 1

    def producers_on(self, task_manager: int) -> list[int]:
        """Subtasks that make records on a TaskManager."""
        return self.vertices[0].subtasks_on(task_manager)

    def consumers_on(self, task_manager: int) -> list[int]:
        """Subtasks that take records out on a TaskManager."""
        return self.vertices[-1].subtasks_on(task_manager)


def source_name(subtask: int) -> str:
    """Name of a subtask that makes records."""
    return f"source {subtask}"


def relay_name(vertex: int, subtask: int) -> str:
    """Name of a subtask that passes records on; vertices count from the sources, which are 0."""
    return f"relay {vertex}.{subtask}"


def sink_name(subtask: int) -> str:
    """Name of a subtask that takes records out."""
    return f"sink {subtask}"


def deploy(scenario: Scenario) -> Deployment:
    """Place the tasks of a scenario and wire them: producers, relays behind each other, consumers.

    Relays have as many subtasks as there are producers and are joined to them one by one, as Flink
    joins operators of equal parallelism; the partitioner is that of the last edge.

    Raises: ConfigError when the scenario cannot be deployed.
    """
    _check(scenario)
    workload = scenario.workload
    stages = [("producers", workload.producers)]
    stages += [(f"relay {index}", workload.producers) for index in range(workload.relays)]
    stages += [("consumers", workload.consumers)]
    places = _place([parallelism for _, parallelism in stages], scenario)
    vertices = [
        DeployedVertex(name, task_managers)
        for (name, _), task_managers in zip(stages, places, strict=True)
    ]
    edges = [
        DeployedEdge(
            index, index, index + 1, "forward" if index < workload.relays else workload.partitioner
        )
        for index in range(workload.relays + 1)
    ]
    return wire(scenario, vertices, edges)


def wire(
    scenario: Scenario, vertices: Sequence[DeployedVertex], edges: Sequence[DeployedEdge]
) -> Deployment:
    """Lay the channels of all edges between placed vertices."""
    channels: list[DeployedChannel] = []
    for edge in edges:
        producers = vertices[edge.source].parallelism
        consumers = vertices[edge.target].parallelism
        if edge.partitioner in POINTWISE:
            joined = pointwise(producers, consumers)
        else:
            joined = all_to_all(producers, consumers)
        for producer, consumer, subpartition in joined:
            index = len(channels)
            receiver_id = channel_receiver_id(scenario.seed, index)
            channels.append(
                DeployedChannel(index, producer, consumer, subpartition, receiver_id, edge.index)
            )
    return Deployment(scenario, tuple(vertices), tuple(edges), tuple(channels))


def channel_receiver_id(seed: int, index: int) -> InputChannelID:
    """By which id the consumer of a channel of a run calls it."""
    return InputChannelID(_id16(seed, f"channel {index}"))


def all_to_all(producers: int, consumers: int) -> list[tuple[int, int, int]]:
    """(producer, consumer, subpartition): consumer i reads subpartition i of every partition."""
    return [(p, c, c) for p in range(producers) for c in range(consumers)]


def pointwise(producers: int, consumers: int) -> list[tuple[int, int, int]]:
    """(producer, consumer, subpartition), each joined to its neighbours only (Flink:
    VertexInputInfoComputationUtils).
    """
    if producers >= consumers:
        return [
            (producer, consumer, 0)
            for consumer in range(consumers)
            for producer in range(
                consumer * producers // consumers, (consumer + 1) * producers // consumers
            )
        ]
    joined = []
    for producer in range(producers):
        first = -(-producer * consumers // producers)
        end = -(-(producer + 1) * consumers // producers)
        joined += [(producer, each, each % (end - first)) for each in range(first, end)]
    return joined


def _place(parallelisms: Sequence[int], scenario: Scenario) -> list[tuple[int, ...]]:
    """The TaskManager of each subtask of each stage.

    split: each stage has TaskManagers of its own, so that every channel crosses a connection.
    spread: subtask i of every stage sits on the i-th TaskManager, in turns, as Flink's slot
    sharing places equal parallelisms.
    """
    count, stages = scenario.task_managers, len(parallelisms)
    if scenario.placement == "spread":
        return [tuple(i % count for i in range(parallelism)) for parallelism in parallelisms]
    places = []
    first = 0
    for stage, parallelism in enumerate(parallelisms):
        own = count // stages + (stage < count % stages)
        places.append(tuple(first + i % own for i in range(parallelism)))
        first += own
    return places


def _check(scenario: Scenario) -> None:
    workload = scenario.workload
    if not is_partitioner(workload.partitioner):
        raise ConfigError(
            f"partitioner {workload.partitioner!r} is not known; choose from"
            f" {', '.join(PARTITIONERS)} and custom:MODULE:FUNCTION"
        )
    check_flow_control(scenario.flow_control)
    if scenario.network.debloating_enabled and scenario.flow_control == TCP:
        raise ConfigError(
            "taskmanager.network.memory.buffer-debloat.enabled: buffer debloating needs the backlog"
            " that comes with credit, and flow control is tcp; use --flow-control credit"
        )
    if scenario.placement not in PLACEMENTS:
        raise ConfigError(
            f"placement {scenario.placement!r} is not known; choose from {', '.join(PLACEMENTS)}"
        )
    scheduling_of(scenario)
    stages = workload.relays + 2
    if scenario.placement == "split" and scenario.task_managers < stages:
        raise ConfigError(
            f"{scenario.task_managers} task manager(s) for {stages} stages that are split: each"
            f" needs one of its own; use --task-managers {stages} or more, or --placement spread"
        )
    is_forward = workload.partitioner == "forward"
    if is_forward and workload.producers != workload.consumers:
        raise ConfigError(
            f"forward needs as many consumers as producers, not {workload.producers} and"
            f" {workload.consumers}; make them equal, or use --partitioner rebalance"
        )
    for slow in workload.slow_consumers:
        if not 0 <= slow.index < workload.consumers:
            raise ConfigError(
                f"there is no consumer {slow.index} to slow down; they are 0 to"
                f" {workload.consumers - 1}"
            )
        is_paused = slow.delay_ns_per_record < 0
        has_end = workload.duration_ns is not None or (
            not workload.is_max_rate and workload.arrivals == "constant"
        )
        if is_paused and not has_end:
            raise ConfigError(
                "a paused consumer at the highest rate or with irregular arrivals needs --duration:"
                " a number of records may never be reached"
            )
    if workload.warmup_ns + (workload.duration_ns or 0) > LONGEST_RUN_NS:
        raise ConfigError("a run may last four hours: the stamps of its records reach no further")
    if workload.record_size.low_bytes < 8:
        raise ConfigError(
            f"records of {workload.record_size.low_bytes} bytes cannot carry what the consumer"
            " checks; the smallest is 8b"
        )


def _id16(seed: int, what: str) -> bytes:
    return hashlib.sha256(f"flinknet {seed} {what}".encode()).digest()[:16]
