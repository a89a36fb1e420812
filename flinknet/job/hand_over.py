# mypyc
"""HandOver: the operators of a task, while a worker has them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from .context import ProcessingContext
from .task_chain import TaskChain
from .task_worker import TaskWorker
from .times import TaskTimes

HAND_BACK_NS = 5_000_000
"""A worker that has had its records for so long is asked for what it has put out: where a function
takes its time, that is after each record."""


class HandOver:
    """From the task to its worker and back.

    Args:
        worker: None where all work is done at once, in the steps of the task.

    Attributes:
        is_under_way: the worker has the operators: they and what they put out are to be left alone.
        ask_back_ns: when it is to be asked for them; None if it was, or there is no need.
    """

    def __init__(
        self,
        worker: TaskWorker | None,
        chain: TaskChain,
        context: ProcessingContext,
        times: TaskTimes,
    ) -> None:
        self.is_under_way = False
        self.ask_back_ns: int | None = None
        self._worker = worker
        self._chain = chain
        self._context = context
        self._times = times
        if worker is not None:
            context.clock = worker.now_ns

    @property
    def has_worker(self) -> bool:
        """Whether functions of the program are called elsewhere."""
        return self._worker is not None

    def begin(self, work: Callable[[], None], now_ns: int) -> bool:
        """Let the worker do what functions of the program may have a part in. Returns: whether that
        is over; if not, it is taken back in a later step.
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
        self.ask_back_ns = now_ns + HAND_BACK_NS
        if not self._times.is_busy:
            self._times.go_on(now_ns=now_ns)
        return False

    def take_back(self, now_ns: int) -> bool:
        """Take what the worker has, if it is done. Returns: whether it was. Raises: what the work
        raised.
        """
        worker = self._worker
        assert worker is not None
        if not worker.is_over:
            if self.ask_back_ns is not None and now_ns >= self.ask_back_ns:
                self.ask_back_ns = None
                self._chain.is_asked_back = True
            return False
        self.is_under_way = False
        self._chain.is_asked_back = False
        worker.end()
        return True

    def cancel(self) -> bool:
        """The task ends early. Returns: whether the operators are back; a function that is in work
        goes on to its end.
        """
        worker = self._worker
        if self.is_under_way and worker is not None:
            self._chain.is_asked_back = True
            if not worker.is_over:
                return False
            self.is_under_way = False
            with suppress(Exception, SystemExit):  # what counts is why the task ends
                worker.end()
        return True

    def release(self) -> None:
        """Nothing more will be handed over."""
        if self._worker is not None:
            self._worker.release()
