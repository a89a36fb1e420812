"""RecordStreamDecoder: what a subpartition carries, element by element: plain, and slow."""

from __future__ import annotations

import struct

from flinknet.core.wire.records import LENGTH_PREFIX_BYTES, RECORD_BYTES_MAX
from flinknet.errors import FrameCorruptedError


class RecordStreamDecoder:
    """Cuts the payloads of one subpartition into elements.

    Raises: FrameCorruptedError, from `feed`, for a length that is negative or too large.
    """

    def __init__(self, record_bytes_max: int = RECORD_BYTES_MAX) -> None:
        self._record_bytes_max = record_bytes_max
        self._rest = b""

    @property
    def pending_bytes(self) -> int:
        """Bytes of an element that is not complete yet, its length included."""
        return len(self._rest)

    def feed(self, payload: bytes | memoryview) -> list[bytes]:
        """The elements that are complete with the next payload, without their lengths."""
        self._rest += bytes(payload)
        elements = []
        while len(self._rest) >= LENGTH_PREFIX_BYTES:
            (length,) = struct.unpack_from(">i", self._rest)
            if not 0 <= length <= self._record_bytes_max:
                raise FrameCorruptedError(f"a record of {length} bytes")
            end = LENGTH_PREFIX_BYTES + length
            if len(self._rest) < end:
                break
            elements.append(self._rest[LENGTH_PREFIX_BYTES:end])
            self._rest = self._rest[end:]
        return elements
