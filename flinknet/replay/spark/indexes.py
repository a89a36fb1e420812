"""The indexes of many files, read by executors at the same time, once each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flinknet.trace import TraceFile
from flinknet.trace.format import CHANNEL_ENTRY
from flinknet.trace.index import BLOCK_ROW, FileIndex, file_index, is_kept, keep_index, stamp_of

from .frames import Columns, collected, columns_of, map_units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDEXES_HERE_MAX = 32
"""As many files are read by the driver itself."""


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


def read_indexes(spark: SparkSession, files: Sequence[TraceFile]) -> None:
    """Have executors read the indexes of files, if they are many, for `trace.file_index`.

    Raises: as TraceReader.
    """
    missing = [file for file in files if not is_kept(file)]
    if len(missing) <= INDEXES_HERE_MAX:
        return
    units = [IndexUnit(number, file.absolute()) for number, file in enumerate(missing)]
    for row in collected(IndexRow, map_units(spark, units, _read, IndexRow)):
        index = FileIndex(
            np.frombuffer(row.blocks, BLOCK_ROW),
            np.frombuffer(row.channels, CHANNEL_ENTRY),
            row.is_whole,
            row.dropped_events,
            row.index_bytes,
        )
        keep_index(missing[row.number], (row.size_bytes, row.changed_ns), index)


def _read(unit: IndexUnit) -> Iterable[Columns]:
    index = file_index(unit.file)
    row = IndexRow(
        unit.number,
        *stamp_of(unit.file),
        index.blocks.tobytes(),
        index.channels.tobytes(),
        index.is_whole,
        index.dropped_events,
        index.index_bytes,
    )
    yield columns_of(IndexRow, [row])
