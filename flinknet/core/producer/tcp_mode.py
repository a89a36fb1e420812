# mypyc
"""SequenceNumberingViewReader: a reader without credit, as before Flink 1.5.

Everything but credit is the same: the turns of the readers, the messages, their bytes. A reader is
in the queue whenever it has something to send. Only a socket that takes no more stops the queue,
for all channels at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from flinknet.core.buffers import UNLIMITED_BUFFERS, BufferSlice

from .view_reader import CreditBasedSequenceNumberingViewReader

UNCOUNTED = -1
"""Credit of a reader that needs none; probes read it as "not applicable"."""


class SequenceNumberingViewReader(CreditBasedSequenceNumberingViewReader):
    """Reads one subpartition for one receiver, without credit (Flink: SequenceNumberingViewReader).

    Differs from Flink, where both readers implement one interface: here this reader is the other
    one with unlimited credit, and sequence numbers are the subpartition's, as since 1.16; they are
    equal.
    """

    __slots__ = ()
    credit_per_buffer: ClassVar[int] = 0

    def __init__(
        self,
        receiver_id: bytes,
        channel: int,
        initial_credit: int,
        notify: Callable[[CreditBasedSequenceNumberingViewReader], None],
    ) -> None:
        super().__init__(receiver_id, channel, initial_credit, notify)
        self.credits_available = UNCOUNTED

    def check_invariants(self) -> None:
        """Assert that credit is not counted."""
        assert self.credits_available == UNCOUNTED, f"credit {self.credits_available}"

    @property
    def is_available(self) -> bool:
        """Whether there is something to read."""
        return self.subpartition is not None and self.subpartition.is_data_available

    def poll(self, bytes_max: int = 1) -> list[BufferSlice]:
        """The next buffers, until they have `bytes_max`, or one event."""
        assert self.subpartition is not None
        return self.subpartition.poll_run(UNLIMITED_BUFFERS, bytes_max)

    def resume_consumption(self) -> None:
        """Unblock after a blocking event."""
        assert self.subpartition is not None
        self.subpartition.resume_consumption()

    def needs_backlog_announcement(self) -> int:
        """Returns: 0, since no receiver waits for credit."""
        return 0
