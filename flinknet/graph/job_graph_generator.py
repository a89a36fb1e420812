"""From a StreamGraph to a JobGraph (Flink: StreamingJobGraphGenerator).

The steps, in order:

    validate          reject combinations that checkpoints do not support
    schedule mode     decide what is deployed together
    hashes            compute ids of operators, and those of older programs
    chaining          chain operators into vertices, depth first from the sources
    physical edges    connect the vertices, in order
    slot sharing      assign slot sharing and co-location groups
    managed memory    divide it by weight, per slot
    checkpoints       set their configuration
    artifacts         add the files of the job
    configuration     set task-wide settings and the names of vertices
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS
from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import IntermediateDataSetID, JobVertexID
from flinknet.core.wiring import DistributionPattern
from flinknet.errors import ConfigError

from .job_graph import (
    STATE_BACKEND,
    ChainedOutput,
    JobGraph,
    JobVertex,
    NetworkInput,
    NonChainedOutput,
    StreamConfig,
)
from .slots import managed_memory_fractions, set_slot_sharing
from .stream_graph import (
    GlobalStreamExchangeMode,
    StreamEdge,
    StreamGraph,
    StreamNode,
    is_chainable,
    is_source_chainable,
    node_hashes,
    user_hashes,
)
from .transformations import UNKNOWN, ResourceSpec, StreamExchangeMode
from .user_functions import function_name, known_results, type_name

_MASK = (1 << 64) - 1


def job_graph_of(graph: StreamGraph) -> JobGraph:
    """The JobGraph of a StreamGraph. Raises: ConfigError for an invalid graph."""
    return JobGraphGenerator(graph).generate()


@dataclass(slots=True)
class _Chain:
    """A vertex under construction.

    Attributes:
        source_ids: sources chained into the vertex.
        nodes: node ids in the order they were added, the last operator first.
    """

    start_id: int
    source_ids: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    min_resources: ResourceSpec = UNKNOWN
    preferred_resources: ResourceSpec = UNKNOWN
    has_resources: bool = False

    def add(self, node: StreamNode) -> None:
        self.nodes.append(node.id)
        if self.has_resources:
            self.min_resources = self.min_resources.merge(node.min_resources)
            self.preferred_resources = self.preferred_resources.merge(node.preferred_resources)
        else:
            self.has_resources = True
            self.min_resources = node.min_resources
            self.preferred_resources = node.preferred_resources


class JobGraphGenerator:
    """Builds one JobGraph."""

    def __init__(self, graph: StreamGraph) -> None:
        self._graph = graph
        self._config = graph.config
        self._job = JobGraph(graph.job_name, graph.config, is_batch=graph.is_batch)
        self._chains: dict[int, _Chain] = {}
        self._hashes: dict[int, bytes] = {}
        self._user_hashes: dict[int, bytes] = {}
        self._configs: dict[int, StreamConfig] = {}
        self._names: dict[int, str] = {}
        self._descriptions: dict[int, str] = {}
        self._vertex_of_head: dict[int, JobVertex] = {}
        self._head_of: dict[int, int] = {}
        self._physical_edges: list[StreamEdge] = []
        self._outputs: dict[int, list[tuple[StreamEdge, IntermediateDataSetID]]] = {}

    def generate(self) -> JobGraph:
        """Build the graph. Raises: ConfigError."""
        steps = {
            "validate": self._validate,
            "schedule mode": self._set_schedule,
            "hashes": self._make_hashes,
            "chaining": self._make_chains,
            "physical edges": self._set_physical_edges,
            "slot sharing": self._set_slot_sharing,
            "managed memory": self._set_managed_memory,
            "checkpoints": self._set_checkpoints,
            "artifacts": self._set_artifacts,
            "configuration": self._set_configuration,
        }
        for name, step in steps.items():
            step()
            self._job.steps.append(name)
        return self._job

    def _validate(self) -> None:
        config = self._config
        if not self._graph.has_checkpoints or not config.has_unaligned_checkpoints:
            return
        if config.forces_unaligned_checkpoints:
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

    def _make_hashes(self) -> None:
        self._hashes = node_hashes(self._graph, self._is_chainable)
        self._user_hashes = user_hashes(self._graph)

    def _make_chains(self) -> None:
        self._chains = self._entry_points()
        for start_id in sorted(self._chains):
            self._create_chain(start_id, 1, self._chains[start_id])

    def _is_chainable(self, edge: StreamEdge) -> bool:
        return is_chainable(edge, self._graph)

    def _entry_points(self) -> dict[int, _Chain]:
        """A chain for each source; a chained source begins the chain of its consumer."""
        chains: dict[int, _Chain] = {}
        for source_id in sorted(self._graph.source_ids):
            node = self._graph.nodes[source_id]
            edge = node.out_edges[0] if node.out_edges else None
            if edge is None or not is_source_chainable(edge, self._graph):
                chains[source_id] = _Chain(source_id)
                continue
            chain = chains.setdefault(edge.target_id, _Chain(edge.target_id))
            chain.source_ids.append(source_id)
            chain.add(node)
            config = self._new_config(node, 0)
            config.chained_outputs = [self._chained_output(edge)]
            self._head_of[source_id] = edge.target_id
        return chains

    def _create_chain(self, node_id: int, index: int, chain: _Chain) -> list[StreamEdge]:
        """Add a node and the operators chained to it to a chain, and begin the chains of its
        consumers.

        Returns: the edges that leave the chain from here on, those of children first.
        """
        if chain.start_id in self._vertex_of_head:
            return []
        node = self._graph.nodes[node_id]
        chained = [edge for edge in node.out_edges if self._is_chainable(edge)]
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
        chain.add(node)
        self._head_of[node_id] = chain.start_id
        config = self._new_config(node, index)
        config.chained_outputs = [self._chained_output(edge) for edge in chained]
        if node_id == chain.start_id:
            self._create_vertex(chain)
            for edge in transitive:
                self._connect(edge)
        return transitive

    def _chained_output(self, edge: StreamEdge) -> ChainedOutput:
        tag = edge.output_tag.id if edge.output_tag else None
        return ChainedOutput(self._hashes[edge.target_id].hex(), edge.type_number, tag)

    def _new_config(self, node: StreamNode, index: int) -> StreamConfig:
        config = StreamConfig(
            node.operator_name,
            self._hashes[node.id].hex(),
            index,
            delay_ns_per_record=node.delay_ns_per_record,
        )
        if node.key_selector is not None:
            config.key_selector = function_name(node.key_selector)
            config.key_type = type_name(known_results(node.key_selector))
            config.state_backend = STATE_BACKEND
        self._configs[node.id] = config
        if node.operator_factory is not None:
            self._job.factories[config.operator_id] = node.operator_factory
        return config

    def _set_texts(
        self, node: StreamNode, source_ids: list[int], chained: list[StreamEdge]
    ) -> None:
        """Set the name and the description of the chain from a node on."""
        sources = [self._graph.nodes[each] for each in source_ids]
        targets = [edge.target_id for edge in chained]
        names = [self._names[each] for each in targets]
        name = _with_sources(node.operator_name, [each.operator_name for each in sources])
        self._names[node.id] = _cascading(name, names)
        descriptions = [self._descriptions[each] for each in targets]
        text = _with_sources(node.description, [each.description for each in sources])
        if self._config.vertex_description_mode == "CASCADING":
            text = _cascading(text, descriptions)
        else:
            for number, child in enumerate(descriptions, start=1):
                first, *rest = child.split("\n")
                is_last = number == len(descriptions)
                text += f"\n{'+-' if is_last else ':-'} {first}"
                text += "".join(f"\n{'  ' if is_last else ': '} {line}" for line in rest)
        self._descriptions[node.id] = text

    def _create_vertex(self, chain: _Chain) -> None:
        head = self._graph.nodes[chain.start_id]
        nodes = [self._graph.nodes[each] for each in chain.nodes]
        vertex = JobVertex(
            JobVertexID(self._hashes[head.id]),
            self._names[head.id],
            head.parallelism,
            -1 if head.max_parallelism is None else head.max_parallelism,
            head.invokable,
            self._configs[head.id],
            tuple(node.operator_name for node in reversed(nodes)),
            tuple(
                (self._hashes[node.id].hex(), node.uid_hash and self._user_hashes[node.id].hex())
                for node in reversed(nodes)
            ),
            self._descriptions[head.id],
            chain.min_resources,
            chain.preferred_resources,
        )
        for node in reversed(nodes):
            made_by = node.operator_factory
            if made_by is not None and made_by.master_hook is not None:
                vertex.master_hooks.append(partial(_call_for, made_by.master_hook))
        self._job.add_vertex(vertex)
        self._vertex_of_head[head.id] = vertex
        self._configs[head.id].chained = {
            self._configs[each].operator_id: self._configs[each]
            for each in reversed(chain.nodes)
            if each != head.id
        }

    def _connect(self, edge: StreamEdge) -> None:
        """Register an edge that leaves a chain, and its data set."""
        partition_type = self._partition_type(edge)
        is_blocking = partition_type.is_blocking_or_blocking_persistent
        vertex = self._vertex_of_head[self._head_of[edge.source_id]]
        timeout_ns = self._config.task_timeouts_ns.get(vertex.name, edge.buffer_timeout_ns)
        if edge.source.emits_only_at_end:
            timeout_ns = BUFFER_TIMEOUT_NEVER_NS
        if is_blocking and timeout_ns != BUFFER_TIMEOUT_NEVER_NS:
            raise ConfigError(
                f"{edge.source.operator_name}: a blocking exchange has no buffer timeout; leave it"
                " out, or set it to -1"
            )
        head_id = self._head_of[edge.source_id]
        outputs = self._outputs.setdefault(head_id, [])
        shared = next(
            (known for known, _ in outputs if is_blocking and _may_share(known, edge)), None
        )
        if shared is not None:
            data_set_id = next(each for known, each in outputs if known is shared)
        else:
            data_set_id = data_set_id_of(vertex.id, edge.id_hash)
        outputs.append((edge, data_set_id))
        config = self._configs[head_id]
        config.outputs.append(
            NonChainedOutput(
                edge.id,
                self._hashes[edge.source_id].hex(),
                str(data_set_id),
                edge.partitioner.name,
                partition_type.name,
                timeout_ns,
                edge.output_tag.id if edge.output_tag else None,
            )
        )
        self._physical_edges.append(edge)
        self._job.stream_edges[edge.id] = edge

    def _partition_type(self, edge: StreamEdge) -> ResultPartitionType:
        if edge.source.emits_only_at_end:
            return ResultPartitionType.BLOCKING
        if edge.exchange_mode is StreamExchangeMode.PIPELINED:
            return ResultPartitionType.PIPELINED_BOUNDED
        if edge.exchange_mode is StreamExchangeMode.BATCH:
            return ResultPartitionType.BLOCKING
        mode, wanted = self._graph.exchange_mode, GlobalStreamExchangeMode
        if mode is wanted.ALL_EDGES_PIPELINED_APPROXIMATE:
            return ResultPartitionType.PIPELINED_APPROXIMATE
        is_pipelined = (
            mode is wanted.ALL_EDGES_PIPELINED
            or (mode is wanted.FORWARD_EDGES_PIPELINED and edge.partitioner.is_forward)
            or (mode is wanted.POINTWISE_EDGES_PIPELINED and edge.partitioner.is_pointwise)
        )
        if is_pipelined:
            return ResultPartitionType.PIPELINED_BOUNDED
        return ResultPartitionType.BLOCKING

    def _set_physical_edges(self) -> None:
        for edge in self._physical_edges:
            head_id = self._head_of[edge.source_id]
            data_set_id = next(each for known, each in self._outputs[head_id] if known is edge)
            target_head = self._head_of[edge.target_id]
            is_pointwise = edge.partitioner.is_pointwise
            self._vertex_of_head[target_head].connect_to(
                self._vertex_of_head[head_id],
                data_set_id,
                DistributionPattern.POINTWISE if is_pointwise else DistributionPattern.ALL_TO_ALL,
                self._partition_type(edge),
                edge.partitioner.name,
                is_broadcast=edge.partitioner.is_broadcast,
                is_forward=edge.partitioner.is_forward,
                stream_edge_id=edge.id,
            )
            self._configs[target_head].inputs.append(
                NetworkInput(
                    edge.id, str(data_set_id), self._hashes[edge.target_id].hex(), edge.type_number
                )
            )

    def _set_slot_sharing(self) -> None:
        set_slot_sharing(self._job, self._graph, self._vertex_of_head)

    def _set_managed_memory(self) -> None:
        vertex_of = {node: self._vertex_of_head[head] for node, head in self._head_of.items()}
        for node_id, fraction in managed_memory_fractions(self._graph, vertex_of).items():
            self._configs[node_id].managed_memory_fraction = fraction

    def _set_checkpoints(self) -> None:
        if not self._graph.has_checkpoints:
            return
        self._job.checkpoints = {
            "interval_ns": self._config.checkpoint_interval_ns,
            "mode": self._config.checkpoint_mode,
            "is_unaligned": self._config.has_unaligned_checkpoints,
        }
        for config in self._configs.values():
            config.has_checkpoints = True

    def _set_artifacts(self) -> None:
        self._job.artifacts = dict(self._graph.artifacts)

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


def _call_for(hook: Callable[[int], None], vertex: JobVertex) -> None:
    hook(vertex.parallelism)


def _may_share(one: StreamEdge, other: StreamEdge) -> bool:
    """Whether two edges may read one blocking data set."""
    return (
        one.source is other.source
        and one.partitioner == other.partitioner
        and one.target.parallelism == other.target.parallelism
        and one.target.max_parallelism == other.target.max_parallelism
        and one.output_tag == other.output_tag
    )


def _with_sources(text: str, chained_sources: list[str]) -> str:
    return f"{text} [{', '.join(chained_sources)}]" if chained_sources else text


def _cascading(text: str, children: list[str]) -> str:
    if len(children) > 1:
        return f"{text} -> ({', '.join(children)})"
    return f"{text} -> {children[0]}" if children else text
