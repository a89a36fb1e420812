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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flinknet.core.producer.channel_selector import java_string_hash
from flinknet.core.wire.lineage import local_hash, mixed, murmur3_128
from flinknet.errors import ConfigError

from .job_config import JobConfig
from .operators import ChainingStrategy, OperatorFactory
from .transformations import (
    FORWARD,
    REBALANCE,
    UNKNOWN,
    KeySelector,
    ResourceSpec,
    StreamExchangeMode,
    StreamPartitioner,
    new_node_id,
)
from .watermarks import OutputTag

DEFAULT_SLOT_SHARING_GROUP = "default"


class GlobalStreamExchangeMode(Enum):
    """Exchange mode of edges without a mode of their own (Flink: GlobalStreamExchangeMode)."""

    ALL_EDGES_PIPELINED = "all edges pipelined"
    ALL_EDGES_PIPELINED_APPROXIMATE = "all edges pipelined, approximate"
    ALL_EDGES_BLOCKING = "all edges blocking"
    FORWARD_EDGES_PIPELINED = "forward edges pipelined"
    POINTWISE_EDGES_PIPELINED = "pointwise edges pipelined"


@dataclass(slots=True)
class StreamNode:
    """One operator (Flink: StreamNode).

    Attributes:
        parallelism: number of subtasks.
        max_parallelism: key groups; None: derived from the parallelism.
        invokable: class of the task if the operator is the head of a chain.
        buffer_timeout_ns: of its outputs.
        output_type: type of its records.
        key_selector: key of its state.
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
    emits_only_at_end: bool = False
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
        source, target: the operators.
        type_number: input of the target: 0 for its only input, else from 1.
        output_tag: of a side output; None: the main output.
        unique_id: distinguishes edges between the same two operators.
        buffer_timeout_ns: of the source.
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
    def source_id(self) -> int:
        return self.source.id

    @property
    def target_id(self) -> int:
        return self.target.id

    @property
    def id(self) -> str:
        return f"{self.source}_{self.target}_{self.type_number}_{self.partitioner}_{self.unique_id}"

    @property
    def id_hash(self) -> int:
        """Signed 32-bit hash of the id."""
        return java_string_hash(self.id)

    def __str__(self) -> str:
        return f"{self.source_id} -> {self.target_id} {self.partitioner}"


class StreamGraph:
    """Operators and the streams between them (Flink: StreamGraph).

    Attributes:
        nodes: by id, inputs before their consumers.
        source_ids, sink_ids: in the order of the program.
        virtual_partitions: (id behind it, partitioner, exchange mode), by virtual id.
        virtual_side_outputs: (id behind it, tag), by virtual id.
        is_batch: whether it reads bounded data as a batch, or runs until it is stopped.
        shares_slots_by_default: whether vertices without a group share one group, or one per
            pipelined region.
    """

    def __init__(self, job_name: str, config: JobConfig, *, is_batch: bool) -> None:
        self.job_name = job_name
        self.config = config
        self.is_batch = is_batch
        self.exchange_mode = GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
        self.shares_slots_by_default = not is_batch
        self.artifacts: Mapping[str, str] = {}
        self.nodes: dict[int, StreamNode] = {}
        self.source_ids: list[int] = []
        self.sink_ids: list[int] = []
        self.virtual_partitions: dict[
            int, tuple[int, StreamPartitioner, StreamExchangeMode | None]
        ] = {}
        self.virtual_side_outputs: dict[int, tuple[int, OutputTag]] = {}

    @property
    def edges(self) -> list[StreamEdge]:
        return [edge for node in self.nodes.values() for edge in node.out_edges]

    @property
    def has_checkpoints(self) -> bool:
        return self.config.checkpoint_interval_ns is not None and not self.is_batch

    def add_node(self, node: StreamNode) -> None:
        """Add an operator. Raises: ConfigError if its id exists."""
        if node.id in self.nodes:
            raise ConfigError(f"there are two nodes with the id {node.id}")
        self.nodes[node.id] = node

    def add_virtual_partition(
        self,
        original_id: int,
        partitioner: StreamPartitioner,
        exchange_mode: StreamExchangeMode | None,
    ) -> int:
        """Add a partition after a node, which may be virtual. Returns: its id."""
        virtual_id = new_node_id()
        self.virtual_partitions[virtual_id] = (original_id, partitioner, exchange_mode)
        return virtual_id

    def add_virtual_side_output(self, original_id: int, tag: OutputTag) -> int:
        """Add a side output of a node. Returns: its id.

        Raises: ConfigError if the node has a side output of that name with another type.
        """
        for known_id, known in self.virtual_side_outputs.values():
            is_same = known_id == original_id and known.id == tag.id
            if is_same and known.output_type != tag.output_type:
                raise ConfigError(
                    f"{self.nodes[original_id].operator_name}: two side outputs are called"
                    f" {tag.id!r} and are of different types; give one of them another name"
                )
        virtual_id = new_node_id()
        self.virtual_side_outputs[virtual_id] = (original_id, tag)
        return virtual_id

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
            if up_id in self.virtual_side_outputs:
                up_id, found_tag = self.virtual_side_outputs[up_id]
                tag = tag or found_tag
            else:
                up_id, found, mode = self.virtual_partitions[up_id]
                partitioner = partitioner or found
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
        """Connect two operators.

        Raises: ConfigError if forward would connect different parallelisms.
        """
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
        nodes = []
        for node in sorted(
            self.nodes.values(), key=lambda each: (each.id in self.sink_ids, each.id)
        ):
            pact = "Data Source" if node.id in self.source_ids else "Operator"
            found: dict[str, Any] = {
                "id": node.id,
                "type": node.operator_name,
                "pact": "Data Sink" if node.id in self.sink_ids else pact,
                "contents": node.description,
                "parallelism": node.parallelism,
            }
            if node.in_edges:
                found["predecessors"] = [
                    {
                        "id": edge.source_id,
                        "ship_strategy": str(edge.partitioner),
                        "side": "second",  # always, in Flink, too
                    }
                    for edge in node.in_edges
                ]
            nodes.append(found)
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
    made = edge.source.operator_factory
    return (
        made is not None
        and made.is_source
        and len(edge.source.out_edges) == 1
        and edge.target.chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES
        and is_chainable_input(edge, graph)
    )


def _may_follow(up: StreamNode, down: StreamNode, graph: StreamGraph) -> bool:
    if up.operator_factory is None or down.operator_factory is None:
        return False
    if down.operator_factory.is_yielding and _is_behind_legacy_source(up, graph):
        return False
    if up.chaining_strategy is ChainingStrategy.NEVER:
        return False
    if down.chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES:
        return up.operator_factory.is_source
    return down.chaining_strategy is ChainingStrategy.ALWAYS


def _is_behind_legacy_source(node: StreamNode, graph: StreamGraph) -> bool:
    """Whether the chain of a node begins with a legacy source, which pushes records."""
    while len(node.in_edges) == 1 and is_chainable(node.in_edges[0], graph):
        node = node.in_edges[0].source
    return node.operator_factory is not None and node.operator_factory.is_legacy_source


def node_hashes(graph: StreamGraph, is_chainable: Callable[[StreamEdge], bool]) -> dict[int, bytes]:
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
        hashes[node.id] = _hash_of(node, hashes, is_chainable)
        for edge in node.out_edges:
            if edge.target_id not in visited:
                remaining.append(edge.target_id)
                visited.add(edge.target_id)
    return hashes


def user_hashes(graph: StreamGraph) -> dict[int, bytes]:
    """Hashes of older programs that the user set (Flink: StreamGraphUserHashHasher)."""
    return {node.id: bytes.fromhex(node.uid_hash) for node in graph.nodes.values() if node.uid_hash}


def _hash_of(
    node: StreamNode, hashes: dict[int, bytes], is_chainable: Callable[[StreamEdge], bool]
) -> bytes:
    if node.uid is not None:
        chosen = murmur3_128(node.uid.encode())
        if chosen in hashes.values():
            raise ConfigError(
                f"uid {node.uid!r} of {node.operator_name} is that of another operator too; give"
                " each one of its own"
            )
        return chosen
    hashed = local_hash(len(hashes), sum(is_chainable(edge) for edge in node.out_edges))
    for edge in node.in_edges:
        hashed = mixed(hashed, hashes[edge.source_id])
    return hashed
