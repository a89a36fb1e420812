"""From transformations to a StreamGraph (Flink: StreamGraphGenerator).

A few kinds of transformations are translated differently for streaming and batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS
from flinknet.errors import ConfigError

from . import transformations
from .job_config import JobConfig
from .operators import BatchGroupedReduce, StreamGroupedReduce, factory
from .stream_graph import (
    DEFAULT_SLOT_SHARING_GROUP,
    GlobalStreamExchangeMode,
    StreamGraph,
    StreamNode,
)
from .transformations import (
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
)

_EXCHANGE_MODES = {
    "ALL_EXCHANGES_PIPELINED": GlobalStreamExchangeMode.ALL_EDGES_PIPELINED,
    "ALL_EXCHANGES_BLOCKING": GlobalStreamExchangeMode.ALL_EDGES_BLOCKING,
}

_KEPT = (
    *("max_parallelism", "invokable", "chaining_strategy", "co_location_group_key", "uid"),
    *("uid_hash", "key_selector", "min_resources", "preferred_resources"),
    *("managed_memory_weight", "delay_ns_per_record"),
)
"""Attributes of a transformation that its node has under the same name."""


class StreamGraphGenerator:
    """Translates the program of one environment; a job without a name has Flink's default."""

    def __init__(
        self,
        program: Sequence[PhysicalTransformation],
        config: JobConfig,
        job_name: str | None,
        artifacts: Mapping[str, str],
    ) -> None:
        self._program = program
        self._config = config
        mode = config.runtime_mode
        sources = (each for each in program if isinstance(each, SourceTransformation))
        unbounded = [each.name for each in sources if not each.is_bounded]
        if mode == "BATCH" and unbounded:
            raise ConfigError(
                f"{unbounded[0]} never ends, so it cannot run in batch mode; set"
                " execution.runtime-mode to STREAMING or AUTOMATIC, or take a source that ends"
            )
        is_batch = mode == "BATCH" or (mode == "AUTOMATIC" and not unbounded)
        default_name = f"Flink {'Batch' if is_batch else 'Streaming'} Job"
        self.graph = StreamGraph(job_name or default_name, self._config, is_batch=is_batch)
        self.graph.artifacts = dict(artifacts)
        if is_batch:
            shuffle = config.batch_shuffle_mode
            if shuffle not in _EXCHANGE_MODES:
                raise ConfigError(
                    f"execution.batch-shuffle-mode: flinknet has no {shuffle}, for its tiers"
                    f" (memory, disk, remote) are out of scope; use {' or '.join(_EXCHANGE_MODES)}"
                )
            self.graph.exchange_mode = _EXCHANGE_MODES[shuffle]
        elif config.has_approximate_local_recovery:
            if config.network.unaligned_checkpoints:
                raise ConfigError(
                    "approximate local recovery and unaligned checkpoints do not go together;"
                    " disable one of them"
                )
            self.graph.exchange_mode = GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE
        self._translated: dict[int, tuple[int, ...]] = {}

    def generate(self) -> StreamGraph:
        """Build the graph. Raises: ConfigError for an invalid program."""
        if not self._program:
            raise ConfigError("the program is empty; give it a source and a sink")
        for transformation in self._program:
            self._transform(transformation)
        for node in self.graph.nodes.values():
            if not all(edge.supports_unaligned_checkpoints for edge in node.in_edges):
                for edge in node.in_edges:
                    edge.supports_unaligned_checkpoints = False
        return self.graph

    def _transform(self, transformation: Transformation) -> tuple[int, ...]:
        """Translate a transformation, its inputs first. Returns: its node ids."""
        if transformation.id in self._translated:
            return self._translated[transformation.id]
        if transformation.max_parallelism is None:
            transformation.max_parallelism = self._config.max_parallelism
        if not isinstance(transformation, SinkTransformation):
            _ = transformation.output_type  # raises if the type is missing
        input_ids = [self._transform(each) for each in transformation.inputs]
        ids = tuple(chain.from_iterable(input_ids))
        if isinstance(transformation, PartitionTransformation | SideOutputTransformation):
            virtual = {transformations.new_node_id(): (each, transformation) for each in ids}
            self.graph.virtual |= virtual
            ids = tuple(virtual)
        elif isinstance(transformation, PhysicalTransformation):
            ids = (self._add_node(transformation, input_ids).id,)
        self._translated[transformation.id] = ids
        return ids

    def _add_node(
        self, transformation: PhysicalTransformation, input_ids: list[tuple[int, ...]]
    ) -> StreamNode:
        if not self._config.generates_uids and not (transformation.uid or transformation.uid_hash):
            raise ConfigError(
                f"{transformation.name} has no uid, and pipeline.auto-generate-uids is false; give"
                " it one with uid()"
            )
        is_batch, operator_factory = self.graph.is_batch, transformation.operator_factory
        if isinstance(transformation, transformations.ReduceTransformation):
            kind = BatchGroupedReduce if is_batch else StreamGroupedReduce
            operator_factory = factory(kind, transformation.reduce, transformation.key_selector)
        if (timeout_ns := transformation.buffer_timeout_ns) is None:
            usual_ns = self._config.network.buffer_timeout_ns
            timeout_ns = BUFFER_TIMEOUT_NEVER_NS if is_batch else usual_ns
        name = transformation.name_prefix + transformation.name
        is_sink = isinstance(transformation, SinkTransformation)
        node = StreamNode(
            transformation.id,
            name,
            operator_factory,
            transformation.parallelism or self._config.parallelism,
            slot_sharing_group=self._slot_sharing_group(
                transformation.slot_sharing_group, input_ids
            ),
            buffer_timeout_ns=timeout_ns,
            output_type=None if is_sink else transformation.output_type,
            description=transformation.description or name,
            has_event_time=transformation.assigns_time,
            has_own_time=transformation.assigns_own_time,
            **{each: getattr(transformation, each) for each in _KEPT},
        )
        self.graph.nodes[node.id] = node
        if isinstance(transformation, SourceTransformation):
            self.graph.source_ids.append(node.id)
        if is_sink:
            self.graph.sink_ids.append(node.id)
        is_one = is_sink or isinstance(transformation, transformations.OneInputTransformation)
        for number, ids in enumerate(input_ids, start=1):
            for up_id in ids:
                self.graph.add_edge(up_id, node.id, 0 if is_one else number)
        return node

    def _slot_sharing_group(self, own: str | None, input_ids: list[tuple[int, ...]]) -> str:
        """Its own group, the common group of all inputs, or the default group."""
        if own is not None:
            return own
        groups = set()
        for node_id in chain.from_iterable(input_ids):
            while node_id in self.graph.virtual:
                node_id, _ = self.graph.virtual[node_id]
            groups.add(self.graph.nodes[node_id].slot_sharing_group)
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP
