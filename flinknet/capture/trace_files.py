"""TraceFiles: where the blocks of a capture go, one file after another; old ones may be dropped.

It is an EventWriter below a TraceRecorder: a file ends between two blocks, so that rotation holds
nothing up. Time is that of the events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flinknet.errors import TraceError
from flinknet.trace import ProcessInfo, TraceWriter


@dataclass(slots=True)
class TraceFile:
    """One file, and the span of its events."""

    path: Path
    first_ns: int | None = None
    last_ns: int | None = None
    events: int = 0
    size_bytes: int = 0
    is_kept: bool = False


class TraceFiles:
    """The trace files of a run directory.

    Args:
        name: of the process in the manifest; files are NAME-0001.fnt and so on.
        rotate_bytes, rotate_ns: a file that has got so large, or so old, is the last no longer.
        lacking: why nothing can be written: no file is created, and all events are dropped.

    Attributes:
        files: in order; the last one is being written.
        has_changed: there are other files than when this was reset.

    Raises: TraceError if the first file cannot be created.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        pid: int,
        *,
        rotate_bytes: int | None = None,
        rotate_ns: int | None = None,
        lacking: TraceError | None = None,
    ) -> None:
        self.lacking = lacking
        self.directory = directory
        self.name = name
        self.files: list[TraceFile] = []
        self.has_changed = True
        self.dropped_events = 0
        self._dropped_before = 0  # by files that are complete
        self._pid = pid
        self._rotate_bytes = rotate_bytes
        self._rotate_ns = rotate_ns
        self._number = 0
        if lacking is None:
            self._writer = self._open()

    @property
    def processes(self) -> tuple[ProcessInfo, ...]:
        """The files as the manifest names them."""
        return tuple(ProcessInfo(self.name, each.path.name, self._pid) for each in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files that are there."""
        return sum(each.size_bytes for each in self.files)

    def events_in_steps(self, rows: NDArray[np.void]) -> Iterator[None]:
        """Write a block, into a new file if it is time."""
        if self.lacking is not None:
            raise self.lacking
        at_ns = rows["at_ns"]
        first_ns, last_ns = int(at_ns.min()), int(at_ns.max())
        if self._is_full(first_ns):
            try:
                self._rotate()
            except TraceError:
                self._writer.drop(len(rows))
                raise
        yield from self._writer.events_in_steps(rows)
        file = self.files[-1]
        file.first_ns = first_ns if file.first_ns is None else min(file.first_ns, first_ns)
        file.last_ns = last_ns if file.last_ns is None else max(file.last_ns, last_ns)
        file.events += len(rows)
        file.size_bytes = self._writer.size_bytes

    def close(self, *, dropped_events: int = 0) -> None:
        """End the last file."""
        self.dropped_events = dropped_events
        if self.lacking is not None:
            raise self.lacking
        self._writer.close(dropped_events=dropped_events - self._dropped_before)
        self.files[-1].size_bytes = self._writer.size_bytes

    def keep_all(self) -> None:
        """Keep what is there now."""
        for file in self.files:
            file.is_kept = True

    def take_older(self, than_ns: int) -> list[TraceFile]:
        """Forget the files that end before an instant and are not to be kept; the caller deletes
        them once the manifest does not name them any more.
        """
        old = [
            each
            for each in self.files[:-1]
            if not each.is_kept and (each.last_ns is None or each.last_ns < than_ns)
        ]
        if old:
            self.files = [each for each in self.files if each not in old]
            self.has_changed = True
        return old

    def take_unkept(self, from_ns: int | None) -> list[TraceFile]:
        """At the end forget what is not to be kept and ends before `from_ns`, or whenever it ends;
        one file stays.
        """
        old = [
            each
            for each in self.files
            if not each.is_kept
            and (from_ns is None or each.last_ns is None or each.last_ns < from_ns)
        ]
        old = old if len(old) < len(self.files) else old[:-1]
        self.files = [each for each in self.files if each not in old]
        return old

    def _is_full(self, at_ns: int) -> bool:
        file = self.files[-1]
        if file.first_ns is None:
            return False
        is_large = self._rotate_bytes is not None and file.size_bytes >= self._rotate_bytes
        return is_large or (
            self._rotate_ns is not None and at_ns - file.first_ns >= self._rotate_ns
        )

    def _rotate(self) -> None:
        complete, self._writer = self._writer, self._open()
        self._dropped_before += complete.dropped_events
        complete.close()

    def _open(self) -> TraceWriter:
        path = self.directory / f"{self.name}-{self._number + 1:04d}.fnt"
        writer = TraceWriter(path, ProcessInfo(self.name, path.name, self._pid))
        self._number += 1
        self.files.append(TraceFile(path, size_bytes=writer.size_bytes))
        self.has_changed = True
        return writer


def delete(files: list[TraceFile]) -> None:
    """Delete files; one that is gone already is no matter."""
    for each in files:
        with suppress(OSError):
            each.path.unlink()
