"""Placement: where the tasks of a job run, and the descriptors they are deployed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flinknet.core.wire.ids import JobVertexID
from flinknet.graph.execution_graph import ExecutionGraph, ExecutionVertex
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.graph.planning import depths_of, placed_plan_of, stages_of
from flinknet.graph.slots import check_resources, share_slots
from flinknet.job import TaskDeploymentDescriptor, descriptors_of

from .channel_numbers import ChannelNumbers, ClusterNumbers
from .slot_pool import ClusterSlots, SlotPool


@dataclass(frozen=True, slots=True)
class FixedPlan:
    """A plan made in advance, independent of free slots, with the descriptors of its tasks.

    Attributes:
        stage_of: stage of each vertex; a stage begins when lower stages have ended or are readable.
    """

    plan: PhysicalPlan
    tasks: Sequence[TaskDeploymentDescriptor]
    stage_of: Mapping[JobVertexID, int]


@dataclass(frozen=True, slots=True)
class SharedCluster:
    """State shared by the jobs of a cluster: slots, and the numbers of channels."""

    slots: ClusterSlots
    numbers: ClusterNumbers


@dataclass(frozen=True, slots=True)
class Deployment:
    """Tasks that are deployed together."""

    plan: PhysicalPlan
    tasks: tuple[TaskDeploymentDescriptor, ...]


class Placement:
    """The placement of one job.

    Args:
        cluster: the cluster shared with other jobs.
        slots_each: slots of every TaskManager.
        fixed: a fixed plan; None: tasks are placed in available slots.

    Attributes:
        pool: the slots of the job.
        stage_of: stage of each vertex; a stage begins when lower stages have ended or are readable.
        depth_of: depth of each vertex; joined tasks of the same depth are deployed together.

    Raises: ConfigError if a slot has fewer resources than its subtasks need.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        cluster: SharedCluster,
        slots_each: int,
        fixed: FixedPlan | None = None,
    ) -> None:
        config = graph.job.config
        self._graph = graph
        self._slots_each = slots_each
        self._fixed = fixed
        self.stage_of: Mapping[JobVertexID, int]
        self.depth_of: Mapping[JobVertexID, int]
        if fixed is None:
            self.stage_of, self.depth_of = stages_of(graph.job), depths_of(graph.job)
            shared = share_slots(graph, self.stage_of)
            check_resources(shared, config, slots_each)
            self.pool = SlotPool(shared, cluster.slots, config.load_balance_mode)
        else:
            self.stage_of = self.depth_of = fixed.stage_of
            self.pool = SlotPool((), cluster.slots, config.load_balance_mode, fixed.plan.slots)
        self._numbers = ChannelNumbers(
            cluster.numbers,
            graph.channels,
            len(graph.results),
            config.network.max_tcp_connections,
        )

    def plan(self, task_managers: int) -> PhysicalPlan:
        """The current placement of all tasks; every task must have a slot.

        Args:
            task_managers: the minimum number of TaskManagers in the plan.
        """
        if self._fixed is not None:
            return self._fixed.plan
        count = max([task_managers, *(each + 1 for each in self.pool.task_managers)])
        return placed_plan_of(self._graph, self.pool.placed(), count, self._slots_each)

    def tasks(
        self, plan: PhysicalPlan, subtasks: Sequence[ExecutionVertex]
    ) -> list[TaskDeploymentDescriptor]:
        """The descriptors of these subtasks, writers before their readers."""
        index_of = {vertex.vertex.id: vertex.index for vertex in plan.vertices}
        keys = {(index_of[each.job_vertex.id], each.subtask_index) for each in subtasks}
        if self._fixed is None:
            found = [task for tasks in descriptors_of(plan, only=keys) for task in tasks]
        else:
            found = [task for task in self._fixed.tasks if task.key in keys]
        found.sort(key=lambda task: task.key)
        return list(self._numbers.numbered(found))
