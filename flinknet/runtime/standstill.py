"""Standstill: the time in which this process neither ran nor waited for a CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .clock import monotonic_ns, process_time_ns

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
        """Note whether the process stood still since the last look.

        Args:
            within_ns: time after which this look was due.
        """
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
    """Read the times of this process."""
    try:
        queued_ns = int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return ProcessTimes(monotonic_ns(), process_time_ns(), None)
    return ProcessTimes(monotonic_ns(), process_time_ns(), queued_ns)
