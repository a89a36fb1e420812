"""BoundedData: the data store of a blocking partition; MemoryBoundedData: in memory, for the
simulator and tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class BoundedData(Protocol):
    """Bytes that are written once, then read at any offset, then removed (Flink: BoundedData).

    Every method raises TransportError if the storage fails.
    """

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append bytes; the memory may be reused after the call."""

    def finish(self) -> None:
        """End writing."""

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill the memory pieces in order with the bytes from an offset on.

        Returns: bytes read; fewer than requested only at the end of the data.
        """

    def release(self) -> None:
        """Remove the bytes. Idempotent."""


class MemoryBoundedData:
    """Bytes in memory."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.is_released = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append bytes."""
        for piece in pieces:
            self._bytes += piece

    def finish(self) -> None:
        """End writing."""

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill the memory pieces in order."""
        start = offset
        for piece in into:
            found = self._bytes[offset : offset + len(piece)]
            piece[: len(found)] = found
            offset += len(found)
        return offset - start

    def release(self) -> None:
        """Remove the bytes."""
        self.is_released = True
        self._bytes = bytearray()
