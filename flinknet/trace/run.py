"""A run on disk: a directory with manifest and trace files, or a single trace file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flinknet.errors import TraceDamagedError, TraceFormatError
from flinknet.storage import AnyPath, all_at, files_among, matching, path_of

from . import format
from .manifest import MANIFEST_NAME, ProcessInfo, RunManifest
from .ranged_files import WHAT_TO_DO, checksum_of_file, read_ends
from .reader import TraceReader
from .trace_file import TraceFile

TRACE_SUFFIX = ".fnt"


@dataclass(frozen=True, slots=True)
class Fault:
    """A contradiction to the manifest: the file of the run, and a description."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run: its files, and its manifest unless it is a single trace file."""

    path: AnyPath
    files: tuple[TraceFile, ...]
    manifest: RunManifest | None

    @property
    def is_sealed(self) -> bool | None:
        return None if self.manifest is None else self.manifest.is_sealed

    def readers(self) -> tuple[TraceReader, ...]:
        """Readers of all files. Raises: TraceError if one cannot be read."""
        return tuple(map(TraceReader, self.files))

    def faults(self) -> Iterator[Fault]:
        """Contradictions within the manifest and with the ends of the trace files."""
        if self.manifest is None:
            return
        processes = self.manifest.processes
        files = Counter(process.file for process in processes)
        indexes = Counter(channel.index for channel in self.manifest.channels)
        twice = [f"names {each}" for each, times in files.items() if times > 1]
        twice += [f"has channel {each}" for each, times in indexes.items() if times > 1]
        for what in twice:
            text = f"it {what} more than once; copy it back, or remove the second one"
            yield Fault(MANIFEST_NAME, text)
        for process, fault in zip(
            processes, all_at(self.path, self._fault_of_trace, processes), strict=True
        ):
            if fault is not None:
                yield Fault(process.file, fault)

    def _fault_of_trace(self, process: ProcessInfo) -> str | None:
        """The fault of a trace file; None if it is unreadable or cut, which its reader reports."""
        checksum = self.manifest.files.get(process.file) if self.manifest is not None else None
        try:
            description, checksum_of_end = read_ends(self.path / process.file)
            recorded = ProcessInfo.from_dict(description)
        except (TraceFormatError, OSError):
            return None
        if (recorded.name, recorded.pid) != (process.name, process.pid):  # files may be renamed
            return (
                f"it was recorded by {recorded.name} (pid {recorded.pid}), the manifest says"
                f" {process.name} (pid {process.pid}): they are of different runs"
            )
        if None in (checksum_of_end, checksum) or checksum_of_end == checksum:
            return None
        return "it is of another run than the manifest; copy back what belongs together"


def open_run(path: AnyPath) -> Run:
    """Open the run in a run directory or a single trace file.

    Raises: TraceFormatError that says what the path is instead and what to give; or which part of
        the manifest or the files was damaged, edited or exchanged.
    """
    run, faults = open_with_faults(path)
    refuse(run, faults)
    return run


def refuse(run: Run, faults: Iterable[Fault]) -> None:
    """Raises: TraceFormatError for the first fault, if there is one."""
    for fault in faults:
        raise TraceFormatError(f"{run.path / fault.file}: {fault.text}")


def open_with_faults(
    path: AnyPath, left_out: Collection[str] = ()
) -> tuple[Run, tuple[Fault, ...]]:
    """Open a run that may lack files, together with its faults, for reports of all
    errors. Raises: TraceFormatError for a path that is not a run, or lacks a trace file.
    """
    if path.is_file():
        return Run(path, (TraceFile(str(path)),), None), ()
    if path.exists() and not path.is_dir():
        raise TraceFormatError(f"{path}: neither a directory nor a regular file, so no trace")
    if not path.is_dir():
        raise TraceFormatError(f"{path}: there is no such file or directory")
    if not (path / MANIFEST_NAME).is_file():
        raise TraceFormatError(f"{path}: not a run directory: {_what_else(path)}")
    manifest, broken = RunManifest.load_with_fault(path)
    files = tuple(path / name for name in dict.fromkeys(each.file for each in manifest.processes))
    if broken is not None:
        there = tuple(TraceFile(str(each)) for each in files_among(files))
        return Run(path, there, manifest), (Fault(MANIFEST_NAME, broken),)
    needed = [file for file in files if file.name not in left_out]
    found = files_among(needed)
    for file in needed:
        if file not in found:
            raise TraceFormatError(
                f"{path}: the manifest names {file.name}, which is not there; copy it back"
            )
    run = Run(path, tuple(TraceFile(str(each)) for each in files), manifest)
    return run, tuple(run.faults())


def check_file(directory: AnyPath, manifest: RunManifest, name: str) -> None:
    """Check a file of a run, other than a trace, before it is used; `trace verify` reports a
    missing one. Raises: TraceFormatError if it was changed since the run.
    """
    if not (directory / name).exists():
        return
    fault = fault_of_file(directory, manifest, name)
    if fault is not None:
        raise TraceFormatError(f"{directory / name}: {fault}")


def fault_of_file(directory: AnyPath, manifest: RunManifest, name: str) -> str | None:
    """The fault of a file of a run other than a trace; None without a checksum."""
    expected = manifest.files.get(name)
    if expected is None:
        return None
    try:
        actual = checksum_of_file(directory / name)
    except FileNotFoundError:
        text = 'copy it back; if it is gone, set "seal" in manifest.json to null'
        return f"the manifest names it, and it is not there; {text}"
    except OSError as error:
        return f"cannot read it ({error.strerror})"
    if actual == expected:
        return None
    return f"its checksum is not that in the manifest: it was damaged or edited; {WHAT_TO_DO}"


def faults_of_documents(run: Run) -> Iterator[Fault]:
    """The faults of the files of a run that its seal covers, other than traces."""
    if run.manifest is None:
        return
    traces = {process.file for process in run.manifest.processes}
    for name in sorted(run.manifest.files.keys() - traces):
        if (fault := fault_of_file(run.path, run.manifest, name)) is not None:
            yield Fault(name, fault)


def find_runs(path: AnyPath) -> list[AnyPath]:
    """Run directories at `path` or directly below it, by name; a trace file is a run of its own. Of
    a pattern those of all that matches it. Raises: TraceFormatError if there are none.
    """
    path = path_of(path)
    found: dict[AnyPath, None] = {}
    for each in matching(path) or [path]:
        runs = [each]
        if not (each.is_file() or (each / MANIFEST_NAME).is_file()):
            runs = sorted(manifest.parent for manifest in each.glob(f"*/{MANIFEST_NAME}"))
            if not runs:
                open_run(each)
        found |= dict.fromkeys(runs)
    return list(found)


def distinct_names(runs: Sequence[AnyPath]) -> list[str]:
    """The name of each run directory (absolute, each once), with as many of the directories above
    it as it takes to tell apart those of the same name: run-0001, or first/run-0001 and
    second/run-0001.
    """
    names = [run.name for run in runs]
    above = [run.parent for run in runs]
    while any(each.name for each in above):
        count = Counter(names)
        if len(count) == len(names):
            break
        names = [
            name if count[name] == 1 else f"{each.name}/{name}"
            for name, each in zip(names, above, strict=True)
        ]
        above = [each.parent for each in above]
    return names


def _what_else(path: AnyPath) -> str:
    traces = sorted(path.glob(f"*{TRACE_SUFFIX}"))
    if traces:
        return (
            f"it has no {MANIFEST_NAME}, which belongs to its traces: copy it back; `trace info`"
            f" and `verify` read a trace alone, such as {traces[0]}"
        )
    for level in ("*", "*/*"):
        runs = sorted(manifest.parent for manifest in path.glob(f"{level}/{MANIFEST_NAME}"))
        if runs:
            return f"the runs are below it, such as {runs[0]}"
    return f"it holds no {MANIFEST_NAME} and no *{TRACE_SUFFIX} file"


@dataclass(frozen=True, slots=True)
class WholeBlock:
    """A complete block of a file: its bytes [from_byte, to_byte), and fields of its header."""

    from_byte: int
    to_byte: int
    type: format.BlockType
    events: int
    first_ns: int
    last_ns: int

    @property
    def extent(self) -> format.Extent:
        """The block as an extent for a reader; its number in the file is unknown."""
        return format.Extent(-1, self.from_byte, self.to_byte - self.from_byte)


def whole_blocks(
    path: Path, from_byte: int = 0, to_byte: int | None = None
) -> Iterator[WholeBlock]:
    """The blocks of a file that are complete so far, from their headers, in [from_byte, to_byte); 0
    is the first one, None all complete blocks.

    Raises: TraceFormatError for a file that is not a readable trace, TraceDamagedError if a block
    is missing at a position, OSError if the file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        size_bytes = file.seek(0, os.SEEK_END)
        end = size_bytes if to_byte is None else min(to_byte, size_bytes)
        if not from_byte:
            file.seek(0)
            prefix = file.read(format.FILE_PREFIX_BYTES)
            if len(prefix) < format.FILE_PREFIX_BYTES:
                return
            from_byte = format.file_header_bytes(prefix)
        while from_byte + format.BLOCK_HEADER_BYTES <= end:
            file.seek(from_byte)
            header = format.decode_block_header(file.read(format.BLOCK_HEADER_BYTES))
            if header is None:
                raise TraceDamagedError(path, None, from_byte, "no block begins there")
            after = from_byte + header.length_bytes
            if after > end:
                return
            yield WholeBlock(
                from_byte, after, header.type, header.count, header.first_ns, header.last_ns
            )
            from_byte = after


def process_of(path: Path) -> ProcessInfo:
    """The process that writes a file, from its header, with the current name of the file. Raises:
    TraceFormatError for a file that is not a trace, OSError if it cannot be read.
    """
    description, _ = read_ends(path)
    return replace(ProcessInfo.from_dict(description), file=path.name)


def trace_files(path: Path) -> list[Path]:
    """The trace files of a run, of the runs directly below a directory, or the given file, by name;
    possibly none yet. A manifest may be outdated while a run is in progress.
    """
    if path.is_file():
        return [path]
    return sorted((*path.glob(f"*{TRACE_SUFFIX}"), *path.glob(f"*/*{TRACE_SUFFIX}")))
