"""Slots: groups of vertices that share them, which subtasks share one, and where it is.

A slot holds at most one subtask of each vertex of a slot sharing group, so a group needs as many
slots as its widest vertex has subtasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from flinknet.core.wire.ids import ExecutionVertexID, JobVertexID
from flinknet.errors import ConfigError

from .execution_graph import ExecutionGraph, ExecutionJobVertex, ExecutionVertex
from .job_config import JobConfig
from .job_graph import JobGraph, JobVertex, VertexGroup
from .stream_graph import DEFAULT_SLOT_SHARING_GROUP, StreamGraph
from .transformations import UNKNOWN, ResourceSpec, least_of


def set_slot_sharing(
    job: JobGraph, graph: StreamGraph, vertex_of_head: Mapping[int, JobVertex]
) -> None:
    """Assign slot sharing groups to the vertices, by the node ids of their heads. Vertices with the
    same group name share a group; those without one share the default group, or in batch the group
    of their pipelined region (Flink: setSlotSharingAndCoLocation).

    Raises: ConfigError if vertices that must share slots are in different groups.
    """
    groups: dict[str, VertexGroup] = {}
    co_located: dict[str, VertexGroup] = {}
    regions = pipelined_regions(job)
    for head_id, vertex in vertex_of_head.items():
        name = graph.nodes[head_id].slot_sharing_group
        key = name
        if name == DEFAULT_SLOT_SHARING_GROUP and graph.is_batch:
            key = f"{name} {regions[vertex.id]}"
        group = groups.setdefault(key, VertexGroup(key))
        group.vertices.append(vertex)
        vertex.slot_sharing_group = group
        co_location_key = graph.nodes[head_id].co_location_group_key
        if co_location_key is None:
            continue
        group = co_located.setdefault(co_location_key, VertexGroup(co_location_key))
        group.vertices.append(vertex)
        vertex.co_location_group = group
        first = group.vertices[0]
        if vertex.slot_sharing_group is not first.slot_sharing_group:
            raise ConfigError(
                f"{first.name} and {vertex.name} must share their slots (co-location"
                f" {co_location_key}), but are in different slot sharing groups; put them into one"
            )


def managed_memory_fractions(
    graph: StreamGraph, vertex_of: Mapping[int, JobVertex]
) -> dict[int, float]:
    """The share of its slot's managed memory of each node with a weight, by node."""
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
    """The region number of each vertex; vertices connected by exchanges that are read while written
    are deployed together (Flink: DefaultLogicalTopology). A failure restarts fewer if the exchange
    is approximate; see `failover`.
    """
    region_of: dict[JobVertexID, int] = {}
    for vertex in job.sorted_vertices():
        joined = {
            region_of[edge.source.producer.id]
            for edge in vertex.inputs
            if edge.source.partition_type.can_be_pipelined_consumed
        }
        number = min(joined, default=len(region_of))
        region_of[vertex.id] = number
        for other, region in region_of.items():
            if region in joined:
                region_of[other] = number
    ranks = {number: rank for rank, number in enumerate(dict.fromkeys(region_of.values()))}
    return {vertex_id: ranks[number] for vertex_id, number in region_of.items()}


@dataclass(slots=True, eq=False)
class SharedSlot:
    """Subtasks that share a slot (Flink: ExecutionSlotSharingGroup), with their total demand."""

    group: str
    stage: int
    subtasks: dict[JobVertexID, ExecutionVertexID] = field(default_factory=dict)
    min_resources: ResourceSpec = UNKNOWN


@dataclass(frozen=True, slots=True)
class PlacedSlot:
    """A slot of a TaskManager, both numbered from 0, with its subtasks."""

    task_manager: int
    slot: int
    shared: SharedSlot


def share_slots(graph: ExecutionGraph, stage_of: Mapping[JobVertexID, int]) -> list[SharedSlot]:
    """Assign every subtask to a shared slot (Flink: LocalInputPreferredSlotSharingStrategy).

    In topological order, a subtask goes to the slot of its co-location partner, else to that of one
    of its producers, else to the first without a subtask of its vertex, else to a new one.
    Vertices that never run at the same time (other stages) share none.

    Returns: the slots by group, in the order of their creation.
    """
    slots: dict[tuple[str, int], list[SharedSlot]] = {}
    slot_of: dict[ExecutionVertexID, SharedSlot] = {}
    co_located: dict[tuple[int, int], SharedSlot] = {}
    for vertex in graph.vertices.values():
        group = vertex.job_vertex.slot_sharing_group
        key = (group.name if group else "default", stage_of[vertex.id])
        own = slots.setdefault(key, [])
        co_location = vertex.job_vertex.co_location_group
        waiting = []
        for subtask in vertex.task_vertices:
            partner = co_located.get((id(co_location), subtask.subtask_index))
            if partner is None or vertex.id in partner.subtasks:
                waiting.append(subtask)
            else:
                partner.subtasks[vertex.id] = subtask.id
                slot_of[subtask.id] = partner
        in_turn = {
            id(edge): iter(edge.result.producer.task_vertices)
            for edge in vertex.inputs
            if edge.wiring.is_all_to_all
        }
        own_ids = set(map(id, own))
        rest = []
        for subtask in waiting:
            for producer in _producers(vertex, subtask.subtask_index, in_turn):
                slot = slot_of.get(producer.id)
                if slot and id(slot) in own_ids and vertex.id not in slot.subtasks:
                    slot.subtasks[vertex.id] = subtask.id
                    slot_of[subtask.id] = slot
                    break
            else:
                rest.append(subtask)
        free = iter([each for each in own if vertex.id not in each.subtasks])
        for subtask in rest:
            slot = next(free, None)
            if slot is None:
                slot = SharedSlot(*key)
                own.append(slot)
            slot.subtasks[vertex.id] = subtask.id
            slot_of[subtask.id] = slot
        if co_location is not None:
            for subtask in vertex.task_vertices:
                key_of_pair = (id(co_location), subtask.subtask_index)
                co_located.setdefault(key_of_pair, slot_of[subtask.id])
    made = [slot for group_slots in slots.values() for slot in group_slots]
    for slot in made:
        chained = (graph.vertices[each].job_vertex.min_resources for each in slot.subtasks)
        slot.min_resources = least_of(chained)
    return made


def check_resources(shared: Iterable[SharedSlot], config: JobConfig, slots_each: int) -> None:
    """Raises: ConfigError if subtasks that share a slot need more than its equal share of
    taskmanager.cpu.cores and taskmanager.memory.task.heap.size, if these are set.
    """
    cores, heap = config.cpu_cores, config.task_heap_bytes
    offered = ResourceSpec(
        None if cores is None else cores / slots_each, None if heap is None else heap // slots_each
    )
    for slot in shared:
        if not slot.min_resources.is_at_most(offered):
            raise ConfigError(
                f"a slot of group {slot.group} needs {slot.min_resources}, but each of the"
                f" {slots_each} slots of a TaskManager has {offered}; set taskmanager.cpu.cores or"
                " taskmanager.memory.task.heap.size higher, or use fewer slots"
            )


def slots_needed(shared: Iterable[SharedSlot]) -> int:
    return max(Counter(each.stage for each in shared).values(), default=0)


def place_in(
    shared: Sequence[SharedSlot], free: Sequence[Sequence[int]], slots_each: int, mode: str = "NONE"
) -> list[PlacedSlot]:
    """Place every shared slot, where other jobs may already occupy some; stages run one after the
    other and reuse the slots.

    Args:
        free: free slots of each TaskManager; enough for all.
        mode: taskmanager.load-balance.mode. NONE and MIN_RESOURCES fill one TaskManager after the
            other; SLOTS prefers the one with most free slots, so occupied slots count as load;
            TASKS prefers the one with fewest tasks, not counting those of other jobs, and places
            the fullest slots first.
    """
    load_before = [slots_each - len(each) if mode == "SLOTS" else 0 for each in free]
    placed: dict[int, PlacedSlot] = {}
    places_of: dict[int, list[_Place]] = {}
    order = list(range(len(shared)))
    if mode == "TASKS":
        order.sort(key=lambda at: -len(shared[at].subtasks))
    for at in order:
        slot = shared[at]
        places = places_of.get(slot.stage)
        if places is None:
            places = [(load_before[each], each, 0) for each, slots in enumerate(free) if slots]
            heapify(places)
            places_of[slot.stage] = places
        load, chosen, used = heappop(places)
        placed[at] = PlacedSlot(chosen, free[chosen][used], slot)
        if used + 1 < len(free[chosen]):
            more = {"SLOTS": 1, "TASKS": len(slot.subtasks)}.get(mode, 0)
            heappush(places, (load + more, chosen, used + 1))
    return [placed[at] for at in range(len(shared))]


_Place = tuple[int, int, int]
"""Load of a TaskManager by the mode, its number, its slots in use; the least load is first. Modes
without a load fill TaskManagers in order.
"""


def _producers(
    vertex: ExecutionJobVertex, subtask_index: int, in_turn: Mapping[int, Iterator[ExecutionVertex]]
) -> Iterator[ExecutionVertex]:
    """The producers of a subtask; along all-to-all edges those that no other subtask took."""
    for edge in vertex.inputs:
        if edge.wiring.is_all_to_all:
            yield from in_turn[id(edge)]
        else:
            for producer in edge.wiring.partitions_of(subtask_index):
                yield edge.result.producer.task_vertices[producer]
