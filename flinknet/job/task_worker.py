"""TaskWorker: where a task's calls into functions of its program run, if not in its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TaskWorker(Protocol):
    """Does one piece of work at a time for a task, beside whoever steps it (Flink: the thread of a
    Task). While it does, the task leaves alone what the work uses, and the work leaves alone the
    network.
    """

    def begin(self, work: Callable[[], None]) -> bool:
        """Begin a piece of work. Returns: whether it is over already; if not, the driver is to step
        the task when it is.
        """

    @property
    def is_over(self) -> bool:
        """Whether the work that was begun is over."""

    def end(self) -> None:
        """The work is over, and the task goes on. Raises: what the work raised."""

    def now_ns(self) -> int:
        """The instant, for the work."""

    def release(self) -> None:
        """Nothing more will be begun; what was begun goes on to its end."""
