# mypyc
"""OutputFlusher: the beat of the buffer timeout.

Flink: the thread "OutputFlusher for <task>" sleeps the timeout, flushes all channels of its task,
and sleeps again. It is one free-running beat for the task, not a timer for each buffer, and records
do not restart it. Its real period is the timeout plus what a round takes: the thread wakes up a
little late, waits for a processor, and flushes.
"""

from __future__ import annotations

FLUSH_OVERHEAD_NS = 100_000
"""What a round of Flink's flusher takes on a machine that is not busy, from the end of its sleep to
the start of the next."""


class OutputFlusher:
    """Says when the next beat is due; the owner flushes. Timeouts of 0 and -1 have no beat.

    Args:
        start_ns: when the first sleep begins.
        overhead_ns: what a round takes at least. The owner may be later than that, not earlier: a
            loop that has nothing else to do would beat faster than a thread.
    """

    __slots__ = ("_next_ns", "_overhead_ns", "timeout_ns")

    def __init__(
        self, timeout_ns: int, *, start_ns: int, overhead_ns: int = FLUSH_OVERHEAD_NS
    ) -> None:
        self.timeout_ns = timeout_ns
        self._overhead_ns = overhead_ns
        self._next_ns = start_ns + timeout_ns if timeout_ns > 0 else None

    def next_deadline_ns(self) -> int | None:
        """Instant of the next beat, None if there is none."""
        return self._next_ns

    def is_due(self, *, now_ns: int) -> bool:
        """Whether a beat is due now; if so the next one is set a timeout from the end of this
        round.
        """
        if self._next_ns is None or now_ns < self._next_ns:
            return False
        self._next_ns = max(now_ns, self._next_ns + self._overhead_ns) + self.timeout_ns
        return True

    def stop(self) -> None:
        """No more beats."""
        self._next_ns = None
