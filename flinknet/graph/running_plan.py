"""The plan of a job running on a real cluster: as it is placed there, or with other parallelism.

A JobManager's description suffices for tasks, channels and buffers. It names neither data sets nor
the slots of tasks within their TaskManagers: those are numbered here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from flinknet.core.producer.partition_type import ResultPartitionType, refusal_of
from flinknet.core.wire.ids import ExecutionVertexID, IntermediateDataSetID, JobVertexID
from flinknet.errors import ConfigError

from .execution_graph import execution_graph_of
from .job_config import JobConfig
from .job_graph import JobGraph, JobVertex, SlotSharingGroup
from .physical_plan import PhysicalPlan
from .planning import physical_plan_of, placed_plan_of, stages_of
from .running_job import RunningInput, RunningJob, RunningTaskManager
from .slots import PlacedSlot, SharedSlot

UNKNOWN_INVOKABLE = "unknown"
"""Class of every task: a JobManager does not report it."""


def job_graph_of_running(job: RunningJob, config: JobConfig) -> JobGraph:
    """The JobGraph of a running job, without its operators.

    Raises: ConfigError for an unknown exchange, and for an input from an unknown vertex.
    """
    graph = JobGraph(job.name, config, is_batch=job.is_batch)
    graph.schedule = "by pipelined region" if job.is_batch else "all at once"
    groups: dict[str | None, SlotSharingGroup] = {}
    made: dict[JobVertexID, JobVertex] = {}
    for vertex in job.vertices:
        name = vertex.slot_sharing_group
        group = groups.setdefault(name, SlotSharingGroup(name or "default"))
        one = made[vertex.id] = JobVertex(
            vertex.id,
            vertex.name,
            vertex.parallelism,
            vertex.max_parallelism if vertex.max_parallelism > 0 else -1,
            invokable=UNKNOWN_INVOKABLE,
            slot_sharing_group=group,
        )
        group.vertices.append(one)
        graph.add_vertex(one)
    for vertex in job.vertices:
        for number, each in enumerate(vertex.inputs):
            if each.source not in made:
                raise ConfigError(f"{vertex.name} reads {each.source}, which is not in the job")
            strategy = each.ship_strategy.upper()
            made[vertex.id].connect_to(
                made[each.source],
                _data_set_id(vertex.id, number),
                each.pattern,
                _partition_type(each, config, is_batch=job.is_batch),
                each.ship_strategy,
                is_broadcast=strategy == "BROADCAST",
                is_forward=strategy == "FORWARD",
            )
    return graph


def running_plan(
    job: RunningJob, config: JobConfig, task_managers: Sequence[RunningTaskManager]
) -> PhysicalPlan:
    """The plan of a job as it is placed; TaskManagers are numbered in the given order.

    Raises: ConfigError while a task is not placed on one of them.
    """
    graph = job_graph_of_running(job, config)
    stage_of = stages_of(graph)
    number_of = {each.id: number for number, each in enumerate(task_managers)}
    slots: dict[tuple[int, str | None, int], list[SharedSlot]] = {}
    for vertex in job.vertices:
        for subtask, place in enumerate(vertex.task_managers):
            if place not in number_of:
                where = f"was on {place}, which is lost" if place else "has no TaskManager"
                raise ConfigError(f"{vertex.task_name(subtask)} {where}")
            group = vertex.slot_sharing_group
            own = slots.setdefault((number_of[place], group, stage_of[vertex.id]), [])
            slot = next((each for each in own if vertex.id not in each.subtasks), None)
            if slot is None:
                slot = SharedSlot(group or "default", stage_of[vertex.id])
                own.append(slot)
            slot.subtasks[vertex.id] = ExecutionVertexID(vertex.id, subtask)
    placed = []
    used = dict.fromkeys(number_of.values(), 0)
    for (task_manager, _, _), shared in slots.items():
        for each in shared:
            placed.append(PlacedSlot(task_manager, used[task_manager], each))
            used[task_manager] += 1
    slots_each = max((each.slots for each in task_managers), default=1)
    return placed_plan_of(execution_graph_of(graph), placed, len(task_managers), slots_each)


def other_plan(
    job: RunningJob,
    config: JobConfig,
    *,
    task_managers: int | None,
    slots_per_task_manager: int,
) -> PhysicalPlan:
    """The plan of a job that is placed anew.

    Args:
        task_managers: None: as many as needed.

    Raises: ConfigError if there are too few slots.
    """
    return physical_plan_of(
        execution_graph_of(job_graph_of_running(job, config)),
        task_managers=task_managers,
        slots_per_task_manager=slots_per_task_manager,
    )


def _data_set_id(vertex: JobVertexID, number: int) -> IntermediateDataSetID:
    return IntermediateDataSetID(hashlib.sha256(f"{vertex} {number}".encode()).digest()[:16])


def _partition_type(
    read: RunningInput, config: JobConfig, *, is_batch: bool
) -> ResultPartitionType:
    """The type of an exchange; one that is not reported is Flink's default.

    Raises: ConfigError for a type that Flink or flinknet does not have.
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
