"""SpillFile: the bytes of a blocking partition, or of one of its subpartitions, in a file."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import LocalTransportError

WRITE_BUFFER_BYTES = 1024 * 1024
"""Bytes collected for one write: writing 32 KiB buffers one by one is mostly system calls."""

PIECES_MAX = 1024
"""The most pieces of memory in one system call (IOV_MAX)."""


class SpillFile:
    """Implements `core.producer.BoundedData` (Flink: FileChannelBoundedData).

    The file is created with the first byte and removed at the release.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._unwritten: list[bytes | memoryview] = []
        self._unwritten_bytes = 0

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append; the memory may be reused after the call.

        Raises: LocalTransportError if the file cannot be created or written.
        """
        self._unwritten_bytes += sum(map(len, pieces))
        if self._unwritten_bytes < WRITE_BUFFER_BYTES:
            self._unwritten += map(bytes, pieces)
        else:
            self._unwritten += pieces
            self._write_through()

    def finish(self) -> None:
        """Write the rest of the data."""
        self._write_through()

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill pieces of memory, one after the other, with the content from an offset on.

        Returns: number of bytes read; fewer than there is room only at the end of the content.

        Raises: LocalTransportError.
        """
        start, left = offset, deque(into)
        try:
            while left:
                some = list(islice(left, PIECES_MAX))
                count = os.preadv(self._descriptor, some, offset)
                if not count:
                    break
                offset += count
                _drop(left, count)
        except OSError as error:
            raise LocalTransportError(f"{self.path}: cannot be read: {error.strerror}") from error
        return offset - start

    def release(self) -> None:
        """Close and remove the file. Repeated calls have no effect."""
        self._unwritten.clear()
        self._unwritten_bytes = 0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            with suppress(FileNotFoundError):
                self.path.unlink()

    def _write_through(self) -> None:
        left = deque([memoryview(each) for each in self._unwritten])
        self._unwritten.clear()
        self._unwritten_bytes = 0
        try:
            if self._descriptor < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o600)
            while left:
                some = list(islice(left, PIECES_MAX))
                _drop(left, os.writev(self._descriptor, some))
        except OSError as error:
            raise LocalTransportError(
                f"{self.path}: a blocking exchange cannot be written there: {error.strerror};"
                " ask for fewer --records, or set TMPDIR to a directory with more room"
            ) from error


def _drop(pieces: deque[memoryview], count: int) -> None:
    """Drop `count` bytes from the front, and empty pieces."""
    while pieces and count >= len(pieces[0]):
        count -= len(pieces.popleft())
    if count:
        pieces[0] = pieces[0][count:]


def create_spill_file(
    directory: Path | None, partition_id: ResultPartitionID, name: str
) -> SpillFile:
    """Create the file for a partition's bytes of this name."""
    assert directory is not None, "a run with blocking exchanges has a directory for them"
    partition = hashlib.sha256(partition_id.encode()).hexdigest()[:32]
    return SpillFile(directory / f"{partition}.{name}")
