"""Damaged blocks of traces, looked for by executors: every byte of every file is read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinknet.trace import TraceFile

from ..opening import damaged_blocks
from .frames import Columns, collected, columns_of, map_units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class FileToCheck:
    """A file, and its number among those that are checked."""

    number: int
    file: TraceFile


@dataclass(frozen=True, slots=True)
class DamagedBlock:
    """A block that cannot be read, by its number in a file."""

    number: int
    block: int


def find_damaged(spark: SparkSession, files: Sequence[TraceFile]) -> list[list[int]]:
    """The numbers of the blocks of each file that cannot be read (an `opening.Scan`)."""
    units = [FileToCheck(number, file.absolute()) for number, file in enumerate(files)]
    found: list[list[int]] = [[] for _ in files]
    for each in collected(DamagedBlock, map_units(spark, units, _checked, DamagedBlock)):
        found[each.number].append(each.block)
    return [sorted(each) for each in found]


def _checked(unit: FileToCheck) -> Iterable[Columns]:
    (blocks,) = damaged_blocks([unit.file])
    return [columns_of(DamagedBlock, [DamagedBlock(unit.number, block) for block in blocks])]
