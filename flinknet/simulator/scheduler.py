# mypyc
"""Scheduler: virtual time.

It is a heap of (at_ns, order, action); actions of one instant run in the order of their calls.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]

START_NS = 1_000_000_000
"""Start of the tasks of a scenario or a job, in virtual ns; a scenario opens channels before."""


class Scheduler:
    """Virtual time, which jumps from one action to the next. Invariant: `now_ns` never falls."""

    def __init__(self, *, start_ns: int = 0) -> None:
        self.now_ns = start_ns
        self._heap: list[tuple[int, int, Action]] = []
        self._order = 0
        self._cancelled: set[int] = set()

    @property
    def next_ns(self) -> int | None:
        """Instant of the next action; None if there is none."""
        if self._cancelled:
            self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def at(self, at_ns: int, action: Action) -> int:
        """Schedule an action at an instant, or now if that has passed. Returns: a number for
        `cancel`.
        """
        self._order += 1
        if at_ns < self.now_ns:
            at_ns = self.now_ns
        heapq.heappush(self._heap, (at_ns, self._order, action))
        return self._order

    def cancel(self, planned: int) -> None:
        """Cancel an action that has not run yet; time does not jump to it."""
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
