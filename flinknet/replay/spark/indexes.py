"""The indexes of many files, read by executors at the same time, once each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flinknet.errors import TraceError
from flinknet.storage import path_of
from flinknet.trace import TraceFile, index
from flinknet.trace.format import CHANNEL_ENTRY
from flinknet.trace.index import BLOCK_ROW, FileIndex, file_index, is_kept, keep_index, stamp_at

from .frames import Columns, collected, columns_of, map_units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDEXES_HERE_MAX = 32
"""As many files of this machine are read by the driver itself."""

INDEXES_IN_STORE_MAX = 8
"""The same of a store, where each takes several requests."""

FILES_AT_ONCE = 256
"""In one job: what comes of them passes through the memory of the driver."""


@dataclass(frozen=True, slots=True)
class IndexUnit:
    """A file whose index is to be read; `number` is its place among them."""

    number: int
    file: TraceFile


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The index of a file as bytes; fields as of FileIndex."""

    number: int
    size_bytes: int
    changed_ns: int
    blocks: bytes
    channels: bytes
    is_whole: bool
    dropped_events: int | None
    index_bytes: int


def read_indexes(spark: Callable[[], SparkSession], files: Sequence[TraceFile]) -> None:
    """Have the indexes of files kept for `trace.file_index`, read by executors if they are many.

    Args:
        spark: gives the session, which may start with that.

    Raises: as TraceReader.
    """
    missing = [file for file in files if not is_kept(file)]
    is_here = not missing or isinstance(path_of(missing[0].path), Path)
    if len(missing) <= (INDEXES_HERE_MAX if is_here else INDEXES_IN_STORE_MAX):
        index.read_indexes(missing)
        return
    units = [IndexUnit(number, file.absolute()) for number, file in enumerate(missing)]
    for start in range(0, len(units), FILES_AT_ONCE):
        own = map_units(spark(), units[start : start + FILES_AT_ONCE], _read, IndexRow)
        for row in collected(IndexRow, own):
            found = FileIndex(
                np.frombuffer(row.blocks, BLOCK_ROW),
                np.frombuffer(row.channels, CHANNEL_ENTRY),
                row.is_whole,
                row.dropped_events,
                row.index_bytes,
            )
            keep_index(missing[row.number], (row.size_bytes, row.changed_ns), found)


def _read(unit: IndexUnit) -> Iterable[Columns]:
    try:
        found = file_index(unit.file)
        stamp = stamp_at(path_of(unit.file.path))
    except (TraceError, OSError):  # the driver finds the same, and says so
        return
    row = IndexRow(
        unit.number,
        *stamp,
        found.blocks.tobytes(),
        found.channels.tobytes(),
        found.is_whole,
        found.dropped_events,
        found.index_bytes,
    )
    yield columns_of(IndexRow, [row])
