"""Paths on the command line: those that must be there, and those that must be new."""

from __future__ import annotations

from pathlib import Path

from flinknet.errors import ConfigError


def existing_path(text: str | Path) -> Path:
    """A file or directory to read, the type of a click argument. Raises: ConfigError."""
    path = Path(text)
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or directory")
    return path


def check_new_directory(path: Path) -> None:
    """Raises: ConfigError if something is there already that is not an empty directory."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"--out: {path} is not empty; traces are never overwritten")
