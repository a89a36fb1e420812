"""Outbox: what a JobManager tells its TaskManagers about jobs, in an order that they cannot see.

Messages to two TaskManagers take two connections, and the first to be sent need not be the first to
come. A consumer that was deployed could ask for its partition before the TaskManager that has the
partition knows the number of that channel; the trace would not name it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from flinknet.core.wire.ids import ExecutionGraphID

from .control_messages import ExpectReaders


class Outbox:
    """Holds back what comes behind the announcement of readers until all who were told have
    answered.

    Args:
        send: of a message to a TaskManager, by its index.
    """

    def __init__(self, send: Callable[[int, Any], None]) -> None:
        self._send = send
        self._unanswered: Counter[int] = Counter()
        self._held: deque[tuple[int, Any]] = deque()
        self._lost: set[int] = set()

    def announce(
        self, index: int, job: ExecutionGraphID, readers: dict[str, tuple[int, int]]
    ) -> None:
        """Tell a TaskManager which channels of a job will be asked for; goes at once."""
        if index not in self._lost:
            self._unanswered[index] += 1
        self._send(index, ExpectReaders(job, readers))

    def tell(self, index: int, message: Any) -> None:
        """Send a message behind everything that was announced and told before."""
        self._held.append((index, message))
        self._go_on()

    def answered(self, index: int) -> None:
        """A TaskManager knows the readers of one announcement."""
        self._unanswered -= Counter({index: 1})
        self._go_on()

    def lose(self, index: int) -> None:
        """A TaskManager is gone: nothing waits for it any more."""
        self._lost.add(index)
        del self._unanswered[index]
        self._go_on()

    def _go_on(self) -> None:
        while self._held and not self._unanswered:
            self._send(*self._held.popleft())
