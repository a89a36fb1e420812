"""Paths on the command line: those that must be there, and those that must be new."""

from __future__ import annotations

import os
from pathlib import Path

from flinknet.errors import ConfigError


def existing_path(text: str | Path) -> Path:
    """A file or directory to read, the type of a click argument. Raises: ConfigError."""
    path = Path(text)
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or directory")
    return path


def check_writable_file(path: Path, option: str) -> None:
    """Raises: ConfigError if no file can be written there, or if stdout seems to be meant."""
    if str(path) == "-":
        raise ConfigError(f"{option}: - does not mean stdout here; give the name of a file")
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{option}: {path} cannot be written; give a file in a directory that can be written to"
        )


def check_new_directory(path: Path) -> None:
    """Raises: ConfigError if something is there already that is not an empty directory."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"--out: {path} is not empty; traces are never overwritten")
