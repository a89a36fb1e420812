"""BoundedData: where a blocking partition keeps its bytes; one in memory, for the simulator and
tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class BoundedData(Protocol):
    """Bytes that are written to their end, then read from anywhere, then gone (Flink: BoundedData).

    Each raises TransportError when the place where the bytes are cannot do it.
    """

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append; the memory may be reused after the call."""

    def finish(self) -> None:
        """Nothing more will be written."""

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill one piece of memory after the other with what lies from an offset on.

        Returns: bytes read; fewer than there is room only if they end before.
        """

    def release(self) -> None:
        """Forget the bytes. Harmless when repeated."""


class MemoryBoundedData:
    """Bytes in memory."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.is_released = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append."""
        for piece in pieces:
            self._bytes += piece

    def finish(self) -> None:
        """Nothing more will be written."""

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill one piece of memory after the other."""
        start = offset
        for piece in into:
            found = self._bytes[offset : offset + len(piece)]
            piece[: len(found)] = found
            offset += len(found)
        return offset - start

    def release(self) -> None:
        """Forget the bytes."""
        self.is_released = True
        self._bytes = bytearray()
