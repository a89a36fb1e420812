"""Small tables of dataclasses in Spark: their schema, how executors make them from units of work,
and how they become Parquet files.

Executors open the trace files themselves and give few rows, so that events pass neither through the
driver nor between Python and the JVM.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial, reduce
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.arrays import IntArray
from flinknet.histogram import LogLinearHistogram
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from .installed import has_arrow_tables
from .settings import WORK_UNITS_MAX
from .worker import freeze_what_is_loaded, return_free_memory

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Row = TypeVar("Row", bound="DataclassInstance")
Unit = TypeVar("Unit", bound="DataclassInstance")

Columns = Mapping[str, npt.NDArray[Any] | Sequence[Any]]
TABLE_BYTES_MAX = 16 << 20
UNITS_AT_ONCE = 10_000
"""Units that are converted at a time: as Python objects they need some ten times the memory."""

ROWS_AT_ONCE = 4_096
Merge = Callable[[pa.Table], pa.Table]
_TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
    LogLinearHistogram: pa.binary(),
}


@cache
def schema_of(kind: type) -> pa.Schema:
    hints = get_type_hints(kind)
    return pa.schema([(each.name, arrow_type(hints[each.name])) for each in fields(kind)])


def arrow_type(hint: Any) -> pa.DataType:
    if hint in _TYPES:
        return _TYPES[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return pa.struct(list(schema_of(hint)))
    arguments = [each for each in get_args(hint) if each not in (type(None), Ellipsis)]
    if get_origin(hint) is Mapping:
        return pa.map_(*map(arrow_type, arguments))
    is_optional = get_origin(hint) in (Union, types.UnionType)
    if is_optional and len(arguments) == 1:
        return arrow_type(arguments[0])
    if get_origin(hint) in (list, tuple) and len(arguments) == 1:
        return pa.list_(arrow_type(arguments[0]))
    raise TypeError(f"{hint} has no column type")


def spark_schema_of(kind: type) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema_of(kind))


def rows_of(kind: type[Row], table: pa.Table | pa.RecordBatch) -> list[Row]:
    """The rows of a table; other columns are ignored, missing ones have defaults."""
    names = [name for name in schema_of(kind).names if name in table.schema.names]
    return [_read(kind, row) for row in table.select(names).to_pylist()]


@cache
def _nested(kind: type) -> dict[str, Any]:
    """Fields to convert from Arrow: dataclasses, mappings, tuples, lists of dataclasses."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if _is_nested(hints[each.name])}


def _is_nested(hint: Any) -> bool:
    if is_dataclass(hint) or hint is LogLinearHistogram or get_origin(hint) in (Mapping, tuple):
        return True
    return any(_is_nested(each) for each in get_args(hint))


def _read(hint: Any, plain: Any) -> Any:
    if plain is None:
        return None
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    kind = get_origin(hint)
    if hint is LogLinearHistogram:
        return LogLinearHistogram.from_bytes(plain)
    if kind is Mapping:
        return dict(sorted(dict(plain).items()))  # Spark 3.5 returns a map in any order
    if kind is not None:
        inner = get_args(hint)[0]
        read = [_read(inner, each) for each in plain] if _is_nested(inner) else plain
        return tuple(read) if kind is tuple else read
    own = _nested(hint)
    read = {name: _read(own[name], each) for name, each in plain.items() if name in own}
    return hint(**plain | read)


@dataclass(frozen=True, slots=True)
class Rows(Generic[Row]):
    """The rows of a table, converted on demand: objects take some ten times the memory."""

    kind: type[Row]
    table: pa.Table

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Row]:
        for batch in self.table.to_batches(max_chunksize=ROWS_AT_ONCE):
            yield from rows_of(self.kind, batch)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column; missing values are not a number."""
        values: npt.NDArray[Any] = self.table[name].to_numpy()
        return values

    def of(self, channels: IntArray, name: str) -> npt.NDArray[Any]:
        """Values for some channels; 0 for channels without a row."""
        return values_at(channels, self["channel"], self[name])

    def where(self, name: str, value: Any) -> Rows[Row]:
        return Rows(self.kind, self.table.filter(pc.equal(self.table[name], value)))

    def among(self, channels: IntArray) -> Rows[Row]:
        return Rows(self.kind, self.table.filter(pa.array(np.isin(self["channel"], channels))))


def values_at(keys: IntArray, own: IntArray, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values of some keys among `own`; 0 for others."""
    if not len(own):
        return np.zeros(len(keys), values.dtype)
    order = np.argsort(own, kind="stable")
    place = order[np.minimum(np.searchsorted(own, keys, sorter=order), len(own) - 1)]
    return np.where(own[place] == keys, values[place], 0)


def table_of(kind: type[Row], rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pydict(columns_of(kind, list(rows)), schema=schema_of(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, LogLinearHistogram):
        return value.to_bytes()
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value


def collected(kind: type[Row], frame: DataFrame) -> list[Row]:
    return rows_of(kind, arrow_of(frame))


def flattened(table: DataFrame, through: Collection[str] | None = None) -> DataFrame:
    """Replace nested dataclasses by columns for their fields, without mappings. Fields of those
    named in `through` (None: of all) keep their names; others have the name of the dataclass before
    them, and its unit behind them. Of equal names the first one counts."""
    from pyspark.sql.functions import col

    found: dict[str, str] = {}

    def add(fields_of: Any, path: str, before: str, unit: str) -> None:
        for each in fields_of.fields:
            at, kind = f"{path}{each.name}", each.dataType.typeName()
            if kind == "struct" and (through is None or each.name in through):
                add(each.dataType, f"{at}.", before, unit)
            elif kind == "struct":
                outer, ns, _ = each.name.partition("_ns")
                add(each.dataType, f"{at}.", f"{before}{outer}_", ns)
            elif kind != "map":
                has_unit = each.name == "count" or each.name.endswith(unit)
                found.setdefault(f"{before}{each.name}{'' if has_unit else unit}", at)

    add(table.schema, "", "", "")
    return table.select(*(col(path).alias(name) for name, path in found.items()))


def map_units(
    spark: SparkSession,
    units: Sequence[Unit],
    work: Callable[[Unit], Iterable[Columns]],
    row: type,
) -> DataFrame:
    """Have executors make rows from units, one by one."""
    return map_partitions(spark, units, lambda own: chain.from_iterable(map(work, own)), row)


def map_partitions(
    spark: SparkSession,
    units: Sequence[Unit],
    work: Callable[[Iterator[Unit]], Iterable[Columns]],
    row: type,
) -> DataFrame:
    """As `map_units`, with `work` for the few consecutive units of each task."""
    if not units:
        return spark.createDataFrame([], spark_schema_of(row))
    kind, schema = type(units[0]), schema_of(row)

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = (unit for batch in batches for unit in rows_of(kind, batch))
        for found in work(own):
            yield from record_batches([found], schema)
        freeze_what_is_loaded()
        return_free_memory()

    # A larger table has one partition (spark.sql.execution.arrow.localRelationThreshold).
    tables = (frame_of(spark, table) for table in _tables_of(units))
    return mapped(reduce(lambda left, right: left.union(right), tables), answer, row)


def _tables_of(units: Sequence[Unit]) -> Iterator[pa.Table]:
    for start in range(0, len(units), UNITS_AT_ONCE):
        table = table_of(type(units[0]), units[start : start + UNITS_AT_ONCE])
        parts = max(1, -(-table.nbytes // TABLE_BYTES_MAX))
        size = -(-table.num_rows // parts)
        for first in range(0, table.num_rows, size):
            yield table.slice(first, size).combine_chunks()


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Create a Spark table with a partition for each row, up to WORK_UNITS_MAX."""
    if has_arrow_tables():
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = spark.createDataFrame(table.to_pylist(), from_arrow_schema(table.schema))
    return rows.repartition(min(max(table.num_rows, 1), WORK_UNITS_MAX))


def arrow_of(frame: DataFrame) -> pa.Table:
    if has_arrow_tables():
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(frame.schema))


def merged(parts: DataFrame, merge: Merge, row: type) -> DataFrame:
    """Make a small table, of the dataclass `row`, from the rows of all units in one place."""
    schema = schema_of(row)

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            yield from merge(pa.Table.from_batches(found)).cast(schema).to_batches()

    return mapped(parts.repartition(1), answer, row)


def mapped(
    frame: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    row: type,
) -> DataFrame:
    return frame.mapInArrow(work, spark_schema_of(row))


def in_order(table: DataFrame, *keys: str) -> DataFrame:
    """Sort a small table; `orderBy` would compute it twice, first to take a sample."""
    return table.repartition(1).sortWithinPartitions(*keys)


def columns_of(kind: type[Row], rows: Sequence[Row]) -> dict[str, list[Any]]:
    nested = _nested(kind)
    return {
        name: [_plain(getattr(row, name)) if name in nested else getattr(row, name) for row in rows]
        for name in schema_of(kind).names
    }


def record_batches(answers: Iterable[Columns], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Convert rows to Arrow batches, one for many answers; none without rows."""
    rest = iter(answers)
    batches = []
    while found := list(islice(rest, 1_000)):  # their columns are in memory twice meanwhile
        columns = {
            name: np.concatenate([each[name] for each in found])
            if isinstance(found[0][name], np.ndarray)
            else list(chain.from_iterable(each[name] for each in found))
            for name in schema.names
        }
        batches.append(pa.RecordBatch.from_pydict(columns, schema=schema))
    return [each for each in batches if each.num_rows]


def packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def write_tables(tables: Mapping[str, DataFrame], directory: AnyPath) -> None:
    """Write each table as DIRECTORY/NAME/part-00000.parquet, with one partition in memory at a
    time. `frame.write` of Spark would need Hadoop's client of each store, and would leave files on
    the disks of executors. Raises: OSError, StorageError; exceptions of Spark."""
    import pyarrow.parquet

    for name, table in tables.items():
        place = directory / name
        place.mkdir(parents=True, exist_ok=True)
        schema = arrow_of(table.limit(0)).schema
        parts = table.mapInArrow(partial(_packed_parts, schema=schema), "rows binary")
        with (
            whole_file(place / "part-00000.parquet") as file,
            pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer,
        ):
            for row in parts.toLocalIterator():
                writer.write_table(unpacked(row["rows"]))


def _packed_parts(
    batches: Iterator[pa.RecordBatch], *, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as one Arrow stream; runs in an executor."""
    rows = pa.Table.from_batches([each.cast(schema) for each in batches], schema)
    yield pa.RecordBatch.from_pydict({"rows": pa.array([packed(rows)], pa.binary())})
