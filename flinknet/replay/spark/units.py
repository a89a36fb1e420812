"""Work units: which blocks of which file an executor shall read, and the questions to their
blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.predict.measured_part import FOREVER_NS
from flinknet.trace import Extent, TraceFile, TraceReader, file_index
from flinknet.trace.event_block import EventBlock, lazy_block

from ..read import RecordedRun
from .frames import Columns, map_units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Question = Callable[["WorkUnit", Iterator["EventBlock"]], Iterable[Columns]]
"""Runs in an executor: the unit and its blocks in, rows of the answer out. Must be importable by
name."""

ALL_CHANNELS = -1
"""Stands in the column `channel` for all channels together."""


def of_all_channels(rows: pa.Table) -> pa.Table:
    """Rows of channels as such of ALL_CHANNELS."""
    every = pa.array(np.full(len(rows), ALL_CHANNELS))
    return rows.set_column(rows.schema.get_field_index("channel"), "channel", every)


UNITS_MIN = 8
"""Of a trace that is worth it: so that there is work for all, and a slow unit at the end keeps the
others idle for a short time only. Answers do not depend on it."""

BLOCKS_PER_UNIT_MAX = 64


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """Some blocks of one trace file, and the window that counts.

    Attributes:
        extents: the blocks; nothing else of the file is opened.
        channels: that it is about; empty for all.
        counted_at, until_ns: see RecordedRun.
    """

    run: int
    file: TraceFile
    extents: list[Extent]
    from_ns: int
    to_ns: int
    channels: list[int] = field(default_factory=list)
    counted_at: int = TracePoint.CONSUMED
    until_ns: int = FOREVER_NS


def work_units(runs: Sequence[RecordedRun]) -> list[WorkUnit]:
    """All blocks of all runs, cut into units of about equal size."""
    indexes = [(run, file, file_index(file)) for run in runs for file in run.files]
    total = sum(len(index.blocks) for _, _, index in indexes)
    size = min(max(1, -(-total // UNITS_MIN)), BLOCKS_PER_UNIT_MAX)
    own = {
        run.run: [] if run.edge is None else [info.index for info in run.manifest.channels]
        for run in runs
    }
    return [
        WorkUnit(
            run.run,
            file.absolute(),
            index.extents(np.arange(start, min(start + size, len(index.blocks)))),
            run.from_ns,
            run.to_ns,
            own[run.run],
            run.counted_at,
            run.until_ns,
        )
        for run, file, index in indexes
        for start in range(0, len(index.blocks), size)
    ]


class Tally:
    """The answer to a question about a unit, block by block: as a rule it is put to each alone."""

    def __init__(self, unit: WorkUnit, question: Question) -> None:
        self._unit = unit
        self._question = question
        self._answers: list[Columns] = []

    def take(self, block: EventBlock) -> None:
        """Ask it of a block."""
        self._answers += self._question(self._unit, iter((block,)))

    def end_stretch(self) -> None:
        """The next block does not follow in the same file, or there is none."""

    def answers(self) -> Iterable[Columns]:
        """Rows of the answer, when all blocks are taken."""
        return self._answers


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the columns of the trace that it needs, and the dataclass of its rows.

    Attributes:
        tally: of one that is better answered by the unit.
    """

    question: Question
    columns: tuple[str, ...]
    row: type
    tally: Callable[[WorkUnit, Question], Tally] = Tally

    def begin(self, unit: WorkUnit) -> Tally:
        """Its tally for one unit."""
        return self.tally(unit, self.question)


def ask(spark: SparkSession, units: Sequence[WorkUnit], asked: Asked) -> DataFrame:
    """Put a question to the blocks of each unit; the answers of all units, not merged yet."""
    answer = partial(_answered, question=asked.question, columns=asked.columns)
    return map_units(spark, units, answer, asked.row)


def _answered(unit: WorkUnit, *, question: Question, columns: Sequence[str]) -> Iterator[Columns]:
    with TraceReader(unit.file, unit.extents) as reader:
        blocks = (_read(reader, unit, index, columns) for index in range(len(reader.blocks())))
        yield from question(unit, blocks)


def _read(reader: TraceReader, unit: WorkUnit, index: int, columns: Sequence[str]) -> EventBlock:
    block = lazy_block(reader, index, unit.channels)
    for name in columns:
        _ = block[name]
    return block


def is_measured(unit: WorkUnit, at_ns: IntArray) -> npt.NDArray[np.bool_]:
    """Which instants lie in the measured window."""
    return (at_ns >= unit.from_ns) & (at_ns < unit.to_ns)
