"""The job in the manifest of a trace: names of its vertices, edges and consumers.

A partition names its data set and the vertex that writes it, with the ids that the REST API uses.
Neither the wire nor the API names the readers of a data set. They follow from the plan if the
vertex has one output, or if only one of its outputs has as many subpartitions as were requested.

The wire shows the id of an execution, not of the job. A program that is started again has the same
vertices: its executions are assigned to its jobs by their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

from flinknet.core.wire.ids import ExecutionGraphID, JobVertexID
from flinknet.core.wiring import traffic_of
from flinknet.graph.running_job import RunningInput, RunningJob, RunningVertex, wiring_of
from flinknet.trace import ChannelInfo, RunManifest
from flinknet.trace.job_names import producer_of

OUTPUTS_MAX = 6
"""Most outputs of a vertex for which assignments of data sets to outputs are tried."""

Edge = tuple[RunningVertex, RunningVertex, RunningInput]


@dataclass(slots=True)
class _DataSet:
    edge: int
    vertex: JobVertexID
    graph: ExecutionGraphID
    channels: set[tuple[int, int]] = field(default_factory=set)  # producer, subpartition

    def fits(self, edge: Edge) -> bool:
        """Whether an edge of the plan has the vertex and all these channels."""
        source = edge[0]
        if source.id != self.vertex:
            return False
        wiring = wiring_of(*edge)
        return all(
            0 <= producer < source.parallelism
            and 0 <= subpartition < wiring.subpartitions(producer)
            for producer, subpartition in self.channels
        )


def named(manifest: RunManifest, jobs: Sequence[RunningJob]) -> RunManifest:
    """The manifest with the jobs of its channels, in `scenario.job`, and with the consumer of each
    channel where the plan shows it. Unchanged if no job fits."""
    data_sets = _data_sets(manifest.channels)
    job_of = _jobs_of_graphs(data_sets, jobs)
    if not job_of:
        return manifest
    known: dict[int, tuple[RunningJob, Edge]] = {}
    for graph, job in job_of.items():
        for vertex in job.vertices:
            outputs = [each for each in job.edges() if each[0].id == vertex.id]
            own = [each for each in data_sets if each.graph == graph and each.vertex == vertex.id]
            known |= {edge: (job, output) for edge, output in _assigned(own, outputs).items()}
    edges = {number: edge for number, (_, edge) in known.items()}
    return replace(
        manifest,
        scenario={**manifest.scenario, "job": _document(data_sets, job_of, known)},
        channels=tuple(_with_consumer(each, edges.get(each.edge)) for each in manifest.channels),
    )


def _jobs_of_graphs(
    data_sets: Sequence[_DataSet], jobs: Sequence[RunningJob]
) -> dict[ExecutionGraphID, RunningJob]:
    """The job of each execution. Among the jobs whose vertices and subtasks fit, the last execution
    belongs to the job that started last, and so on backwards."""
    own: dict[ExecutionGraphID, list[_DataSet]] = {}
    for each in data_sets:
        own.setdefault(each.graph, []).append(each)
    newest_first = sorted(jobs, key=lambda each: -each.started_at_ms)
    found: dict[ExecutionGraphID, RunningJob] = {}
    taken: Counter[tuple[str, ...]] = Counter()
    for graph in reversed(own):
        fitting = [
            job
            for job in newest_first
            if all(any(each.fits(edge) for edge in job.edges()) for each in own[graph])
        ]
        if fitting:
            alike = tuple(each.id for each in fitting)
            found[graph] = fitting[min(taken[alike], len(fitting) - 1)]
            taken[alike] += 1
    return found


def _assigned(data_sets: Sequence[_DataSet], outputs: Sequence[Edge]) -> dict[int, Edge]:
    """The output of each data set of a vertex, where only one assignment fits."""
    fitting = {
        each.edge: [at for at, output in enumerate(outputs) if each.fits(output)]
        for each in data_sets
    }
    if len(data_sets) > len(outputs) or len(outputs) > OUTPUTS_MAX:
        # too many assignments: look at each data set alone
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
    data_sets: Sequence[_DataSet],
    job_of: Mapping[ExecutionGraphID, RunningJob],
    known: Mapping[int, tuple[RunningJob, Edge]],
) -> dict[str, Any]:
    """The job's document, in the form of flinknet's own jobs (see `runtime.cluster.job_files`)."""
    by_id = {each.id: each for each in job_of.values()}
    jobs = sorted(by_id.values(), key=lambda each: each.started_at_ms)
    has_other_names = len({each.name for each in jobs}) > 1
    vertices: list[dict[str, Any]] = []
    index_of: dict[tuple[str, JobVertexID], int] = {}
    for job in jobs:
        for vertex in job.vertices:
            index_of[job.id, vertex.id] = len(vertices)
            prefix = f"{job.name}: " if has_other_names else ""
            vertices.append(
                {
                    "index": len(vertices),
                    "job": job.id,
                    "id": str(vertex.id),
                    "name": prefix + vertex.name,
                    "parallelism": vertex.parallelism,
                    "tasks": [prefix + vertex.task_name(at) for at in range(vertex.parallelism)],
                    "task_managers": list(vertex.task_managers),
                }
            )
    edges = []
    next_number = 1 + max(each.edge for each in data_sets)
    for job in jobs:
        for edge in job.edges():
            numbers = [number for number, each in known.items() if each == (job, edge)]
            if not numbers:  # no recorded channel is known to belong to it
                numbers, next_number = [next_number], next_number + 1
            source, target = (index_of[job.id, each.id] for each in edge[:2])
            recorded = set().union(*(each.channels for each in data_sets if each.edge in numbers))
            edges += [_edge(number, source, target, edge, len(recorded)) for number in numbers]
    for each in data_sets:
        owner = job_of.get(each.graph)
        if owner is None or each.edge in known:
            continue
        outputs = [target.name for source, target, _ in owner.edges() if source.id == each.vertex]
        vertices.append(
            {  # several vertices may be the consumer
                **{"index": len(vertices), "job": None, "id": None},
                "name": " or ".join(dict.fromkeys(outputs)) or "unknown",
                **{"parallelism": None, "tasks": [], "task_managers": []},
            }
        )
        edges.append(_edge(each.edge, index_of[owner.id, each.vertex], len(vertices) - 1, None, 0))
    return {
        "name": ", ".join(dict.fromkeys(job.name for job in jobs)),
        "ids": [job.id for job in jobs],
        "vertices": vertices,
        "edges": sorted(edges, key=lambda each: each["index"]),
    }


def _edge(index: int, source: int, target: int, edge: Edge | None, recorded: int) -> dict[str, Any]:
    """An edge of the document. As many channels as were on the wire (`recorded`) are not local, as
    tasks may have been restarted elsewhere."""
    channels = None if edge is None else wiring_of(*edge).channels
    local = None if edge is None else _local_channels(edge)
    if channels is not None and local is not None:
        local = min(local, max(channels - recorded, 0))
    return {
        "index": index,
        "source": source,
        "target": target,
        "partitioner": "unknown" if edge is None else edge[2].ship_strategy.lower(),
        "partition_type": "unknown" if edge is None else edge[2].exchange or "pipelined_bounded",
        "channels": channels,
        "local_channels": local,
    }


def channels_of(job: RunningJob) -> tuple[int, int | None]:
    """Numbers of all channels and of local channels of a job; None while a subtask has no place."""
    local = [_local_channels(each) for each in job.edges()]
    return (
        sum(wiring_of(*each).channels for each in job.edges()),
        None if None in local else sum(each or 0 for each in local),
    )


def _local_channels(edge: Edge) -> int | None:
    """Channels within one TaskManager; None while a subtask has no place."""
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
    """Set the consumer from the plan; on all-to-all edges the subpartition's index is correct."""
    if edge is None or channel.producer < 0:
        return channel
    wiring = wiring_of(*edge)
    if wiring.is_all_to_all:
        return channel
    for each in wiring.consumers_of(channel.producer):
        if wiring.subpartition(channel.producer, each) == channel.subpartition:
            return replace(channel, consumer=each)
    return channel


def _data_sets(channels: Iterable[ChannelInfo]) -> list[_DataSet]:
    found: dict[int, _DataSet] = {}
    for channel in channels:
        producer = producer_of(channel.partition)
        if producer is not None:
            vertex = producer.execution_vertex_id
            data_set = found.setdefault(
                channel.edge,
                _DataSet(channel.edge, vertex.job_vertex_id, producer.execution_graph_id),
            )
            data_set.channels.add((vertex.subtask_index, channel.subpartition))
    return [found[edge] for edge in sorted(found)]
