"""RecordStreamDecoder: what a subpartition carries, element by element: plain, and slow."""

from __future__ import annotations

import struct

from flinknet.core.wire.records import LENGTH_PREFIX_BYTES


class RecordStreamDecoder:
    """Cuts the payloads of one subpartition into elements."""

    def __init__(self) -> None:
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
            assert length >= 0
            end = LENGTH_PREFIX_BYTES + length
            if len(self._rest) < end:
                break
            elements.append(self._rest[LENGTH_PREFIX_BYTES:end])
            self._rest = self._rest[end:]
        return elements
