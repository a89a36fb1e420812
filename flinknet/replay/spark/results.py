"""Tables of an answer as Parquet: written by executors into a store, by the driver on its machine.

`frame.write` of Spark would want Hadoop's own client of each store in its JVM, and would leave
files of a path without a scheme on the disks of the executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from flinknet.storage import AnyPath, StoragePath, path_of
from flinknet.whole_files import whole_file

from .frames import arrow_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PACKED = "rows binary"


def write_tables(tables: Mapping[str, DataFrame], directory: AnyPath) -> None:
    """Write each table as DIRECTORY/NAME/part-00000.parquet, partition by partition: no more than
    one of them is in memory.

    Raises: OSError, StorageError; what Spark raises.
    """
    for name, table in tables.items():
        place = directory / name
        place.mkdir(parents=True, exist_ok=True)
        path = place / "part-00000.parquet"
        schema = arrow_of(table.limit(0)).schema
        if isinstance(path, StoragePath):
            write = partial(_written, path=str(path), schema=schema)
            table.coalesce(1).mapInArrow(write, "rows bigint").collect()
        else:
            packed = table.mapInArrow(partial(_packed, schema=schema), _PACKED)
            _write(path, _unpacked(row["rows"] for row in packed.toLocalIterator()), schema)


def _written(
    batches: Iterator[pa.RecordBatch], *, path: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Runs in an executor. One that is tried again writes the same file again."""
    rows = _write(path_of(path), batches, schema)
    yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


def _packed(batches: Iterator[pa.RecordBatch], *, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as one Arrow stream; runs in an executor."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch.cast(schema))
    rows = pa.array([sink.getvalue().to_pybytes()], pa.binary())
    yield pa.RecordBatch.from_pydict({"rows": rows})


def _unpacked(streams: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    for data in streams:
        with pa.ipc.open_stream(data) as stream:
            yield from stream


def _write(path: AnyPath, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Write a file of Parquet. Returns: its rows."""
    rows = 0
    with (
        whole_file(path) as file,
        pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for batch in batches:
            rows += batch.num_rows
            writer.write_batch(batch.cast(schema))
    return rows
