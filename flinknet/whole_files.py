"""Files that are written completely or not at all, and directories for the time of a command.

A killed process leaves them behind. A directory is locked as long as its process lives, so that the
next one can remove the rest; an unfinished file is removed a day later.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import uuid4

from .errors import FlinknetError
from .storage import AnyPath, StoragePath

File = TypeVar("File", bound=IO[bytes])

UNFINISHED = ".unfinished"
"""Suffix of a file that is still being written."""

LEFT_FOR = timedelta(days=1)
"""Age of an unfinished file whose writer is no longer there."""

_PREFIX = "flinknet-"
_LOCK = ".in-use"
"""File that is locked as long as a work directory is in use; other directories have none."""


@contextmanager
def whole_file(path: AnyPath) -> Iterator[IO[bytes]]:
    """Open a file to write, which gets its name when the block ends: a reader sees the old file or
    the new one.

    Several processes may write the same file; the last one to finish wins. Meanwhile each has a
    file of its own, under a name that nobody can know before. A path that is not a regular file (a
    pipe, a terminal) is written to directly.

    Raises: OSError, StorageError.
    """
    if isinstance(path, StoragePath):
        with path.whole_file() as file:
            yield file
        return
    is_special = path.exists() and not path.is_file()
    target = path
    if not is_special:
        remove_unfinished(path.parent, glob.escape(path.name))
        target = path.with_name(f".{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        with closing_file(open(target, "wb" if is_special else "xb")) as file:
            yield file
        if not is_special:
            _rename(target, path)
    except BaseException:
        if not is_special:
            target.unlink(missing_ok=True)
        raise


def remove_unfinished(directory: Path, names: str) -> None:
    """Remove unfinished files of a directory that are a day old.

    Args:
        names: pattern of the names that the files would have got.
    """
    oldest_s = (datetime.now(UTC) - LEFT_FOR).timestamp()
    for left in directory.glob(f".{names}.*{UNFINISHED}"):
        with suppress(OSError):  # another process may do the same
            if left.lstat().st_mtime < oldest_s:
                left.unlink()


@contextmanager
def closing_file(file: File) -> Iterator[File]:
    """Close a file when the block ends (see `close_file`)."""
    try:
        yield file
    finally:
        close_file(file)


def close_file(file: IO[Any]) -> None:
    """Close a file. If a signal interrupts that, as on a network file system, it is closed
    nevertheless, and the system goes on with the data.
    """
    with suppress(InterruptedError):
        file.close()


@contextmanager
def work_directory(purpose: str) -> Iterator[Path]:
    """A new directory among the temporary files, which only this user can enter. It is removed when
    the block ends.

    Args:
        purpose: part of its name.

    Raises: FlinknetError if there is no place for temporary files, OSError.
    """
    base = temporary_base()
    for path in base.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):
            _remove_if_left(path)
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=base))
    try:
        with open(directory / f"{_LOCK}.new", "xb") as lock:
            _lock(lock.fileno())
            _rename(Path(lock.name), directory / _LOCK)  # nobody sees it unlocked
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def temporary_base() -> Path:
    """The directory for temporary files. Raises: FlinknetError if none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        found = str(error.strerror).translate(dict.fromkeys(map(ord, "[]'")))
        raise FlinknetError(f"{found}; set TMPDIR to a directory that can be written") from None


def _remove_if_left(lock: Path) -> None:
    """Remove a work directory of this user whose process is gone. Raises: OSError."""
    directory = lock.parent
    if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
        return
    with open(lock, "rb") as file:
        if _lock(file.fileno()):
            shutil.rmtree(directory, ignore_errors=True)
            if directory.exists():  # a JVM that is ending still writes there
                lock.touch()


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed. Returns: False if another process has, or none can."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _rename(source: Path, target: Path) -> None:
    """Retry if a signal interrupts it, as on a network file system: of other calls Python sees to
    that by itself.
    """
    while True:
        try:
            os.replace(source, target)
            return
        except InterruptedError:
            continue
