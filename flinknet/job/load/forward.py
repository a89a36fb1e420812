"""RecordForwarder: prepares received records for their next channels.

A record keeps its intended instant, so that latency counts from the first producer to the last
consumer, and gets the next number of its new channel.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray

from .payload import INSTANT_BITS, INSTANT_MASK, STAMP_OFFSET


class RecordForwarder:
    """Copies runs of records and renumbers the copies.

    `numbers` is the number of records sent to each channel.

    Args:
        channels: of the partition, or (BROADCAST,).
        epoch_ns: instant that stamps count from.
    """

    def __init__(self, channels: Iterable[int], *, epoch_ns: int) -> None:
        self.numbers = dict.fromkeys(channels, 0)
        self._epoch_ns = epoch_ns

    def copy(
        self,
        memory: memoryview | bytearray,
        offset: int,
        count: int,
        record_bytes: int,
        channel: int,
        picked: slice | NDArray[np.intp],
    ) -> tuple[memoryview, IntArray]:
        """Copy the picked ones of `count` adjacent records that begin at `offset`.

        Returns: their bytes and intended instants.
        """
        rows = np.ndarray((count, record_bytes), np.uint8, memory, offset)
        copied = np.array(rows[picked], order="C", copy=True)
        records = len(copied)
        number = self.numbers[channel]
        self.numbers[channel] = number + records
        numbers = np.arange(number, number + records, dtype=np.uint64) << np.uint64(INSTANT_BITS)
        stamps = np.ndarray((records,), ">u8", copied.data, STAMP_OFFSET, (record_bytes,))
        instants = stamps.astype(np.uint64) & np.uint64(INSTANT_MASK)
        stamps[:] = numbers | instants
        return copied.reshape(-1).data, instants.astype(np.int64) + self._epoch_ns
