"""When two operators share a task (Flink: StreamingJobGraphGenerator.isChainable).

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

from .operators import ChainingStrategy
from .stream_graph import StreamEdge, StreamGraph, StreamNode
from .transformations import StreamExchangeMode


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
