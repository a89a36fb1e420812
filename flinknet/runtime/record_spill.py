"""RecordSpills: files for records that are too long to be assembled in memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from flinknet.errors import LocalTransportError
from flinknet.whole_files import temporary_base

SUFFIX = ".inputchannel"
ATTEMPTS = 10

_NAME_BYTES = 20


class RecordSpills:
    """`create` is a `core.consumer.record_reader.SpillStore` (Flink: SpanningWrapper).

    A file has a random name in one of the directories, which take turns; a directory where no file
    can be created is skipped from then on, as long as others remain. Differs from Flink: the name
    is removed as soon as the file is open, so that nothing remains however the process ends, and a
    whole record is mapped into memory, where Flink reads it through a buffer of 2 MiB.
    """

    def __init__(self, directories: Sequence[Path] = ()) -> None:
        self._directories = list(directories) or [temporary_base()]
        self._next = 0

    def create(self) -> RecordFile:
        """Create a file. Raises: LocalTransportError if no directory can hold one."""
        refusal, directory = OSError(), self._directories[0]
        for _ in range(ATTEMPTS):
            position = self._next % len(self._directories)
            directory = self._directories[position]
            try:
                file = RecordFile(directory / (os.urandom(_NAME_BYTES).hex() + SUFFIX))
            except OSError as error:
                refusal = error
                if len(self._directories) > 1:
                    del self._directories[position]
            else:
                self._next = position + 1
                return file
        raise LocalTransportError(
            f"{directory}: no file can be made for a long record ({refusal.strerror}); set TMPDIR"
            " to a directory that takes some"
        ) from refusal


class RecordFile:
    """The file of one record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append. Raises: LocalTransportError if the disk is full."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self.descriptor, left) :]
        except OSError as error:
            self.delete()
            raise LocalTransportError(
                f"{self.path.parent}: a long record cannot be written ({error.strerror})"
            ) from error

    def take(self) -> memoryview:
        """Return the whole content, mapped into memory; it lives as long as the view."""
        whole = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
        self.delete()
        return memoryview(whole)

    def delete(self) -> None:
        """Delete the file; repeated calls have no effect."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
