# mypyc
"""TaskWorker: where a task's calls into functions of its program run, if not in the task's step."""

from __future__ import annotations

from collections.abc import Callable


class TaskWorker:
    """Does one piece of work at a time for a task, beside whoever steps it (Flink: the thread of a
    Task). While it does, the task touches nothing that the work touches, and the work nothing of
    the network.

    A base class and not a protocol, so that a compiled task calls it directly.
    """

    def begin(self, work: Callable[[], None]) -> bool:
        """Begin a piece of work. Returns: whether it is over already; if not, the driver is to step
        the task when it is.
        """
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether the work that was begun is over."""
        raise NotImplementedError

    def end(self) -> None:
        """The work is over and was noticed. Raises: what it raised."""
        raise NotImplementedError

    def now_ns(self) -> int:
        """The instant, for the work."""
        raise NotImplementedError

    def release(self) -> None:
        """Nothing more will be begun; what is begun goes on to its end."""
