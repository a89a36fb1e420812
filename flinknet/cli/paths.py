"""Paths on the command line: checks of existing and of new ones."""

from __future__ import annotations

import os
from pathlib import Path

from flinknet.errors import ConfigError
from flinknet.storage import AnyPath, StoragePath, matching, path_of

_RUNS_NAMED = 6
"""Most runs named in an error about several runs."""


def any_path(text: str) -> AnyPath:
    """A local path or one in an object store; a click type. Raises: ConfigError."""
    return path_of(text)


def existing_path(text: str | AnyPath) -> AnyPath:
    """An existing file or directory; a click type.

    Raises: ConfigError, StorageError.
    """
    path = path_of(text)
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or directory")
    return path


def path_of_runs(text: str | AnyPath) -> AnyPath:
    """An existing file or directory, or a pattern that matches some; a click type.

    Raises: ConfigError, StorageError.
    """
    path = path_of(text)
    if not matching(path):
        raise ConfigError(f"{path}: there is no such file or directory")
    return path


def one_run(path: AnyPath) -> AnyPath:
    """The run at a path, or the only run directly below it.

    Raises: ConfigError for several runs, TraceFormatError for none.
    """
    from flinknet.trace import find_runs

    runs = find_runs(path)
    if len(runs) > 1:
        more = ", …" if len(runs) > _RUNS_NAMED else ""
        names = ", ".join(map(str, runs[:_RUNS_NAMED]))
        raise ConfigError(f"{path}: there are {len(runs)} runs below it; give one: {names}{more}")
    return runs[0]


def directory_here(text: str | Path) -> Path:
    """An existing local path, whose files can be followed while they grow; a click type."""
    path = existing_path(text)
    if not isinstance(path, Path):
        raise ConfigError(f"{path}: only files of a file system can be followed")
    return path


def check_writable_file(path: AnyPath, option: str) -> None:
    """Check that a file can be written. Raises: ConfigError if it cannot, or if stdout seems to be
    meant; StorageError if the store cannot be reached.
    """
    if isinstance(path, StoragePath):
        if not path.key or path.is_dir() or not path.bucket.exists():
            raise ConfigError(f"{option}: {path} is not the name of a file in an existing bucket")
        path.check_writable()
        return
    if str(path) == "-":
        raise ConfigError(f"{option}: - does not mean stdout here; give the name of a file")
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{option}: {path} cannot be written; give a file in a directory that can be written to"
        )


def check_new_directory(path: AnyPath) -> None:
    """Check that a path is free or an empty directory. Raises: ConfigError."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"--out: {path} is not empty; traces are never overwritten")
