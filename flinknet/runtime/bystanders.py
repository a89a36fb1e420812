"""Bystanders: what the host and the processes outside of a run take of the processors meanwhile."""

from __future__ import annotations

import os
from collections.abc import Mapping

import psutil

from .clock import monotonic_ns

TOLD = 3
"""So many processes are told by name."""

_SHARE_MIN = 0.001


class Bystanders:
    """Looks once when it is made and once when it is asked; nothing is counted meanwhile.

    A look takes some 10 ms and is not for the measured part. The system counts in steps of 10 ms.
    """

    def __init__(self) -> None:
        self._since_ns = monotonic_ns()
        self._steal_before_s = _steal_s()
        self._used_before_s = _used_s()

    def shares(self) -> tuple[float | None, dict[str, float]]:
        """What was taken since then, by this process and its children not counted.

        Returns: share of the core that the host took most of, None where it is not told; and of one
        core, for each of the processes that ran longest, longest first.
        """
        elapsed_s = max(1, monotonic_ns() - self._since_ns) / 1e9
        own = {os.getpid(), *(each.pid for each in psutil.Process().children(recursive=True))}
        used_s: dict[str, float] = {}
        for pid, (name, seconds) in _used_s().items():
            _, before_s = self._used_before_s.get(pid, (name, 0.0))
            more_s = seconds - before_s if seconds >= before_s else seconds  # a new one of that pid
            if pid not in own and more_s >= _SHARE_MIN * elapsed_s:
                used_s[name] = used_s.get(name, 0.0) + more_s
        longest = sorted(used_s.items(), key=lambda each: (-each[1], each[0]))[:TOLD]
        taken_s = [
            after_s - self._steal_before_s.get(core, after_s)
            for core, after_s in _steal_s().items()
        ]
        host_share = max(taken_s) / elapsed_s if taken_s else None
        return host_share, {name: round(seconds / elapsed_s, 4) for name, seconds in longest}


def _steal_s() -> Mapping[int, float]:
    """What the host took so far of each core that this process may use."""
    cores = os.sched_getaffinity(0)
    return {
        core: times.steal
        for core, times in enumerate(psutil.cpu_times(percpu=True))
        if core in cores and hasattr(times, "steal")
    }


def _used_s() -> Mapping[int, tuple[str, float]]:
    """Name of each process, and what it has used so far, by pid. Kernel threads change names."""
    used = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None:
            name = process.info["name"] or str(process.pid)
            used[process.pid] = (name.partition("-")[0], times.user + times.system)
    return used
