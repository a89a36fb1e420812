"""RestartStrategy: how often a failed job restarts, and after which delay. Sans-IO."""

from __future__ import annotations

from flinknet.graph.job_config import EXPONENTIAL_DELAY, FIXED_DELAY, NONE, JobConfig
from flinknet.units import NS_PER_S

INITIAL_NS = NS_PER_S
MAX_NS = 60 * NS_PER_S
RESET_NS = 3600 * NS_PER_S


class ExponentialDelay:
    """A delay that grows by half with every failure, up to a minute, and starts over after an hour
    without one. Failures during the delay share one restart.

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


class RestartStrategy:
    """The restart strategy that a job configures (see JobConfig.restart_strategy)."""

    def __init__(self, config: JobConfig) -> None:
        self._delay_ns = config.restart_delay_ns
        strategy = config.restart_strategy
        if strategy is None:
            strategy = NONE if config.checkpoint_interval_ns is None else EXPONENTIAL_DELAY
        self._growing = ExponentialDelay() if strategy == EXPONENTIAL_DELAY else None
        self._restarts_max: int | None = 0
        if strategy == FIXED_DELAY:
            self._restarts_max = config.restart_attempts
        elif strategy == EXPONENTIAL_DELAY:
            self._restarts_max = None

    def may_restart(self, restarts: int) -> bool:
        """Whether a job may restart once more after this many restarts."""
        return self._restarts_max is None or restarts < self._restarts_max

    def restart_at_ns(self, *, now_ns: int) -> int:
        """A task has failed now. Returns: when to begin again."""
        if self._growing is not None:
            return self._growing.restart_at_ns(now_ns=now_ns)
        return now_ns + self._delay_ns
