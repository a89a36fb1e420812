"""StreamGraph: a program as operators and the streams between them.

Only operators are nodes. Unions, partitions and side outputs are virtual: an edge from one of them
is followed up to the operators behind it, and takes over their properties on the way.

Two operators share a task (Flink: StreamingJobGraphGenerator.isChainable) if

1   the downstream operator has only this input
2   chaining is enabled
3   both are in the same slot sharing group
4   both have an operator, and no yielding operator follows a legacy source
5   the upstream operator's strategy is not NEVER
6   the downstream operator's is ALWAYS; or HEAD_WITH_SOURCES, after a source
7   both have the same parallelism
8   both have the same max parallelism, unless different ones may be chained
9   the partitioner is forward, and the exchange mode is not batch
10  no other edge leads to the same input: no union
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any

from flinknet.core.wire.lineage import local_hash, mixed, murmur3_128
from flinknet.errors import ConfigError

from .job_config import JobConfig
from .operators import ChainingStrategy, OperatorFactory
from .transformations import (
    FORWARD,
    REBALANCE,
    UNKNOWN,
    KeySelector,
    PartitionTransformation,
    ResourceSpec,
    SideOutputTransformation,
    StreamExchangeMode,
    StreamPartitioner,
)
from .watermarks import OutputTag

DEFAULT_SLOT_SHARING_GROUP = "default"


class GlobalStreamExchangeMode(Enum):
    """Exchange mode of edges without a mode of their own (Flink: GlobalStreamExchangeMode)."""

    ALL_EDGES_PIPELINED = "all edges pipelined"
    ALL_EDGES_PIPELINED_APPROXIMATE = "all edges pipelined, approximate"
    ALL_EDGES_BLOCKING = "all edges blocking"


@dataclass(slots=True)
class StreamNode:
    """One operator (Flink: StreamNode).

    Attributes:
        max_parallelism: key groups; None: derived from the parallelism.
        invokable: class of the task if the operator is the head of a chain.
        has_event_time: whether timestamps on the wire are event time in ms.
        has_own_time: whether a function of the program assigns that time; if not, it is the due
            instant.
    """

    id: int
    operator_name: str
    operator_factory: OperatorFactory | None
    parallelism: int
    max_parallelism: int | None
    slot_sharing_group: str
    invokable: str | None
    buffer_timeout_ns: int
    output_type: Any
    chaining_strategy: ChainingStrategy
    co_location_group_key: str | None = None
    uid: str | None = None
    uid_hash: str | None = None
    key_selector: KeySelector | None = None
    min_resources: ResourceSpec = UNKNOWN
    preferred_resources: ResourceSpec = UNKNOWN
    managed_memory_weight: int = 0
    description: str = ""
    delay_ns_per_record: int = 0
    has_event_time: bool = False
    has_own_time: bool = False
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.operator_name}-{self.id}"


@dataclass(slots=True, eq=False)
class StreamEdge:
    """A stream from one operator to another (Flink: StreamEdge).

    Attributes:
        type_number: input of the target: 0 for its only input, else from 1.
        output_tag: None: the main output.
        unique_id: distinguishes edges between the same two operators.
    """

    source: StreamNode
    target: StreamNode
    type_number: int
    partitioner: StreamPartitioner
    output_tag: OutputTag | None
    exchange_mode: StreamExchangeMode
    unique_id: int
    buffer_timeout_ns: int
    supports_unaligned_checkpoints: bool = True

    @property
    def record_type(self) -> Any:
        return self.source.output_type if self.output_tag is None else self.output_tag.output_type

    @property
    def tag_id(self) -> str | None:
        return self.output_tag.id if self.output_tag else None

    @property
    def source_id(self) -> int:
        return self.source.id

    @property
    def target_id(self) -> int:
        return self.target.id

    @property
    def id(self) -> str:
        return f"{self.source}_{self.target}_{self.type_number}_{self.partitioner}_{self.unique_id}"

    def __str__(self) -> str:
        return f"{self.source_id} -> {self.target_id} {self.partitioner}"


@dataclass(eq=False)
class StreamGraph:
    """Operators and the streams between them (Flink: StreamGraph).

    Attributes:
        nodes: by id, inputs before their consumers.
        virtual: id of the node behind a virtual one, with its transformation, by virtual id.
        is_batch: whether it reads bounded data as a batch, or runs until it is stopped.
    """

    job_name: str
    config: JobConfig
    _: KW_ONLY
    is_batch: bool
    exchange_mode: GlobalStreamExchangeMode = GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
    artifacts: Mapping[str, str] = field(default_factory=dict)
    nodes: dict[int, StreamNode] = field(default_factory=dict)
    source_ids: list[int] = field(default_factory=list)
    sink_ids: list[int] = field(default_factory=list)
    virtual: dict[int, tuple[int, PartitionTransformation | SideOutputTransformation]] = field(
        default_factory=dict
    )

    @property
    def edges(self) -> list[StreamEdge]:
        return [edge for node in self.nodes.values() for edge in node.out_edges]

    @property
    def has_checkpoints(self) -> bool:
        return self.config.network.checkpoint_interval_ns is not None and not self.is_batch

    def add_edge(self, up_id: int, down_id: int, type_number: int) -> None:
        """Connect two nodes, of which the first may be virtual.

        Of several partitioners on the way the one nearest to the target applies, of several
        exchange modes the one nearest to the source.

        Raises: ConfigError if forward would connect different parallelisms.
        """
        partitioner: StreamPartitioner | None = None
        tag: OutputTag | None = None
        mode: StreamExchangeMode | None = None
        while up_id not in self.nodes:
            up_id, virtual = self.virtual[up_id]
            if isinstance(virtual, SideOutputTransformation):
                tag = tag or virtual.tag
            else:
                partitioner, mode = partitioner or virtual.partitioner, virtual.exchange_mode
        self.add_actual_edge(
            self.nodes[up_id], self.nodes[down_id], type_number, partitioner, tag, mode
        )

    def add_actual_edge(
        self,
        up: StreamNode,
        down: StreamNode,
        type_number: int = 0,
        partitioner: StreamPartitioner | None = None,
        tag: OutputTag | None = None,
        mode: StreamExchangeMode | None = None,
    ) -> None:
        """Connect two operators. Raises: ConfigError for forward between different parallelisms."""
        is_equal = up.parallelism == down.parallelism
        if partitioner is None:
            partitioner = FORWARD if is_equal else REBALANCE
        if partitioner.is_forward and not is_equal:
            raise ConfigError(
                f"forward does not allow a change of parallelism: {up.operator_name} has"
                f" {up.parallelism}, {down.operator_name} has {down.parallelism}; use rebalance,"
                " rescale, shuffle, broadcast or global, or make them equal"
            )
        unique_id = sum(edge.target is down for edge in up.out_edges)
        edge = StreamEdge(
            up,
            down,
            type_number,
            partitioner,
            tag,
            mode or StreamExchangeMode.UNDEFINED,
            unique_id,
            up.buffer_timeout_ns,
            partitioner.supports_unaligned_checkpoint,
        )
        up.out_edges.append(edge)
        down.in_edges.append(edge)
        down.has_event_time |= up.has_event_time
        down.has_own_time |= up.has_own_time

    def execution_plan(self) -> str:
        """The plan in the JSON form that Flink's plan visualizer reads (Flink: JSONGenerator,
        StreamExecutionEnvironment.getExecutionPlan).
        """
        pacts = dict.fromkeys(self.source_ids, "Data Source")
        pacts |= dict.fromkeys(self.sink_ids, "Data Sink")
        nodes = []
        for node_id in sorted(self.nodes, key=lambda each: (each in self.sink_ids, each)):
            node = self.nodes[node_id]
            shown = {"id": node_id, "type": node.operator_name}
            shown |= {"pact": pacts.get(node_id, "Operator"), "contents": node.description}
            shown["parallelism"] = node.parallelism
            if node.in_edges:
                shown["predecessors"] = [
                    # the side is always the second, in Flink, too
                    {"id": edge.source_id, "ship_strategy": str(edge.partitioner), "side": "second"}
                    for edge in node.in_edges
                ]
            nodes.append(shown)
        return json.dumps({"nodes": nodes}, indent=2)


def is_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Whether the target of an edge runs in the task of its source."""
    return len(edge.target.in_edges) == 1 and is_chainable_input(edge, graph)


def is_chainable_input(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Conditions 2 to 10, which also apply to a source next to other inputs."""
    up, down = edge.source, edge.target
    return (
        graph.config.is_chaining_enabled
        and up.slot_sharing_group == down.slot_sharing_group
        and _may_follow(up, down, graph)
        and up.parallelism == down.parallelism
        and (
            graph.config.chains_different_max_parallelism
            or up.max_parallelism == down.max_parallelism
        )
        and edge.partitioner.is_forward
        and edge.exchange_mode is not StreamExchangeMode.BATCH
        and sum(other.type_number == edge.type_number for other in down.in_edges) == 1
    )


def is_source_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Whether a source is chained into the task of its only consumer."""
    made_by = edge.source.operator_factory
    return (
        made_by is not None
        and made_by.is_source
        and len(edge.source.out_edges) == 1
        and edge.target.chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES
        and is_chainable_input(edge, graph)
    )


def _may_follow(up: StreamNode, down: StreamNode, graph: StreamGraph) -> bool:
    if up.operator_factory is None or down.operator_factory is None:
        return False
    if down.operator_factory.kind.is_yielding:
        head = up
        while len(head.in_edges) == 1 and is_chainable(head.in_edges[0], graph):
            head = head.in_edges[0].source
        if head.operator_factory is not None and head.operator_factory.is_legacy_source:
            return False
    if up.chaining_strategy is ChainingStrategy.NEVER:
        return False
    if down.chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES:
        return up.operator_factory.is_source
    return down.chaining_strategy is ChainingStrategy.ALWAYS


def node_hashes(graph: StreamGraph) -> dict[int, bytes]:
    """The hash of each node, breadth first from the sources (Flink: StreamGraphHasherV2).

    A hash is the same in every submission of a program: it depends on the source's rank, on the
    nodes hashed before it, on chaining and on its inputs; not on names or functions, and on
    parallelism only where that changes chaining. It does depend on the order in which sources are
    declared; setting a uid avoids that.

    Raises: ConfigError if two nodes have the same uid.
    """
    hashes: dict[int, bytes] = {}
    visited = set(graph.source_ids)
    remaining = deque(sorted(graph.source_ids))
    while remaining:
        node = graph.nodes[remaining.popleft()]
        if not all(edge.source_id in hashes for edge in node.in_edges):
            visited.discard(node.id)  # again later, from another input
            continue
        if node.uid is None:
            chained = sum(is_chainable(edge, graph) for edge in node.out_edges)
            hashed = local_hash(len(hashes), chained)
            for edge in node.in_edges:
                hashed = mixed(hashed, hashes[edge.source_id])
        elif (hashed := murmur3_128(node.uid.encode())) in hashes.values():
            raise ConfigError(
                f"uid {node.uid!r} of {node.operator_name} is that of another operator too; give"
                " each one of its own"
            )
        hashes[node.id] = hashed
        for edge in node.out_edges:
            if edge.target_id not in visited:
                remaining.append(edge.target_id)
                visited.add(edge.target_id)
    return hashes
