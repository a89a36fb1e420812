"""The Spark data source `flinknet`: the events of runs as rows, for SQL, notebooks and exports.

    events = spark.read.format("flinknet").load("runs/run-0001")
    events.where("kind = 'ADD_CREDIT'").groupBy("channel", "point").sum("value")

    CREATE TABLE events USING flinknet OPTIONS (path 'runs/run-0001')

    events = spark.readStream.format("flinknet").load("recordings/")

Spark 4 finds it where flinknet is installed (package `pyspark_flinknet`); elsewhere `register`
makes it known.

Rows have the columns of `trace.schema` and four more: `process` and `connection` (names in the
manifest), `direction` (to_consumer or to_producer), `run` (the run directory). `point`, `kind`,
`data_type` and `reason` are names; values that do not apply are null.

Options select rows and columns, of a table and of a stream, so that less is read:

- `columns`, such as `at_ns,channel,backlog_buffers`; `spark.read.schema(…)` does the same.
- `channels`, such as `0,3`, `from_ns` and `to_ns` (the first instant not wanted): blocks without
  such rows are not read.
- `kinds`, such as `BUFFER_RESPONSE,ADD_CREDIT`.
- `starting`, `max_bytes`: of a stream, see TraceStreamReader.

A stream follows files block by block, and finds new ones (of runs that begin, of a ring
that goes on). Its offset is the number of bytes that it has read of each file. A file that a ring
dropped before it was read has no rows; any other file that disappears ends the query.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructField, StructType

from flinknet import trace
from flinknet.errors import ConfigError, TraceError, TraceFormatError
from flinknet.storage import path_of
from flinknet.trace.format import BlockType
from flinknet.trace.run import process_of, trace_files, whole_blocks

from . import event_rows
from .session import is_connected
from .worker import ignore_abandoned_pipes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCKS_PER_PARTITION = 16

PARTITIONS_MAX = 10_000
"""Most partitions of a query, so that planning it stays quick; each file has at least one."""


_OPTIONS = "flinknet.options"


def register(spark: SparkSession) -> None:
    """Register the format `flinknet` with a session that has not found it. A local session without
    a configured Python gets this one: another one on the PATH may lack flinknet."""
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
    """Runs at a path: a run, a directory of runs, or a trace file; a batch has one path or more."""

    @classmethod
    def name(cls) -> str:
        return "flinknet"

    def schema(self) -> StructType:
        """All columns, or those of the option `columns` in its order."""
        from pyspark.sql.pandas.types import from_arrow_type

        wanted = self.options.get("columns", ",".join(event_rows.SOURCE_SCHEMA.names)).split(",")
        names = [name.strip() for name in wanted]
        event_rows.check_columns(names)
        fields = [
            StructField(
                name,
                from_arrow_type(event_rows.SOURCE_SCHEMA.field(name).type),
                metadata={"comment": event_rows.MEANINGS[name]},
            )
            for name in names
        ]
        fields[0].metadata[_OPTIONS] = json.dumps(dict(self.options))
        return StructType(fields)

    def reader(self, schema: StructType) -> TraceDataSourceReader:
        options = self._options_of(schema)
        return TraceDataSourceReader(_paths(options), _rows(schema, options))

    def streamReader(self, schema: StructType) -> TraceStreamReader:
        """A reader of files that grow. Raises: ConfigError, TraceFormatError."""
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
            None if most is None else event_rows.integer("max_bytes", most),
        )

    def _options_of(self, schema: StructType) -> Mapping[str, str]:
        """The given options, or those of a table, of which Spark hands over the columns alone."""
        if "path" not in self.options and "paths" not in self.options:
            for field in schema.fields:
                if _OPTIONS in field.metadata:
                    kept: dict[str, str] = json.loads(field.metadata[_OPTIONS])
                    return kept
        return self.options


def _rows(schema: StructType, options: Mapping[str, str]) -> event_rows.EventRows:
    event_rows.check_columns(schema.fieldNames())
    for field in schema.fields:
        expected, given = (
            event_rows.SOURCE_SCHEMA.field(field.name).type,
            field.dataType.simpleString(),
        )
        if given.partition(" ")[0] != _spark_name(expected):
            raise ConfigError(f"columns: {field.name} is {_spark_name(expected)}, not {given}")
    return event_rows.EventRows(tuple(schema.fieldNames()), event_rows.Wanted.parse(options))


def _paths(options: Mapping[str, str]) -> list[str]:
    """Paths of the runs; Spark gives several paths as JSON."""
    several = options.get("paths")
    paths: list[str] = [options.get("path") or ""] if several is None else json.loads(several)
    if not paths or not all(paths):
        raise ConfigError(
            "the source flinknet needs a path: .load(\"runs/run-0001\"), or OPTIONS (path '…'); a"
            " table takes its columns from the option columns, not from a list of its own"
        )
    return [each.removeprefix("file:") for each in paths]  # as the catalog has those of tables


@dataclass(frozen=True)
class BlockRange(InputPartition):
    """Some blocks of one file, which `process` recorded; a file alone has no run directory."""

    file: trace.TraceFile
    blocks: tuple[trace.Extent, ...]
    process: str
    run: str | None
    name_of_run: str | None

    def batches(self, rows: event_rows.EventRows) -> Iterator[pa.RecordBatch]:
        ignore_abandoned_pipes()
        run = None if self.run is None else path_of(self.run)
        with trace.TraceReader(self.file, self.blocks) as reader:
            yield from rows.batches(reader, self.process, run, self.name_of_run)

    def parts(self, size: int = BLOCKS_PER_PARTITION) -> list[BlockRange]:
        starts = range(0, len(self.blocks), size)
        return [replace(self, blocks=self.blocks[each : each + size]) for each in starts]


class TraceDataSourceReader(DataSourceReader):
    def __init__(self, paths: Sequence[str], rows: event_rows.EventRows) -> None:
        self._paths = paths
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        held: list[BlockRange] = []
        paths = [path for each in self._paths for path in trace.find_runs(path_of(each))]
        runs = [trace.open_run(path) for path in {path.absolute(): path for path in paths}.values()]
        names = trace.distinct_names([run.path.absolute() for run in runs])
        for run, name in zip(runs, names, strict=True):
            is_alone = run.manifest is None
            directory = None if is_alone else str(run.path.absolute())
            for file in run.files:
                with trace.TraceReader(file) as reader:
                    blocks = tuple(
                        trace.Extent(number, block.offset, block.length_bytes)
                        for number, block in enumerate(reader.blocks())
                        if self._rows.wanted.may_be_held(block.channels)
                    )
                    process = reader.process.name
                own = process, directory, None if is_alone else name
                held.append(BlockRange(file.absolute(), blocks, *own))
        total = sum(len(each.blocks) for each in held)
        size = max(BLOCKS_PER_PARTITION, -(-total // PARTITIONS_MAX))
        nothing = BlockRange(trace.TraceFile(""), (), "", None, None)
        return [part for each in held for part in each.parts(size)] or [nothing]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, BlockRange)
        if partition.blocks:
            yield from partition.batches(self._rows)


def _spark_name(kind: pa.DataType) -> str:
    return {pa.int64(): "bigint", pa.int32(): "int"}.get(kind, "string")


EARLIEST, LATEST = "earliest", "latest"

Offset = dict[str, int]
"""Bytes read of each file, by its path below the streamed one."""


class TraceStreamReader(DataSourceStreamReader):
    """Follows the traces at a path, with the events that exist when a query begins (starting:
    earliest) or without (latest). Micro-batches have at most `max_bytes` as far as whole blocks
    allow, None for no limit; that needs Spark 4.2."""

    def __init__(
        self,
        path: Path,
        rows: event_rows.EventRows,
        starting: str = EARLIEST,
        max_bytes: int | None = None,
    ) -> None:
        if starting not in (EARLIEST, LATEST):
            raise ConfigError(f"starting: {starting!r} is neither {EARLIEST} nor {LATEST}")
        if max_bytes is not None and not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            raise ConfigError("max_bytes: it needs Spark 4.2 or later")
        if not path.exists():
            raise TraceFormatError(f"{path}: there is no such file or directory")
        self._path = path
        self._directory = path.parent if path.is_file() else path
        self._rows = rows
        self._starting = starting
        self._max_bytes = max_bytes
        self._seen: Offset = {}

    def initialOffset(self) -> Offset:
        return self._reached({}, None) if self._starting == LATEST else {}

    def getDefaultReadLimit(self) -> Any:
        """Size limit of a micro-batch (Spark 4.2 and later ask)."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

        return ReadAllAvailable() if self._max_bytes is None else ReadMaxBytes(self._max_bytes)

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """The current ends of the files; Spark before 4.2 gives neither start nor limit."""
        known = self._seen if start is None else start
        self._seen = self._reached(known, getattr(limit, "max_bytes", None))
        return self._seen

    def partitions(self, start: Offset, end: Offset) -> list[BlockRange]:
        """Groups of blocks written between two offsets."""
        found: list[BlockRange] = []
        for name, to_byte in end.items():
            file, from_byte = self._directory / name, start.get(name, 0)
            if from_byte >= to_byte or _is_dropped(file):
                continue
            blocks = tuple(
                block.extent
                for block in whole_blocks(file, from_byte, to_byte)
                if block.type is BlockType.EVENTS
                and self._rows.wanted.may_lie_within(block.first_ns, block.last_ns)
            )
            run = (None, None) if file == self._path else (str(file.parent), file.parent.name)
            found += BlockRange(
                trace.TraceFile(str(file)), blocks, process_of(file).name, *run
            ).parts()
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, BlockRange)
        if not _is_dropped(Path(partition.file.path)):
            yield from partition.batches(self._rows)

    def _reached(self, start: Offset, max_bytes: int | None) -> Offset:
        """The end of each file, at most max_bytes in all after the start, file by file."""
        reached, left = {}, max_bytes
        for file in trace_files(self._path):
            name = file.relative_to(self._directory).as_posix()
            from_byte = to_byte = start.get(name, 0)
            try:
                for block in whole_blocks(file, from_byte):
                    if left is not None and left <= 0:
                        break
                    if left is not None:
                        left -= block.to_byte - block.from_byte
                    to_byte = block.to_byte
            except FileNotFoundError:  # dropped meanwhile
                continue
            reached[name] = to_byte
        return reached


def _is_dropped(file: Path) -> bool:
    """Whether a ring has dropped a file. Raises: TraceError if it is gone and its run names it."""
    if file.exists():
        return False
    try:
        manifest, _ = trace.RunManifest.load_with_fault(file.parent)
    except TraceFormatError:
        raise TraceError(f"{file}: it was removed while it was read") from None
    if file.name in {each.file for each in manifest.processes}:
        raise TraceError(f"{file}: it was removed while it was read; its run still names it")
    return True
