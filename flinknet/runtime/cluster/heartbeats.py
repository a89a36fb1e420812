"""HeartbeatMonitor: whom to ask whether they are there, and who has not answered in time (Flink:
HeartbeatManagerSenderImpl). Sans-IO.
"""

from __future__ import annotations

from collections.abc import Iterable


class HeartbeatMonitor:
    """Any message of a TaskManager counts as a sign of life.

    Args:
        interval_ns: heartbeat.interval.
        timeout_ns: heartbeat.timeout.
    """

    def __init__(self, interval_ns: int, timeout_ns: int) -> None:
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._heard_ns: dict[int, int] = {}
        self._next_ns: int | None = None
        self.number = 0

    def watch(self, task_manager: int, *, now_ns: int) -> None:
        """Begin to ask a TaskManager."""
        self._heard_ns[task_manager] = now_ns
        if self._next_ns is None:
            self._next_ns = now_ns + self._interval_ns

    def unwatch(self, task_manager: int) -> None:
        """It has ended, or was lost."""
        self._heard_ns.pop(task_manager, None)

    def hear(self, task_manager: int, *, now_ns: int) -> None:
        """It has said something."""
        if task_manager in self._heard_ns:
            self._heard_ns[task_manager] = now_ns

    def heard_ns(self, task_manager: int) -> int | None:
        """When it said something last, None if it is not watched."""
        return self._heard_ns.get(task_manager)

    def next_deadline_ns(self) -> int | None:
        """When `to_ask` or `silent` will have something to tell."""
        if not self._heard_ns:
            return None
        first_ns = min(self._heard_ns.values()) + self._timeout_ns
        return first_ns if self._next_ns is None else min(first_ns, self._next_ns)

    def to_ask(self, *, now_ns: int) -> Iterable[int]:
        """Whom to ask now; beats that were missed are not made up for."""
        if self._next_ns is None or now_ns < self._next_ns:
            return ()
        self.number += 1
        self._next_ns = now_ns + self._interval_ns
        return tuple(self._heard_ns)

    def silent(self, *, now_ns: int) -> list[int]:
        """Who has said nothing for the time-out: they are lost, and no longer watched."""
        lost = [
            task_manager
            for task_manager, heard_ns in self._heard_ns.items()
            if now_ns - heard_ns >= self._timeout_ns
        ]
        for task_manager in lost:
            self.unwatch(task_manager)
        return lost
