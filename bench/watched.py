"""What the processes of a benchmark of Spark take while they work: time, processor time, memory."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_SAMPLE_S = 0.2
PROGRESS_S = 10.0
_KINDS = {"driver": "driver", "java": "JVM", "python": "largest worker"}


@dataclass
class Part:
    """What one part of the work took."""

    wall_s: float
    cpu_s: float  # of the driver, the JVM and the Python workers
    driver_mb: float  # most resident memory, in MiB
    jvm_mb: float
    worker_mb: float  # of the largest Python worker


class Watch:
    """Looks at the processes of this run while they work, and says how far they are.

    Args:
        tasks: says how many tasks of Spark are done, and how many there are; None if that is not
            known.
    """

    def __init__(self, tasks: Callable[[], tuple[int, int]] | None = None) -> None:
        self._tasks = tasks
        self._most = dict.fromkeys(_KINDS, 0.0)
        self._cpu: dict[int, float] = {}
        self._what = ""
        self._looking_s = 0.0  # of processor time, which is not of the work
        self._started_s = self._said_s = time.perf_counter()
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def measure(self, what: str, work: Callable[[], Any]) -> tuple[Part, Any]:
        """Do some work. Returns: what it took, and what it gave."""
        self._most = dict.fromkeys(_KINDS, 0.0)
        for process in _processes():
            _forget_peak(process.pid)
        self._sample()
        before_s = sum(self._cpu.values()) - self._looking_s
        self._started_s = self._said_s = started_s = time.perf_counter()
        self._what = what
        result = work()
        self._what = ""
        wall_s = time.perf_counter() - started_s
        self._sample()
        cpu_s = sum(self._cpu.values()) - self._looking_s - before_s
        part = Part(wall_s, cpu_s, *(self._most[name] for name in _KINDS))
        say(f"{what}: {wall_s:.1f} s, {cpu_s:.1f} s of processor time, {self._memory()}")
        return part, result

    def close(self) -> None:
        """Stop looking."""
        self._stops.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stops.wait(_SAMPLE_S):
            self._sample()
            self._looking_s = time.thread_time()
            now_s = time.perf_counter()
            if self._what and now_s - self._said_s >= PROGRESS_S:
                self._said_s = now_s
                how_far = f"{now_s - self._started_s:.0f} s"
                if self._tasks is not None:
                    done, tasks = self._tasks()
                    how_far += f", {done} of {tasks} tasks"
                say(f"{self._what}: {how_far}, {self._memory()}")

    def _memory(self) -> str:
        return ", ".join(f"{_KINDS[kind]} {size:,.0f} MiB" for kind, size in self._most.items())

    def _sample(self) -> None:
        own = os.getpid()
        for process in _processes():
            try:
                times, size = process.cpu_times(), _peak_bytes(process) / (1 << 20)
                is_driver = process.pid == own or process.name() == "flinknet"
                kind = "driver" if is_driver else process.name()
            except psutil.Error:
                continue
            kind = "python" if kind.startswith("python") else kind
            self._cpu[process.pid] = times.user + times.system
            if kind in _KINDS:
                self._most[kind] = max(self._most[kind], size)


def _processes() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def _peak_bytes(process: psutil.Process) -> int:
    """The most memory that a process has had resident, or has, where Linux does not say."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    resident: int = process.memory_info().rss
    return resident


def _forget_peak(pid: int) -> None:
    """The peak of a process begins anew."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def tasks_of(spark: Any) -> tuple[int, int]:
    """How many tasks of the stages that run are done, and how many there are."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    found = [each for each in stages if each is not None]
    return sum(e.numCompletedTasks for e in found), sum(e.numTasks for e in found)


def say(text: str) -> None:
    """How far it is, on stderr."""
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)
