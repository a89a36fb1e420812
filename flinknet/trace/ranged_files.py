"""Files that are read in ranges, in any order, on this machine or in a store."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from flinknet.storage import AnyPath, StoragePath, storage_errors

RANGE_BYTES = 64 << 10
"""The least that is read of a remote file at once: a request takes as long as some MiB do."""

KEPT_BYTES = 64 << 20
"""The most bytes of a remote file kept while it is open."""


class LocalFile:
    """A local file. Raises: OSError."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        self.size_bytes = self._file.seek(0, 2)

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from an offset on."""
        descriptor, parts = self._file.fileno(), []
        while length and (part := os.pread(descriptor, length, offset)):
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def prepare(self, offset: int, length: int) -> None:
        """Do nothing: local reads need no prefetch."""

    def next_data(self, offset: int) -> int:
        """Offset of the next byte that is not in a hole."""
        try:
            return os.lseek(self._file.fileno(), offset, os.SEEK_DATA)
        except OSError as error:
            return self.size_bytes if error.errno == errno.ENXIO else offset

    def close(self) -> None:
        """Close the file; it is closed also if a signal interrupts that."""
        with suppress(InterruptedError):
            self._file.close()


class RemoteFile:
    """A file in a store; the ranges fetched last are cached.

    Attributes:
        fetched_bytes: number of bytes fetched so far.
        requests: number of ranges fetched so far.
    """

    def __init__(self, path: StoragePath) -> None:
        """Raises: StorageError."""
        self._path = path
        with storage_errors(path, "read"):
            filesystem, place = path.located()
            self._file = filesystem.open_input_file(place)
            self.size_bytes: int = self._file.size()
        self._kept: list[tuple[int, bytes]] = []  # offsets and what was there, newest last
        self.fetched_bytes = self.requests = 0

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from an offset on; the bytes near them are cached for the next read."""
        end = min(offset + length, self.size_bytes)
        found = self._range(offset, end)
        if found is None:
            start = max(min(offset, self.size_bytes - RANGE_BYTES), 0)
            found = self._fetched(start, max(end - start, RANGE_BYTES))
        start, content = found
        return content[offset - start : max(end, offset) - start]

    def prepare(self, offset: int, length: int) -> None:
        """Fetch a range, unless it is cached."""
        if self._range(offset, min(offset + length, self.size_bytes)) is None:
            self._fetched(offset, length)

    def next_data(self, offset: int) -> int:
        """The offset itself: objects have no holes."""
        return offset

    def close(self) -> None:
        """Close it."""
        self._kept.clear()
        self._file.close()

    def _range(self, start: int, end: int) -> tuple[int, bytes] | None:
        """A cached range that covers the wanted one, with its offset."""
        for offset, content in reversed(self._kept):
            if offset <= start and end <= offset + len(content):
                return offset, content
        return None

    def _fetched(self, offset: int, length: int) -> tuple[int, bytes]:
        with storage_errors(self._path, "read"):
            content: bytes = self._file.read_at(min(length, self.size_bytes - offset), offset)
        self.fetched_bytes += len(content)
        self.requests += 1
        self._kept.append((offset, content))
        while len(self._kept) > 1 and sum(len(each) for _, each in self._kept) > KEPT_BYTES:
            del self._kept[0]
        return offset, content


RangedFile = LocalFile | RemoteFile
"""A file that is read in ranges, in any order."""


def open_ranged(path: AnyPath) -> RangedFile:
    """Open a file. Raises: OSError, StorageError."""
    return RemoteFile(path) if isinstance(path, StoragePath) else LocalFile(path)
