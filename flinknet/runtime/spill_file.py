"""SpillFile: the bytes of a blocking subpartition in a file of its own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import LocalTransportError

WRITE_BUFFER_BYTES = 1024 * 1024
"""Written at once: buffers of 32 KiB one by one would spend their time in system calls."""


class SpillFile:
    """Implements `core.producer.BoundedData` (Flink: FileChannelBoundedData).

    The file is made with the first byte and removed at the release.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append; the memory may be reused after the call.

        Raises: LocalTransportError when the file cannot be made or takes no more.
        """
        for piece in pieces:
            self._unwritten.append(bytes(piece))
            self._unwritten_bytes += len(piece)
        if self._unwritten_bytes >= WRITE_BUFFER_BYTES:
            self._write_through()

    def finish(self) -> None:
        """Nothing more will be written."""
        self._write_through()

    def read(self, offset: int, size_bytes: int) -> memoryview:
        """So many bytes from an offset on; fewer only if they end before.

        Raises: LocalTransportError.
        """
        try:
            return memoryview(os.pread(self._descriptor, size_bytes, offset))
        except OSError as error:
            raise LocalTransportError(f"{self.path}: cannot be read: {error.strerror}") from error

    def release(self) -> None:
        """Close and remove the file. Harmless when repeated."""
        self._unwritten.clear()
        self._unwritten_bytes = 0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            with suppress(FileNotFoundError):
                self.path.unlink()

    def _write_through(self) -> None:
        data = memoryview(b"".join(self._unwritten))
        self._unwritten.clear()
        self._unwritten_bytes = 0
        try:
            if self._descriptor < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o600)
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise LocalTransportError(
                f"{self.path}: a blocking exchange cannot be written there: {error.strerror};"
                " ask for fewer --records, or set TMPDIR to a directory with more room"
            ) from error


def create_spill_directory() -> TemporaryDirectory[str]:
    """A directory for all spill files of a run, where temporary files lie.

    Raises: LocalTransportError.
    """
    try:
        return TemporaryDirectory(prefix="flinknet-spill-")
    except OSError as error:
        raise LocalTransportError(
            f"no directory for temporary files: {error.strerror or error}; set TMPDIR to one"
        ) from error


def create_spill_file(
    directory: Path | None, partition_id: ResultPartitionID, subpartition: int
) -> SpillFile:
    """Where a subpartition keeps its bytes."""
    assert directory is not None, "a run with blocking exchanges has a directory for them"
    name = hashlib.sha256(partition_id.encode()).hexdigest()[:32]
    return SpillFile(directory / f"{name}-{subpartition}.data")
