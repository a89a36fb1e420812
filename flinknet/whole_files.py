"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import uuid4

from .storage import AnyPath, StoragePath

File = TypeVar("File", bound=IO[bytes])

UNFINISHED = ".unfinished"
"""Suffix of a file that is still being written."""


@contextmanager
def whole_file(path: AnyPath, *, has_other_writers: bool = False) -> Iterator[IO[bytes]]:
    """Open a file to write, which gets its name when the block ends: a reader sees the old file or
    the new one.

    A path that is not a regular file (a pipe, a terminal) is written to directly.

    Args:
        has_other_writers: others may write the same file at the same time, also from other
            machines; the last one to finish wins.

    Raises: OSError, StorageError.
    """
    if isinstance(path, StoragePath):
        with path.whole_file() as file:
            yield file
        return
    is_special = path.exists() and not path.is_file()
    own = f".{uuid4().hex}" if has_other_writers else ""
    target = path if is_special else path.with_name(f".{path.name}{own}{UNFINISHED}")
    try:
        with closing_file(open(target, "wb")) as file:
            yield file
        if not is_special:
            _rename(target, path)
    except BaseException:
        if not is_special:
            target.unlink(missing_ok=True)
        raise


@contextmanager
def closing_file(file: File) -> Iterator[File]:
    """Close a file when the block ends (see `close_file`)."""
    try:
        yield file
    finally:
        close_file(file)


def close_file(file: IO[Any]) -> None:
    """Close a file. If a signal interrupts that, as on a network file system, it is closed
    nevertheless, and the system goes on with what was written.
    """
    with suppress(InterruptedError):
        file.close()


def _rename(source: Path, target: Path) -> None:
    """Again if a signal interrupts it, as on a network file system: of other calls Python sees to
    that by itself.
    """
    while True:
        try:
            os.replace(source, target)
            return
        except InterruptedError:
            continue
