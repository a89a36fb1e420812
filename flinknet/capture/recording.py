"""CaptureRecording: the run directory of a capture while it grows.

The manifest is written at the start, and again whenever channels or files change, so that a crash
leaves a readable run. The measured part is from the first data buffer to the last one, as a tap may
run long before and after. A ring keeps only the newest events, and those around a trigger.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from flinknet.errors import ConfigError, TraceError
from flinknet.trace import ClockInfo, ProcessInfo, RunManifest, TraceRecorder, TraceWriter
from flinknet.trace.blocks import NO_TIMES, Rows
from flinknet.trace.manifest import IS_PART
from flinknet.trace.run_directory import RunDirectory, seal_run

from .channels import ChannelTable


@dataclass(slots=True)
class TraceFile:
    path: Path
    first_ns: int | None = None
    last_ns: int | None = None
    size_bytes: int = 0
    is_kept: bool = False


@dataclass
class TraceFiles:
    """The trace files of a run directory.

    Raises: TraceError if the first file cannot be created.
    """

    directory: Path
    name: str  # of the process in the manifest; files are NAME-0001.fnt and so on
    pid: int
    slice_ns: int | None = None  # age at which a file ends; None: there is one file
    lacking: TraceError | None = None  # why nothing can be written: all events are dropped
    files: list[TraceFile] = field(default_factory=list)  # the last one is being written
    has_changed: bool = True  # files were added or removed since the caller reset this
    _dropped_before: int = 0  # events dropped by complete files
    _number: int = 0

    def __post_init__(self) -> None:
        if self.lacking is None:
            self._writer = self._open()

    @property
    def processes(self) -> tuple[ProcessInfo, ...]:
        return tuple(ProcessInfo(self.name, each.path.name, self.pid) for each in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.files)

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        """Write a block in steps, into a new file if the last one is full."""
        if self.lacking is not None:
            raise self.lacking
        at_ns = rows["at_ns"]
        first_ns, last_ns = int(at_ns.min()), int(at_ns.max())
        file = self.files[-1]
        age_ns = 0 if file.first_ns is None else first_ns - file.first_ns
        if self.slice_ns is not None and age_ns >= self.slice_ns:
            try:
                complete, self._writer = self._writer, self._open()
                self._dropped_before += complete.dropped_events
                complete.close()
            except TraceError:
                self._writer.drop(len(rows))
                raise
        yield from self._writer.events_in_steps(rows, times)
        file = self.files[-1]
        file.first_ns = first_ns if file.first_ns is None else min(file.first_ns, first_ns)
        file.last_ns = last_ns if file.last_ns is None else max(file.last_ns, last_ns)
        file.size_bytes = self._writer.size_bytes

    def close(self, *, dropped_events: int = 0) -> None:
        if self.lacking is not None:
            raise self.lacking
        self._writer.close(dropped_events=dropped_events - self._dropped_before)
        self.files[-1].size_bytes = self._writer.size_bytes

    def keep_all(self) -> None:
        for file in self.files:
            file.is_kept = True

    def take_old(self, before_ns: int | None, *, is_closed: bool) -> list[TraceFile]:
        """Remove the files that end before an instant (None: all) and are not kept, except the one
        that is being written and, of closed files, the last remaining one. Returns: these files."""
        old = [
            each
            for each in (self.files if is_closed else self.files[:-1])
            if not each.is_kept
            and (before_ns is None or each.last_ns is None or each.last_ns < before_ns)
        ]
        if old and len(old) == len(self.files):
            old.pop()
        if old:
            self.files = [each for each in self.files if each not in old]
            self.has_changed = True
        return old

    def _open(self) -> TraceWriter:
        path = self.directory / f"{self.name}-{self._number + 1:04d}.fnt"
        writer = TraceWriter(path, ProcessInfo(self.name, path.name, self.pid))
        self._number += 1
        self.files.append(TraceFile(path, size_bytes=writer.size_bytes))
        self.has_changed = True
        return writer


FLUSH_EVENTS_MAX = 4096
"""Most pending events that `tick` writes itself, as writing more would delay the caller."""

FLUSH_INTERVAL_NS = 1_000_000_000

SAVE_INTERVAL_NS = 1_000_000_000
"""Time between two manifests while channels appear, in ns; this much longer for each 1000."""

SAVE_ANYHOW_NS = 10_000_000_000
"""Additional time, in ns, after which the manifest is written without new channels, because the
measured part has grown."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

RING_SLICES = 12
"""Files of a ring; whole files are dropped."""


@dataclass(frozen=True, slots=True)
class About:
    origin: str
    name: str  # of the capturing process
    pid: int
    started_at: str
    host: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    scenario: Mapping[str, Any] = field(default_factory=dict)
    clock: ClockInfo = field(default_factory=ClockInfo)


class CaptureRecording:
    """Records a capture into a new directory. `recorder` is the observers' probe.

    Args:
        ring_ns: time that a ring keeps; None: everything is kept.
        describe: adds to each manifest before it is written.
        may_be_full: on a full disk, put the error into `files.lacking` instead of raising it.

    A ring keeps the time `ring_ns` before each trigger and half of it afterwards; without any
    trigger, the last `ring_ns`.

    Raises: ConfigError for a directory that is not empty or that another run writes to; TraceError
        if it cannot be used.
    """

    def __init__(
        self,
        directory: Path,
        about: About,
        channels: ChannelTable,
        ring_ns: int | None = None,
        describe: Callable[[RunManifest], RunManifest] = lambda manifest: manifest,
        *,
        may_be_full: bool = False,
    ) -> None:
        self.directory = directory
        self.channels = channels
        self.triggers: list[tuple[int, str]] = []
        self.within: tuple[int, int] | None = None  # limits of the measured part; None: no limits
        self._about = about
        self._describe = describe
        self._ring_ns = ring_ns
        slice_ns = None if ring_ns is None else max(1, ring_ns // RING_SLICES)
        create = partial(TraceFiles, directory, about.name, about.pid, slice_ns)
        try:
            self._run_directory = RunDirectory(directory, must_be_empty=True)
            self.files = create()
        except (ConfigError, TraceError) as error:
            if not may_be_full or getattr(error.__cause__, "errno", None) not in _FULL:
                raise
            self.files = create(lacking=TraceError(str(error)))
        self.recorder = TraceRecorder(self.files)
        self._saved_channels = 0
        self._next_flush_ns = 0
        self._next_save_ns = 0
        self.keep_until_ns: int | None = None  # after a trigger
        if self.files.lacking is None:
            self._save()

    def tick(self, now_ns: int) -> None:
        """Write pending events, drop old files and update the manifest, several times a second."""
        if now_ns >= self._next_flush_ns:
            self._next_flush_ns = now_ns + FLUSH_INTERVAL_NS
            if self._ring_ns is not None or self.recorder.pending_events < FLUSH_EVENTS_MAX:
                self.recorder.flush()
        old = self._take_old(now_ns, is_closed=False)
        has_changed = len(self.channels) != self._saved_channels
        is_stale = now_ns - self._next_save_ns >= (0 if has_changed else SAVE_ANYHOW_NS)
        if self.files.has_changed or is_stale:
            self._next_save_ns = now_ns + SAVE_INTERVAL_NS * (1 + len(self.channels) // 1000)
            self._save(old)

    def trigger(self, why: str, now_ns: int) -> None:
        self.triggers.append((now_ns, why))
        if self._ring_ns is not None:
            self.keep_until_ns = now_ns + self._ring_ns // 2
            self.files.keep_all()

    def close(self, now_ns: int) -> None:
        """Write everything and end the run. Raises: TraceError if events were lost (the written
        ones are readable), or if there is no trace."""
        error = None
        try:
            self.recorder.close()  # writes all events
        except TraceError as caught:
            error = caught
        self._save(self._take_old(now_ns, is_closed=True))
        if error is not None:
            raise error
        seal_run(self.directory)
        self._run_directory.release()

    def _take_old(self, now_ns: int, *, is_closed: bool) -> list[TraceFile]:
        """Take out the files that a ring drops now; `_save` deletes them."""
        if self._ring_ns is None:
            return []
        if self.keep_until_ns is not None:
            self.files.keep_all()
            if now_ns >= self.keep_until_ns:
                self.keep_until_ns = None
        before_ns = None if is_closed and self.triggers else now_ns - self._ring_ns
        return self.files.take_old(before_ns, is_closed=is_closed)

    def _measured(self) -> tuple[int | None, int | None]:
        """Instants of the first and the last data buffer that the files still contain."""
        span = self.channels.data_span()
        if span is None:
            return None, None
        from_ns, to_ns = span
        first = [each.first_ns for each in self.files.files if each.first_ns is not None]
        last = [each.last_ns for each in self.files.files if each.last_ns is not None]
        if first and last:
            from_ns, to_ns = max(from_ns, min(first)), min(to_ns, max(last) + 1)
        if self.within is not None:
            from_ns = max(from_ns, self.within[0])
            to_ns = max(min(to_ns, self.within[1]), from_ns)
        return from_ns, to_ns

    def _save(self, old: Iterable[TraceFile] = ()) -> None:
        """Write the manifest, and delete the old files, which it no longer names."""
        self.files.has_changed = False
        self._saved_channels = len(self.channels)
        self.manifest().save(self.directory)
        for each in old:
            with suppress(OSError):
                each.path.unlink()

    def manifest(self) -> RunManifest:
        about = self._about
        from_ns, to_ns = self._measured()
        found = RunManifest(
            scenario=dict(about.scenario) | ({IS_PART: True} if self.within else {}),
            flink_keys={},
            host=dict(about.host),
            versions=dict(about.versions),
            seed=0,
            clock=about.clock,
            started_at=about.started_at,
            measured_from_ns=from_ns,
            measured_to_ns=to_ns,
            processes=self.files.processes,
            channels=self.channels.infos(),
            origin=about.origin,
        )
        return self._describe(found)
