"""The Spark data source `flinknet`: the events of runs as rows, for SQL, notebooks and exports.

    register(spark)
    events = spark.read.format("flinknet").load("runs/run-0001")
    events.where("kind = 'ADD_CREDIT'").groupBy("channel", "point").sum("value")

Rows have the columns of `trace.schema` with three more: `process` and `connection` (names in the
manifest), `direction` (to_consumer or to_producer). `point`, `kind`, `data_type` and `reason` are
names, what does not apply is null.

Reading less is quicker, and options say what is wanted:

| option | value | what it spares |
|---|---|---|
| `columns` | `at_ns,channel,backlog_buffers` | reading other columns; so does
`spark.read.schema(…)` | | `channels` | `0,3` | blocks and rows of others |
| `from_ns`, `to_ns` | instants; `to_ns` is the first one not wanted | blocks and rows outside |
| `kinds` | `BUFFER_RESPONSE,ADD_CREDIT` | rows of others |

Conditions of a query are not used for this: up to Spark 4.3 a DataFrame that once handed a
condition to a Python source keeps it, and its next query silently lacks rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from flinknet.errors import ConfigError
from flinknet.storage import path_of
from flinknet.trace import Run, TraceFile, TraceReader, find_runs, open_run
from flinknet.trace.arrow import DERIVED, NAMES, event_array
from flinknet.trace.event_block import EventColumns
from flinknet.trace.schema import COLUMNS

from .connect import is_connected
from .worker import ignore_abandoned_pipes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCKS_PER_PARTITION = 16

_BOUNDS = ("from_ns", "to_ns")


def register(spark: SparkSession) -> None:
    """Make the format `flinknet` known to a session.

    A local session without a Python of its own gets this one: another one on the PATH may lack
    flinknet.
    """
    if not is_connected(spark):
        context = spark.sparkContext
        if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable
    spark.dataSource.register(TraceDataSource)


class TraceDataSource(DataSource):
    """Runs at a path: a run directory, a directory of them, or a trace file."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return "flinknet"

    def schema(self) -> StructType:
        """All columns, or those of the option `columns` in its order."""
        fields = {column.name: _spark_type(column.name, column.code) for column in COLUMNS}
        fields |= {name: StringType() for name in DERIVED}
        wanted = [name.strip() for name in self.options.get("columns", ",".join(fields)).split(",")]
        for name in wanted:
            if name not in fields:
                raise ConfigError(f"columns: there is no {name!r}; there are {', '.join(fields)}")
        return StructType([StructField(name, fields[name]) for name in wanted])

    def reader(self, schema: StructType) -> TraceDataSourceReader:
        """A reader of the columns of `schema`."""
        path = self.options.get("path")
        if not path:
            raise ConfigError('the source flinknet needs a path: .load("runs/run-0001")')
        return TraceDataSourceReader(path, schema, Wanted.parse(self.options))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are wanted; None for all."""

    channels: tuple[int, ...] | None = None
    kinds: tuple[int, ...] | None = None
    from_ns: int | None = None
    to_ns: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Wanted:
        """Read the options of the source; raises ConfigError."""
        kinds = _listed(options, "kinds")
        for kind in kinds or ():
            if kind not in NAMES["kind"]:
                raise ConfigError(
                    f"kinds: there is no {kind!r}; there are {', '.join(NAMES['kind'])}"
                )
        channels = _listed(options, "channels")
        return cls(
            None if channels is None else tuple(_integer("channels", each) for each in channels),
            None if kinds is None else tuple(NAMES["kind"].index(each) for each in kinds),
            *(_integer(name, options[name]) if name in options else None for name in _BOUNDS),
        )


class BlockRange(InputPartition):
    """Some blocks of one file."""

    def __init__(
        self, file: TraceFile, blocks: tuple[int, ...], process: str, connections: dict[int, str]
    ) -> None:
        self.file = file
        self.blocks = blocks
        self.process = process
        self.connections = connections


class TraceDataSourceReader(DataSourceReader):
    """Reads groups of blocks as Arrow batches."""

    def __init__(self, path: str, schema: StructType, wanted: Wanted) -> None:
        self._path = path
        self._schema = schema
        self._wanted = wanted

    def partitions(self) -> list[InputPartition]:
        """Groups of blocks that may hold rows wanted."""
        ranges: list[InputPartition] = []
        for run in (open_run(path) for path in find_runs(path_of(self._path))):
            connections = _connections(run)
            for file in run.files:
                with TraceReader(file) as reader:
                    held = [
                        number
                        for number, block in enumerate(reader.blocks())
                        if self._may_hold(block.channels)
                    ]
                    process = reader.process.name
                for start in range(0, len(held), BLOCKS_PER_PARTITION):
                    blocks = tuple(held[start : start + BLOCKS_PER_PARTITION])
                    ranges.append(BlockRange(file.absolute(), blocks, process, connections))
        return ranges or [BlockRange(TraceFile(""), (), "", {})]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one group of blocks."""
        assert isinstance(partition, BlockRange)
        if not partition.blocks:
            return
        ignore_abandoned_pipes()
        names = self._schema.fieldNames()
        stored = set(names) - set(DERIVED) | self._needed_for(names)
        with TraceReader(partition.file) as reader:
            for number in partition.blocks:
                rows = self._filtered(reader.read_block(number, sorted(stored)))
                about = partition.process, partition.connections
                arrays = [event_array(name, rows, *about) for name in names]
                yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _needed_for(self, names: list[str]) -> set[str]:
        """Columns that derived columns and filters are made from; at least one, for the number of
        rows."""
        wanted = self._wanted
        needed = {"channel"} if wanted.channels is not None or "connection" in names else set()
        if wanted.from_ns is not None or wanted.to_ns is not None:
            needed.add("at_ns")
        if wanted.kinds is not None or "direction" in names:
            needed.add("kind")
        return needed or {"point"}

    def _may_hold(self, held: npt.NDArray[np.void]) -> bool:
        may = np.ones(len(held), dtype=bool)
        if self._wanted.channels is not None:
            may &= np.isin(held["channel"], self._wanted.channels)
        if self._wanted.from_ns is not None:
            may &= held["last_ns"] >= self._wanted.from_ns
        if self._wanted.to_ns is not None:
            may &= held["first_ns"] < self._wanted.to_ns
        return bool(may.any())

    def _filtered(self, rows: EventColumns) -> EventColumns:
        wanted = self._wanted
        keep = np.ones(len(next(iter(rows.values()))), dtype=bool)
        if wanted.channels is not None:
            keep &= np.isin(rows["channel"], wanted.channels)
        if wanted.kinds is not None:
            keep &= np.isin(rows["kind"], wanted.kinds)
        if wanted.from_ns is not None:
            keep &= rows["at_ns"] >= wanted.from_ns
        if wanted.to_ns is not None:
            keep &= rows["at_ns"] < wanted.to_ns
        return rows if keep.all() else {name: values[keep] for name, values in rows.items()}


def _listed(options: Mapping[str, str], name: str) -> list[str] | None:
    return [each.strip() for each in options[name].split(",")] if name in options else None


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name}: {text!r} is not a whole number") from None


def _spark_type(name: str, code: str) -> SparkType:
    if name in NAMES:
        return StringType()
    return LongType() if code == "q" else IntegerType()


def _connections(run: Run) -> dict[int, str]:
    channels = run.manifest.channels if run.manifest is not None else ()
    return {each.index: each.connection for each in channels}
