"""OtherProcesses: the CPU time that the host and processes outside of a run used; Standstill: the
time in which this process neither ran nor waited for a CPU.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from flinknet.results import Taken

from .clock import monotonic_ns, process_time_ns

NAMED_MAX = 3
"""The most processes listed by name."""

_SHARE_MIN = 0.001


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """The process of a thread, its CPU time so far, and the number of its time slices."""

    pid: int
    name: str
    used_ns: int
    slices: int


@dataclass(frozen=True, slots=True)
class ProcessorReading:
    """A reading of the CPU use so far.

    Attributes:
        cores: cores that this process may use.
        steal_s: time that the host took from each core; empty if the system does not report it.
        threads: by id; empty if the kernel does not report them (CONFIG_SCHED_INFO).
        launcher, task_managers: pids of this process and of those that it started.
    """

    at_ns: int
    cores: tuple[int, ...]
    steal_s: Mapping[int, float]
    threads: Mapping[int, ThreadUse]
    launcher: int
    task_managers: frozenset[int]


class OtherProcesses:
    """Reads the CPU use once when created and once for `taken`. TaskManagers are pinned to their
    own cores if there are enough (see `host.stay_on_core`).

    Reading a hundred threads takes about 5 ms, so it must not fall into the measured part. Threads
    that end before the second reading are missed. The host's share is counted in steps of 10 ms.
    """

    def __init__(
        self, task_managers: int, read: Callable[[], ProcessorReading] | None = None
    ) -> None:
        self._read = read or read_processors
        self._before = before = self._read()
        own_cores = len(before.cores) >= task_managers
        self._cores = before.cores[:task_managers] if own_cores else before.cores

    def taken(self) -> Taken:
        """The CPU time taken by others since this object was created."""
        before, after = self._before, self._read()
        elapsed_ns = max(1, after.at_ns - before.at_ns)
        steal_s = [
            after_s - before.steal_s.get(core, after_s)
            for core, after_s in after.steal_s.items()
            if core in self._cores
        ]
        host_share = max(steal_s) * 1e9 / elapsed_ns if steal_s else None
        ran = [each for each in _used_between(before, after) if each.slices]
        if not ran:
            return Taken(host_share, cores=len(before.cores))
        used_ns: Counter[str] = Counter()
        for each in ran:
            if each.pid != after.launcher:
                used_ns[each.name] += each.used_ns
        longest = sorted(used_ns.items(), key=lambda each: (-each[1], each[0]))[:NAMED_MAX]
        shares = {name: own_ns / elapsed_ns for name, own_ns in longest}
        total_ns = max(1, sum(each.used_ns for each in ran))
        return Taken(
            host_share,
            {name: round(share, 4) for name, share in shares.items() if share >= _SHARE_MIN},
            total_ns / elapsed_ns,
            sum(each.used_ns * (each.used_ns / each.slices) for each in ran) / total_ns,
            len(before.cores),
        )


def _used_between(before: ProcessorReading, after: ProcessorReading) -> Iterator[ThreadUse]:
    """The use of each thread between two readings, without those of TaskManagers."""
    for number, thread in after.threads.items():
        earlier = before.threads.get(number)
        if thread.pid in after.task_managers:
            continue
        if earlier is None or earlier.used_ns > thread.used_ns:  # a new thread with a reused id
            yield thread
        else:
            used_ns, slices = thread.used_ns - earlier.used_ns, thread.slices - earlier.slices
            yield ThreadUse(thread.pid, thread.name, used_ns, slices)


def read_processors() -> ProcessorReading:
    """Read the CPU use of this machine so far."""
    at_ns, of_cores = monotonic_ns(), []
    with suppress(OSError):
        of_cores = psutil.cpu_times(percpu=True)
    return ProcessorReading(
        at_ns,
        tuple(sorted(os.sched_getaffinity(0))),
        {core: times.steal for core, times in enumerate(of_cores) if hasattr(times, "steal")},
        dict(threads_in(Path("/proc"))),
        os.getpid(),
        frozenset(each.pid for each in psutil.Process().children(recursive=True)),
    )


def threads_in(proc: Path) -> Iterator[tuple[int, ThreadUse]]:
    """Each thread by its id, without those that are unreadable or have just ended."""
    with suppress(OSError):
        for pid in [each for each in os.listdir(proc) if each.isdigit()]:
            with suppress(OSError, ValueError):
                name = (proc / pid / "comm").read_text(errors="replace").strip()
                if name.startswith("kworker/"):  # the rest of the name is the current work
                    name = name.partition("-")[0]
                for number in os.listdir(proc / pid / "task"):
                    used = (proc / pid / "task" / number / "schedstat").read_text().split()
                    yield int(number), ThreadUse(int(pid), name, int(used[0]), int(used[2]))


STANDSTILL_NS = 500_000_000
"""Shorter gaps are waits for a disk, or for a page of memory."""

_SCHEDSTAT = Path("/proc/self/schedstat")


class ProcessTimes(NamedTuple):
    """The clock, the CPU time of this process, and the time that its main thread was ready to run
    and had no CPU, in ns; the latter is None if the system does not report it.
    """

    clock_ns: int
    cpu_ns: int
    queued_ns: int | None


class Standstill:
    """Adds up gaps between looks that neither CPU time nor waiting for a CPU explains: the process
    was stopped (SIGSTOP, Ctrl-Z), frozen, or asleep with the whole machine.

    Attributes:
        stood_ns: sum of the gaps.
        queued_ns: time since the start in which the process waited for a CPU; None if unknown.
    """

    def __init__(self, read: Callable[[], ProcessTimes] | None = None) -> None:
        self._read = read or read_times
        self._begun = self._last = self._read()
        self.stood_ns = 0
        self.queued_ns: int | None = None

    def look(self, *, within_ns: int) -> None:
        """Note whether the process stood still since the last look, due after `within_ns`."""
        before, now = self._last, self._read()
        self._last = now
        if now.queued_ns is None or before.queued_ns is None or self._begun.queued_ns is None:
            return
        self.queued_ns = now.queued_ns - self._begun.queued_ns
        explained_ns = now.cpu_ns - before.cpu_ns + now.queued_ns - before.queued_ns + within_ns
        gap_ns = now.clock_ns - before.clock_ns - explained_ns
        if gap_ns > STANDSTILL_NS:
            self.stood_ns += gap_ns


def read_times() -> ProcessTimes:
    try:
        queued_ns = int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return ProcessTimes(monotonic_ns(), process_time_ns(), None)
    return ProcessTimes(monotonic_ns(), process_time_ns(), queued_ns)
