"""Edges of a job: which were recorded, which channels they have, which ones Flink counts, and
which is behind which.

A partition names the vertex that produces it; nothing names the vertex that consumes it. Who feeds
whom is known where Flink's REST API was asked; otherwise it follows from ids of vertices
(`core.wire.lineage`), or is ruled out by checkpoints: a barrier goes on only when it has come in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flinknet.arrays import FloatArray, IntArray
from flinknet.core.wire.lineage import ancestors
from flinknet.errors import ConfigError
from flinknet.predict.exchange import recorded_network
from flinknet.predict.local_channels import counts_of, planned_edge
from flinknet.results.ledger import BARRIER, LATE, UNANSWERED, EdgeTime, InputTime
from flinknet.trace import RunManifest
from flinknet.trace.job_names import Edge, edges_in_flow, named_edges, producer_of

from .observe.checkpoints import BarrierRow, begun_ns
from .read import RecordedRun

NOT_FROM_SOURCES = (
    "its records come when the task before it has processed them, not at instants of their own; its"
    " predictions are with those of the job from end to end"
)

NOT_TO_THE_END = (
    "{} was not recorded, most likely because its channels are local: the job's figures end before"
    " it"
)


def is_from_sources(manifest: RunManifest, edge: int | None) -> bool:
    """Whether the records of an edge came at instants of their own, or were captured."""
    if edge is None or manifest.is_from_between:
        return True
    edges = edges_in_flow(manifest)
    own = next(each for each in edges if each.index == edge)
    return all(each.target != own.source for each in edges)


@dataclass(frozen=True, slots=True)
class EdgeTimeouts:
    """Buffer timeouts for some edges of a job, by the number of an edge or a part of its name; the
    others keep the recorded ones. A name may be that of the task before several edges."""

    of: tuple[tuple[str, int], ...]

    def on(self, edges: Sequence[Edge]) -> list[int | None]:
        """The timeout of each edge; None for the recorded one. Raises: ConfigError for an edge that
        does not exist, or a name of edges of several tasks."""
        found: list[int | None] = [None] * len(edges)
        for text, timeout_ns in self.of:
            if text.isdecimal():
                places = [n for n, each in enumerate(edges) if each.number == int(text)]
            else:
                places = [n for n, each in enumerate(edges) if text.lower() in each.name.lower()]
                starts = [n for n in places if edges[n].name.lower().startswith(text.lower())]
                places = starts if len({edges[n].source for n in starts}) == 1 else places
            if len({edges[n].source for n in places}) != 1:
                what = "several edges match" if places else "there is no edge"
                listed = "; ".join(each.title for each in edges)
                raise ConfigError(f"--edge-timeout: {what} {text!r}; the edges are {listed}")
            for place in places:
                found[place] = timeout_ns
        return found


def channel_ends(manifest: RunManifest) -> tuple[IntArray, IntArray, IntArray]:
    """The channels of a manifest with the subtasks at their ends: index, producer, consumer."""
    channels = manifest.channels
    index, producer, consumer = (
        np.fromiter((getattr(each, name) for each in channels), np.int64, len(channels))
        for name in ("index", "producer", "consumer")
    )
    return index, producer, consumer


def pair_keys(producer: IntArray, consumer: IntArray) -> IntArray:
    return producer * (1 << 32) + consumer


class Pairs:
    """The producers and consumers of an edge, as columns; `channel` has all channels. Several
    channels between two tasks, as after a restart, are one pair, by the newest of them."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self.channel, producer, consumer = channel_ends(run.manifest)
        is_known = (producer >= 0) & (consumer >= 0)
        keys = np.where(is_known, pair_keys(producer, consumer), -1 - self.channel)
        distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        self._place = np.argsort(order)[place]
        self._newest = np.zeros(len(distinct), np.int64)
        np.maximum.at(self._newest, self._place, np.arange(len(keys)))
        self.keys = distinct[order]
        self.producer, self.consumer = producer[self._newest], consumer[self._newest]
        infos = run.manifest.channels
        self.is_local = np.fromiter((infos[each].is_local for each in self._newest), bool)

    def summed(self, values: IntArray) -> IntArray:
        found = np.zeros(len(self.keys), np.int64)
        np.add.at(found, self._place, values)
        return found

    def edge(self, records: IntArray, shares: Mapping[str, FloatArray]) -> EdgeTime:
        """The edge of the pairs, with their shares by consumer."""
        infos, ends = self._run.manifest.channels, self._run.ends
        network = recorded_network(self._run.manifest)
        inputs = []
        order = np.argsort(self.consumer, kind="stable")
        consumers, starts = np.unique(self.consumer[order], return_index=True)
        for consumer, own in zip(consumers.tolist(), np.split(order, starts[1:]), strict=True):
            at = {name: share[own] for name, share in shares.items()}
            latest = own[int(np.argmax(at.get(LATE, at[BARRIER])))]
            info = infos[int(self._newest[latest])]
            most = {
                name: float(each.min() if name == UNANSWERED else each.max())
                for name, each in at.items()
            }
            inputs.append(
                InputTime(
                    consumer,
                    info.consumer_process,
                    len(own),
                    int(records[own].sum()),
                    most,
                    info.producer_process,
                    info.producer,
                    info.connection,
                    info.producer_process.startswith("127."),
                )
            )
        producers, place = np.unique(self.producer, return_inverse=True)
        total = np.zeros(len(producers), np.int64)
        np.add.at(total, place, records)
        sent = dict(zip(producers.tolist(), total.tolist(), strict=True))
        of_gates = network.floating_buffers * len(inputs) / max(len(self.keys), 1)
        return EdgeTime(
            *(ends.source, ends.target, ends.name, ends.source_name, inputs, sent),
            buffers=network.exclusive_buffers + of_gates,
        )


def local_edges(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Edges of local channels alone that Flink counts, as runs without channels."""
    run = runs[0]
    recorded = {each.ends.index for each in runs}
    if not run.manifest.is_from_between:
        return []
    return [
        replace(run, run=-1, edge=each.index, manifest=run.manifest.of_edge(each.index))
        for each in run.flow
        if each.index not in recorded
        and local_share(run, each.index) == 1
        and received_per_s(run, each.index) is not None
    ]


def local_share(run: RecordedRun, index: int) -> float:
    """Share of an edge's channels that are local, hence unrecorded; 0 where the plan is unknown."""
    planned = planned_edge(run.manifest, index) if run.manifest.is_from_between else None
    return 0.0 if planned is None else len(planned.local) / planned.wiring.channels


def received_per_s(run: RecordedRun, index: int) -> float | None:
    """Records per second that an edge's consumers took, by Flink's counters; None without them."""
    found = counts_of(run.place, run.manifest, index, run.from_ns, run.to_ns).received_per_s
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


def is_filled_in(run: RecordedRun) -> bool:
    """Whether some channels of an edge were not recorded, and Flink's counters stand in."""
    index = run.ends.index
    return local_share(run, index) > 0 and received_per_s(run, index) is not None


def not_to_the_end(runs: Sequence[RecordedRun]) -> tuple[str, ...]:
    """Notes on edges that lead on from the recorded ones and were not recorded."""
    recorded = {each.ends.index for each in runs}
    targets = {each.ends.target for each in runs}
    left = [each for each in runs[0].flow if each.index not in recorded]
    return tuple(NOT_TO_THE_END.format(each.name) for each in left if each.source in targets)


@dataclass(frozen=True, slots=True)
class ProducedEdge:
    """An edge, as a tap sees it: its vertex by id, the executions of its job, and when the first
    barrier of each checkpoint passed; by number its vertex and those behind it, where the job is
    known."""

    vertex: bytes | None
    graphs: frozenset[bytes]
    passed_ns: Mapping[int, int]
    source: int | None = None
    behind: frozenset[int] | None = None


def produced_edge(manifest: RunManifest, barriers: Sequence[BarrierRow]) -> ProducedEdge:
    """The edge that the channels of a manifest belong to, with their barriers."""
    producers = [producer_of(each.partition) for each in manifest.channels]
    known = [each for each in producers if each is not None]
    vertices = {each.execution_vertex_id.job_vertex_id.raw for each in known}
    is_one = len(vertices) == 1 and len(known) == len(producers)
    edges = named_edges(manifest)
    numbers = {channel.edge for channel in manifest.channels}
    own = edges.get(numbers.pop()) if len(numbers) == 1 else None
    return ProducedEdge(
        vertices.pop() if is_one else None,
        frozenset(each.execution_graph_id.raw for each in known),
        begun_ns(barriers),
        None if own is None else own.source,
        None if own is None or not own.target_tasks else _reached(own.target, edges.values()),
    )


def _reached(vertex: int, edges: Iterable[Edge]) -> frozenset[int]:
    found, before = {vertex}, set[int]()
    while found != before:
        before = set(found)
        found |= {each.target for each in edges if each.source in before}
    return frozenset(found)


class EdgeOrder:
    def __init__(self, edges: Sequence[ProducedEdge]) -> None:
        self._edges = edges
        self._ancestors = ancestors(each.vertex for each in edges if each.vertex is not None)

    def is_behind(self, later: int, earlier: int) -> bool | None:
        """Whether what passes on one edge comes out of the consumers of another one, perhaps by way
        of others; None if unknown. A known job proves it either way, as do ids of vertices;
        checkpoints count only where ids prove nothing, for one may have been recorded late."""
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
            outputs = sum(each.vertex == other.vertex for each in self._edges)
            return True if outputs == 1 else None
        is_reversed = any(
            one.passed_ns[checkpoint] < other.passed_ns[checkpoint]
            for checkpoint in one.passed_ns.keys() & other.passed_ns.keys()
        )
        return False if is_reversed else None
