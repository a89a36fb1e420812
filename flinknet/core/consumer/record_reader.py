"""RecordReader: buffers of one channel in, records out, in runs that a batch can take at once.

Records of equal length that lie whole in a buffer form one run, found with one comparison over all
their length prefixes; a record that is cut by a buffer's end is put together on its own (Flink:
SpillingAdaptiveSpanningRecordDeserializer, without the spilling of records above 5 MiB).
"""

from __future__ import annotations

import sys

import numpy as np

from flinknet.core.wire.records import LENGTH_PREFIX_BYTES
from flinknet.errors import FrameCorruptedError

LARGEST_RECORD_BYTES = 1 << 30

RecordRun = tuple[memoryview | bytearray, int, int, int]
"""(memory, offset, count, record_bytes): `count` records of `record_bytes` bytes each, prefix
included, back to back in `memory` from `offset` on. Valid until the buffer it came from is
recycled. A plain tuple, for one is made for every buffer."""


class RecordReader:
    """Deserialises the stream of one channel; `_rest` is the record that the last buffer cut."""

    __slots__ = ("_native_prefix", "_record_bytes", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._record_bytes = LENGTH_PREFIX_BYTES + 1
        self._native_prefix = np.int32(0)  # the prefix's four bytes as this machine reads them

    @property
    def has_partial_record(self) -> bool:
        """Whether the stream stands inside a record."""
        return bool(self._rest)

    def read(self, payload: memoryview) -> list[RecordRun]:
        """The records that end in this buffer, in order.

        Raises: FrameCorruptedError when a length prefix cannot be one.
        """
        runs: list[RecordRun] = []
        position, end = 0, len(payload)
        if self._rest:
            position = self._complete_rest(payload, end, runs)
        while end - position >= LENGTH_PREFIX_BYTES:
            # As a rule all records are as long as the last one was: one comparison shows it.
            record_bytes = self._record_bytes
            count = (end - position) // record_bytes
            if count:
                prefixes = np.ndarray((count,), np.int32, payload, position, (record_bytes,))
                is_equal = prefixes == self._native_prefix
                if np.count_nonzero(is_equal) != count:
                    count = int(is_equal.argmin())
            if not count:
                record_bytes = self._read_length(payload[position : position + LENGTH_PREFIX_BYTES])
                if end - position < record_bytes:
                    break
                count = 1
            runs.append((payload, position, count, record_bytes))
            position += count * record_bytes
        if position < end:
            self._rest = bytearray(payload[position:])
        return runs

    def _read_length(self, prefix: memoryview | bytearray) -> int:
        """The bytes of the record that begins with this prefix, which is counted in."""
        length = int.from_bytes(prefix, "big", signed=True)
        if not 0 < length <= LARGEST_RECORD_BYTES:
            raise FrameCorruptedError(f"a record of {length} bytes: the record stream is broken")
        self._record_bytes = length + LENGTH_PREFIX_BYTES
        self._native_prefix = np.int32(int.from_bytes(prefix, sys.byteorder, signed=True))
        return self._record_bytes

    def _complete_rest(self, payload: memoryview, end: int, runs: list[RecordRun]) -> int:
        """Add to the cut record what this buffer has of it. Returns: the position behind it."""
        rest = self._rest
        position = 0
        if len(rest) < LENGTH_PREFIX_BYTES:
            position = min(LENGTH_PREFIX_BYTES - len(rest), end)
            rest += payload[:position]
            if len(rest) < LENGTH_PREFIX_BYTES:
                return position
        record_bytes = self._read_length(rest[:LENGTH_PREFIX_BYTES])
        taken = min(record_bytes - len(rest), end - position)
        rest += payload[position : position + taken]
        if len(rest) == record_bytes:
            runs.append((rest, 0, 1, record_bytes))
            self._rest = bytearray()
        return position + taken
