"""Work units: which blocks of which file an executor shall read, and how an answer is made from
them.

A unit is a row of a small DataFrame. Executors open the trace files themselves, read the columns a
question needs, and give back few rows: so events pass neither through the driver nor between Python
and the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.errors import TraceFormatError
from flinknet.predict.measured_part import FOREVER_NS, measured_part
from flinknet.trace import Run, RunManifest, TraceReader, open_run
from flinknet.trace.event_block import EventBlock, lazy_block
from flinknet.trace.manifest import RESULT_NAME
from flinknet.trace.run import check_file

from .worker import freeze_what_is_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = dict[str, Any]
"""Columns of some rows of an answer, by name."""

Question = Callable[["WorkUnit", Iterator["EventBlock"]], Iterable[Answer]]
"""Runs in an executor: the unit and its blocks in, rows of the answer out. Must be importable by
name."""

Merge = Callable[[pa.Table], pa.Table]
"""Makes one table from the answers of all units."""


ALL_CHANNELS = -1
"""Stands in the column `channel` for all channels together."""

UNITS_PER_CORE = 4
"""So that a slow unit at the end keeps the other cores idle for a short time only."""

BLOCKS_PER_UNIT_MAX = 64


_UNIT_SCHEMA = pa.schema(
    [
        ("run", pa.int64()),
        ("file", pa.string()),
        ("blocks", pa.list_(pa.int64())),
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
        ("channels", pa.list_(pa.int64())),
        ("counted_at", pa.int64()),
        ("until_ns", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run directory to be replayed; `run` is its number in this replay.

    Only the measured window [from_ns, to_ns) counts for answers: warm-up and drain are recorded,
    too. Of a run with several exchanges each edge is a RecordedRun of its own, whose manifest names
    the channels of that edge only.

    Attributes:
        edge: None where there is one exchange.
        until_ns: end of what is told of it; behind the measured window comes the drain.
        notes: why the measured window is not the whole one.
        whole_ns: from when to when it was recorded, of which the measured window may be a part;
            None for as much as the window.
    """

    run: int
    path: Path
    files: tuple[Path, ...]
    manifest: RunManifest
    from_ns: int
    to_ns: int
    edge: int | None = None
    until_ns: int = FOREVER_NS
    notes: tuple[str, ...] = ()
    whole_ns: tuple[int, int] | None = None

    @property
    def duration_ns(self) -> int:
        """Length of the measured window."""
        return self.to_ns - self.from_ns

    @property
    def counted_at(self) -> TracePoint:
        """The point at which records count: where they are done with, as far as that was seen."""
        return TracePoint.SENT if self.manifest.is_from_between else TracePoint.CONSUMED


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """Some blocks of one trace file, and the window that counts.

    Attributes:
        channels: that it is about; empty for all.
        counted_at, until_ns: see RecordedRun.
    """

    run: int
    file: str
    blocks: list[int]
    from_ns: int
    to_ns: int
    channels: list[int] = field(default_factory=list)
    counted_at: int = TracePoint.CONSUMED
    until_ns: int = FOREVER_NS


def open_recorded_run(path: Path, number: int) -> RecordedRun:
    """Open a run directory for replay.

    Raises: TraceFormatError if it is none, if its result is not what it left, or if the run was
        not recorded up to its measured part.
    """
    run: Run = open_run(path)
    manifest = run.manifest
    if manifest is None:
        TraceReader(run.path).close()  # what is no trace at all is told as that
        raise TraceFormatError(
            f"{path}: a trace file alone does not say what was measured; give the run directory"
            " with its manifest.json"
        )
    check_file(path, manifest, RESULT_NAME)
    part = measured_part(run)
    return RecordedRun(
        number,
        run.path,
        run.files,
        manifest,
        part.from_ns,
        part.to_ns,
        until_ns=part.until_ns,
        notes=part.notes,
    )


def edges_of(run: RecordedRun) -> list[RecordedRun]:
    """The exchanges of a run, one for each edge, numbered from the run's number on; a run with one
    exchange is its own.
    """
    edges = sorted({channel.edge for channel in run.manifest.channels})
    if len(edges) < 2:
        return [run]
    return [
        replace(run, run=run.run + index, manifest=run.manifest.of_edge(edge), edge=edge)
        for index, edge in enumerate(edges)
    ]


def work_units(runs: Sequence[RecordedRun], cores: int) -> list[WorkUnit]:
    """All blocks of all runs, cut into units of about equal size."""
    blocks_by_file: list[tuple[RecordedRun, Path, int]] = []
    for run in runs:
        for file in run.files:
            with TraceReader(file) as reader:
                blocks_by_file.append((run, file, len(reader.blocks())))
    total = sum(count for _, _, count in blocks_by_file)
    size = min(max(1, -(-total // (UNITS_PER_CORE * cores))), BLOCKS_PER_UNIT_MAX)
    return [
        WorkUnit(
            run.run,
            str(file.absolute()),
            list(range(start, min(start + size, count))),
            run.from_ns,
            run.to_ns,
            [] if run.edge is None else [info.index for info in run.manifest.channels],
            run.counted_at,
            run.until_ns,
        )
        for run, file, count in blocks_by_file
        for start in range(0, count, size)
    ]


def units_frame(spark: SparkSession, units: Sequence[WorkUnit]) -> DataFrame:
    """The units as a DataFrame with a partition for each row."""
    rows = [asdict(unit) for unit in units]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_UNIT_SCHEMA))


class Tally(Protocol):
    """An answer that adds up over the blocks of a unit."""

    def take(self, block: EventBlock) -> None:
        """Add what a block holds."""

    def answers(self) -> Iterable[Answer]:
        """Rows of the answer, when all blocks are taken."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the columns of the trace that it needs, and the schema of its answers as a
    Spark DDL string.

    Attributes:
        tally: answers it for one unit, block by block; None for a question that may be put to each
            block alone.
    """

    question: Question
    columns: tuple[str, ...]
    schema: str
    tally: Callable[[WorkUnit], Tally] | None = None

    def begin(self, unit: WorkUnit) -> Tally:
        """Its tally for one unit."""
        return self.tally(unit) if self.tally else EachBlock(unit, self.question)


class EachBlock:
    """The tally of a question that is put to each block alone."""

    def __init__(self, unit: WorkUnit, question: Question) -> None:
        self._unit = unit
        self._question = question
        self._answers: list[Answer] = []

    def take(self, block: EventBlock) -> None:
        """Ask it of a block."""
        self._answers += self._question(self._unit, iter((block,)))

    def answers(self) -> Iterable[Answer]:
        """The rows of all blocks."""
        return self._answers


def arrow_schema(schema: str) -> pa.Schema:
    """The schema of the batches that `mapInArrow` gives back, from a Spark DDL string."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType, _parse_datatype_string

    parsed = _parse_datatype_string(schema)
    assert isinstance(parsed, StructType)
    return to_arrow_schema(parsed)


def ask(units: DataFrame, asked: Asked) -> DataFrame:
    """Put a question to the blocks of each unit; the answers of all units, not merged yet.

    Args:
        units: from `units_frame`.
    """
    schema = arrow_schema(asked.schema)

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for unit in _units_in(batches):
            with TraceReader(Path(unit.file)) as reader:
                blocks = (_read(reader, unit, i, asked.columns) for i in unit.blocks)
                yield from record_batches(asked.question(unit, blocks), schema)
        freeze_what_is_loaded()

    return units.mapInArrow(answer, asked.schema)


def merged(parts: DataFrame, merge: Merge, schema: str) -> DataFrame:
    """A small table made from all answers of all units, in one place.

    Args:
        schema: of that table, as a Spark DDL string.
    """
    answer_schema = arrow_schema(schema)

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            yield from merge(pa.Table.from_batches(found)).cast(answer_schema).to_batches()

    return parts.repartition(1).mapInArrow(answer, schema)


def in_order(table: DataFrame, *keys: str) -> DataFrame:
    """A small table, sorted; `orderBy` would compute it twice, first to take a sample."""
    return table.repartition(1).sortWithinPartitions(*keys)


def record_batches(answers: Iterable[Answer], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Answers as one Arrow batch; none without a row."""
    found = list(answers)
    if not found:
        return []
    columns = {
        name: np.concatenate([each[name] for each in found])
        if isinstance(found[0][name], np.ndarray)
        else list(chain.from_iterable(each[name] for each in found))
        for name in schema.names
    }
    batch = pa.RecordBatch.from_pydict(columns, schema=schema)
    return [batch] if batch.num_rows else []


def _units_in(batches: Iterator[pa.RecordBatch]) -> Iterator[WorkUnit]:
    for batch in batches:
        for row in batch.to_pylist():
            yield WorkUnit(**row)


def _read(reader: TraceReader, unit: WorkUnit, index: int, columns: tuple[str, ...]) -> EventBlock:
    block = lazy_block(reader, index, unit.channels)
    for name in columns:
        _ = block[name]
    return block


def is_measured(unit: WorkUnit, at_ns: IntArray) -> npt.NDArray[np.bool_]:
    """Which instants lie in the measured window."""
    return (at_ns >= unit.from_ns) & (at_ns < unit.to_ns)
