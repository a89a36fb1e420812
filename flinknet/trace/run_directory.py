"""The directory a run writes to: claimed by that run alone when it begins, sealed when it ends."""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from flinknet.errors import ConfigError, TraceError, TraceFormatError

from .manifest import MANIFEST_NAME, RESULT_NAME, RunManifest
from .metrics import METRICS_NAME
from .run import open_run
from .seal import checksum_of_file, read_ends

_LEFT_BY_RUNS = (MANIFEST_NAME, RESULT_NAME, "jobmanager.json", "*.fnt", "run-*")
"""Files and directories of which one says that a run has been in a directory."""


class RunDirectory:
    """A directory that no other run writes to until it is released, or until this process ends.

    It is locked: a look at its contents would not keep out a run that begins at the same time. On a
    file system without locks of directories only that look remains.

    Args:
        path: made if it is not there.
        must_be_empty: nothing at all may be in it; otherwise nothing that a run has left.

    Raises: ConfigError if another run writes to it or has left something in it, or if it cannot be
        made.
    """

    def __init__(self, path: Path, *, must_be_empty: bool = False) -> None:
        self.path = path
        try:
            self._is_ours = not path.exists()
            if not self._is_ours and not path.is_dir():
                raise ConfigError(f"--out: {path} is a file; give a directory")
            descriptor = _locked(path)
        except OSError as error:
            raise ConfigError(
                f"--out: {path} cannot be made a run directory ({error.strerror}); give another"
                " directory"
            ) from error
        self._release = weakref.finalize(self, os.close, descriptor)
        try:
            self._check_free(must_be_empty=must_be_empty)
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others use it; idempotent."""
        self._release()

    def clear(self, names: Iterable[str]) -> None:
        """Delete these files, which this run has made, and the directory if that made it, too."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        if self._is_ours:
            with suppress(OSError):  # there is more in it, that is not ours
                self.path.rmdir()

    def _check_free(self, *, must_be_empty: bool) -> None:
        if must_be_empty and any(self.path.iterdir()):
            raise ConfigError(f"--out: {self.path} is not empty; traces are never overwritten")
        if any(True for pattern in _LEFT_BY_RUNS for _ in self.path.glob(pattern)):
            raise ConfigError(
                f"--out: {self.path} holds a run already; give another directory or remove it"
            )


def seal_run(directory: Path) -> None:
    """At the end of a run: check that its trace is there, and keep checksums of what it left.

    Raises: TraceError if what it recorded is not there, or is not its own.
    """
    try:
        manifest = open_run(directory).manifest
    except TraceFormatError as error:
        raise TraceError(f"the trace is not what this run recorded: {error}") from error
    assert manifest is not None
    files: dict[str, str] = {}
    try:
        for process in manifest.processes:
            _, checksum = read_ends(directory / process.file)
            if checksum is not None:
                files[process.file] = checksum
        for name in (RESULT_NAME, METRICS_NAME):
            with suppress(FileNotFoundError):
                files[name] = checksum_of_file(directory / name)
    except (TraceFormatError, OSError) as error:
        raise TraceError(f"{directory}: its trace cannot be read back ({error})") from error
    replace(manifest, files=files).save(directory)


def seal_result(directory: Path) -> None:
    """Add the result of a run, which was written after the run was sealed, to its checksums.

    Without a sealed manifest there is nothing to do.

    Raises: TraceError.
    """
    if not (directory / MANIFEST_NAME).is_file():
        return
    manifest = RunManifest.load(directory)
    if manifest.files:
        try:
            checksum = checksum_of_file(directory / RESULT_NAME)
        except OSError as error:
            path = directory / RESULT_NAME
            raise TraceError(f"{path}: cannot be read back ({error.strerror})") from error
        replace(manifest, files={**manifest.files, RESULT_NAME: checksum}).save(directory)


def _locked(path: Path) -> int:
    """A descriptor of the directory, made if it is not there, that has its lock. Raises: OSError,
    ConfigError if another has it.
    """
    while True:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"--out: another run is writing to {path}; give another directory"
            ) from None
        except OSError:  # as on NFS
            return descriptor
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)  # the run that had it has just removed it
