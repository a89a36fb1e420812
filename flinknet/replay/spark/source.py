"""The Spark data source `flinknet`: the events of runs as rows, for SQL, notebooks and exports.

    events = spark.read.format("flinknet").load("runs/run-0001")
    events.where("kind = 'ADD_CREDIT'").groupBy("channel", "point").sum("value")

    CREATE TABLE events USING flinknet OPTIONS (path 'runs/run-0001')

Spark 4 finds it by itself where flinknet is installed (package `pyspark_flinknet`); `register`
makes it known where it does not.

Rows have the columns of `trace.schema` with four more: `process` and `connection` (names in the
manifest), `direction` (to_consumer or to_producer), `run` (the run directory). `point`, `kind`,
`data_type` and `reason` are names, what does not apply is null.

Reading less is quicker, and options say what is wanted, of a table or a stream as well:

- `columns`, such as `at_ns,channel,backlog_buffers`: no others are read. `spark.read.schema(…)`
  does the same.
- `channels`, such as `0,3`, `from_ns` and `to_ns` (the first instant not wanted): blocks without
  such rows are not touched.
- `kinds`, such as `BUFFER_RESPONSE,ADD_CREDIT`.
- `pushdown`: take these from the conditions of each query, see `pushdown`.
- `starting`, `max_bytes`: of a stream, see `stream_source`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from flinknet.errors import ConfigError
from flinknet.storage import path_of
from flinknet.trace import Extent, TraceFile, TraceReader, distinct_names, find_runs, open_run

from .connect import is_connected
from .event_rows import MEANINGS, SOURCE_SCHEMA, EventRows, Wanted, check_columns, integer
from .pushdown import is_pushdown_asked, take_filters
from .stream_source import EARLIEST, TraceStreamReader
from .worker import ignore_abandoned_pipes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCKS_PER_PARTITION = 16

PARTITIONS_MAX = 10_000
"""Of more blocks a partition has more, so that planning a query stays quick; but each file has one
of its own."""


_OPTIONS = "flinknet.options"
"""Where the options stand in the metadata of the first column."""


def register(spark: SparkSession) -> None:
    """Make the format `flinknet` known to a session that has not found it by itself.

    A local session without a Python of its own gets this one: another one on the PATH may lack
    flinknet.
    """
    from pyspark.errors import AnalysisException

    if not is_connected(spark):
        context = spark.sparkContext
        if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable
    try:
        spark.dataSource.register(TraceDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


class TraceDataSource(DataSource):
    """Runs at a path: a run directory, a directory of them, or a trace file; of a batch also
    several paths."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `format`."""
        return "flinknet"

    def schema(self) -> StructType:
        """All columns, or those of the option `columns` in its order."""
        from pyspark.sql.pandas.types import from_arrow_type

        wanted = self.options.get("columns", ",".join(SOURCE_SCHEMA.names)).split(",")
        names = [name.strip() for name in wanted]
        check_columns(names)
        fields = [
            StructField(
                name,
                from_arrow_type(SOURCE_SCHEMA.field(name).type),
                metadata={"comment": MEANINGS[name]},
            )
            for name in names
        ]
        fields[0].metadata[_OPTIONS] = json.dumps(dict(self.options))
        return StructType(fields)

    def reader(self, schema: StructType) -> TraceDataSourceReader:
        """A reader of the columns of `schema`. Raises: ConfigError."""
        options = self._options_of(schema)
        kind = PushingReader if is_pushdown_asked(options) else TraceDataSourceReader
        return kind(_paths(options), _rows(schema, options))

    def streamReader(self, schema: StructType) -> TraceStreamReader:
        """The same of what is still being written. Raises: ConfigError, TraceFormatError."""
        options = self._options_of(schema)
        paths = _paths(options)
        if len(paths) != 1:
            raise ConfigError(f"a stream follows one path, and {len(paths)} were given")
        path = path_of(paths[0])
        if not isinstance(path, Path):
            raise ConfigError(f"{path}: a stream follows files of this machine, not of a store")
        most = options.get("max_bytes")
        return TraceStreamReader(
            path.absolute(),
            _rows(schema, options),
            options.get("starting", EARLIEST),
            None if most is None else integer("max_bytes", most),
        )

    def _options_of(self, schema: StructType) -> Mapping[str, str]:
        """The options that were given, or those that a table was created with: Spark does not hand
        these to a Python source, but its columns as they were then."""
        if "path" not in self.options and "paths" not in self.options:
            for field in schema.fields:
                if _OPTIONS in field.metadata:
                    kept: dict[str, str] = json.loads(field.metadata[_OPTIONS])
                    return kept
        return self.options


def _rows(schema: StructType, options: Mapping[str, str]) -> EventRows:
    check_columns(schema.fieldNames())
    for field in schema.fields:
        expected, given = SOURCE_SCHEMA.field(field.name).type, field.dataType.simpleString()
        if given.partition(" ")[0] != _spark_name(expected):
            raise ConfigError(f"columns: {field.name} is {_spark_name(expected)}, not {given}")
    return EventRows(tuple(schema.fieldNames()), Wanted.parse(options))


def _paths(options: Mapping[str, str]) -> list[str]:
    """Where the runs are; Spark gives several paths as JSON."""
    several = options.get("paths")
    paths: list[str] = [options.get("path") or ""] if several is None else json.loads(several)
    if not paths or not all(paths):
        raise ConfigError(
            "the source flinknet needs a path: .load(\"runs/run-0001\"), or OPTIONS (path '…'); a"
            " table takes its columns from the option columns, not from a list of its own"
        )
    return [each.removeprefix("file:") for each in paths]  # as the catalog has those of tables


class BlockRange(InputPartition):
    """Some blocks of one file."""

    def __init__(
        self,
        file: TraceFile,
        blocks: tuple[Extent, ...],
        process: str,
        run: str | None,
        name_of_run: str | None,
    ) -> None:
        self.file = file
        self.blocks = blocks
        self.process = process
        self.run = run
        self.name_of_run = name_of_run


class TraceDataSourceReader(DataSourceReader):
    """Reads groups of blocks as Arrow batches."""

    def __init__(self, paths: Sequence[str], rows: EventRows) -> None:
        self._paths = paths
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Groups of blocks that may hold rows wanted."""
        held: list[tuple[TraceFile, list[Extent], str, str | None, str | None]] = []
        paths = [path for each in self._paths for path in find_runs(path_of(each))]
        runs = [open_run(path) for path in {path.absolute(): path for path in paths}.values()]
        names = distinct_names([run.path.absolute() for run in runs])
        for run, name in zip(runs, names, strict=True):
            is_alone = run.manifest is None
            directory = None if is_alone else str(run.path.absolute())
            for file in run.files:
                with TraceReader(file) as reader:
                    blocks = [
                        Extent(number, block.offset, block.length_bytes)
                        for number, block in enumerate(reader.blocks())
                        if self._rows.wanted.may_be_held(block.channels)
                    ]
                    own = reader.process.name, directory, None if is_alone else name
                    held.append((file.absolute(), blocks, *own))
        total = sum(len(blocks) for _, blocks, *_ in held)
        size = max(BLOCKS_PER_PARTITION, -(-total // PARTITIONS_MAX))
        return [
            BlockRange(file, tuple(blocks[start : start + size]), process, directory, name)
            for file, blocks, process, directory, name in held
            for start in range(0, len(blocks), size)
        ] or [BlockRange(TraceFile(""), (), "", None, None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one group of blocks."""
        assert isinstance(partition, BlockRange)
        if not partition.blocks:
            return
        ignore_abandoned_pipes()
        run = None if partition.run is None else path_of(partition.run)
        with TraceReader(partition.file, partition.blocks) as reader:
            yield from self._rows.batches(reader, partition.process, run, partition.name_of_run)


class PushingReader(TraceDataSourceReader):
    """The same, with the conditions of a query (Spark 4.1 and later)."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        """Take the conditions that blocks can be chosen by; Spark applies those that are given
        back."""
        self._rows, rest = take_filters(self._rows, filters)
        return rest


def _spark_name(kind: pa.DataType) -> str:
    return {pa.int64(): "bigint", pa.int32(): "int"}.get(kind, "string")
