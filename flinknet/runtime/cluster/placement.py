"""Placement: where the tasks of a job run, and the descriptors they are deployed with, with the
numbers of their channels in traces; the slots of a job (SlotPool).

Shared slots of different stages do not run at the same time and may use the same slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flinknet.core.wire.ids import JobVertexID
from flinknet.graph.execution_graph import ExecutionGraph, ExecutionVertex
from flinknet.graph.physical_plan import Connection, PhysicalPlan
from flinknet.graph.planning import depths_of, placed_plan_of, stages_of
from flinknet.graph.slots import (
    PlacedSlot,
    SharedSlot,
    check_resources,
    place_in,
    share_slots,
    slots_needed,
)
from flinknet.job import TaskDeploymentDescriptor, descriptors_of
from flinknet.job.descriptor import InputChannelDescriptor
from flinknet.results import ConnectionStatus
from flinknet.units import counted

from .reports import UsedConnection

Slot = tuple[int, int]
"""Index of the TaskManager, and number of the slot on it."""

_ConnectionKey = tuple[int, int, int]
"""The producers' TaskManager, the consumers' TaskManager, and the connection's number."""


class ConnectionUses:
    """The connections of all jobs of a cluster."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._now: dict[str, dict[_ConnectionKey, int]] = {}
        self._ever: dict[str, set[_ConnectionKey]] = {}
        self._before: Counter[_ConnectionKey] = Counter()

    def begin(self, job_id: str, name: str) -> None:
        self._names[job_id], self._now[job_id], self._ever[job_id] = name, {}, set()

    def update(self, job_id: str, task_manager: int, used: Iterable[UsedConnection]) -> None:
        """Set the connections that the tasks of a job have open on one TaskManager."""
        now = {key: count for key, count in self._now[job_id].items() if key[1] != task_manager}
        now |= {(each.task_manager, task_manager, each.number): each.channels for each in used}
        self._now[job_id] = now
        self._ever[job_id].update(now)

    def end(self, job_id: str) -> None:
        del self._names[job_id], self._now[job_id]
        self._before.update(self._ever.pop(job_id))

    def lose(self, task_manager: int) -> None:
        for uses in (*self._now.values(), self._before):
            for key in [each for each in uses if task_manager in each[:2]]:
                del uses[key]

    def of(self, job_id: str) -> tuple[ConnectionStatus, ...]:
        """The connections that a job uses now."""
        found = []
        for key, channels in sorted(self._now[job_id].items()):
            others = (other for other in self._names if other != job_id and key in self._now[other])
            names = tuple(self._names[each] for each in others)
            found.append(
                ConnectionStatus(str(Connection(*key)), channels, names, self._before[key])
            )
        return tuple(found)


class SharedCluster:
    """State shared by the jobs of a cluster: the slots of its TaskManagers with the pools that own
    them (Flink: SlotManager), and numbers. No two channels have the same number, and data sets of
    all jobs take turns on the connections.
    """

    def __init__(self, slots_each: int) -> None:
        self.slots_each = slots_each
        self.connections = ConnectionUses()
        self._owner_of: dict[Slot, SlotPool] = {}
        self._channels = 0
        self._data_sets = 0

    def take_channels(self, count: int) -> int:
        """Reserve `count` channel numbers. Returns: the first of them."""
        first, self._channels = self._channels, self._channels + count
        return first

    def take_data_sets(self, count: int) -> int:
        """Reserve turns for `count` data sets. Returns: the number of turns taken before."""
        first, self._data_sets = self._data_sets, self._data_sets + count
        return first

    def slots_in_use(self, task_manager: int) -> int:
        return sum(at == task_manager for at, _ in self._owner_of)

    def free_for(self, pool: SlotPool, task_manager: int) -> list[int]:
        """The slots of a TaskManager that are free or belong to this pool."""
        slots, owner_of = range(self.slots_each), self._owner_of
        return [each for each in slots if owner_of.get((task_manager, each), pool) is pool]

    def assign(self, pool: SlotPool, slots: set[Slot]) -> None:
        others = {slot: owner for slot, owner in self._owner_of.items() if owner is not pool}
        self._owner_of = others | dict.fromkeys(slots, pool)


class SlotPool:
    """The slots of a job on the TaskManagers that are ready for it (Flink: DeclarativeSlotPool).

    Slots are allocated when all that it needs are free, and kept until the job has ended. A shared
    slot stays in its place while its TaskManager lives.

    Args:
        mode: taskmanager.load-balance.mode.
        placed: a fixed assignment; None: shared slots go where slots are free.
    """

    def __init__(
        self,
        shared: Sequence[SharedSlot],
        cluster: SharedCluster,
        mode: str,
        placed: Sequence[PlacedSlot] | None = None,
    ) -> None:
        self._shared = shared
        self._cluster = cluster
        self._mode = mode
        self._task_managers: set[int] = set()
        self._is_released = False
        self._places: dict[int, Slot] = {}
        if placed is not None:
            self._shared = [each.shared for each in placed]
            self._places = {at: (each.task_manager, each.slot) for at, each in enumerate(placed)}
            self._hold()
        self.needed = slots_needed(shared)

    @property
    def task_managers(self) -> list[int]:
        return sorted(self._task_managers)

    @property
    def offered(self) -> int:
        return sum(len(self._cluster.free_for(self, each)) for each in self._task_managers)

    @property
    def shortage(self) -> str:
        """The slots needed and offered, in words, with advice."""
        there = counted(len(self._task_managers), "TaskManager")
        there += f" with {self._cluster.slots_each} each"
        advice = "give more TaskManagers, more slots, or a lower parallelism"
        if held := len(self._task_managers) * self._cluster.slots_each - self.offered:
            there += f", {held} of them other jobs'"
            advice = f"end another job, or {advice}"
        needed = counted(self.needed, "slot")
        return f"the job needs {needed}; available: {self.offered} ({there}); {advice}"

    def slots_in_use(self, task_manager: int) -> int:
        return len({slot for at, slot in self._places.values() if at == task_manager})

    def add(self, task_manager: int) -> None:
        self._task_managers.add(task_manager)

    def remove(self, task_manager: int) -> None:
        """Remove a TaskManager, its slots and their allocations."""
        self._task_managers.discard(task_manager)
        self._places = {at: each for at, each in self._places.items() if each[0] != task_manager}
        self._hold()

    def release(self) -> None:
        """Free all slots of the job, which has ended; it will get no others."""
        self._is_released = True
        self._cluster.assign(self, set())

    def allocate(self) -> bool:
        """Assign a slot to every shared slot that has none. Returns: whether all have one now."""
        if self.offered < self.needed:
            return False
        if not self._places:
            alive = self.task_managers
            free = [self._cluster.free_for(self, each) for each in alive]
            placed = place_in(self._shared, free, self._cluster.slots_each, self._mode)
            for at, each in enumerate(placed):
                self._places[at] = (alive[each.task_manager], each.slot)
        for at, shared in enumerate(self._shared):
            if at not in self._places:  # there is an unused one in its stage, as they were counted
                places = self._places.items()
                used = {slot for x, slot in places if self._shared[x].stage == shared.stage}
                known = (
                    (x, y) for x in self.task_managers for y in self._cluster.free_for(self, x)
                )
                self._places[at] = next(each for each in known if each not in used)
        self._hold()
        return True

    def placed(self) -> list[PlacedSlot]:
        """The places of all shared slots; each must have one."""
        return [PlacedSlot(*self._places[at], shared) for at, shared in enumerate(self._shared)]

    def _hold(self) -> None:
        if not self._is_released:  # TaskManagers can be lost after the end of the job
            self._cluster.assign(self, set(self._places.values()))


@dataclass(frozen=True, slots=True)
class FixedPlan:
    """A plan made in advance, independent of free slots, with the descriptors of its tasks and the
    stages of its vertices (`InputDependencies`).
    """

    plan: PhysicalPlan
    tasks: Sequence[TaskDeploymentDescriptor]
    stage_of: Mapping[JobVertexID, int]


@dataclass(frozen=True, slots=True)
class Deployment:
    """Tasks that are deployed together."""

    plan: PhysicalPlan
    tasks: tuple[TaskDeploymentDescriptor, ...]


class Placement:
    """The placement of one job, and the numbers of its channels: those of its plan, offset by the
    numbers in use on the cluster. A channel whose reader restarts gets a new number, so that
    attempts do not mix.

    Args:
        fixed: a fixed plan; None: tasks are placed in available slots.

    Raises: ConfigError if a slot has fewer resources than its subtasks need.
    """

    def __init__(
        self, graph: ExecutionGraph, cluster: SharedCluster, fixed: FixedPlan | None = None
    ) -> None:
        config = graph.job.config
        self._graph = graph
        self._cluster = cluster
        self._fixed = fixed
        self.stage_of: Mapping[JobVertexID, int]
        self.depth_of: Mapping[JobVertexID, int]
        if fixed is None:
            self.stage_of, self.depth_of = stages_of(graph.job), depths_of(graph.job)
            shared = share_slots(graph, self.stage_of)
            check_resources(shared, config, cluster.slots_each)
            self.pool = SlotPool(shared, cluster, config.load_balance_mode)
        else:
            self.stage_of = self.depth_of = fixed.stage_of
            self.pool = SlotPool((), cluster, config.load_balance_mode, fixed.plan.slots)
        self._first_channel = cluster.take_channels(graph.channels)
        self._turn = cluster.take_data_sets(len(graph.results))
        self._max_connections = config.network.max_tcp_connections
        self._number_of: dict[int, int] = {}

    def plan(self, task_managers: int) -> PhysicalPlan:
        """The placement of all tasks, which all have slots, on a number of TaskManagers or more."""
        if self._fixed is not None:
            return self._fixed.plan
        count = max([task_managers, *(each + 1 for each in self.pool.task_managers)])
        return placed_plan_of(self._graph, self.pool.placed(), count, self._cluster.slots_each)

    def tasks(
        self, plan: PhysicalPlan, subtasks: Sequence[ExecutionVertex]
    ) -> list[TaskDeploymentDescriptor]:
        """The descriptors of subtasks that are about to start, writers before their readers."""
        index_of = {vertex.vertex.id: vertex.index for vertex in plan.vertices}
        keys = {(index_of[each.job_vertex.id], each.subtask_index) for each in subtasks}
        if self._fixed is None:
            found = [task for tasks in descriptors_of(plan, only=keys) for task in tasks]
        else:
            found = [task for task in self._fixed.tasks if task.key in keys]
        found.sort(key=lambda task: task.key)
        for index in [x.index for task in found for gate in task.inputs for x in gate.channels]:
            is_new = index not in self._number_of
            number = self._first_channel + index if is_new else self._cluster.take_channels(1)
            self._number_of[index] = number
        return [self._numbered(task) for task in found]

    def _numbered(self, task: TaskDeploymentDescriptor) -> TaskDeploymentDescriptor:
        """The task with the numbers of its channels."""
        number_of, first = self._number_of, self._first_channel

        def numbered(at: InputChannelDescriptor) -> InputChannelDescriptor:
            connection = (at.connection_index + self._turn) % self._max_connections
            return replace(at, index=number_of[at.index], connection_index=connection)

        outputs = (
            replace(each, channels=tuple(number_of.get(at, first + at) for at in each.channels))
            for each in task.outputs
        )
        inputs = (
            replace(each, channels=tuple(map(numbered, each.channels))) for each in task.inputs
        )
        return replace(task, outputs=tuple(outputs), inputs=tuple(inputs))
