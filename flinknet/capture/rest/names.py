"""The job in the manifest of a trace: what its vertices, edges and consumers are called.

A partition names the data set and the vertex that writes it; ids on the wire are those of the REST
API. Who reads a data set is on neither side: it follows from the plan, where the vertex has one
output or only one of its outputs has as many subpartitions as were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations
from typing import Any

from flinknet.core.wire.ids import ExecutionVertexID, JobVertexID, ResultPartitionID
from flinknet.errors import FrameCorruptedError
from flinknet.graph.running_job import RunningInput, RunningJob, RunningVertex, wiring_of
from flinknet.graph.traffic import traffic_of
from flinknet.trace import ChannelInfo, RunManifest

OUTPUTS_MAX = 6
"""Of a vertex; of more it is not tried which data set is which."""

Edge = tuple[RunningVertex, RunningVertex, RunningInput]


@dataclass(slots=True)
class _DataSet:
    """What the channels of one edge of a trace show of their data set."""

    edge: int
    vertex: JobVertexID
    channels: set[tuple[int, int]] = field(default_factory=set)  # producer, subpartition

    def fits(self, edge: Edge) -> bool:
        """Whether an edge of the plan has all these channels."""
        source, target, joined = edge
        wiring = wiring_of(source, target, joined)
        return all(
            0 <= producer < source.parallelism
            and 0 <= subpartition < wiring.subpartitions(producer)
            for producer, subpartition in self.channels
        )


def named(manifest: RunManifest, jobs: Sequence[RunningJob]) -> RunManifest:
    """The manifest with the jobs that its channels belong to, in `scenario.job`, and with the
    consumer of each channel where the plan shows it. As it is if no job fits.
    """
    data_sets = _data_sets(manifest.channels)
    own = [job for job in jobs if any(job.vertex(each.vertex) for each in data_sets)]
    if not own:
        return manifest
    known: dict[int, Edge] = {}
    for vertex_id in {each.vertex for each in data_sets}:
        # a program that was started twice has the same ids: the run that began last counts
        job = next((job for job in _newest_first(own) if job.vertex(vertex_id)), None)
        if job is not None:
            outputs = [each for each in job.edges() if each[0].id == vertex_id]
            known |= _assigned([each for each in data_sets if each.vertex == vertex_id], outputs)
    return replace(
        manifest,
        scenario={**manifest.scenario, "job": _document(own, data_sets, known)},
        channels=tuple(_with_consumer(each, known.get(each.edge)) for each in manifest.channels),
    )


def _assigned(data_sets: Sequence[_DataSet], outputs: Sequence[Edge]) -> dict[int, Edge]:
    """Which data set of a vertex is which of its outputs, as far as only one way fits."""
    fitting = {
        each.edge: [at for at, output in enumerate(outputs) if each.fits(output)]
        for each in data_sets
    }
    if len(data_sets) > len(outputs) or len(outputs) > OUTPUTS_MAX:
        # several runs of a job in one trace: each data set stands for itself
        return {edge: outputs[at[0]] for edge, at in fitting.items() if len(at) == 1}
    ways = [
        way
        for way in permutations(range(len(outputs)), len(data_sets))
        if all(at in fitting[each.edge] for at, each in zip(way, data_sets, strict=True))
    ]
    found = {}
    for place, each in enumerate(data_sets):
        targets = {way[place] for way in ways}
        if len(targets) == 1:
            found[each.edge] = outputs[targets.pop()]
    return found


def _document(
    jobs: Sequence[RunningJob], data_sets: Sequence[_DataSet], known: dict[int, Edge]
) -> dict[str, Any]:
    """The same shape as that of a job of flinknet's own (see `runtime.cluster.job_files`)."""
    several = len(jobs) > 1
    vertices: list[dict[str, Any]] = []
    index_of: dict[tuple[str, JobVertexID], int] = {}
    for job in jobs:
        prefix = f"{job.name}: " if several else ""
        for vertex in job.vertices:
            index_of[job.id, vertex.id] = len(vertices)
            vertices.append(
                {
                    "index": len(vertices),
                    "id": str(vertex.id),
                    "name": prefix + vertex.name,
                    "parallelism": vertex.parallelism,
                    "tasks": [prefix + vertex.task_name(at) for at in range(vertex.parallelism)],
                    "task_managers": list(vertex.task_managers),
                }
            )
    edges = []
    named_edges = {_key(edge): number for number, edge in known.items()}
    unseen = 1 + max((each.edge for each in data_sets), default=-1)
    for job in jobs:
        for edge in job.edges():
            number = named_edges.get(_key(edge))
            if number is None:  # no channel of it was recorded, or not which it is
                number, unseen = unseen, unseen + 1
            source, target, joined = edge
            edges.append(
                {
                    "index": number,
                    "source": index_of[job.id, source.id],
                    "target": index_of[job.id, target.id],
                    "partitioner": joined.ship_strategy.lower(),
                    "partition_type": joined.exchange,
                    "channels": wiring_of(source, target, joined).channels,
                    "local_channels": _local_channels(edge),
                }
            )
    for each in data_sets:
        if any(own["index"] == each.edge for own in edges):
            continue
        again = known.get(each.edge)
        owner = next((job for job in jobs if job.vertex(each.vertex)), None)
        if owner is None:
            continue
        if again is not None:  # of another run of the same job
            like = next(own for own in edges if own["index"] == named_edges[_key(again)])
            edges.append({**like, "index": each.edge})
            continue
        # one of several outputs: which one is not known
        outputs = [target for source, target, _ in owner.edges() if source.id == each.vertex]
        vertices.append(
            {
                "index": len(vertices),
                "id": None,
                "name": " or ".join(dict.fromkeys(target.name for target in outputs)) or "unknown",
                "parallelism": None,
                "tasks": [],
                "task_managers": [],
            }
        )
        edges.append(
            {
                "index": each.edge,
                "source": index_of[owner.id, each.vertex],
                "target": len(vertices) - 1,
                "partitioner": "unknown",
                "partition_type": "unknown",
                "channels": None,
                "local_channels": None,
            }
        )
    return {
        "name": ", ".join(dict.fromkeys(job.name for job in jobs)),
        "ids": [job.id for job in jobs],
        "vertices": vertices,
        "edges": sorted(edges, key=lambda each: each["index"]),
    }


def _local_channels(edge: Edge) -> int | None:
    """Channels within a TaskManager, which no wire carries; None while a subtask has no place."""
    source, target, joined = edge
    places = [*source.task_managers, *target.task_managers]
    if None in places:
        return None
    number = {place: at for at, place in enumerate(dict.fromkeys(places))}
    return traffic_of(
        wiring_of(source, target, joined),
        [number[each] for each in source.task_managers],
        [number[each] for each in target.task_managers],
    ).local_channels


def _with_consumer(channel: ChannelInfo, edge: Edge | None) -> ChannelInfo:
    """Where everybody reads everybody, the subpartition is the consumer; else the plan says."""
    if edge is None or channel.producer < 0:
        return channel
    wiring = wiring_of(*edge)
    if wiring.is_all_to_all:
        return channel
    consumers = wiring.consumers_of(channel.producer)
    consumer = next(
        (
            each
            for each in consumers
            if wiring.subpartition(channel.producer, each) == channel.subpartition
        ),
        channel.consumer,
    )
    return replace(channel, consumer=consumer)


def _data_sets(channels: Iterable[ChannelInfo]) -> list[_DataSet]:
    found: dict[int, _DataSet] = {}
    for channel in channels:
        producer = _producer_of(channel.partition)
        if producer is not None:
            data_set = found.setdefault(
                channel.edge, _DataSet(channel.edge, producer.job_vertex_id)
            )
            data_set.channels.add((producer.subtask_index, channel.subpartition))
    return [found[edge] for edge in sorted(found)]


@lru_cache(maxsize=1 << 17)  # a tap names its channels again whenever some have come
def _producer_of(partition: str) -> ExecutionVertexID | None:
    """The subtask that writes a partition; None for text that is no partition."""
    try:
        found = ResultPartitionID.decode(bytes.fromhex(partition))
    except (ValueError, FrameCorruptedError):  # its request was missed; or an edited manifest
        return None
    return found.producer_id.execution_vertex_id


def _newest_first(jobs: Iterable[RunningJob]) -> list[RunningJob]:
    return sorted(jobs, key=lambda each: -each.started_at_ms)


def _key(edge: Edge) -> tuple[JobVertexID, JobVertexID, RunningInput]:
    source, target, joined = edge
    return source.id, target.id, joined
