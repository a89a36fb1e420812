"""Trace files that are still being written: finds their complete blocks.

A file grows by whole blocks; the last one may be incomplete. Only headers are read, so following a
file costs a few bytes per new block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from flinknet.errors import TraceDamagedError

from .format import (
    BLOCK_HEADER_BYTES,
    FILE_PREFIX_BYTES,
    BlockType,
    Extent,
    decode_block_header,
    file_header_bytes,
)
from .manifest import ProcessInfo
from .run import TRACE_SUFFIX
from .seal import read_ends

UNNUMBERED = -1


@dataclass(frozen=True, slots=True)
class WholeBlock:
    """A complete block of a file: its bytes [from_byte, to_byte), and fields of its header."""

    from_byte: int
    to_byte: int
    type: BlockType
    events: int
    first_ns: int
    last_ns: int

    @property
    def extent(self) -> Extent:
        """The block as an extent for a reader; its number in the file is unknown."""
        return Extent(UNNUMBERED, self.from_byte, self.to_byte - self.from_byte)


def whole_blocks(
    path: Path, from_byte: int = 0, to_byte: int | None = None
) -> Iterator[WholeBlock]:
    """The blocks of a file that are complete so far, from their headers.

    Args:
        from_byte: start of a block; 0 for the first one.
        to_byte: end of the last block; None for all complete blocks.

    Raises: TraceFormatError for a file that is not a readable trace, TraceDamagedError if a block
        is missing at a position, OSError if the file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        size_bytes = file.seek(0, os.SEEK_END)
        end = size_bytes if to_byte is None else min(to_byte, size_bytes)
        if not from_byte:
            file.seek(0)
            prefix = file.read(FILE_PREFIX_BYTES)
            if len(prefix) < FILE_PREFIX_BYTES:
                return
            from_byte = file_header_bytes(prefix)
        while from_byte + BLOCK_HEADER_BYTES <= end:
            file.seek(from_byte)
            header = decode_block_header(file.read(BLOCK_HEADER_BYTES))
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
    """The process that writes a file, from its header, with the current name of the file.

    Raises: TraceFormatError for a file that is not a trace, OSError if it cannot be read.
    """
    description, _ = read_ends(path)
    return replace(ProcessInfo.from_dict(description), file=path.name)


def trace_files(path: Path) -> list[Path]:
    """The trace files of a run, of the runs directly below a directory, or the given file, by name;
    possibly none yet.

    They are searched, not taken from a manifest, which may be outdated while a run is in progress.
    """
    if path.is_file():
        return [path]
    return sorted((*path.glob(f"*{TRACE_SUFFIX}"), *path.glob(f"*/*{TRACE_SUFFIX}")))
