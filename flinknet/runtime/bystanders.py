"""Bystanders: what the host and the processes outside of a run take of the processors meanwhile."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import psutil

from .clock import monotonic_ns

TOLD = 3
"""So many processes are told by name."""

_SHARE_MIN = 0.001


class Bystanders:
    """Looks once when it is made and once when it is asked; nothing is counted meanwhile.

    A look at a hundred processes takes some 10 ms and is not for the measured part. The system
    counts in steps of 10 ms. Where it cannot be looked at, nothing is told.

    Args:
        task_managers: that stay on cores of their own (see `host.stay_on_core`), if there are so
            many.
    """

    def __init__(self, task_managers: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._cores = cores[:task_managers] if len(cores) >= task_managers else cores
        self._since_ns = monotonic_ns()
        self._before = self._look()

    def shares(self) -> tuple[float | None, dict[str, float]]:
        """What was taken since then, by this process and its children not counted.

        Returns: share of the core that the host took most of, None where it is not told; and of one
        core, for each of the processes that ran longest, longest first.
        """
        after = self._look()
        if self._before is None or after is None:
            return None, {}
        (steal_before_s, used_before_s), (steal_s, used_after_s) = self._before, after
        elapsed_s = max(1, monotonic_ns() - self._since_ns) / 1e9
        own = {os.getpid(), *(each.pid for each in psutil.Process().children(recursive=True))}
        used_s: dict[str, float] = {}
        for pid, (name, seconds) in used_after_s.items():
            _, before_s = used_before_s.get(pid, (name, 0.0))
            more_s = seconds - before_s if seconds >= before_s else seconds  # a new one of that pid
            if pid not in own and more_s >= _SHARE_MIN * elapsed_s:
                used_s[name] = used_s.get(name, 0.0) + more_s
        longest = sorted(used_s.items(), key=lambda each: (-each[1], each[0]))[:TOLD]
        taken_s = [after_s - steal_before_s[core] for core, after_s in steal_s.items()]
        host_share = max(taken_s) / elapsed_s if taken_s else None
        return host_share, {name: round(seconds / elapsed_s, 4) for name, seconds in longest}

    def _look(self) -> tuple[Mapping[int, float], Mapping[int, tuple[str, float]]] | None:
        try:
            return _steal_s(self._cores), _used_s()
        except (OSError, psutil.Error):
            return None


def _steal_s(cores: Sequence[int]) -> Mapping[int, float]:
    """What the host took so far of each of these cores, where the system tells it."""
    return {
        core: times.steal
        for core, times in enumerate(psutil.cpu_times(percpu=True))
        if core in cores and hasattr(times, "steal")
    }


def _used_s() -> Mapping[int, tuple[str, float]]:
    """Name of each process, and what it has used so far, by pid."""
    used = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times, name = process.info["cpu_times"], process.info["name"] or str(process.pid)
        if times is not None:
            if name.startswith("kworker/"):  # they are named anew by what they work at
                name = name.partition("-")[0]
            used[process.pid] = (name, times.user + times.system)
    return used
