"""Functions of programs that take virtual time, as they take real time in the thread of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from flinknet.graph import StreamGraph
from flinknet.job import StreamTask
from flinknet.job.task_chain import RECALL_NS, TaskChain, TaskWorker
from flinknet.simulator.task_manager import SimulatedTaskManager
from tests.simulated_job import WatchedJob


class VirtualWorker:
    """Does its work at once; it is over when as much time has passed as functions `spend`."""

    at_work: ClassVar[VirtualWorker | None] = None

    def __init__(self, task_manager: SimulatedTaskManager) -> None:
        self.chain: TaskChain | None = None
        self.is_released = False
        self._task_manager = task_manager
        self._scheduler = task_manager._scheduler
        self._began_ns = self._spent_ns = 0
        self._error: BaseException | None = None

    def begin(self, work: Callable[[], None]) -> bool:
        assert not self.is_released
        self._began_ns, self._spent_ns = self._scheduler.now_ns, 0
        VirtualWorker.at_work = self
        try:
            work()
        except Exception as error:
            self._error = error
        VirtualWorker.at_work = None
        until_ns = self._began_ns + self._spent_ns
        self._scheduler.at(until_ns, lambda: self._task_manager.wake(until_ns))
        return not self._spent_ns

    def spend(self, ns: int) -> None:
        """What is done now takes so long; the task asks for its records as it does in time."""
        self._spent_ns += ns
        if self.chain is not None and self._spent_ns >= RECALL_NS:
            self.chain.is_recalled = True

    @property
    def is_over(self) -> bool:
        return self._scheduler.now_ns >= self._began_ns + self._spent_ns

    def end(self) -> None:
        assert self.is_over
        error, self._error = self._error, None
        if error is not None:
            raise error

    def now_ns(self) -> int:
        return self._began_ns + self._spent_ns

    def release(self) -> None:
        self.is_released = True


def spend(ns: int) -> None:
    """To be called by functions of a program."""
    assert VirtualWorker.at_work is not None
    VirtualWorker.at_work.spend(ns)


class WorkedJob(WatchedJob):
    """A watched job whose functions take the time that they spend."""

    def __init__(self, graph: StreamGraph, **options: Any) -> None:
        self.workers: dict[str, VirtualWorker] = {}
        super().__init__(graph, workers=self._worker, **options)

    def _worker(self, task_manager: SimulatedTaskManager, name: str) -> TaskWorker:
        self.workers[name] = VirtualWorker(task_manager)
        return self.workers[name]

    def _watch(self, task: StreamTask) -> None:
        super()._watch(task)
        if task.name in self.workers:
            self.workers[task.name].chain = task.chain
