"""Disk: files in memory that fail as real ones do, in place of the `os` of a spill file."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flinknet.core.producer import BoundedData
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.runtime import shuffle_environment as spill_file
from flinknet.runtime.shuffle_environment import SpillFile

EVENT_BYTES = 5
"""Of the events that end a partition: its data and itself. Headers and records are longer."""


@dataclass(frozen=True, slots=True)
class DiskFaults:
    """What the disk does wrong.

    Attributes:
        write_bytes_max: a write takes at most so many bytes; 0 for all.
        room_bytes: the disk is full then; 0 for never.
        failing_read: number of the read that fails with EIO, from 1; 0 for none.
        rotten_byte: which byte of all that are written comes back otherwise, from 1; 0 for none.
        rotten_event: which of the events comes back as another one, from 1; 0 for none.
    """

    write_bytes_max: int = 0
    room_bytes: int = 0
    failing_read: int = 0
    rotten_byte: int = 0
    rotten_event: int = 0

    @property
    def is_rotten(self) -> bool:
        """Whether something else is read than was written."""
        return bool(self.rotten_byte or self.rotten_event)

    @property
    def may_end_the_job(self) -> bool:
        """Whether what was written may not be readable."""
        return bool(self.room_bytes or self.failing_read or self.is_rotten)


SOUND = DiskFaults()


class Disk:
    """Implements what spill files ask `os` for, and takes its place in a with statement."""

    O_RDWR, O_CREAT, O_EXCL, O_CLOEXEC = os.O_RDWR, os.O_CREAT, os.O_EXCL, os.O_CLOEXEC

    def __init__(self, faults: DiskFaults) -> None:
        self.reached: Counter[str] = Counter()
        self._faults = faults
        self._files: dict[int, bytearray] = {}
        self._written_bytes = 0
        self._events = 0
        self._reads = 0

    def create_data(self, partition_id: ResultPartitionID, name: str) -> BoundedData:
        """A spill file."""
        return SpillFile(_Path(f"{name}"))

    def __enter__(self) -> None:
        spill_file.os = self  # type: ignore[assignment, attr-defined]

    def __exit__(self, *_: object) -> None:
        spill_file.os = os  # type: ignore[attr-defined]

    def repair(self) -> None:
        """It does nothing wrong any more."""
        self._faults = DiskFaults()

    def open(self, _path: Path, _flags: int, _mode: int) -> int:
        """A new file. Returns: its descriptor."""
        descriptor = len(self._files)
        self._files[descriptor] = bytearray()
        return descriptor

    def writev(self, descriptor: int, pieces: Sequence[bytes | memoryview]) -> int:
        """Append, as far as the disk takes it. Returns: bytes written."""
        faults = self._faults
        data = b"".join(self._with_another_event(pieces) if faults.rotten_event else pieces)
        if faults.write_bytes_max and len(data) > faults.write_bytes_max:
            self.reached["a short write"] += 1
            data = data[: faults.write_bytes_max]
        before = self._written_bytes
        if faults.room_bytes and before + len(data) > faults.room_bytes:
            data = data[: faults.room_bytes - before]
            if not data:
                self.reached["a full disk"] += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if before < faults.rotten_byte <= before + len(data):
            self.reached["a rotten bit"] += 1
            at = faults.rotten_byte - before - 1
            data = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        self._written_bytes += len(data)
        self._files[descriptor] += data
        return len(data)

    def _with_another_event(self, pieces: Sequence[bytes | memoryview]) -> list[bytes]:
        """What is to be written, with a bit of an event's tag turned: the end of data becomes the
        end of recovered state.
        """
        found = list(map(bytes, pieces))
        for index, piece in enumerate(found):
            if len(piece) == EVENT_BYTES:  # less is what a short write left of a piece
                self._events += 1
                if self._events == self._faults.rotten_event:
                    self.reached["a rotten event"] += 1
                    found[index] = piece[:3] + bytes([piece[3] ^ 4]) + piece[4:]
        return found

    def preadv(self, descriptor: int, into: Sequence[memoryview], offset: int) -> int:
        """Read. Returns: bytes read."""
        self._reads += 1
        if self._reads == self._faults.failing_read:
            self.reached["an unreadable disk"] += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        start, data = offset, self._files[descriptor]
        for each in into:
            found = data[offset : offset + len(each)]
            each[: len(found)] = found
            offset += len(found)
        return offset - start

    def close(self, descriptor: int) -> None:
        """Forget a file."""
        self._files[descriptor] = bytearray()


class _Path(type(Path())):  # type: ignore[misc]
    """Where nothing is."""

    def unlink(self, missing_ok: bool = False) -> None:
        """There is nothing to remove."""
