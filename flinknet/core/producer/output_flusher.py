# mypyc
"""OutputFlusher: the timer of the buffer timeout.

In Flink, the thread "OutputFlusher for <task>" sleeps for the timeout, flushes all channels of its
task, and sleeps again. There is one free-running timer per task, not one per buffer, and records do
not restart it. Its real period is the timeout plus the time of a round: the thread wakes up a
little late, waits for a CPU, and flushes.
"""

from __future__ import annotations

FLUSH_OVERHEAD_NS = 100_000
"""Time of a round of Flink's flusher on an idle machine, from the end of its sleep to the start of
the next."""


class OutputFlusher:
    """Computes when the next flush is due; the owner flushes. Timeouts of 0 and -1 have no timer.

    Args:
        start_ns: when the first sleep begins.
        overhead_ns: shortest time of a round. The owner may be later than that, but not earlier:
            otherwise an idle event loop would flush more often than a thread.
    """

    __slots__ = ("_next_ns", "_overhead_ns", "timeout_ns")

    def __init__(
        self, timeout_ns: int, *, start_ns: int, overhead_ns: int = FLUSH_OVERHEAD_NS
    ) -> None:
        self.timeout_ns = timeout_ns
        self._overhead_ns = overhead_ns
        self._next_ns = start_ns + timeout_ns if timeout_ns > 0 else None

    def next_deadline_ns(self) -> int | None:
        """Instant of the next flush; None if there is none."""
        return self._next_ns

    def is_due(self, *, now_ns: int) -> bool:
        """Whether a flush is due now; if so, the next one is due a timeout after the end of this
        round.
        """
        if self._next_ns is None or now_ns < self._next_ns:
            return False
        self._next_ns = max(now_ns, self._next_ns + self._overhead_ns) + self.timeout_ns
        return True

    def stop(self) -> None:
        """Stop the timer."""
        self._next_ns = None
