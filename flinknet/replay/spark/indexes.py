"""The indexes of many files, read by executors at the same time, once each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flinknet.trace.format import CHANNEL_ENTRY
from flinknet.trace.index import BLOCK_ROW, FileIndex, file_index, is_kept, keep_index, stamp_of

from .frames import Columns, collected, columns_of, map_units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDEXES_HERE_MAX = 32
"""As many files are read by the driver itself."""


@dataclass(frozen=True, slots=True)
class IndexUnit:
    """A file whose index is to be read."""

    path: str


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The index of a file as bytes; fields as of FileIndex."""

    path: str
    size_bytes: int
    changed_ns: int
    blocks: bytes
    channels: bytes
    is_whole: bool
    index_bytes: int


def read_indexes(spark: SparkSession, files: Sequence[Path]) -> None:
    """Have executors read the indexes of files, if they are many, for `trace.file_index`.

    Raises: as TraceReader.
    """
    missing = [file for file in files if not is_kept(file)]
    if len(missing) <= INDEXES_HERE_MAX:
        return
    units = [IndexUnit(str(file.absolute())) for file in missing]
    paths = dict(zip((unit.path for unit in units), missing, strict=True))
    for row in collected(IndexRow, map_units(spark, units, _read, IndexRow)):
        index = FileIndex(
            np.frombuffer(row.blocks, BLOCK_ROW),
            np.frombuffer(row.channels, CHANNEL_ENTRY),
            row.is_whole,
            row.index_bytes,
        )
        keep_index(paths[row.path], (row.size_bytes, row.changed_ns), index)


def _read(unit: IndexUnit) -> Iterable[Columns]:
    path = Path(unit.path)
    index = file_index(path)
    row = IndexRow(
        unit.path,
        *stamp_of(path),
        index.blocks.tobytes(),
        index.channels.tobytes(),
        index.is_whole,
        index.index_bytes,
    )
    yield columns_of(IndexRow, [row])
