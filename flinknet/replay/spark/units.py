"""Work of executors before a replay: they read the indexes of many files at once, and look for
damaged blocks. Long stages report their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import numpy as np

from flinknet.errors import TraceError
from flinknet.storage import path_of
from flinknet.trace import TraceFile, index
from flinknet.trace.format import CHANNEL_ENTRY

from ..opening import damaged_blocks
from .frames import Columns, collected, columns_of, map_units

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNITS_MIN = 8
"""Fewest units of a trace that is not small: all executors have work, and a slow unit at the end
keeps the others idle only for a short time. Answers do not depend on it."""

INDEXES_HERE_MAX = 32
INDEXES_IN_STORE_MAX = 8
"""Files in a store that the driver reads itself, at most; each takes several requests."""

FILES_AT_ONCE = 256
"""Files of one job: the driver holds their indexes in memory."""


@dataclass(frozen=True, slots=True)
class NumberedFile:
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
    """Read indexes for `trace.file_index`, many with executors. Raises: as TraceReader."""
    missing = [file for file in files if not index.is_kept(file)]
    is_here = not missing or isinstance(path_of(missing[0].path), Path)
    if len(missing) <= (INDEXES_HERE_MAX if is_here else INDEXES_IN_STORE_MAX):
        index.read_indexes(missing)
        return
    units = [NumberedFile(number, file.absolute()) for number, file in enumerate(missing)]
    for start in range(0, len(units), FILES_AT_ONCE):
        own = map_units(spark(), units[start : start + FILES_AT_ONCE], _read, IndexRow)
        for row in collected(IndexRow, own):
            found = index.FileIndex(
                np.frombuffer(row.blocks, index.BLOCK_ROW),
                np.frombuffer(row.channels, CHANNEL_ENTRY),
                row.is_whole,
                row.dropped_events,
                row.index_bytes,
            )
            index.keep_index(missing[row.number], (row.size_bytes, row.changed_ns), found)


def _read(unit: NumberedFile) -> Iterable[Columns]:
    try:
        found = index.file_index(unit.file)
        stamp = index.stamp_at(path_of(unit.file.path))
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


@dataclass(frozen=True, slots=True)
class DamagedBlock:
    number: int
    block: int


def find_damaged(spark: SparkSession, files: Sequence[TraceFile]) -> list[list[int]]:
    """Numbers of the damaged blocks of each file (an `opening.Scan`); every byte is read once."""
    units = [NumberedFile(number, file.absolute()) for number, file in enumerate(files)]
    found: list[list[int]] = [[] for _ in files]
    for each in collected(DamagedBlock, map_units(spark, units, _checked, DamagedBlock)):
        found[each.number].append(each.block)
    return [sorted(each) for each in found]


def _checked(unit: NumberedFile) -> Iterable[Columns]:
    (blocks,) = damaged_blocks([unit.file])
    return [columns_of(DamagedBlock, [DamagedBlock(unit.number, block) for block in blocks])]


LOOK_S = 1.0

QUIET_LOOKS = 10
"""Looks before the first line: a step that takes less time prints nothing."""


class StageProgress:
    """Progress of Spark's stages, as a line whenever another tenth of the tasks is done."""

    def __init__(self) -> None:
        self.step = ""
        self._looks = 0
        self._said: dict[int, int] = {}

    def begin(self, step: str) -> None:
        self.step = step
        self._looks = 0

    def look(self, stages: Mapping[int, tuple[int, int]]) -> list[str]:
        """The lines that are due, by the done tasks and all tasks of each running stage."""
        self._looks += 1
        lines = []
        for stage, (done, total) in stages.items():
            tenth = 10 * done // total if total else 0
            if tenth > self._said.get(stage, 0) and self._looks > QUIET_LOOKS:
                self._said[stage] = tenth
                lines.append(f"{self.step}: {done:,} of {total:,} tasks")
        return lines


@contextmanager
def reporting_progress(
    spark: SparkSession, say: Callable[[str], None]
) -> Iterator[Callable[[str], None]]:
    """Report progress while the block runs; not through Spark Connect, which does not know it.
    Yields: a function that takes the name of the next step."""
    progress, is_over = StageProgress(), Event()

    def watch() -> None:
        with suppress(Exception):  # the JVM is gone: its next caller reports that
            tracker = spark.sparkContext.statusTracker()
            while not is_over.wait(LOOK_S):
                infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
                stages = {
                    each.stageId: (each.numCompletedTasks, each.numTasks) for each in infos if each
                }
                for line in progress.look(stages):
                    say(line)

    thread = Thread(target=watch, name="flinknet-progress", daemon=True)
    thread.start()
    try:
        yield progress.begin
    finally:
        is_over.set()
        thread.join(LOOK_S)  # no longer: a JVM that hangs does not answer
