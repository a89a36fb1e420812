"""The message table as Parquet, CSV and JSON: a row for each event, written block by block.

`trace.arrow` has the columns. Rows are in the order of recording, file by file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from flinknet.storage import AnyPath
from flinknet.trace import TraceReader
from flinknet.trace.arrow import EVENT_SCHEMA, event_array
from flinknet.trace.blocks import ORDER
from flinknet.trace.schema import COLUMN_NAMES, TIME_NAMES

from .files import whole_packed_file
from .selection import Selection

OnRows = Callable[[int], None]
"""Function that takes the number of rows written so far."""


def event_batches(selection: Selection) -> Iterator[pa.RecordBatch]:
    """The selected events, a batch for each block that has any."""
    connections = selection.connections
    for file in selection.run.files:
        with TraceReader(file) as reader:
            process = reader.process.name
            within = selection.channels, selection.from_ns, selection.to_ns
            for block in reader.events((*COLUMN_NAMES, *TIME_NAMES, ORDER), *within):
                in_order = np.argsort(block[ORDER], kind="stable")
                rows = {name: values[in_order] for name, values in block.items()}
                arrays = [
                    event_array(name, rows, process, connections) for name in EVENT_SCHEMA.names
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)


def write_parquet(selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None) -> int:
    """Write the table as Parquet, a row group for each block. Returns: the number of rows."""
    with (
        whole_packed_file(path) as file,
        pyarrow.parquet.ParquetWriter(file, EVENT_SCHEMA, compression="zstd") as writer,
    ):
        return _write(selection, writer.write_batch, on_rows)


def write_csv(selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None) -> int:
    """Write the table as CSV with a header line; missing values are empty."""
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with (
        whole_packed_file(path) as file,
        pyarrow.csv.CSVWriter(file, EVENT_SCHEMA, write_options=options) as writer,
    ):
        return _write(selection, writer.write_batch, on_rows)


def write_json_lines(selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None) -> int:
    """Write the table as JSON, an object per line; missing values are null."""
    with whole_packed_file(path) as file:

        def write(batch: pa.RecordBatch) -> None:
            lines = "\n".join(json_lines(batch).to_pylist())
            file.write(f"{lines}\n".encode())

        return _write(selection, write, on_rows)


def json_lines(batch: pa.RecordBatch) -> pa.Array:
    """Rows as JSON objects, joined by column, which is ten times as fast as by row."""
    parts: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [f"{', ' if parts else '{'}{json.dumps(name)}: ", _json_values(column)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _json_values(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        texts = pa.array([json.dumps(each) for each in encoded.dictionary.to_pylist()], pa.string())
        column = pa.DictionaryArray.from_arrays(encoded.indices, texts)
    return pc.fill_null(column.cast(pa.string()), "null")


def _write(selection: Selection, write: Callable[[pa.RecordBatch], object], on_rows: OnRows) -> int:
    rows = 0
    for batch in event_batches(selection):
        write(batch)
        rows += batch.num_rows
        on_rows(rows)
    return rows
