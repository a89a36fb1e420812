"""Outbox: orders the messages of a JobManager to its TaskManagers.

Messages to two TaskManagers go over two connections, so they can arrive in another order than they
were sent. A deployed consumer could request its partition before the TaskManager of the partition
knows the number of that channel, and the trace would not name it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from flinknet.core.wire.ids import ExecutionGraphID

from .control_messages import ExpectReaders


class Outbox:
    """Holds messages back until every TaskManager has confirmed the readers announced before them.

    Args:
        send: sends a message to the TaskManager with this index.
    """

    def __init__(self, send: Callable[[int, Any], None]) -> None:
        self._send = send
        self._unanswered: Counter[int] = Counter()
        self._held: deque[tuple[int, Any]] = deque()
        self._lost: set[int] = set()

    def announce(
        self, index: int, job: ExecutionGraphID, readers: dict[str, tuple[int, int]]
    ) -> None:
        """Announce to a TaskManager the channels of a job that will be requested; sent at once."""
        if index not in self._lost:
            self._unanswered[index] += 1
        self._send(index, ExpectReaders(job, readers))

    def send(self, index: int, message: Any) -> None:
        """Send a message after all earlier messages and announcements."""
        self._held.append((index, message))
        self._send_released()

    def answered(self, index: int) -> None:
        """Note that a TaskManager has confirmed one announcement."""
        self._unanswered -= Counter({index: 1})
        self._send_released()

    def lose(self, index: int) -> None:
        """Stop waiting for a lost TaskManager."""
        self._lost.add(index)
        del self._unanswered[index]
        self._send_released()

    def _send_released(self) -> None:
        while self._held and not self._unanswered:
            self._send(*self._held.popleft())
