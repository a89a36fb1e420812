"""SlotPool: which slots there are, and which shared slot of the job is in which of them.

Shared slots of different stages do not run at the same time and may use the same slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.graph.slots import PlacedSlot, SharedSlot, place_slots, slots_needed


class SlotPool:
    """The slots of the TaskManagers that are registered (Flink: DeclarativeSlotPool).

    A shared slot stays where it is as long as its TaskManager lives.

    Args:
        shared: those of the job.
        slots_each: of every TaskManager.
        mode: taskmanager.load-balance.mode.
        placed: where everything is, whatever there is; None: where there are slots.
    """

    def __init__(
        self,
        shared: Sequence[SharedSlot],
        slots_each: int,
        mode: str,
        placed: Sequence[PlacedSlot] | None = None,
    ) -> None:
        self._shared = shared
        self._slots_each = slots_each
        self._mode = mode
        self._task_managers: set[int] = set()
        self._places: dict[int, tuple[int, int]] = {}
        if placed is not None:
            self._shared = [each.shared for each in placed]
            self._places = {at: (each.task_manager, each.slot) for at, each in enumerate(placed)}
        self.needed = slots_needed(shared)

    @property
    def task_managers(self) -> list[int]:
        """Those that are there."""
        return sorted(self._task_managers)

    @property
    def offered(self) -> int:
        """Number of slots that are there."""
        return len(self._task_managers) * self._slots_each

    def slots_in_use(self, task_manager: int) -> int:
        """How many slots of a TaskManager hold something."""
        return len({slot for at, slot in self._places.values() if at == task_manager})

    def add(self, task_manager: int) -> None:
        """A TaskManager offers its slots."""
        self._task_managers.add(task_manager)

    def remove(self, task_manager: int) -> None:
        """A TaskManager and its slots are gone, with what they held."""
        self._task_managers.discard(task_manager)
        self._places = {at: each for at, each in self._places.items() if each[0] != task_manager}

    def allocate(self) -> bool:
        """Give every shared slot that has none a slot. Returns: whether all have one now."""
        if self.offered < self.needed:
            return False
        if not self._places:
            alive = self.task_managers
            placed = place_slots(self._shared, len(alive), self._slots_each, self._mode)
            for at, each in enumerate(placed):
                self._places[at] = (alive[each.task_manager], each.slot)
            return True
        for at, shared in enumerate(self._shared):
            if at not in self._places:
                self._places[at] = self._free(shared.stage)
        return True

    def placed(self) -> list[PlacedSlot]:
        """Where every shared slot is; all must have a place."""
        return [PlacedSlot(*self._places[at], shared) for at, shared in enumerate(self._shared)]

    def _free(self, stage: int) -> tuple[int, int]:
        """The first slot that holds nothing of a stage; there is one, for slots suffice."""
        used = {place for at, place in self._places.items() if self._shared[at].stage == stage}
        return next(
            (task_manager, slot)
            for task_manager in self.task_managers
            for slot in range(self._slots_each)
            if (task_manager, slot) not in used
        )
