"""Which edge of a job is behind which, as far as messages between TaskManagers show it.

A partition names the vertex that produces it; nothing names the vertex that consumes it. Who feeds
whom is known where Flink's REST API was asked; otherwise it follows from ids of vertices
(`graph.lineage`), or is ruled out by checkpoints: a barrier, and the end of the data, goes on only
when it has come in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flinknet.graph.lineage import ancestors
from flinknet.trace import RunManifest
from flinknet.trace.job_names import Edge, named_edges, producer_of

from ..observe.checkpoints import MilestoneRow


@dataclass(frozen=True, slots=True)
class ProducedEdge:
    """What a tap knows of an edge.

    Attributes:
        vertex: id of the vertex that produces it; None if a request for it was not recorded.
        graphs: executions of the job that it belongs to.
        passed_ns: when each milestone (a checkpoint's barriers, the end) first passed on it.
        source: number of its vertex in the job; None where the job is not known.
        behind: numbers of the vertices that its records come to; None where these are not known.
    """

    vertex: bytes | None
    graphs: frozenset[bytes]
    passed_ns: Mapping[tuple[int, int], int]
    source: int | None = None
    behind: frozenset[int] | None = None


def produced_edge(manifest: RunManifest, milestones: Sequence[MilestoneRow]) -> ProducedEdge:
    """The edge that the channels of a manifest belong to.

    Args:
        milestones: of these channels.
    """
    vertices: set[bytes | None] = set()
    graphs: set[bytes] = set()
    for channel in manifest.channels:
        producer = producer_of(channel.partition)
        if producer is None:
            vertices.add(None)
        else:
            vertices.add(producer.execution_vertex_id.job_vertex_id.raw)
            graphs.add(producer.execution_graph_id.raw)
    passed_ns: dict[tuple[int, int], int] = {}
    for row in milestones:
        key = row.data_type, row.value
        passed_ns[key] = min(passed_ns.get(key, row.at_ns), row.at_ns)
    edges = named_edges(manifest)
    numbers = {channel.edge for channel in manifest.channels}
    own = edges.get(numbers.pop()) if len(numbers) == 1 else None
    return ProducedEdge(
        vertices.pop() if len(vertices) == 1 else None,
        frozenset(graphs),
        passed_ns,
        None if own is None else own.source,
        None if own is None or not own.target_tasks else _reached(own.target, edges.values()),
    )


def _reached(vertex: int, edges: Iterable[Edge]) -> frozenset[int]:
    """A vertex and all that its records come to."""
    found, before = {vertex}, set[int]()
    while found != before:
        before = set(found)
        found |= {each.target for each in edges if each.source in before}
    return frozenset(found)


class EdgeOrder:
    """The order of the edges of one trace."""

    def __init__(self, edges: Sequence[ProducedEdge]) -> None:
        self._edges = edges
        self._ancestors = ancestors(each.vertex for each in edges if each.vertex is not None)

    def is_behind(self, later: int, earlier: int) -> bool | None:
        """Whether what passes on one edge comes out of the consumers of another one, at once or by
        way of others; None if that is not known.

        A known job proves it either way, and so do ids of vertices; checkpoints count only where
        ids prove nothing, for a milestone may have been recorded late.
        """
        one, other = self._edges[later], self._edges[earlier]
        if one.source is not None and other.behind is not None:
            return one.source in other.behind
        if one.vertex is None or other.vertex is None:
            return None
        if one.vertex == other.vertex or not one.graphs & other.graphs:
            return False
        known = self._ancestors.get(one.vertex)
        if known is not None and other.vertex not in known:
            return False
        if one.vertex in self._ancestors.get(other.vertex, ()):
            return False
        if known is not None:
            return True if self._outputs_of(other.vertex) == 1 else None
        is_reversed = any(
            one.passed_ns[milestone] < other.passed_ns[milestone]
            for milestone in one.passed_ns.keys() & other.passed_ns.keys()
        )
        return False if is_reversed else None

    def _outputs_of(self, vertex: bytes) -> int:
        return sum(each.vertex == vertex for each in self._edges)
