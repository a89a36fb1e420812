"""Builds a PhysicalPlan: slots on TaskManagers, edges on connections, regions in stages; also for a
job that runs on a real Flink, at the same or another parallelism.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from flinknet.core.producer.partition_type import ResultPartitionType, refusal_of
from flinknet.core.wire.ids import ExecutionVertexID, IntermediateDataSetID, JobVertexID
from flinknet.errors import ConfigError
from flinknet.units import counted

from .execution_graph import ExecutionGraph, execution_graph_of
from .job_config import ANY, JobConfig
from .job_graph import JobGraph, JobVertex, VertexGroup
from .physical_plan import PhysicalPlan, PlannedEdge, PlannedVertex
from .running_job import RunningInput, RunningJob, RunningTaskManager
from .slots import (
    PlacedSlot,
    SharedSlot,
    check_resources,
    pipelined_regions,
    place_in,
    share_slots,
    slots_needed,
)


def physical_plan_of(
    graph: ExecutionGraph,
    *,
    task_managers: int | None = None,
    slots_per_task_manager: int | None = None,
) -> PhysicalPlan:
    """Place the tasks of a graph on TaskManagers: by default as many as needed, with
    taskmanager.numberOfTaskSlots slots.

    Raises: ConfigError if there are too few slots, or slots with too few resources.
    """
    config = graph.job.config
    slots_each = slots_per_task_manager or config.task_slots
    shared = share_slots(graph, stages_of(graph.job))
    check_resources(shared, config, slots_each)
    needed = slots_needed(shared)
    total = task_managers or -(-needed // slots_each)
    if not needed:
        raise ConfigError("the job has no tasks")
    if needed > total * slots_each:
        raise ConfigError(
            f"the job needs {counted(needed, 'slot')}; available: {total * slots_each}"
            f" ({counted(total, 'TaskManager')} with {slots_each} each); give more TaskManagers,"
            " more slots (taskmanager.numberOfTaskSlots), or a lower parallelism"
        )
    placed = place_in(shared, [range(slots_each)] * total, slots_each, config.load_balance_mode)
    return placed_plan_of(graph, placed, total, slots_each)


def placed_plan_of(
    graph: ExecutionGraph,
    placed: Sequence[PlacedSlot],
    task_managers: int,
    slots_per_task_manager: int,
) -> PhysicalPlan:
    """The plan of a graph whose shared slots are already placed."""
    network, stage_of = graph.job.config.network, stages_of(graph.job)
    vertex_index = {vertex_id: index for index, vertex_id in enumerate(graph.vertices)}
    result_index = {result_id: index for index, result_id in enumerate(graph.results)}
    places = {
        subtask: (slot.task_manager, slot.slot)
        for slot in placed
        for subtask in slot.shared.subtasks.values()
    }
    vertices = []
    for index, vertex in enumerate(graph.vertices.values()):
        on, slots = zip(*(places[each.id] for each in vertex.task_vertices), strict=True)
        vertices.append(PlannedVertex(index, vertex, on, slots, stage_of[vertex.id]))
    return PhysicalPlan(
        graph,
        network,
        task_managers,
        slots_per_task_manager,
        tuple(vertices),
        tuple(
            PlannedEdge(
                index,
                vertex_index[edge.result.producer.id],
                vertex_index[edge.target.id],
                edge.job_edge.ship_strategy.lower(),
                edge,
                # Flink 2.x has one connection per pair; older releases draw one of several per
                # data set, where we take turns
                result_index[edge.result.id] % network.max_tcp_connections,
            )
            for index, edge in enumerate(graph.edges)
        ),
        tuple(placed),
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
    reach = {region: set(others) for region, others in behind.items()}
    for middle, further in reach.items():
        for regions in reach.values():
            if middle in regions:
                regions |= further
    merged = {a: min({a} | {b for b in reach[a] if a in reach[b]}) for a in behind}
    stage = dict.fromkeys(merged.values(), 0)
    for _ in stage:
        for one, others in behind.items():
            for other in others:
                if merged[one] != merged[other]:
                    stage[merged[other]] = max(stage[merged[other]], stage[merged[one]] + 1)
    return {vertex_id: stage[merged[region]] for vertex_id, region in region_of.items()}


def job_graph_of_running(job: RunningJob, config: JobConfig) -> JobGraph:
    """The JobGraph of a running job, without its operators. Raises: ConfigError for an unknown
    exchange, and for an input from an unknown vertex.
    """
    graph = JobGraph(job.name, config, is_batch=job.is_batch)
    graph.schedule = "by pipelined region" if job.is_batch else "all at once"
    groups: dict[str | None, VertexGroup] = {}
    made: dict[JobVertexID, JobVertex] = {}
    for vertex in job.vertices:
        name = vertex.slot_sharing_group
        group = groups.setdefault(name, VertexGroup(name or "default"))
        one = made[vertex.id] = JobVertex(
            vertex.id,
            vertex.name,
            vertex.parallelism,
            vertex.max_parallelism if vertex.max_parallelism > 0 else -1,
            invokable="unknown",  # a JobManager does not report the class of tasks
            slot_sharing_group=group,
        )
        group.vertices.append(one)
        graph.add_vertex(one)
    for vertex in job.vertices:
        for number, each in enumerate(vertex.inputs):
            if each.source not in made:
                raise ConfigError(f"{vertex.name} reads {each.source}, which is not in the job")
            digest = hashlib.sha256(f"{vertex.id} {number}".encode()).digest()
            made[vertex.id].connect_to(
                made[each.source],
                IntermediateDataSetID(digest[:16]),
                each.pattern,
                _partition_type(each, config, is_batch=job.is_batch),
                each.ship_strategy,
            )
    return graph


def running_plan(
    job: RunningJob, config: JobConfig, task_managers: Sequence[RunningTaskManager]
) -> PhysicalPlan:
    """The plan of a job as it is placed; TaskManagers are numbered in the given order. Raises:
    ConfigError while a task is not placed on one of them.
    """
    graph = job_graph_of_running(job, config)
    stage_of = stages_of(graph)
    number_of = {each.id: number for number, each in enumerate(task_managers)}
    slots: dict[tuple[int, str, int, int], SharedSlot] = {}
    for vertex in job.vertices:
        group, stage = vertex.slot_sharing_group or "default", stage_of[vertex.id]
        held = Counter[int]()  # its subtasks on each TaskManager: each is in a slot of its own
        for subtask, place in enumerate(vertex.task_managers):
            if place not in number_of:
                where = f"was on {place}, which is lost" if place else "has no TaskManager"
                raise ConfigError(f"{vertex.task_name(subtask)} {where}")
            number = number_of[place]
            slot = slots.setdefault((number, group, stage, held[number]), SharedSlot(group, stage))
            slot.subtasks[vertex.id] = ExecutionVertexID(vertex.id, subtask)
            held[number] += 1
    numbers: defaultdict[int, Iterator[int]] = defaultdict(count)
    placed = [PlacedSlot(each, next(numbers[each]), slot) for (each, *_), slot in slots.items()]
    slots_each = max((each.slots for each in task_managers), default=1)
    return placed_plan_of(execution_graph_of(graph), placed, len(task_managers), slots_each)


def _partition_type(
    read: RunningInput, config: JobConfig, *, is_batch: bool
) -> ResultPartitionType:
    """The type of an exchange; one that is not reported is Flink's default. Raises: ConfigError for
    a type that Flink or flinknet does not have.
    """
    name = read.exchange or ResultPartitionType.PIPELINED_BOUNDED.name
    is_batch = is_batch or config.runtime_mode == "BATCH"
    if not read.exchange and is_batch and not read.ship_strategy.upper().startswith("FORWARD"):
        name = config.batch_shuffle_mode.removeprefix("ALL_EXCHANGES_").replace(
            "PIPELINED", "PIPELINED_BOUNDED"
        )
    try:
        kind = ResultPartitionType[name.upper()]
    except KeyError:
        raise ConfigError(f"exchange {name!r} is not one of Flink's partition types") from None
    if kind in (ResultPartitionType.HYBRID_FULL, ResultPartitionType.HYBRID_SELECTIVE):
        raise ConfigError(f"hybrid shuffle: {refusal_of(kind)}")
    return kind
