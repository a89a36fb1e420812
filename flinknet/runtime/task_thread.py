"""TaskThread: the thread that calls the functions of one task of a program (Flink: the thread of a
Task).

The loop gives it a piece of work and, if work has been short so far, waits briefly for its end:
that costs less than continuing and being woken. A slow function blocks no other task.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

from flinknet.errors import TaskFailedError

from .clock import monotonic_ns
from .event_loop import EventLoop

PATIENCE_S = 0.001
"""How long the loop waits for work to end, if the previous piece ended within this time."""

RETRY_AFTER = 16
"""Pieces of work that the loop does not wait for after one that exceeded PATIENCE_S."""

SWITCH_INTERVAL_S = 0.0005
"""How long a computing function keeps the interpreter from the loop, which needs it back after each
system call. Next to such a function the loop moves 0.3 of the records that it moves alone with
Python's 5 ms, and 0.45 with this; next to one that sleeps 0.9 and more."""


class TaskThread:
    """Implements TaskWorker; only the loop calls its methods."""

    def __init__(self, loop: EventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done = (
            threading.Lock()
        )  # released by the thread at the end of work, acquired by the loop
        self._done.acquire()
        self.is_over = True
        self._wakes_loop = False
        self._error: BaseException | None = None
        self._impatience = 0
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        loop.make_wakeable()
        # a daemon: a function that does not return must not keep the process from ending
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def begin(self, work: Callable[[], None]) -> bool:
        self.is_over = self._wakes_loop = False
        self._work.put(work)
        if self._impatience:
            self._impatience -= 1
        elif self._done.acquire(timeout=PATIENCE_S):
            return True
        else:
            self._impatience = RETRY_AFTER
        self._wakes_loop = True
        self._loop.working_threads += 1
        if self.is_over:  # the thread may have ended before it saw `_wakes_loop`
            self._loop.wake()
        return False

    def end(self) -> None:
        if self._wakes_loop:
            self._wakes_loop = False
            self._loop.working_threads -= 1
            self._done.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def now_ns(self) -> int:
        return monotonic_ns()

    def release(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except (Exception, SystemExit) as error:  # `end` raises it
                self._error = error
            except BaseException as error:  # it would end a process; here it ends the task
                self._error = TaskFailedError(f"{self._name}: a function raised {error!r}")
                self._error.__cause__ = error
            del work
            self.is_over = True
            self._done.release()
            if self._wakes_loop:
                self._loop.wake()
