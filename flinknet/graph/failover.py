"""Pipelined regions: subtasks connected by channels that must be pipelined, which are deployed and
restarted together; when results can be released; and the splits of a job's sources.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinknet.errors import ConfigError

from . import execution_graph
from .endpoints import SplitSource
from .operators import SourceOperator


@dataclass(slots=True, eq=False)
class PipelinedRegion:
    """Subtasks that run together or not at all (Flink: SchedulingPipelinedRegion)."""

    subtasks: list[execution_graph.ExecutionVertex]


class SchedulingTopology:
    """The regions of a graph (Flink: DefaultExecutionTopology)."""

    def __init__(self, graph: execution_graph.ExecutionGraph) -> None:
        self.graph = graph
        self.regions = [PipelinedRegion(members) for members in _joined(graph)]
        self._region_of = {each.id: region for region in self.regions for each in region.subtasks}

    @property
    def finished(self) -> list[PipelinedRegion]:
        end = execution_graph.ExecutionState.FINISHED
        return [each for each in self.regions if all(one.state is end for one in each.subtasks)]

    def region_of(self, subtask: execution_graph.ExecutionVertex) -> PipelinedRegion:
        return self._region_of[subtask.id]

    def readers_of(
        self, edge: execution_graph.ConnectedEdge, producer: int
    ) -> list[PipelinedRegion]:
        """Regions that read a producer's partition along an edge."""
        return [
            self.region_of(edge.target.task_vertices[each])
            for each in edge.wiring.consumers_of(producer)
        ]


def subtasks_to_restart(
    topology: SchedulingTopology, failed: execution_graph.ExecutionVertex
) -> list[execution_graph.ExecutionVertex]:
    """Subtasks to restart after a failure (Flink: RestartPipelinedRegionFailoverStrategy).

    These are the failed subtask's region; regions that must rewrite a lost input of a restarted
    region; and regions that read the output of any of these.
    """
    chosen: dict[PipelinedRegion, None] = {}
    waiting = deque([topology.region_of(failed)])
    while waiting:
        region = waiting.popleft()
        if region in chosen:
            continue
        chosen[region] = None
        for subtask in region.subtasks:
            for edge in subtask.job_vertex.inputs:
                read = edge.wiring.partitions_of(subtask.subtask_index)
                partitions = (edge.result.partitions[each] for each in read)
                waiting += [
                    topology.region_of(each.producer) for each in partitions if each.is_released
                ]
        for subtask in region.subtasks:
            for result in subtask.job_vertex.results:
                for edge in result.edges:
                    waiting += topology.readers_of(edge, subtask.subtask_index)
    return [each for region in chosen for each in region.subtasks]


def restart(subtasks: Iterable[execution_graph.ExecutionVertex]) -> None:
    """Begin new attempts of subtasks, all of which must have ended."""
    for subtask in subtasks:
        subtask.reset_for_new_execution()
        for result in subtask.job_vertex.results:
            result.partitions[subtask.subtask_index].is_released = False


def releasable_partitions(
    topology: SchedulingTopology, finished: Iterable[PipelinedRegion]
) -> list[execution_graph.IntermediateResultPartition]:
    """Partitions whose readers have all finished (Flink: RegionPartitionGroupReleaseStrategy)."""
    done = set(finished)
    return [
        partition
        for result in topology.graph.results.values()
        if not result.partition_type.must_be_pipelined_consumed and result.edges
        for partition in result.partitions
        if not partition.is_released
        and all(
            region in done
            for edge in result.edges
            for region in topology.readers_of(edge, partition.producer.subtask_index)
        )
    ]


def _joined(graph: execution_graph.ExecutionGraph) -> list[list[execution_graph.ExecutionVertex]]:
    """Subtasks by region, in the order of the graph."""
    parent: dict[ExecutionVertexID, ExecutionVertexID] = {}

    def root(vertex_id: ExecutionVertexID) -> ExecutionVertexID:
        while parent[vertex_id] != vertex_id:
            parent[vertex_id] = parent[parent[vertex_id]]
            vertex_id = parent[vertex_id]
        return vertex_id

    parent.update((subtask.id, subtask.id) for subtask in graph.subtasks())
    for edge in graph.edges:
        if not edge.result.partition_type.must_be_pipelined_consumed:
            continue
        producers, consumers = edge.result.producer.task_vertices, edge.target.task_vertices
        joined: Iterable[tuple[int, int]] = ((one, other) for one, other, _ in edge.wiring)
        if edge.wiring.is_all_to_all:  # these channels suffice
            firsts = ((0, consumer) for consumer in range(len(consumers)))
            joined = chain(firsts, ((producer, 0) for producer in range(1, len(producers))))
        for one, other in joined:
            parent[root(consumers[other].id)] = root(producers[one].id)
    members: dict[ExecutionVertexID, list[execution_graph.ExecutionVertex]] = {}
    for subtask in graph.subtasks():
        members.setdefault(root(subtask.id), []).append(subtask)
    return list(members.values())


class InputSplits:
    """The splits of all sources of a job, which the master creates, hands out on request, and takes
    back when an attempt fails (Flink: ExecutionJobVertex with its InputSplitAssigner). Raises:
    ConfigError if the program cannot create them, or they are no JSON values.
    """

    def __init__(self, graph: execution_graph.ExecutionGraph) -> None:
        self._graph = graph
        self._left: dict[tuple[JobVertexID, str], deque[Any]] = {}
        self._assigned: dict[tuple[execution_graph.ExecutionVertex, str], list[Any]] = {}
        for vertex in graph.vertices.values():
            for operator_id, _ in vertex.job_vertex.operator_ids:
                made = graph.job.factories.get(operator_id)
                if made is None or made.kind is not SourceOperator:
                    continue
                source = made.create().function  # type: ignore[attr-defined]
                if not isinstance(source, SplitSource):
                    continue
                try:
                    splits = deque(source.create_splits(vertex.parallelism))
                    json.dumps([*splits], allow_nan=False)
                except Exception as error:
                    text = f"{vertex.name}: its splits cannot be created: {error}"
                    raise ConfigError(text) from error
                self._left[vertex.id, operator_id] = splits

    def next(self, attempt_id: ExecutionAttemptID, operator_id: str) -> tuple[Any, ...]:
        """Hand out a split to an attempt; none if no split is left, or the attempt is over."""
        subtask = self._graph.subtask(attempt_id.execution_vertex_id)
        left = self._left.get((subtask.job_vertex.id, operator_id))
        if not left or subtask.current.attempt_id != attempt_id:
            return ()
        split = left.popleft()
        self._assigned.setdefault((subtask, operator_id), []).append(split)
        return (split,)

    def give_back(self, subtasks: Iterable[execution_graph.ExecutionVertex]) -> None:
        """Take back the splits of subtasks that restart (Flink: returnInputSplit)."""
        chosen = set(subtasks)
        for subtask, operator_id in [each for each in self._assigned if each[0] in chosen]:
            splits = self._assigned.pop((subtask, operator_id))
            self._left[subtask.job_vertex.id, operator_id].extendleft(reversed(splits))
