"""The one place that reads clocks.

A TaskManager on a worker reads the clock of its host as the JobManager's: `adjust` sets the line
that leads from one to the other. The environment variable FLINKNET_CLOCK makes the clock of a
process wrong by an offset in ns and a drift in parts per million ("3000000000,50"), for tests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

VARIABLE = "FLINKNET_CLOCK"
"""Environment variable with a clock's error; "0,0" makes a clock that can be adjusted."""

UNCHANGED = "0,0"


class _HostClock:
    """A clock with an error and a correction. Its readings never decrease."""

    def __init__(self, text: str) -> None:
        offset, _, drift = text.partition(",")
        try:
            self._error_ns, self._error_ppb = int(offset), round(float(drift or 0) * 1000)
        except ValueError:
            problem = f"{VARIABLE}={text}: write an offset in ns and a drift in ppm"
            raise SystemExit(problem) from None
        self._at_ns = self._offset_ns = self._last_ns = 0
        self._drift = 0.0

    def uncorrected_ns(self) -> int:
        """The instant as the host's clock shows it."""
        now_ns = time.monotonic_ns()
        return now_ns + self._error_ns + now_ns * self._error_ppb // 1_000_000_000

    def adjust(self, at_ns: int, offset_ns: int, drift: float) -> None:
        """Correct readings from now on."""
        self._at_ns, self._offset_ns, self._drift = at_ns, offset_ns, drift

    def read_ns(self) -> int:
        """The corrected instant."""
        raw_ns = self.uncorrected_ns()
        now_ns = raw_ns - self._offset_ns - round((raw_ns - self._at_ns) * self._drift)
        if now_ns < self._last_ns:
            return self._last_ns
        self._last_ns = now_ns
        return now_ns


_host_clock = _HostClock(os.environ[VARIABLE]) if VARIABLE in os.environ else None

monotonic_ns: Callable[[], int] = time.monotonic_ns if _host_clock is None else _host_clock.read_ns
"""Instant in ns of CLOCK_MONOTONIC, shared by all processes of a host."""

process_time_ns = time.process_time_ns
"""CPU time that this process has used, in ns."""

sleep = time.sleep


def adjust(at_ns: int, offset_ns: int, drift: float) -> None:
    """Read the clock of this host as the JobManager's; see `cluster.host_clock.ClockLine`. Without
    effect if the process was not started with FLINKNET_CLOCK.
    """
    if _host_clock is not None:
        _host_clock.adjust(at_ns, offset_ns, drift)


def clock_name() -> str:
    """The error of this clock; empty for the host's own."""
    text = os.environ.get(VARIABLE, "")
    return "" if text == UNCHANGED else text


def timestamp_epoch_ns() -> int:
    """The instant of CLOCK_MONOTONIC at which the time of day was 0 (1970)."""
    return monotonic_ns() - time.time_ns()


def wall_clock_iso() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
