# mypyc
"""Scheduler: virtual time.

A heap of (at_ns, order, action); what is due at one instant runs in the order it came.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]

START_NS = 1_000_000_000
"""When the tasks of a scenario or a job start; the channels of a scenario are opened before."""


class Scheduler:
    """Time passes only from one action to the next. Invariant: `now_ns` never goes back."""

    def __init__(self, *, start_ns: int = 0) -> None:
        self.now_ns = start_ns
        self._heap: list[tuple[int, int, Action]] = []
        self._order = 0
        self._cancelled: set[int] = set()

    @property
    def next_ns(self) -> int | None:
        """Instant of the next action, None if there is none."""
        if self._cancelled:
            self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def at(self, at_ns: int, action: Action) -> int:
        """Run an action at an instant; an instant that has passed means now. Returns: what `cancel`
        knows it by.
        """
        self._order += 1
        if at_ns < self.now_ns:
            at_ns = self.now_ns
        heapq.heappush(self._heap, (at_ns, self._order, action))
        return self._order

    def cancel(self, planned: int) -> None:
        """Do not run an action that has not run yet; time does not pass for it."""
        self._cancelled.add(planned)

    def step(self) -> bool:
        """Run the next action. Returns: False if there was none."""
        if self._cancelled:
            self._drop_cancelled()
        if not self._heap:
            return False
        self.now_ns, _, action = heapq.heappop(self._heap)
        action()
        return True

    def _drop_cancelled(self) -> None:
        while self._heap and self._heap[0][1] in self._cancelled:
            self._cancelled.remove(heapq.heappop(self._heap)[1])
