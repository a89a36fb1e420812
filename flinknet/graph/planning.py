"""Builds a PhysicalPlan: slots on TaskManagers, edges on connections, regions in stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.core.wire.ids import JobVertexID
from flinknet.errors import ConfigError

from .execution_graph import ExecutionGraph
from .job_config import ANY
from .job_graph import JobGraph
from .physical_plan import PhysicalPlan, PlannedEdge, PlannedVertex
from .slots import (
    PlacedSlot,
    check_resources,
    pipelined_regions,
    place_slots,
    share_slots,
    slots_needed,
)


def physical_plan_of(
    graph: ExecutionGraph,
    *,
    task_managers: int | None = None,
    slots_per_task_manager: int | None = None,
) -> PhysicalPlan:
    """Place the tasks of a graph on TaskManagers.

    Args:
        task_managers: None: as many as needed.
        slots_per_task_manager: None: taskmanager.numberOfTaskSlots.

    Raises: ConfigError if there are too few slots, or slots with too few resources.
    """
    config = graph.job.config
    slots_each = slots_per_task_manager or config.task_slots
    shared = share_slots(graph, stages_of(graph.job))
    check_resources(shared, config, slots_each)
    count = task_managers or -(-slots_needed(shared) // slots_each)
    if count < 1:
        raise ConfigError("the job has no tasks")
    placed = place_slots(shared, count, slots_each, config.load_balance_mode)
    return placed_plan_of(graph, placed, count, slots_each)


def placed_plan_of(
    graph: ExecutionGraph,
    placed: Sequence[PlacedSlot],
    task_managers: int,
    slots_per_task_manager: int,
) -> PhysicalPlan:
    """The plan of a graph whose shared slots are already placed."""
    network, stage_of = graph.job.config.network, stages_of(graph.job)
    places = {
        subtask: (slot.task_manager, slot.slot)
        for slot in placed
        for subtask in slot.shared.subtasks.values()
    }
    vertices = []
    for index, vertex in enumerate(graph.vertices.values()):
        own = [places[each.id] for each in vertex.task_vertices]
        vertices.append(
            PlannedVertex(
                index,
                vertex,
                tuple(task_manager for task_manager, _ in own),
                tuple(slot for _, slot in own),
                stage_of[vertex.id],
            )
        )
    return PhysicalPlan(
        graph,
        network,
        task_managers,
        slots_per_task_manager,
        tuple(vertices),
        _planned_edges(graph, network.max_tcp_connections),
        tuple(placed),
    )


def _planned_edges(graph: ExecutionGraph, max_connections: int) -> tuple[PlannedEdge, ...]:
    """Edges with their connections. Flink 2.x has one connection per pair; older releases draw one
    of several per data set, where we take turns.
    """
    vertex_index = {vertex_id: index for index, vertex_id in enumerate(graph.vertices)}
    result_index = {result_id: index for index, result_id in enumerate(graph.results)}
    return tuple(
        PlannedEdge(
            index,
            vertex_index[edge.result.producer.id],
            vertex_index[edge.target.id],
            edge.job_edge.ship_strategy.lower(),
            edge,
            result_index[edge.result.id] % max_connections,
        )
        for index, edge in enumerate(graph.edges)
    )


def stages_of(job: JobGraph) -> Mapping[JobVertexID, int]:
    """The stage of each vertex; different stages never run at the same time. If tasks may begin
    with any of their inputs, there is one stage.
    """
    if job.config.input_dependency_constraint == ANY:
        return dict.fromkeys(job.vertices, 0)
    return depths_of(job)


def depths_of(job: JobGraph) -> Mapping[JobVertexID, int]:
    """The depth of each vertex: number of pipelined regions in sequence whose blocking results its
    region needs. Regions that wait for each other count as one.
    """
    region_of = pipelined_regions(job)
    behind: dict[int, set[int]] = {region: set() for region in region_of.values()}
    for edge in job.edges:
        one, other = region_of[edge.source.producer.id], region_of[edge.target.id]
        if one != other:
            behind[one].add(other)
    reach = {region: _reachable(region, behind) for region in behind}
    merged = {a: min({a} | {b for b in reach[a] if a in reach[b]}) for a in behind}
    stage = dict.fromkeys(merged.values(), 0)
    for _ in stage:
        for one, others in behind.items():
            for other in others:
                if merged[one] != merged[other]:
                    stage[merged[other]] = max(stage[merged[other]], stage[merged[one]] + 1)
    return {vertex_id: stage[merged[region]] for vertex_id, region in region_of.items()}


def _reachable(start: int, behind: Mapping[int, set[int]]) -> set[int]:
    regions: set[int] = set()
    waiting = list(behind[start])
    while waiting:
        region = waiting.pop()
        if region not in regions:
            regions.add(region)
            waiting += behind[region]
    return regions
