"""A run on disk: a directory with its manifest and trace files, or one trace file alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flinknet.errors import TraceFormatError

from .manifest import MANIFEST_NAME, RunManifest
from .reader import TraceReader

TRACE_SUFFIX = ".fnt"


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run: its files, and its manifest unless it is a trace file alone."""

    path: Path
    files: tuple[Path, ...]
    manifest: RunManifest | None

    def readers(self) -> tuple[TraceReader, ...]:
        """Open every file; raises TraceError for one that cannot be read."""
        return tuple(TraceReader(file) for file in self.files)


def open_run(path: Path) -> Run:
    """The run in a run directory or in one trace file.

    Raises: TraceFormatError that says what the path is instead, and what to give.
    """
    path = Path(path)
    if path.is_file():
        return Run(path, (path,), None)
    if path.exists() and not path.is_dir():
        raise TraceFormatError(f"{path}: neither a directory nor a regular file, so no trace")
    if not path.is_dir():
        raise TraceFormatError(f"{path}: there is no such file or directory")
    if not (path / MANIFEST_NAME).is_file():
        raise TraceFormatError(f"{path}: not a run directory: {_what_else(path)}")
    manifest = RunManifest.load(path)
    files = tuple(path / process.file for process in manifest.processes)
    for file in files:
        if not file.is_file():
            raise TraceFormatError(
                f"{path}: the manifest names {file.name}, which is not there; copy it back"
            )
    return Run(path, files, manifest)


def find_runs(path: Path) -> list[Path]:
    """Run directories at `path` or directly below it, by name; a trace file is a run of its own.

    Raises: TraceFormatError if there are none.
    """
    path = Path(path)
    if path.is_file() or (path / MANIFEST_NAME).is_file():
        return [path]
    found = sorted(manifest.parent for manifest in path.glob(f"*/{MANIFEST_NAME}"))
    if not found:
        open_run(path)
    return found


def _what_else(path: Path) -> str:
    traces = sorted(path.glob(f"*{TRACE_SUFFIX}"))
    if traces:
        return (
            f"it has no {MANIFEST_NAME}, which stood beside its traces: copy it back; `trace info`"
            f" and `verify` read a trace alone, such as {traces[0]}"
        )
    runs = sorted(path.glob(f"*/{MANIFEST_NAME}"))
    if runs:
        return f"the runs are below it, such as {runs[0].parent}"
    return f"it holds no {MANIFEST_NAME} and no *{TRACE_SUFFIX} file"
