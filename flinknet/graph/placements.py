"""Network buffers of a TaskManager in the worst and the best placement that Flink may choose.

Which tasks share a slot is fixed (`slots`). Which TaskManager gets which of these slots follows
from the order in which TaskManagers offer theirs, and changes from start to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice, permutations

from flinknet.core.buffers.pool_sizes import (
    TaskManagerBuffers,
    below_full_speed,
    shortage,
    task_buffers,
)
from flinknet.core.wire.ids import JobVertexID
from flinknet.units import human_bytes

from .physical_plan import PhysicalPlan, PlannedGate, PlannedTask
from .slots import SharedSlot

STARTS_MAX = 100
"""Most sets of slots from which a search for the most demanding set begins."""

EXCHANGES_MAX = 200
"""Most exchanges of slots between TaskManagers in the search for the best placement."""

SINGLE_SLOTS_MAX = 12
"""Most slots of a stage that are told apart; more are counted by kind."""

_Demand = tuple[int, int, int, int]
"""Exclusive, required, optional and overdraft buffers: two to start, three for full speed."""

_Counts = tuple[int, ...]
"""Number of slots of each kind on a TaskManager."""

_Tasks = Mapping[tuple[JobVertexID, int], PlannedTask]
"""Tasks by vertex and subtask."""


@dataclass(frozen=True, slots=True)
class PlacementBounds:
    """Buffers of the most demanding TaskManager, over the placements that Flink may choose.

    In jobs of more than SINGLE_SLOTS_MAX slots, channels of a pointwise exchange count as remote
    unless both ends share a slot.

    Attributes:
        worst: in the placement that needs most to start.
        fastest: in the one that needs most for full speed.
        most_buffers: in the one that uses most, with overdraft.
        best_buffers: to start, in the best placement that was found.
    """

    worst: TaskManagerBuffers
    fastest: TaskManagerBuffers
    most_buffers: int
    best_buffers: int


@lru_cache(maxsize=2)
def placement_bounds(plan: PhysicalPlan) -> PlacementBounds:
    """The bounds for the TaskManagers of a plan and its taskmanager.load-balance.mode."""
    tasks = {(plan.vertices[each.vertex].vertex.id, each.subtask): each for each in plan.tasks()}
    slots: dict[int, list[SharedSlot]] = {}
    if plan.task_managers > 1:
        for each in plan.slots:
            slots.setdefault(each.shared.stage, []).append(each.shared)
    stages = [_Stage(plan, tasks, slots, stage) for stage in sorted(slots)]
    placed, total = plan.buffers(), plan.network.segments

    def most_of(buffers: Callable[[TaskManagerBuffers], int], numbers: int) -> TaskManagerBuffers:
        others = (TaskManagerBuffers(-1, each.stage, *each.most(numbers), total) for each in stages)
        return max((*placed, *others), key=buffers)

    here = max(each.needed_buffers for each in placed)
    return PlacementBounds(
        most_of(lambda each: each.needed_buffers, 2),
        most_of(lambda each: each.wanted_buffers, 3),
        most_of(lambda each: each.most_buffers, 4).most_buffers,
        min(here, max((each.least() for each in stages), default=here)),
    )


def buffers_in_words(plan: PhysicalPlan, bounds: PlacementBounds) -> str:
    """A sentence about the buffers of the most demanding TaskManager."""
    least = bounds.worst.needed_buffers
    where = ""
    if bounds.best_buffers < least:
        where = f" in the worst placement that Flink may choose ({bounds.best_buffers} in the best)"
    return (
        f"a TaskManager needs at least {least} buffers"
        f" ({human_bytes(least * plan.network.segment_size_bytes)}){where},"
        f" {bounds.fastest.wanted_buffers} for full speed, {bounds.most_buffers} with overdraft;"
        f" {bounds.worst.total_buffers} are configured"
    )


def shortage_in(plan: PhysicalPlan, bounds: PlacementBounds) -> str | None:
    """Why the job may not start with the given memory, and the remedy; None if it always would."""
    return shortage([bounds.worst], plan.network.segment_size_bytes)


def verdict(plan: PhysicalPlan, bounds: PlacementBounds) -> str:
    """Whether the job would start with the given memory, and run at full speed."""
    if why := shortage_in(plan, bounds):
        if bounds.best_buffers <= bounds.worst.total_buffers:
            return f"the job would start in some placements only: {why}"
        return f"the job would not start: {why}"
    why = below_full_speed([bounds.fastest], plan.network.segment_size_bytes)
    return f"the job would start, but below full speed: {why}" if why else "the job would start"


class _Stage:
    """The slots of one stage by kind: those of a kind have subtasks of the same vertices.

    A set of slots needs the sum of their demands with all channels remote, less the exclusive
    buffers of the channels between them.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        tasks: _Tasks,
        slots: Mapping[int, Sequence[SharedSlot]],
        stage: int,
    ) -> None:
        self.stage = stage
        self._plan = plan
        self._is_single = len(slots[stage]) <= SINGLE_SLOTS_MAX and any(
            not each.wiring.is_all_to_all for each in plan.edges
        )
        kinds: dict[object, list[SharedSlot]] = {}
        for each in slots[stage]:
            kinds.setdefault(id(each) if self._is_single else tuple(each.subtasks), []).append(each)
        self._demands = [[self._demand(each, tasks) for each in own] for own in kinds.values()]
        some = [own[0] for own in kinds.values()]
        self._tasks = [len(each.subtasks) for each in some]
        self._local = [[self._exclusive(one, other) for other in some] for one in some]

    def _demand(self, slot: SharedSlot, tasks: _Tasks) -> _Demand:
        """The buffers of a slot; channels that no placement makes local count as remote."""
        own = [
            task_buffers(
                *(0, self.stage),
                ((each.pool, each.overdraft_buffers) for each in task.partitions),
                ((each.channels - self._always_local(each, slot), each.buffers) for each in gates),
            ).demand
            for vertex_id, subtask in slot.subtasks.items()
            for task in [tasks[vertex_id, subtask.subtask_index]]
            for gates in [task.gates]
        ]
        exclusive, required, optional, overdraft = map(sum, zip(*own, strict=True))
        return exclusive, required, optional, overdraft

    def _always_local(self, gate: PlannedGate, slot: SharedSlot) -> int:
        """Channels of a gate that are local in every placement, and not counted by `_between`."""
        plan, edge = self._plan, self._plan.edges[gate.edge]
        source = plan.vertices[edge.source]
        if source.stage == self.stage:
            if edge.wiring.is_all_to_all or self._is_single:
                return 0
            producer = slot.subtasks.get(source.vertex.id)
            return int(producer is not None and producer.subtask_index in gate.partitions)
        elsewhere = (plan.task_managers - 1) * plan.slots_per_task_manager
        return max(0, source.parallelism - elsewhere) if edge.wiring.is_all_to_all else 0

    def _exclusive(self, one: SharedSlot, other: SharedSlot) -> int:
        """Exclusive buffers of the channels from a slot to another."""
        buffers = 0
        for edge in self._plan.edges:
            producer = one.subtasks.get(self._plan.vertices[edge.source].vertex.id)
            consumer = other.subtasks.get(self._plan.vertices[edge.target].vertex.id)
            if producer is None or consumer is None:
                continue
            partitions = edge.wiring.partitions_of(consumer.subtask_index)
            if edge.wiring.is_all_to_all or (
                self._is_single and producer.subtask_index in partitions
            ):
                gate = self._plan.gate_buffers(len(partitions), edge.partition_type)
                buffers += gate.exclusive_per_channel
        return buffers

    def _limits(self) -> tuple[int, int, int]:
        """Fewest and most slots, and most tasks, on a TaskManager by the load-balance mode."""
        total = sum(map(len, self._demands))
        count, slots = self._plan.task_managers, self._plan.slots_per_task_manager
        match self._plan.graph.job.config.load_balance_mode:
            case "SLOTS":
                return total // count, -(-total // count), self._plan.tasks_total
            case "TASKS":
                tasks = [0] * count
                for each in self._plan.slots:
                    if each.shared.stage == self.stage:
                        tasks[each.task_manager] += len(each.shared.subtasks)
                return 0, min(slots, total), max(tasks)
        return max(0, total - (count - 1) * slots), min(slots, total), self._plan.tasks_total

    def most(self, numbers: int) -> _Demand:
        """The demand of the most demanding set of slots, by the sum of its first `numbers`."""
        ordered = [sorted(own, key=lambda each: -sum(each[:numbers])) for own in self._demands]
        sums = [[0, *accumulate(sum(each[:numbers]) for each in own)] for own in ordered]
        least, most, tasks_max = self._limits()
        kinds = range(len(sums))
        found = []
        for first in islice(permutations(kinds, min(2, len(sums))), STARTS_MAX):
            counts, tasks = [0] * len(sums), tasks_max
            for kind in dict.fromkeys((*first, *kinds)):
                counts[kind] = min(
                    len(sums[kind]) - 1, most - sum(counts), tasks // self._tasks[kind]
                )
                tasks -= counts[kind] * self._tasks[kind]
            found.append(self._climbed(tuple(counts), sums, least, most, tasks_max))
        best = max(found, key=lambda each: self._value(sums, each))
        chosen = [each for own, count in zip(ordered, best, strict=True) for each in own[:count]]
        exclusive, required, optional, overdraft = map(sum, zip(*chosen, strict=True))
        return (exclusive - self._between(best), required, optional, overdraft)

    def _climbed(
        self, counts: _Counts, sums: Sequence[Sequence[int]], least: int, most: int, tasks_max: int
    ) -> _Counts:
        """The counts after all changes of one slot that add to their value, within limits."""
        while True:
            allowed = [
                each
                for each in _changes(counts, [len(own) - 1 for own in sums])
                if least <= sum(each) <= most
                and sum(map(int.__mul__, each, self._tasks)) <= tasks_max
            ]
            best = max(allowed, key=lambda each: self._value(sums, each), default=counts)
            if self._value(sums, best) <= self._value(sums, counts):
                return counts
            counts = best

    def _between(self, counts: _Counts) -> int:
        """Exclusive buffers of the channels between slots, which are local."""
        return sum(
            one * sum(map(int.__mul__, counts, row))
            for one, row in zip(counts, self._local, strict=True)
            if one
        )

    def _value(self, sums: Sequence[Sequence[int]], counts: _Counts) -> int:
        own = sum(each[count] for each, count in zip(sums, counts, strict=True))
        return own - self._between(counts)

    def least(self) -> int:
        """Buffers to start of the most demanding TaskManager in the best placement found: slots
        are dealt out, then exchanged with that TaskManager. Where Flink balances tasks, the plan's
        own placement counts as the best."""
        count, slots = self._plan.task_managers, self._plan.slots_per_task_manager
        mode = self._plan.graph.job.config.load_balance_mode
        if mode in ("TASKS", "MIN_RESOURCES"):
            return max(each.needed_buffers for each in self._plan.buffers())
        sums = [
            [0, *accumulate(sorted((sum(each[:2]) for each in own), reverse=True))]
            for own in self._demands
        ]
        kinds = [kind for kind, own in enumerate(self._demands) for _ in own]
        dealt = [[kinds[at::count] for at in range(count)]]
        if mode == "NONE":
            dealt.append([kinds[at * slots : (at + 1) * slots] for at in range(count)])
        return min(
            self._improved(
                [tuple(map(own.count, range(len(sums)))) for own in managers],
                sums,
                slots if mode == "NONE" else 0,
            )
            for managers in dealt
        )

    def _improved(self, managers: list[_Counts], sums: Sequence[Sequence[int]], slots: int) -> int:
        """The largest value of a TaskManager, after exchanges that lower it, and moves if there is
        a number of `slots`.
        """
        for _ in range(EXCHANGES_MAX):
            values = {each: self._value(sums, each) for each in set(managers)}
            worst = max(values, key=lambda each: values[each])
            found = [
                (max(self._value(sums, one), self._value(sums, two)), other, one, two)
                for other in values
                if other != worst or managers.count(other) > 1
                for one, two in _exchanges(worst, other, slots)
            ]
            value, other, one, two = min(found, default=(values[worst], worst, worst, worst))
            if value >= values[worst]:
                break
            managers[managers.index(worst)] = one
            managers[managers.index(other)] = two
        return max(self._value(sums, each) for each in managers)


def _changed(counts: _Counts, kind: int | None, by: int) -> _Counts:
    return tuple(n + by if at == kind else n for at, n in enumerate(counts))


def _changes(counts: _Counts, limits: Sequence[int]) -> Iterator[_Counts]:
    """Counts with one slot more, one less, or one of another kind."""
    kinds = range(len(counts))
    for less in (None, *(kind for kind in kinds if counts[kind])):
        fewer = _changed(counts, less, -1)
        yield fewer
        for more in kinds:
            if fewer[more] < limits[more]:
                yield _changed(fewer, more, 1)


def _exchanges(one: _Counts, other: _Counts, slots: int) -> Iterator[tuple[_Counts, _Counts]]:
    """Counts of two TaskManagers after a slot of one moved to the other, or changed places with one
    of the other."""
    for given in (kind for kind, count in enumerate(one) if count):
        fewer, more = _changed(one, given, -1), _changed(other, given, 1)
        if sum(more) <= slots:
            yield fewer, more
        for taken in (kind for kind, count in enumerate(other) if count):
            yield _changed(fewer, taken, 1), _changed(more, taken, -1)
