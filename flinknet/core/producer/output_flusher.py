# mypyc
"""OutputFlusher: the beat of the buffer timeout.

Flink: the thread "OutputFlusher for <task>" sleeps the timeout, flushes all channels of its task,
    and sleeps again. It is
one free-running beat for the task, not a timer for each buffer, and records do not restart it. Its
real period is the timeout plus the time the flush took (about 0.1 ms in Flink); here it is the
timeout plus the lateness of the event loop.
"""

from __future__ import annotations


class OutputFlusher:
    """Says when the next beat is due; the owner flushes. Timeouts of 0 and -1 have no beat."""

    __slots__ = ("_next_ns", "timeout_ns")

    def __init__(self, timeout_ns: int, *, start_ns: int) -> None:
        self.timeout_ns = timeout_ns
        self._next_ns = start_ns + timeout_ns if timeout_ns > 0 else None

    def next_deadline_ns(self) -> int | None:
        """Instant of the next beat, None if there is none."""
        return self._next_ns

    def is_due(self, *, now_ns: int) -> bool:
        """Whether a beat is due now; if so the next one is set a timeout from now, as a sleeping
        thread would.
        """
        if self._next_ns is None or now_ns < self._next_ns:
            return False
        self._next_ns = now_ns + self.timeout_ns
        return True

    def stop(self) -> None:
        """No more beats."""
        self._next_ns = None
