"""Files that are read in ranges, in any order, on this machine or in a store."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from flinknet.errors import TraceFormatError
from flinknet.storage import AnyPath, StoragePath, storage_errors
from flinknet.whole_files import closing_file

from . import format

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
        descriptor, parts = self._file.fileno(), []
        while length and (part := os.pread(descriptor, length, offset)):
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def prepare(self, offset: int, length: int) -> None:
        """Do nothing: local reads need no prefetch."""

    def close(self) -> None:
        """Close the file; it is closed also if a signal interrupts that."""
        with suppress(InterruptedError):
            self._file.close()


class RemoteFile:
    """A file in a store; the ranges fetched last are cached. It counts fetched bytes and ranges."""

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
        if self._range(offset, min(offset + length, self.size_bytes)) is None:
            self._fetched(offset, length)

    def close(self) -> None:
        self._kept.clear()
        self._file.close()

    def _range(self, start: int, end: int) -> tuple[int, bytes] | None:
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


WHAT_TO_DO = 'copy it back; if you edited it, set "seal" in manifest.json to null'


def checksum_of_document(
    document: dict[str, Any], plain_of: Callable[[Any], Any] | None = None
) -> str:
    """Checksum of JSON-ready plain data, independent of white space and key order. Other values are
    converted by `plain_of`.
    """
    plain = json.loads(json.dumps(document, default=plain_of))  # as it is read from a file
    text = json.dumps(plain, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def checksum_of_file(path: AnyPath) -> str:
    """Checksum of all bytes of a file. Raises: OSError, StorageError."""
    with closing_file(path.open("rb")) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_ends(path: AnyPath) -> tuple[dict[str, Any], str | None]:
    """The description in the header of a trace file, and the checksum of its two ends; None for a
    file without its trailer. Raises: TraceFormatError for an invalid header; OSError, StorageError.
    """
    with closing(open_ranged(path)) as file:
        prefix = file.read(0, format.FILE_PREFIX_BYTES)
        length = format.file_header_bytes(prefix.ljust(format.FILE_PREFIX_BYTES, b"\0"))
        header = file.read(0, length)
        if len(header) < length:
            raise TraceFormatError("it ends within its header")
        description = format.decode_file_header(header)
        footer_at = file.size_bytes - format.FOOTER_BYTES
        if footer_at < length:
            return description, None
        footer = file.read(footer_at, format.FOOTER_BYTES)
        offset = format.decode_footer(footer)
        if offset is None or offset > footer_at - format.BLOCK_HEADER_BYTES:
            return description, None
        trailer = file.read(offset, format.BLOCK_HEADER_BYTES)
    block = format.decode_block_header(trailer)
    if block is None or block.type is not format.BlockType.TRAILER:
        return description, None
    return description, hashlib.sha256(header + trailer + footer).hexdigest()
