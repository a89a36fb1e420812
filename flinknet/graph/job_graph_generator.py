"""From a StreamGraph to a JobGraph (Flink: StreamingJobGraphGenerator), in steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS
from flinknet.core.producer.channel_selector import java_string_hash
from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import IntermediateDataSetID, JobVertexID
from flinknet.core.wiring import DistributionPattern
from flinknet.errors import ConfigError

from . import job_graph
from .slots import managed_memory_fractions, set_slot_sharing
from .stream_graph import (
    GlobalStreamExchangeMode,
    StreamEdge,
    StreamGraph,
    StreamNode,
    is_chainable,
    is_source_chainable,
    node_hashes,
)
from .transformations import ResourceSpec, StreamExchangeMode
from .user_functions import function_name, known_results, type_name

_MASK = (1 << 64) - 1

_PARTITION_TYPES = {
    GlobalStreamExchangeMode.ALL_EDGES_PIPELINED: ResultPartitionType.PIPELINED_BOUNDED,
    GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE: (
        ResultPartitionType.PIPELINED_APPROXIMATE
    ),
    GlobalStreamExchangeMode.ALL_EDGES_BLOCKING: ResultPartitionType.BLOCKING,
}


def job_graph_of(graph: StreamGraph) -> job_graph.JobGraph:
    """The JobGraph of a StreamGraph. Raises: ConfigError for an invalid graph."""
    return JobGraphGenerator(graph).generate()


@dataclass(slots=True)
class _Chain:
    """A vertex under construction: its head, the sources chained to it, and its nodes in the order
    they were added, the last operator first.
    """

    start_id: int
    source_ids: list[int] = field(default_factory=list)
    nodes: list[StreamNode] = field(default_factory=list)


class JobGraphGenerator:
    """Builds one JobGraph."""

    def __init__(self, graph: StreamGraph) -> None:
        self._graph = graph
        self._config = graph.config
        self._job = job_graph.JobGraph(graph.job_name, graph.config, is_batch=graph.is_batch)
        self._chains: dict[int, _Chain] = {}
        self._hashes: dict[int, bytes] = {}
        self._configs: dict[int, job_graph.StreamConfig] = {}
        self._names: dict[int, str] = {}
        self._descriptions: dict[int, str] = {}
        self._vertex_of_head: dict[int, job_graph.JobVertex] = {}
        self._head_of: dict[int, int] = {}
        self._data_sets: dict[StreamEdge, IntermediateDataSetID] = {}

    def generate(self) -> job_graph.JobGraph:
        """Build the graph. Raises: ConfigError."""
        steps: dict[str, Callable[[], None]] = {
            "validate": self._validate,
            "schedule mode": self._set_schedule,
            "hashes": lambda: self._hashes.update(node_hashes(self._graph)),
            "chaining": self._make_chains,
            "physical edges": self._set_physical_edges,
            "slot sharing": lambda: set_slot_sharing(self._job, self._graph, self._vertex_of_head),
            "managed memory": self._set_managed_memory,
            "checkpoints": self._set_checkpoints,
            "artifacts": lambda: self._job.artifacts.update(self._graph.artifacts),
            "configuration": self._set_configuration,
        }
        for name, step in steps.items():
            step()
            self._job.steps.append(name)
        return self._job

    def _validate(self) -> None:
        config = self._config
        if not self._graph.has_checkpoints or not config.network.unaligned_checkpoints:
            return
        if config.network.forced_unaligned_checkpoints:
            return
        for edge in self._graph.edges:
            if edge.partitioner.function is not None:
                raise ConfigError(
                    f"{edge.target.operator_name}: unaligned checkpoints do not go with a custom"
                    " partitioner, whose records in flight cannot be redistributed; force them"
                    " with execution.checkpointing.unaligned.forced, or use another partitioner"
                )

    def _set_schedule(self) -> None:
        self._job.schedule = "by pipelined region" if self._graph.is_batch else "all at once"

    def _make_chains(self) -> None:
        """A chain for each source; a chained source begins the chain of its consumer."""
        for source_id in sorted(self._graph.source_ids):
            node = self._graph.nodes[source_id]
            edge = node.out_edges[0] if node.out_edges else None
            if edge is None or not is_source_chainable(edge, self._graph):
                self._chains[source_id] = _Chain(source_id)
                continue
            chain = self._chains.setdefault(edge.target_id, _Chain(edge.target_id))
            chain.source_ids.append(source_id)
            chain.nodes.append(node)
            self._new_config(node, 0, [edge])
            self._head_of[source_id] = edge.target_id
        for start_id in sorted(self._chains):
            self._create_chain(start_id, 1, self._chains[start_id])

    def _create_chain(self, node_id: int, index: int, chain: _Chain) -> list[StreamEdge]:
        """Add a node and the operators chained to it to a chain, and begin the chains of its
        consumers. Returns: the edges that leave the chain from here on, those of children first.
        """
        if chain.start_id in self._vertex_of_head:
            return []
        node = self._graph.nodes[node_id]
        chained = [edge for edge in node.out_edges if is_chainable(edge, self._graph)]
        leaving = [edge for edge in node.out_edges if edge not in chained]
        transitive: list[StreamEdge] = []
        for edge in chained:
            transitive += self._create_chain(edge.target_id, index + 1, chain)
        for edge in leaving:
            transitive.append(edge)
            begun = self._chains.get(edge.target_id) or _Chain(edge.target_id)
            self._create_chain(edge.target_id, 1, begun)
        sources = chain.source_ids if node_id == chain.start_id else []
        self._set_texts(node, sources, chained)
        chain.nodes.append(node)
        self._head_of[node_id] = chain.start_id
        self._new_config(node, index, chained)
        if node_id == chain.start_id:
            self._create_vertex(chain)
            for edge in transitive:
                self._connect(edge)
        return transitive

    def _new_config(self, node: StreamNode, index: int, chained: list[StreamEdge]) -> None:
        config = self._configs[node.id] = job_graph.StreamConfig(
            node.operator_name,
            self._hashes[node.id].hex(),
            index,
            delay_ns_per_record=node.delay_ns_per_record,
            chained_outputs=[
                job_graph.ChainedOutput(
                    self._hashes[each.target_id].hex(), each.type_number, each.tag_id
                )
                for each in chained
            ],
        )
        if node.key_selector is not None:
            config.key_selector = function_name(node.key_selector)
            config.key_type = type_name(known_results(node.key_selector))
            config.state_backend = job_graph.STATE_BACKEND
        if node.operator_factory is not None:
            self._job.factories[config.operator_id] = node.operator_factory

    def _set_texts(
        self, node: StreamNode, source_ids: list[int], chained: list[StreamEdge]
    ) -> None:
        """Set the name and the description of the chain from a node on."""
        sources = [self._graph.nodes[each] for each in source_ids]
        targets = [edge.target_id for edge in chained]
        name = _with_sources(node.operator_name, [each.operator_name for each in sources])
        self._names[node.id] = _cascading(name, [self._names[each] for each in targets])
        text = _with_sources(node.description, [each.description for each in sources])
        join = _cascading if self._config.vertex_description_mode == "CASCADING" else _tree
        self._descriptions[node.id] = join(text, [self._descriptions[each] for each in targets])

    def _create_vertex(self, chain: _Chain) -> None:
        head = self._graph.nodes[chain.start_id]
        nodes = chain.nodes[::-1]
        config = self._configs[head.id]
        vertex = self._vertex_of_head[head.id] = job_graph.JobVertex(
            JobVertexID(self._hashes[head.id]),
            self._names[head.id],
            head.parallelism,
            -1 if head.max_parallelism is None else head.max_parallelism,
            head.invokable,
            config,
            tuple(node.operator_name for node in nodes),
            tuple((self._hashes[node.id].hex(), node.uid_hash) for node in nodes),
            self._descriptions[head.id],
            reduce(ResourceSpec.merge, (node.min_resources for node in chain.nodes)),
            reduce(ResourceSpec.merge, (node.preferred_resources for node in chain.nodes)),
        )
        factories = [node.operator_factory for node in nodes if node.operator_factory]
        vertex.master_hooks += [each.master_hook for each in factories if each.master_hook]
        self._job.add_vertex(vertex)
        others = [self._configs[node.id] for node in nodes if node is not head]
        config.chained = {each.operator_id: each for each in others}

    def _connect(self, edge: StreamEdge) -> None:
        """Register an edge that leaves a chain, and its data set."""
        partition_type = self._partition_type(edge)
        is_blocking = partition_type.is_blocking_or_blocking_persistent
        vertex = self._vertex_of_head[self._head_of[edge.source_id]]
        timeout_ns = self._config.task_timeouts_ns.get(vertex.name, edge.buffer_timeout_ns)
        if is_blocking and timeout_ns != BUFFER_TIMEOUT_NEVER_NS:
            raise ConfigError(
                f"{edge.source.operator_name}: a blocking exchange has no buffer timeout; leave it"
                " out, or set it to -1"
            )
        data_set_id = next(
            (
                each
                for known, each in self._data_sets.items()
                if is_blocking and _may_share(known, edge)
            ),
            data_set_id_of(vertex.id, java_string_hash(edge.id)),
        )
        self._data_sets[edge] = data_set_id
        self._configs[self._head_of[edge.source_id]].outputs.append(
            job_graph.NonChainedOutput(
                edge.id,
                self._hashes[edge.source_id].hex(),
                str(data_set_id),
                edge.partitioner.name,
                partition_type.name,
                timeout_ns,
                edge.tag_id,
            )
        )
        self._job.stream_edges[edge.id] = edge

    def _partition_type(self, edge: StreamEdge) -> ResultPartitionType:
        if edge.exchange_mode is StreamExchangeMode.BATCH:
            return ResultPartitionType.BLOCKING
        if edge.exchange_mode is StreamExchangeMode.PIPELINED:
            return ResultPartitionType.PIPELINED_BOUNDED
        return _PARTITION_TYPES[self._graph.exchange_mode]

    def _set_physical_edges(self) -> None:
        for edge, data_set_id in self._data_sets.items():
            target_head = self._head_of[edge.target_id]
            is_pointwise = edge.partitioner.is_pointwise
            self._vertex_of_head[target_head].connect_to(
                self._vertex_of_head[self._head_of[edge.source_id]],
                data_set_id,
                DistributionPattern.POINTWISE if is_pointwise else DistributionPattern.ALL_TO_ALL,
                self._partition_type(edge),
                edge.partitioner.name,
                edge.id,
            )
            self._configs[target_head].inputs.append(
                job_graph.NetworkInput(
                    edge.id, str(data_set_id), self._hashes[edge.target_id].hex(), edge.type_number
                )
            )

    def _set_managed_memory(self) -> None:
        vertex_of = {node: self._vertex_of_head[head] for node, head in self._head_of.items()}
        for node_id, fraction in managed_memory_fractions(self._graph, vertex_of).items():
            self._configs[node_id].managed_memory_fraction = fraction

    def _set_checkpoints(self) -> None:
        if not self._graph.has_checkpoints:
            return
        self._job.checkpoints = {
            "interval_ns": self._config.network.checkpoint_interval_ns,
            "mode": self._config.network.checkpoint_mode,
            "is_unaligned": self._config.network.unaligned_checkpoints,
        }
        for config in self._configs.values():
            config.has_checkpoints = True

    def _set_configuration(self) -> None:
        if self._config.has_vertex_index_prefix:
            for index, vertex in enumerate(self._job.sorted_vertices()):
                vertex.name = f"[vertex-{index}]{vertex.name}"
        self._job.execution_config = {
            "parallelism": self._config.parallelism,
            "max_parallelism": self._config.max_parallelism,
            "runtime_mode": "BATCH" if self._graph.is_batch else "STREAMING",
        }


def data_set_id_of(vertex_id: JobVertexID, edge_hash: int) -> IntermediateDataSetID:
    """The id of a data set: its producer's id with both halves swapped and the hash of the edge
    added to each (Flink: AbstractID(AbstractID, int)).
    """
    halves = [int.from_bytes(vertex_id.raw[at : at + 8], "big") for at in (8, 0)]
    return IntermediateDataSetID(
        b"".join((half + edge_hash & _MASK).to_bytes(8, "big") for half in halves)
    )


def _may_share(one: StreamEdge, other: StreamEdge) -> bool:
    return (
        one.source is other.source
        and one.partitioner == other.partitioner
        and one.target.parallelism == other.target.parallelism
        and one.target.max_parallelism == other.target.max_parallelism
        and one.output_tag == other.output_tag
    )


def _with_sources(text: str, chained_sources: list[str]) -> str:
    return f"{text} [{', '.join(chained_sources)}]" if chained_sources else text


def _tree(text: str, children: list[str]) -> str:
    for number, child in enumerate(children, start=1):
        first, *rest = child.split("\n")
        bullet, bar = ("+-", "  ") if number == len(children) else (":-", ": ")
        text += "".join([f"\n{bullet} {first}", *(f"\n{bar} {line}" for line in rest)])
    return text


def _cascading(text: str, children: list[str]) -> str:
    if len(children) > 1:
        return f"{text} -> ({', '.join(children)})"
    return f"{text} -> {children[0]}" if children else text
