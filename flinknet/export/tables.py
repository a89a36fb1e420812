"""The message table and the metrics of a run as Parquet, CSV and JSON.

Messages are written block by block, a row for each event, in the order of recording, file by file;
`trace.arrow` has the columns. The metrics file is a row for each line, a typed column for each
metric, without the lines about checkpoints, which have other columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from flinknet.errors import TraceFormatError
from flinknet.storage import AnyPath
from flinknet.trace import TraceReader
from flinknet.trace.arrow import EVENT_SCHEMA, event_array
from flinknet.trace.blocks import ORDER
from flinknet.trace.metrics import metrics_lines, number_of
from flinknet.trace.schema import COLUMN_NAMES, TIME_NAMES

from .selection import Selection, whole_packed_file

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


def write_events(
    selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None, *, form: str = "parquet"
) -> int:
    """Write the table in a form of `write_batches`. Returns: the number of rows."""
    return write_batches(event_batches(selection), EVENT_SCHEMA, path, on_rows, form=form)


def write_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path: AnyPath,
    on_rows: OnRows,
    *,
    form: str,
) -> int:
    """Write batches of a table. Returns: the number of rows.

    Args:
        form: parquet, with a row group for each batch; csv, with a header line and nothing for
            missing values; json, with an object per line and null for missing values.
    """
    rows = 0
    with whole_packed_file(path) as file, ExitStack() as stack:

        def write_lines(batch: pa.RecordBatch) -> None:
            file.write("".join(f"{line}\n" for line in json_lines(batch).to_pylist()).encode())

        write: Callable[[pa.RecordBatch], object] = write_lines
        if form == "parquet":
            parquet = pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")
            write = stack.enter_context(parquet).write_batch
        elif form == "csv":
            write = stack.enter_context(pyarrow.csv.CSVWriter(file, schema)).write_batch
        for batch in batches:
            write(batch)
            rows += batch.num_rows
            on_rows(rows)
    return rows


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


BATCH_ROWS = 10_000

_ABOUT = (
    *(("at_ns", pa.int64()), ("task_manager", pa.string()), ("task", pa.string())),
    *(("job", pa.string()), ("vertex", pa.string())),
    *(("subtask", pa.int32()), ("attempt", pa.int32())),
)
"""Columns that identify a row's subject; null where a line lacks them."""


def write_metrics(
    selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None, *, form: str = "parquet"
) -> int:
    """Write the metrics of tasks and TaskManagers in a form of `write_batches`. Returns: the number
    of rows. Raises: TraceFormatError for a run without metrics."""
    lines = metrics_lines(selection.run.path)
    names = {name for line in lines if "checkpoint" not in line for name in line}
    if not names:
        raise TraceFormatError(
            f"{selection.run.path}: it has no metrics; record them with `trace tap --rest`"
        )
    metrics = sorted(names - {name for name, _ in _ABOUT})
    schema = pa.schema([*_ABOUT, *((name, pa.float64()) for name in metrics)])
    return write_batches(_batches(selection, schema), schema, path, on_rows, form=form)


def _batches(selection: Selection, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    about = {name for name, _ in _ABOUT}
    lines = metrics_lines(selection.run.path, selection.from_ns, selection.to_ns)
    rows = (
        {
            name: line.get(name) if name in about else number_of(line.get(name))
            for name in schema.names
        }
        for line in lines
        if "checkpoint" not in line
    )
    while batch := list(islice(rows, BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(batch, schema=schema)
