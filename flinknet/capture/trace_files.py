"""TraceFiles: writes the blocks of a capture to one file after another, and can drop old files.

It is the EventWriter of a TraceRecorder. A file ends between two blocks, so that rotation delays
nothing. Ages are measured by the instants of events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flinknet.errors import TraceError
from flinknet.trace import ProcessInfo, TraceWriter
from flinknet.trace.blocks import NO_TIMES, Rows


@dataclass(slots=True)
class TraceFile:
    """One file, with the first and the last instant of its events."""

    path: Path
    first_ns: int | None = None
    last_ns: int | None = None
    events: int = 0
    size_bytes: int = 0
    is_kept: bool = False


class TraceFiles:
    """The trace files of a run directory.

    Args:
        name: the process in the manifest; files are NAME-0001.fnt and so on.
        rotate_bytes, rotate_ns: size and age at which a new file is begun.
        lacking: why nothing can be written; no file is created, and all events are dropped.

    Attributes:
        files: in order; the last one is being written.
        has_changed: files were added or removed since the caller reset this.

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
        self._dropped_before = 0  # events dropped by complete files
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
        """Bytes of all current files."""
        return sum(each.size_bytes for each in self.files)

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        """Write a block in steps, into a new file if the last one is full."""
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
        yield from self._writer.events_in_steps(rows, times)
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
        """Keep all current files."""
        for file in self.files:
            file.is_kept = True

    def take_older(self, than_ns: int) -> list[TraceFile]:
        """Remove the files that end before an instant and are not kept. Returns: these files, for
        the caller to delete once the manifest does not name them any more.
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
        """Remove the files that end before `from_ns` (None: all) and are not kept, except the last
        remaining one. Returns: these files, for the caller to delete.
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
    """Delete files; errors are ignored."""
    for each in files:
        with suppress(OSError):
            each.path.unlink()
