# mypyc
"""RequestBackoff: when to repeat a request for a partition that its producer does not have."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.units import NS_PER_MS


@dataclass(frozen=True, slots=True)
class RequestBackoffPolicy:
    """Settings of repeated requests.

    Attributes:
        initial_ns: taskmanager.network.request-backoff.initial; 0 for no repetition.
        max_ns: taskmanager.network.request-backoff.max.
        listener_timeout_ns: how long producers let an early request wait before they refuse it; 0
            if they refuse at once.
    """

    initial_ns: int = 100 * NS_PER_MS
    max_ns: int = 10_000 * NS_PER_MS
    listener_timeout_ns: int = 10_000 * NS_PER_MS


class RequestBackoff:
    """Backoff of one channel (Flink: InputChannel and RemoteInputChannel.increaseBackoff).

    If producers let requests wait, a refused request is repeated at once, as long as the waits add
    up to less than twice the maximum; by default that is once. If they refuse at once, as before
    Flink 1.19, it is repeated after the initial delay, then after twice that, and so on up to the
    maximum. Differs from Flink 2.x, where a timeout of 0 lets requests wait forever: here it
    selects the older behaviour.
    """

    def __init__(self, policy: RequestBackoffPolicy) -> None:
        self._policy = policy
        self._current_ns = 0

    def next_delay_ns(self) -> int | None:
        """Delay before the next repetition; None if there is none."""
        policy = self._policy
        if policy.listener_timeout_ns > 0:
            self._current_ns += policy.listener_timeout_ns
            return 0 if self._current_ns < 2 * policy.max_ns else None
        if policy.initial_ns <= 0 or self._current_ns >= policy.max_ns:
            return None
        doubled_ns = 2 * self._current_ns or policy.initial_ns
        self._current_ns = min(doubled_ns, policy.max_ns)
        return self._current_ns
