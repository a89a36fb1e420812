"""HeartbeatMonitor: which TaskManagers are due a heartbeat, and which are silent too long (Flink:
HeartbeatManagerSenderImpl). Sans-IO.
"""

from __future__ import annotations

from collections.abc import Iterable


class HeartbeatMonitor:
    """Sends heartbeats and detects silence; any message of a TaskManager counts as a sign of life.

    Args:
        interval_ns: heartbeat.interval.
        timeout_ns: heartbeat.timeout.
    """

    def __init__(self, interval_ns: int, timeout_ns: int) -> None:
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._last_message_ns: dict[int, int] = {}
        self._next_ns: int | None = None
        self.number = 0

    def watch(self, task_manager: int, *, now_ns: int) -> None:
        """Watch a TaskManager."""
        self._last_message_ns[task_manager] = now_ns
        if self._next_ns is None:
            self._next_ns = now_ns + self._interval_ns

    def unwatch(self, task_manager: int) -> None:
        """Stop watching a TaskManager that has ended or was lost."""
        self._last_message_ns.pop(task_manager, None)

    def note_message(self, task_manager: int, *, now_ns: int) -> None:
        """Note a message of a TaskManager."""
        if task_manager in self._last_message_ns:
            self._last_message_ns[task_manager] = now_ns

    def last_message_ns(self, task_manager: int) -> int | None:
        """When its last message came, None if it is not watched."""
        return self._last_message_ns.get(task_manager)

    def next_deadline_ns(self) -> int | None:
        """When `due` or `take_silent` will return something; None for never."""
        if not self._last_message_ns:
            return None
        first_ns = min(self._last_message_ns.values()) + self._timeout_ns
        return first_ns if self._next_ns is None else min(first_ns, self._next_ns)

    def due(self, *, now_ns: int) -> Iterable[int]:
        """The TaskManagers to send a heartbeat now; missed heartbeats are not made up for."""
        if self._next_ns is None or now_ns < self._next_ns:
            return ()
        self.number += 1
        self._next_ns = now_ns + self._interval_ns
        return tuple(self._last_message_ns)

    def take_silent(self, *, now_ns: int) -> list[int]:
        """Return TaskManagers that sent nothing within the time-out, and stop watching them."""
        lost = [
            task_manager
            for task_manager, at_ns in self._last_message_ns.items()
            if now_ns - at_ns >= self._timeout_ns
        ]
        for task_manager in lost:
            self.unwatch(task_manager)
        return lost
