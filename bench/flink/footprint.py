"""What processes take, seen from outside: processor time and resident memory, in small steps.

The same eyes look at Flink and at flinknet, so that both are charged alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import psutil

STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class Sample:
    """Of some processes at one instant.

    Args:
        at_ns: of CLOCK_MONOTONIC.
        cpu_s: user and system time that the working processes have taken since they began.
        workers: how many of them there are.
        rss_bytes: resident memory of all processes together; what they share counts in each.
    """

    at_ns: int
    cpu_s: float
    workers: int
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class Processes:
    """Process ids: `workers` run tasks, `others` belong to it."""

    workers: Sequence[int]
    others: Sequence[int] = ()


@dataclass(slots=True)
class Footprint:
    """Samples processes in a thread of its own, while the context lasts."""

    find: Callable[[], Processes]
    samples: list[Sample] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Footprint:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(STEP_S):
            self.samples.append(sample(self.find()))


def sample(processes: Processes) -> Sample:
    """One look; a process that has ended takes nothing."""
    cpu_s, rss_bytes, workers = 0.0, 0, 0
    for pid in (*processes.workers, *processes.others):
        try:
            process = psutil.Process(pid)
            rss_bytes += process.memory_info().rss
            if pid in processes.workers:
                times = process.cpu_times()
                cpu_s += times.user + times.system
                workers += 1
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return Sample(time.monotonic_ns(), cpu_s, workers, rss_bytes)


@dataclass(slots=True)
class BenchProcesses:
    """Those of a `flinknet bench`: the workers are the TaskManagers it spawns.

    Looking through all processes of the machine costs milliseconds that would be missing in the
    measurement, so it ends when all workers are there.
    """

    pid: int
    workers: int
    found: Processes = Processes(())

    def __call__(self) -> Processes:
        """The processes that have been seen."""
        if len(self.found.workers) < self.workers:
            self.found = self._look()
        return self.found

    def _look(self) -> Processes:
        workers: list[int] = []
        others = [self.pid]
        try:
            for child in psutil.Process(self.pid).children(recursive=True):
                is_worker = "spawn_main" in " ".join(child.cmdline())
                (workers if is_worker else others).append(child.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return self.found
        return Processes(workers, others)


def cores(samples: Iterable[Sample], from_ns: int, to_ns: int) -> float | None:
    """Processor time per time in a window, in cores; None if too little of it was seen."""
    seen = [each for each in samples if from_ns <= each.at_ns <= to_ns]
    if len(seen) < 2:
        return None
    return (seen[-1].cpu_s - seen[0].cpu_s) / (seen[-1].at_ns - seen[0].at_ns) * 1e9


def end_of_work_ns(samples: Sequence[Sample]) -> int | None:
    """The last instant at which all workers were there: a run's end seen from outside."""
    most = max((each.workers for each in samples), default=0)
    return max((each.at_ns for each in samples if each.workers == most > 0), default=None)


def rss_bytes_max(samples: Iterable[Sample]) -> int:
    """The most memory at any instant."""
    return max((each.rss_bytes for each in samples), default=0)
