"""Bystanders: what the host and the processes outside of a run take of the processors meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from flinknet.results import Taken

from .clock import monotonic_ns

TOLD = 3
"""So many processes are told by name."""

_SHARE_MIN = 0.001


@dataclass(frozen=True, slots=True)
class _Thread:
    pid: int
    name: str
    used_ns: int
    slices: int


class Bystanders:
    """Looks once when it is made and once when it is asked; nothing is counted meanwhile.

    A look at a hundred threads takes some 5 ms and is not for the measured part. Threads that end
    before the second look are not seen. The host's share is counted in steps of 10 ms.

    Args:
        task_managers: that stay on cores of their own (see `host.stay_on_core`), if there are so
            many.
    """

    def __init__(self, task_managers: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._cores_usable = len(cores)
        self._cores = cores[:task_managers] if len(cores) >= task_managers else cores
        self._since_ns = monotonic_ns()
        self._steal_before_s = _steal_s(self._cores)
        self._threads_before = dict(_threads())

    def taken(self) -> Taken:
        """What was taken since then."""
        elapsed_ns = max(1, monotonic_ns() - self._since_ns)
        steal_s = [
            after_s - self._steal_before_s.get(core, after_s)
            for core, after_s in _steal_s(self._cores).items()
        ]
        host_share = max(steal_s) * 1e9 / elapsed_ns if steal_s else None
        ran = [each for each in self._ran() if each.slices]
        if not ran:
            return Taken(host_share, cores=self._cores_usable)
        used_ns: dict[str, int] = {}
        for each in ran:
            if each.pid != os.getpid():
                used_ns[each.name] = used_ns.get(each.name, 0) + each.used_ns
        longest = sorted(used_ns.items(), key=lambda each: (-each[1], each[0]))[:TOLD]
        total_ns = max(1, sum(each.used_ns for each in ran))
        return Taken(
            host_share,
            {
                name: round(own_ns / elapsed_ns, 4)
                for name, own_ns in longest
                if own_ns >= _SHARE_MIN * elapsed_ns
            },
            total_ns / elapsed_ns,
            sum(each.used_ns * (each.used_ns / each.slices) for each in ran) / total_ns,
            self._cores_usable,
        )

    def _ran(self) -> Iterator[_Thread]:
        """What each thread did since then, the TaskManagers' not."""
        task_managers = {each.pid for each in psutil.Process().children(recursive=True)}
        for number, after in _threads():
            before = self._threads_before.get(number)
            if after.pid in task_managers:
                continue
            if before is None or before.used_ns > after.used_ns:  # a new one of that number
                yield after
            else:
                used_ns, slices = after.used_ns - before.used_ns, after.slices - before.slices
                yield _Thread(after.pid, after.name, used_ns, slices)


def _steal_s(cores: Sequence[int]) -> Mapping[int, float]:
    """What the host took so far of each of these cores, where the system tells it."""
    try:
        of_cores = psutil.cpu_times(percpu=True)
    except OSError:
        return {}
    return {
        core: times.steal
        for core, times in enumerate(of_cores)
        if core in cores and hasattr(times, "steal")
    }


def _threads(proc: Path = Path("/proc")) -> Iterator[tuple[int, _Thread]]:
    """Each thread by its number, with the name of its process, what it has used so far, and in how
    many slices; none where the kernel does not tell (CONFIG_SCHED_INFO)."""
    with suppress(OSError):
        for pid in [each for each in os.listdir(proc) if each.isdigit()]:
            with suppress(OSError, ValueError):  # it has ended, or is not ours to look at
                name = (proc / pid / "comm").read_text(errors="replace").strip()
                if name.startswith("kworker/"):  # they are named anew by what they work at
                    name = name.partition("-")[0]
                for number in os.listdir(proc / pid / "task"):
                    found = (proc / pid / "task" / number / "schedstat").read_text().split()
                    yield int(number), _Thread(int(pid), name, int(found[0]), int(found[2]))
