"""ExponentialDelay: how long a job that fails again and again waits before it begins again.
Sans-IO.
"""

from __future__ import annotations

from flinknet.units import NS_PER_S

INITIAL_NS = NS_PER_S
MAX_NS = 60 * NS_PER_S
RESET_NS = 3600 * NS_PER_S


class ExponentialDelay:
    """Grows by half with every failure, up to a minute, and begins anew after an hour without one.
    Failures while it passes share one restart.

    Mirrors ExponentialDelayRestartBackoffTimeStrategy with its defaults, but for the jitter, which
    keeps jobs of one cluster apart: here a cluster has one job.
    """

    def __init__(self) -> None:
        self._delay_ns = 0
        self._restart_at_ns: int | None = None

    def restart_at_ns(self, *, now_ns: int) -> int:
        """A task has failed now. Returns: when to begin again."""
        last_ns = self._restart_at_ns
        if last_ns is not None and now_ns <= last_ns:
            return last_ns
        if last_ns is None or now_ns - last_ns >= RESET_NS + self._delay_ns:
            self._delay_ns = INITIAL_NS
        else:
            self._delay_ns = min(self._delay_ns * 3 // 2, MAX_NS)
        self._restart_at_ns = now_ns + self._delay_ns
        return self._restart_at_ns
