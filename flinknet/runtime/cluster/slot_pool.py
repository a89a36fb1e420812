"""SlotPool: the slots of a job, and the assignment of its shared slots to them.

Shared slots of different stages do not run at the same time and may use the same slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.graph.slots import PlacedSlot, SharedSlot, place_in, slots_needed
from flinknet.units import counted

Slot = tuple[int, int]
"""Index of the TaskManager, and number of the slot on it."""


class ClusterSlots:
    """The slots of a cluster's TaskManagers, and the pools that own them (Flink: SlotManager).

    Args:
        slots_each: slots of every TaskManager.
    """

    def __init__(self, slots_each: int) -> None:
        self.slots_each = slots_each
        self._owner_of: dict[Slot, SlotPool] = {}

    def in_use(self, task_manager: int) -> int:
        """Number of slots of a TaskManager that belong to a job."""
        return sum(at == task_manager for at, _ in self._owner_of)

    def free_for(self, pool: SlotPool, task_manager: int) -> list[int]:
        """The slots of a TaskManager that are free or belong to this pool."""
        owner_of = self._owner_of
        return [
            slot
            for slot in range(self.slots_each)
            if owner_of.get((task_manager, slot), pool) is pool
        ]

    def assign(self, pool: SlotPool, slots: set[Slot]) -> None:
        """Set the slots that a pool owns."""
        self._owner_of = {
            slot: owner for slot, owner in self._owner_of.items() if owner is not pool
        }
        self._owner_of.update(dict.fromkeys(slots, pool))


class SlotPool:
    """The slots of a job on the TaskManagers that are ready for it (Flink: DeclarativeSlotPool).

    Slots are allocated when all that it needs are free, and kept until the job has ended. A shared
    slot stays in its place while its TaskManager lives.

    Args:
        shared: the shared slots of the job.
        cluster: the slots that it shares with the pools of other jobs.
        mode: taskmanager.load-balance.mode.
        placed: a fixed assignment; None: shared slots go where slots are free.
    """

    def __init__(
        self,
        shared: Sequence[SharedSlot],
        cluster: ClusterSlots,
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
        """The TaskManagers that offer slots."""
        return sorted(self._task_managers)

    @property
    def offered(self) -> int:
        """Number of offered slots that no other job owns."""
        return sum(len(self._free_on(each)) for each in self._task_managers)

    @property
    def held_by_others(self) -> int:
        """Number of offered slots that other jobs own."""
        return len(self._task_managers) * self._cluster.slots_each - self.offered

    @property
    def shortage(self) -> str:
        """The slots needed and offered, in words, with advice."""
        there = counted(len(self._task_managers), "TaskManager")
        there += f" with {self._cluster.slots_each} each"
        advice = "give more TaskManagers, more slots, or a lower parallelism"
        if held := self.held_by_others:
            there += f", {held} of them other jobs'"
            advice = f"end another job, or {advice}"
        needed = counted(self.needed, "slot")
        return f"the job needs {needed}; available: {self.offered} ({there}); {advice}"

    def slots_in_use(self, task_manager: int) -> int:
        """Number of slots of a TaskManager that the job uses."""
        return len({slot for at, slot in self._places.values() if at == task_manager})

    def add(self, task_manager: int) -> None:
        """Add a TaskManager and its slots."""
        self._task_managers.add(task_manager)

    def remove(self, task_manager: int) -> None:
        """Remove a TaskManager with its slots and what they held."""
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
            free = [self._free_on(each) for each in alive]
            placed = place_in(self._shared, free, self._cluster.slots_each, self._mode)
            for at, each in enumerate(placed):
                self._places[at] = (alive[each.task_manager], each.slot)
        for at, shared in enumerate(self._shared):
            if at not in self._places:
                self._places[at] = self._unused(shared.stage)
        self._hold()
        return True

    def placed(self) -> list[PlacedSlot]:
        """The places of all shared slots; each must have one."""
        return [PlacedSlot(*self._places[at], shared) for at, shared in enumerate(self._shared)]

    def _free_on(self, task_manager: int) -> list[int]:
        return self._cluster.free_for(self, task_manager)

    def _hold(self) -> None:
        if not self._is_released:  # TaskManagers can be lost after the end of the job
            self._cluster.assign(self, set(self._places.values()))

    def _unused(self, stage: int) -> Slot:
        """The first slot that is unused in a stage; there is one, as `allocate` counts them."""
        used = {place for at, place in self._places.items() if self._shared[at].stage == stage}
        return next(
            (task_manager, slot)
            for task_manager in self.task_managers
            for slot in self._free_on(task_manager)
            if (task_manager, slot) not in used
        )
