"""Tables of an answer as Parquet: written by executors into a store, by the driver on its machine.

`frame.write` of Spark would want Hadoop's own client of each store in its JVM, and would leave
files of a path without a scheme on the disks of the executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from flinknet.storage import AnyPath, StoragePath, path_of
from flinknet.whole_files import whole_file

from .frames import arrow_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_tables(tables: Mapping[str, DataFrame], directory: AnyPath) -> None:
    """Write each table as DIRECTORY/NAME/part-00000.parquet.

    Raises: OSError, StorageError; what Spark raises.
    """
    for name, table in tables.items():
        place = directory / name
        place.mkdir(parents=True, exist_ok=True)
        path = place / "part-00000.parquet"
        if isinstance(path, StoragePath):
            schema = arrow_of(table.limit(0)).schema
            write = partial(_written, path=str(path), schema=schema)
            table.coalesce(1).mapInArrow(write, "rows bigint").collect()
        else:
            _write(path, arrow_of(table))


def _written(
    batches: Iterator[pa.RecordBatch], *, path: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Runs in an executor. One that is tried again writes the same file again."""
    table = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
    _write(path_of(path), table)
    yield pa.RecordBatch.from_pydict({"rows": pa.array([table.num_rows], pa.int64())})


def _write(path: AnyPath, table: pa.Table) -> None:
    with whole_file(path) as file:
        pyarrow.parquet.write_table(table, file, compression="zstd")
