"""Slot sharing: groups of vertices, co-location groups, and the share of managed memory that each
operator gets.
"""

from __future__ import annotations

from collections.abc import Mapping

from flinknet.core.wire.ids import JobVertexID
from flinknet.errors import ConfigError

from .job_graph import CoLocationGroup, JobGraph, JobVertex, SlotSharingGroup
from .stream_graph import DEFAULT_SLOT_SHARING_GROUP, StreamGraph


def set_slot_sharing(
    job: JobGraph, graph: StreamGraph, vertex_of_head: Mapping[int, JobVertex]
) -> None:
    """Assign slot sharing groups. Vertices with the same group name share a group; those without
    one share the default group, or in batch the group of their pipelined region (Flink:
    setSlotSharingAndCoLocation).

    Args:
        vertex_of_head: vertex by the node id of its head.

    Raises: ConfigError if vertices that must share slots are in different groups.
    """
    groups: dict[str, SlotSharingGroup] = {}
    regions = pipelined_regions(job)
    for head_id, vertex in vertex_of_head.items():
        name = graph.nodes[head_id].slot_sharing_group
        key = name
        if name == DEFAULT_SLOT_SHARING_GROUP and not graph.shares_slots_by_default:
            key = f"{name} {regions[vertex.id]}"
        group = groups.setdefault(key, SlotSharingGroup(key))
        group.vertices.append(vertex)
        vertex.slot_sharing_group = group
    _set_co_location(graph, vertex_of_head)


def managed_memory_fractions(
    graph: StreamGraph, vertex_of: Mapping[int, JobVertex]
) -> dict[int, float]:
    """The share of its slot's managed memory of each node that declares a weight.

    Args:
        vertex_of: vertex of each node.
    """
    members: dict[int, list[int]] = {}
    for node_id, vertex in vertex_of.items():
        members.setdefault(id(vertex.slot_sharing_group), []).append(node_id)
    fractions: dict[int, float] = {}
    for node_ids in members.values():
        weights = {each: graph.nodes[each].managed_memory_weight for each in node_ids}
        total = sum(weights.values())
        fractions |= {each: weight / total for each, weight in weights.items() if weight}
    return fractions


def pipelined_regions(job: JobGraph) -> dict[JobVertexID, int]:
    """The region number of each vertex; vertices connected by exchanges that must be pipelined are
    in one region (Flink: DefaultLogicalTopology).
    """
    region_of: dict[JobVertexID, int] = {}
    for vertex in job.sorted_vertices():
        joined = {
            region_of[edge.source.producer.id]
            for edge in vertex.inputs
            if edge.source.partition_type.must_be_pipelined_consumed
        }
        number = min(joined, default=len(region_of))
        region_of[vertex.id] = number
        for other, region in region_of.items():
            if region in joined:
                region_of[other] = number
    ranks = {number: rank for rank, number in enumerate(dict.fromkeys(region_of.values()))}
    return {vertex_id: ranks[number] for vertex_id, number in region_of.items()}


def _set_co_location(graph: StreamGraph, vertex_of_head: Mapping[int, JobVertex]) -> None:
    groups: dict[str, CoLocationGroup] = {}
    for head_id, vertex in vertex_of_head.items():
        key = graph.nodes[head_id].co_location_group_key
        if key is None:
            continue
        group = groups.setdefault(key, CoLocationGroup(key))
        group.vertices.append(vertex)
        vertex.co_location_group = group
        first = group.vertices[0]
        if vertex.slot_sharing_group is not first.slot_sharing_group:
            raise ConfigError(
                f"{first.name} and {vertex.name} must share their slots (co-location {key}),"
                " but are in different slot sharing groups; put them into one"
            )
