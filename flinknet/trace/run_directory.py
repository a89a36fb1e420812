"""The output directory of a run: claimed by that run when it begins, sealed when it ends."""

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
from flinknet.storage import AnyPath

from .manifest import CAPTURE_NAME, MANIFEST_NAME, RESULT_NAME, RunManifest
from .metrics import METRICS_NAME
from .ranged_files import checksum_of_file, read_ends
from .run import open_run

_LEFT_BY_RUNS = (MANIFEST_NAME, RESULT_NAME, "jobmanager.json", "*.fnt", "run-*")
"""Files and directories any of which shows that a run has used the directory."""


class RunDirectory:
    """A directory reserved for one run until it is released, or until this process ends.

    It is locked, because checking its contents would not exclude a run that begins at the same
    time. On a file system without directory locks only that check remains.

    Args:
        path: created if it does not exist.
        must_be_empty: whether it must be empty; otherwise it may not contain files of a run.

    Raises: ConfigError if another run writes to it or has left files in it, or if it cannot be
        created.
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
            if must_be_empty and any(path.iterdir()):
                raise ConfigError(f"--out: {path} is not empty; traces are never overwritten")
            if any(True for pattern in _LEFT_BY_RUNS for _ in path.glob(pattern)):
                raise ConfigError(
                    f"--out: {path} holds a run already; give another directory or remove it"
                )
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        self._release()

    def clear(self, names: Iterable[str]) -> None:
        """Delete these files of this run, and the directory if the run created it."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        if self._is_ours:
            with suppress(OSError):  # it contains other files
                self.path.rmdir()


def is_being_written(path: AnyPath) -> bool:
    """Whether a run writes to a directory now. Without directory locks, as in a store, False."""
    if not isinstance(path, Path):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def seal_run(directory: Path) -> None:
    """Finish a run: check that its trace is complete, and store checksums of its files. Raises:
    TraceError if the trace is missing, or belongs to another run.
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
        for name in (RESULT_NAME, METRICS_NAME, CAPTURE_NAME):
            if (directory / name).is_file():
                files[name] = checksum_of_file(directory / name)
    except (TraceFormatError, OSError) as error:
        raise TraceError(f"{directory}: its trace cannot be read back ({error})") from error
    replace(manifest, files=files).save(directory)


def seal_result(directory: Path, name: str = RESULT_NAME) -> None:
    """Add a file, written after the run was sealed, to its checksums. Raises: TraceError."""
    if not (directory / MANIFEST_NAME).is_file():
        return
    manifest = RunManifest.load(directory)
    if manifest.files:
        try:
            checksum = checksum_of_file(directory / name)
        except OSError as error:
            path = directory / name
            raise TraceError(f"{path}: cannot be read back ({error.strerror})") from error
        replace(manifest, files={**manifest.files, name: checksum}).save(directory)


def _locked(path: Path) -> int:
    """Create and lock a directory. Returns: its descriptor. Raises: OSError; ConfigError if another
    process has the lock.
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
        os.close(descriptor)  # the run that had the lock has just removed the directory
