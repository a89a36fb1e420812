"""TaskWorker: runs a task's calls of program functions outside its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TaskWorker(Protocol):
    """Runs one piece of work at a time for a task, in parallel with its driver (Flink: the thread
    of a Task). Meanwhile the task does not touch what the work uses, and the work does not touch
    the network.
    """

    def begin(self, work: Callable[[], None]) -> bool:
        """Begin a piece of work. Returns: whether it is already over; if not, the driver steps the
        task when it is.
        """

    @property
    def is_over(self) -> bool:
        """Whether the current work is over."""

    def end(self) -> None:
        """End the work. Raises: the error of the work."""

    def now_ns(self) -> int:
        """The current instant, for the work."""

    def release(self) -> None:
        """Take no more work; current work runs to its end."""
