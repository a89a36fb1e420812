"""JobGraph: the job as submitted: vertices of chained operators, and the data sets between them.
Streaming and batch programs use the same classes. StreamConfig configures an operator in a task, as
plain data. Functions are not serialised: a process that runs the program again finds each operator
by its id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import IntermediateDataSetID, JobVertexID
from flinknet.core.wiring import DistributionPattern
from flinknet.errors import ConfigError

from .job_config import JobConfig
from .operators import OperatorFactory
from .stream_graph import StreamEdge
from .transformations import UNKNOWN, ResourceSpec

STATE_BACKEND = "hashmap"
"""Flink's name of the backend of keyed state: a dict in the memory of the operator."""


@dataclass(frozen=True, slots=True)
class ChainedOutput:
    """An edge to an operator of the same chain."""

    operator_id: str
    input_number: int
    output_tag: str | None


@dataclass(frozen=True, slots=True)
class NonChainedOutput:
    """An edge that leaves the chain (Flink: NonChainedOutput), with the operator that writes it.
    Edges of a blocking output may share one data set; then their data set ids are equal.
    """

    edge_id: str
    operator_id: str
    data_set_id: str
    partitioner: str
    partition_type: str
    buffer_timeout_ns: int
    output_tag: str | None


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """An edge that enters the chain from another vertex."""

    edge_id: str
    data_set_id: str
    operator_id: str
    input_number: int


@dataclass(slots=True)
class StreamConfig:
    """One operator of a chain; the head's contains the others (Flink: StreamConfig).

    Attributes:
        chain_index: position in the chain; 1 for heads, 0 for chained sources.
        key_selector: name of the function that returns the key of a record; empty: no keyed state.
        key_type: type of the keys, which determines their serializer.
        outputs, inputs: of the head: all edges that leave or enter the vertex, in order.
        chained: of the head: the other operators of the chain, by operator id.
    """

    operator_name: str
    operator_id: str
    chain_index: int
    managed_memory_fraction: float = 0.0
    delay_ns_per_record: int = 0
    has_checkpoints: bool = False
    key_selector: str = ""
    key_type: str = ""
    state_backend: str = ""
    chained_outputs: list[ChainedOutput] = field(default_factory=list)
    outputs: list[NonChainedOutput] = field(default_factory=list)
    inputs: list[NetworkInput] = field(default_factory=list)
    chained: dict[str, StreamConfig] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, StreamConfig]:
        """All operators of a head's chain, by id."""
        return {self.operator_id: self, **self.chained}

    @property
    def ends(self) -> list[NonChainedOutput | NetworkInput]:
        return [*self.outputs, *self.inputs]


@dataclass(slots=True, eq=False)
class VertexGroup:
    """Vertices whose subtasks may share slots (Flink: SlotSharingGroup), or whose subtasks with the
    same number must share one (Flink: CoLocationGroup).
    """

    name: str
    vertices: list[JobVertex] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class JobEdge:
    """A data set and its reader (Flink: JobEdge), through the partitioner `ship_strategy`."""

    source: IntermediateDataSet
    target: JobVertex
    pattern: DistributionPattern
    ship_strategy: str
    stream_edge_id: str


@dataclass(slots=True, eq=False)
class IntermediateDataSet:
    """The output of a vertex (Flink: IntermediateDataSet)."""

    id: IntermediateDataSetID
    producer: JobVertex
    partition_type: ResultPartitionType
    consumers: list[JobEdge] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class JobVertex:
    """A chain of operators that runs in one task (Flink: JobVertex).

    Attributes:
        operator_ids: of the chain, with the hashes of older programs that the user set.
        max_parallelism: key groups; -1: derived from the parallelism.
        invokable: class of the task.
        master_hooks: called once with the parallelism when the job is submitted.
    """

    id: JobVertexID
    name: str
    parallelism: int
    max_parallelism: int = -1
    invokable: str | None = None
    config: StreamConfig | None = None
    operator_names: tuple[str, ...] = ()
    operator_ids: tuple[tuple[str, str | None], ...] = ()
    description: str = ""
    min_resources: ResourceSpec = UNKNOWN
    preferred_resources: ResourceSpec = UNKNOWN
    slot_sharing_group: VertexGroup | None = None
    co_location_group: VertexGroup | None = None
    inputs: list[JobEdge] = field(default_factory=list)
    results: list[IntermediateDataSet] = field(default_factory=list)
    master_hooks: list[Callable[[int], None]] = field(default_factory=list)

    def connect_to(
        self,
        producer: JobVertex,
        data_set_id: IntermediateDataSetID,
        pattern: DistributionPattern,
        partition_type: ResultPartitionType,
        ship_strategy: str = "",
        stream_edge_id: str = "",
    ) -> JobEdge:
        """Read a vertex's data set, made if new (Flink: JobVertex.connectNewDataSetAsInput)."""
        data_set = next((each for each in producer.results if each.id == data_set_id), None)
        if data_set is None:
            data_set = IntermediateDataSet(data_set_id, producer, partition_type)
            producer.results.append(data_set)
        edge = JobEdge(data_set, self, pattern, ship_strategy, stream_edge_id)
        data_set.consumers.append(edge)
        self.inputs.append(edge)
        return edge

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False)
class JobGraph:
    """Vertices and the data sets between them (Flink: JobGraph).

    Attributes:
        schedule: what is deployed together.
        vertices: in the order of their creation: consumers before producers.
        steps: steps of the generator, in order.
        factories, stream_edges: by operator id and edge id; rebuilt by running the program.
        checkpoints: settings; empty without checkpoints.
        execution_config: settings for every task.
    """

    name: str
    config: JobConfig
    _: KW_ONLY
    is_batch: bool
    schedule: str = ""
    vertices: dict[JobVertexID, JobVertex] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    factories: dict[str, OperatorFactory] = field(default_factory=dict)
    stream_edges: dict[str, StreamEdge] = field(default_factory=dict)
    checkpoints: Mapping[str, Any] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    execution_config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def edges(self) -> list[JobEdge]:
        """All edges, by consumer, sources first."""
        return [edge for vertex in self.sorted_vertices() for edge in vertex.inputs]

    @property
    def unstoppable_sources(self) -> list[str]:
        """Names of the sources that push their records, such as a socket's: what they were sent and
        have not emitted would be lost (Flink until 1.8: JobVertex.isStoppable).
        """
        return [
            name
            for vertex in self.vertices.values()
            for name, (operator_id, _) in zip(
                vertex.operator_names, vertex.operator_ids, strict=True
            )
            if operator_id in self.factories and self.factories[operator_id].is_legacy_source
        ]

    def add_vertex(self, vertex: JobVertex) -> None:
        """Add a vertex. Raises: ConfigError if its id exists."""
        if vertex.id in self.vertices:
            other = self.vertices[vertex.id].name
            raise ConfigError(f"{vertex.name} and {other} have the same vertex id {vertex.id}")
        self.vertices[vertex.id] = vertex

    def sorted_vertices(self) -> list[JobVertex]:
        """Vertices in topological order: sources in the order of the graph, then their consumers,
        depth first.

        Raises: ConfigError if the graph has a cycle, or an input that no vertex writes.
        """
        known = {id(each) for each in self.vertices.values()}
        ordered = [each for each in self.vertices.values() if not each.inputs]
        placed = {id(each) for each in ordered}
        at = 0

        def append_ready(vertex: JobVertex) -> None:
            for data_set in vertex.results:
                for edge in data_set.consumers:
                    target = edge.target
                    producers = {id(each.source.producer) for each in target.inputs}
                    if id(target) in known - placed and producers <= placed:
                        placed.add(id(target))
                        ordered.append(target)
                        append_ready(target)

        while at < len(ordered):
            append_ready(ordered[at])
            at += 1
        if len(ordered) < len(self.vertices):
            rest = [each.name for each in self.vertices.values() if id(each) not in placed]
            raise ConfigError(
                f"the job graph has a cycle, with {', '.join(rest)} in it or behind it"
            )
        return ordered

    def json_plan(self) -> str:
        """Vertices and edges, for display (Flink: JsonPlanGenerator)."""
        nodes = [
            {
                "id": str(vertex.id),
                "parallelism": vertex.parallelism,
                "description": vertex.name,
                "inputs": [
                    {
                        "num": number,
                        "id": str(edge.source.producer.id),
                        "ship_strategy": edge.ship_strategy,
                        "exchange": edge.source.partition_type.name.lower(),
                    }
                    for number, edge in enumerate(vertex.inputs)
                ],
            }
            for vertex in self.sorted_vertices()
        ]
        return json.dumps(
            {"name": self.name, "type": "BATCH" if self.is_batch else "STREAMING", "nodes": nodes}
        )
