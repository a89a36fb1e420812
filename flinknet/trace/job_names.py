"""Edges of a recorded job: each has one number and one name, in the direction of flow.

`scenario.job` of a manifest names vertices and edges; it exists for flinknet's own jobs, and for
traces with names from Flink's REST API. Without it, a chain of relays is in order already, and the
edges of a tap follow from the ids of vertices in the names of partitions, as far as they show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from flinknet.core.wire.ids import ExecutionAttemptID, ResultPartitionID
from flinknet.core.wire.lineage import ancestors
from flinknet.errors import FrameCorruptedError

from .manifest import ChannelInfo, RunManifest

VERTEX_DIGITS = 8
"""Digits of a vertex's id in a name, as in the address of its page in Flink's web interface."""

ONLY_EDGE = "producers", "consumers"
NOT_SHOWN = (
    "which task its records come from does not show between TaskManagers: the ids of its vertices"
    " follow from uids, or a vertex before it was not recorded"
)
SEVERAL_OUTPUTS = (
    "the task before it has several outputs, and which of them leads to it does not show between"
    " TaskManagers"
)
NOT_ASKED_FOR = "the requests for its channels were not recorded, so its producers are unknown"


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge of a job; None for unknown values.

    Attributes:
        number: from 1, in the direction of flow: edges behind sources come first.
        index: key of the edge in the manifest, as in its channels.
        source, target: numbers of the vertices, equal where edges meet.
        source_tasks, target_tasks: names of the subtasks; empty where they have none.
        channels, local_channels: number of channels, and of those within a TaskManager.
        job: number of its job among those of the recording, from 0.
        why_unknown: reason why the edge before it is unknown.
    """

    number: int
    index: int
    source: int
    target: int
    source_name: str
    target_name: str
    source_tasks: tuple[str, ...] = ()
    target_tasks: tuple[str, ...] = ()
    channels: int | None = None
    local_channels: int | None = None
    job: int = 0
    why_unknown: str | None = None

    @property
    def name(self) -> str:
        return f"{self.source_name} → {self.target_name}"

    @property
    def title(self) -> str:
        return f"{self.number} {self.name}"

    def channel_name(self, channel: ChannelInfo) -> str | None:
        """Displayed name of one of its channels, such as `Enrich (3/8) → Sink (1/4)`."""
        source = _at(self.source_tasks, channel.producer)
        target = _at(self.target_tasks, channel.consumer)
        if source is None and target is None:
            return None
        return f"{source or self.source_name} → {target or self.target_name}"


def edges_in_flow(manifest: RunManifest) -> tuple[Edge, ...]:
    """The edges of a recording in the direction of flow, job by job: those of `scenario.job`, and
    those of channels that it does not name."""
    examples: dict[int, ChannelInfo] = {}
    for channel in manifest.channels:
        if channel.edge not in examples or not examples[channel.edge].partition:
            examples[channel.edge] = channel
    named = list(_named(manifest))
    known = {each.index for each in named}
    others = {index: examples[index] for index in sorted(examples) if index not in known}
    if not others:
        return tuple(numbered(named))
    if manifest.is_from_between and (named or len(examples) > 1):
        return tuple(
            replace(each, source_name=f"data set {each.number}{each.source_name}")
            if each.index in others
            else each
            for each in numbered([*named, *_by_ids(others, named)])
        )
    workload: Any = manifest.scenario.get("workload") or {}
    return edges_of_load(list(others), workload.get("relays", 0))


def edges_of_load(indexes: Sequence[int], relays: int) -> tuple[Edge, ...]:
    """The edges of a load from sources over relays to sinks; stages may be missing."""
    if len(indexes) == 1:
        return tuple(Edge(1, index, 0, 1, *ONLY_EDGE) for index in indexes)
    names = {0: "sources", 1 + relays: "sinks"}
    names = {at: names.get(at, f"relays {at}") for at in range(2 + max(indexes))}
    return tuple(Edge(at + 1, at, at, at + 1, names[at], names[at + 1]) for at in indexes)


def named_edges(manifest: RunManifest) -> dict[int, Edge]:
    """The edges that `scenario.job` names, by index and in the direction of flow; empty without
    a job."""
    return {each.index: each for each in numbered(_named(manifest))}


def _named(manifest: RunManifest) -> Iterator[Edge]:
    job = manifest.scenario.get("job")
    if not isinstance(job, Mapping):
        return
    vertices = {each["index"]: each for each in job["vertices"]}
    jobs = {key: n for n, key in enumerate(dict.fromkeys(v.get("job") for v in vertices.values()))}
    for edge in job["edges"]:
        source, target = vertices[edge["source"]], vertices[edge["target"]]
        yield Edge(
            0,
            edge["index"],
            edge["source"],
            edge["target"],
            source["name"],
            target["name"],
            tuple(source.get("tasks", ())),
            tuple(target.get("tasks", ())),
            _count(edge, "channels"),
            _count(edge, "local_channels"),
            jobs[source.get("job")],
        )


def channel_names(manifest: RunManifest) -> dict[int, str]:
    edges = named_edges(manifest)
    return {
        channel.index: name
        for channel in manifest.channels
        if channel.edge in edges and (name := edges[channel.edge].channel_name(channel)) is not None
    }


@lru_cache(maxsize=1 << 17)  # each consumer of a partition names it
def partition_of(partition: str) -> ResultPartitionID | None:
    """A partition from the hex digits of a manifest; None for other text."""
    if len(partition) != 2 * ResultPartitionID.BYTES:
        return None
    try:
        return ResultPartitionID.decode(bytes.fromhex(partition))
    except (ValueError, FrameCorruptedError):  # an edited manifest
        return None


def producer_of(partition: str) -> ExecutionAttemptID | None:
    """The attempt that produces a partition; None for other text."""
    found = partition_of(partition)
    return None if found is None else found.producer_id


def _by_ids(examples: Mapping[int, ChannelInfo], named: Sequence[Edge]) -> Iterator[Edge]:
    """Edges without names, with one channel of each by its index, not numbered yet.
    Those without ids belong to the first job after those of the named edges.
    """
    first = 1 + max((each.job for each in named), default=-1)
    jobs: dict[bytes, int] = {}
    vertices: dict[int, dict[int, bytes | None]] = {}  # of each job, by edge
    for index, each in examples.items():
        producer = producer_of(each.partition)
        if producer is None:
            vertices.setdefault(0, {})[index] = None
            continue
        job = jobs.setdefault(producer.execution_graph_id.raw, first + len(jobs))
        vertices.setdefault(job, {})[index] = producer.execution_vertex_id.job_vertex_id.raw
    for job, own in vertices.items():
        yield from _of_vertices(own, job)


def _of_vertices(vertices: Mapping[int, bytes | None], job: int) -> Iterator[Edge]:
    """The edges of one job, as far as ids show which vertex follows which. Each is produced by the
    given vertex, or an unknown one (None).
    """
    known = [each for each in vertices.values() if each is not None]
    before = ancestors(known)
    numbers = {vertex: number for number, vertex in enumerate(dict.fromkeys(known))}
    children: dict[bytes, list[bytes]] = {}
    for each in numbers:
        for parent in before.get(each, ())[:1]:
            children.setdefault(parent, []).append(each)
    for index, vertex in vertices.items():
        source, target = -2 * index - 1, -2 * index - 2  # vertices of no other edge
        name, consumers, why = "", "its consumers", None
        if vertex is None:
            why = NOT_ASKED_FOR
        else:
            source, name = numbers[vertex], f" of vertex {vertex.hex()[:VERTEX_DIGITS]}"
            behind = children.get(vertex, [])
            if known.count(vertex) == 1 and len(behind) == 1:
                target = numbers[behind[0]]
                consumers = f"vertex {behind[0].hex()[:VERTEX_DIGITS]}"
            if vertex not in before:
                why = NOT_SHOWN
            elif before[vertex]:
                parent = before[vertex][0]
                if known.count(parent) != 1 or len(children[parent]) != 1:
                    why = SEVERAL_OUTPUTS
        yield Edge(0, index, source, target, name, consumers, job=job, why_unknown=why)


def numbered(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Edges of jobs in the direction of flow, numbered in each job; a circle comes last."""
    of_job: dict[int, list[Edge]] = {}
    for each in sorted(edges, key=lambda each: (each.job, each.index)):
        of_job.setdefault(each.job, []).append(each)
    for left in of_job.values():
        number = 1
        while left:
            waiting = {each.target for each in left}
            free = [each for each in left if each.source not in waiting] or left
            for each in free:
                yield replace(each, number=number)
                number += 1
            left = [each for each in left if each not in free]


def _at(names: tuple[str, ...], index: int) -> str | None:
    return names[index] if 0 <= index < len(names) else None


def _count(edge: Mapping[str, Any], name: str) -> int | None:
    value = edge.get(name)
    return value if isinstance(value, int) else None
