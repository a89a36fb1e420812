# mypyc
"""PartitionRequestQueue: which reader of one TCP connection may send next.

Readers with data and credit are in one FIFO and send one buffer each, so no channel starves
another. A reader without credit is not in the FIFO, so it cannot block the others.

Invariant: a reader is in the FIFO at most once; `is_enqueued` says whether it is.
"""

from __future__ import annotations

from collections import deque

from flinknet.core.buffers import BufferSlice
from flinknet.core.buffers.data_type import IS_BUFFER

from .view_reader import CreditBasedSequenceNumberingViewReader


class PartitionRequestQueue:
    """Round robin by buffer over the available readers (Flink: PartitionRequestQueue).

    Attributes:
        readers: all open readers, by receiver id.
        available: the FIFO.
    """

    def __init__(self) -> None:
        self.readers: dict[bytes, CreditBasedSequenceNumberingViewReader] = {}
        self.available: deque[CreditBasedSequenceNumberingViewReader] = deque()

    def add(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        """Add a reader."""
        self.readers[reader.receiver_id] = reader

    def enqueue(self, reader: CreditBasedSequenceNumberingViewReader) -> bool:
        """Enqueue a reader if it can send. Returns: whether it is in the FIFO now."""
        if reader.is_enqueued:
            return True
        if not reader.is_available:
            return False
        reader.is_enqueued = True
        self.available.append(reader)
        return True

    def poll(
        self, bytes_max: int = 1
    ) -> tuple[CreditBasedSequenceNumberingViewReader, list[BufferSlice]] | None:
        """The next buffer of the first reader, which goes to the tail if it has more. A reader that
        is alone takes several turns at once, up to `bytes_max`.
        """
        available = self.available
        while available:
            reader = available.popleft()
            reader.is_enqueued = False
            run = reader.poll(1 if available else bytes_max)
            if not run:
                reader.empty_turns += 1
                continue
            following = run[-1].next_data_type
            if following and (reader.credits_available or following not in IS_BUFFER):
                reader.is_enqueued = True
                available.append(reader)
            return reader, run
        return None

    def remove(self, receiver_id: bytes) -> CreditBasedSequenceNumberingViewReader | None:
        """Remove a reader. Returns: the reader; None if the id is unknown."""
        reader = self.readers.pop(receiver_id, None)
        if reader is not None and reader.is_enqueued:
            self.available.remove(reader)
            reader.is_enqueued = False
        return reader
