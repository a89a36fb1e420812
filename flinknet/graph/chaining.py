"""When two operators share a task (Flink: StreamingJobGraphGenerator.isChainable).

1   the lower one has this input only
2   chaining is enabled
3   both are in one slot sharing group
4   both have an operator, and none that yields follows a source that pushes
5   the upper one may be followed: its strategy is not NEVER
6   the lower one may follow: ALWAYS; or HEAD_WITH_SOURCES, behind a source
7   both have the same parallelism
8   both have the same max parallelism, where others are not to be chained
9   records go forward, and the edge does not ask for batch
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
    """Conditions 2 to 10, which hold for a source next to other inputs too."""
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
    """Whether a source becomes an input of the task of its only consumer."""
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
    """Whether the chain of a node begins with a source that pushes."""
    while len(node.in_edges) == 1 and is_chainable(node.in_edges[0], graph):
        node = node.in_edges[0].source
    return node.operator_factory is not None and node.operator_factory.is_legacy_source
