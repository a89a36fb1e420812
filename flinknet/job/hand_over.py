# mypyc
"""HandOver: lends the operators of a task to a TaskWorker, such as a thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from .context import ProcessingContext
from .task_chain import TaskChain
from .times import TaskTimes


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


RECALL_NS = 5_000_000
"""A worker that has been working for this long is asked to return early; with a slow function that
is after each record."""


class HandOver:
    """Lends the operators to the worker and takes them back.

    Args:
        worker: None to do all work at once, in the steps of the task.

    Attributes:
        is_under_way: whether the worker has the operators; the task must not touch them or their
            pending output.
        recall_ns: when to ask for them back; None if already asked, or not lent.
    """

    def __init__(
        self,
        worker: TaskWorker | None,
        chain: TaskChain,
        context: ProcessingContext,
        times: TaskTimes,
    ) -> None:
        self.is_under_way = False
        self.recall_ns: int | None = None
        self._worker = worker
        self._chain = chain
        self._context = context
        self._times = times
        if worker is not None:
            context.clock = worker.now_ns

    @property
    def has_worker(self) -> bool:
        return self._worker is not None

    def begin(self, work: Callable[[], None], now_ns: int) -> bool:
        """Run work that may call functions of the program. Returns: whether it is done; if not, a
        later step takes it back.
        """
        worker = self._worker
        if worker is None:
            work()
            return True
        self._context.work_ns = 0
        if worker.begin(work):
            worker.end()
            return True
        self.is_under_way = True
        self.recall_ns = now_ns + RECALL_NS
        if not self._times.is_busy:
            self._times.resume(now_ns=now_ns)
        return False

    def take_back(self, now_ns: int) -> bool:
        """Take the operators back if the worker is done. Returns: whether it is. Raises: the error
        of the work.
        """
        worker = self._worker
        assert worker is not None
        if not worker.is_over:
            if self.recall_ns is not None and now_ns >= self.recall_ns:
                self.recall_ns = None
                self._chain.is_recalled = True
            return False
        self.is_under_way = False
        self._chain.is_recalled = False
        worker.end()
        return True

    def cancel(self) -> bool:
        """Cancel the task. Returns: whether the operators are back; a running function runs to its
        end.
        """
        worker = self._worker
        if self.is_under_way and worker is not None:
            self._chain.is_recalled = True
            if not worker.is_over:
                return False
            self.is_under_way = False
            with suppress(Exception, SystemExit):  # the task already has a reason to end
                worker.end()
        return True

    def release(self) -> None:
        """Release the worker: nothing more will be lent."""
        if self._worker is not None:
            self._worker.release()
