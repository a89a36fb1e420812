"""The metrics file of a run as a table: a row for each line, a typed column for each metric.

Lines about checkpoints are left out, as they have other columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from flinknet.errors import TraceFormatError
from flinknet.storage import AnyPath
from flinknet.trace.metrics import metrics_lines, number_of

from .files import whole_packed_file
from .selection import Selection
from .tables import OnRows, json_lines

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
    """Write the metrics of tasks and TaskManagers. Returns: the number of rows.

    Args:
        form: parquet, csv or json.

    Raises: TraceFormatError for a run without metrics.
    """
    names = {
        name
        for line in metrics_lines(selection.run.path)
        if "checkpoint" not in line
        for name in line
    }
    if not names:
        raise TraceFormatError(
            f"{selection.run.path}: it has no metrics; record them with `trace tap --rest`"
        )
    metrics = sorted(names - {name for name, _ in _ABOUT})
    schema = pa.schema([*_ABOUT, *((name, pa.float64()) for name in metrics)])
    rows = 0
    with whole_packed_file(path) as file:
        if form == "json":
            for batch in _batches(selection, schema):
                rows += batch.num_rows
                file.write("".join(f"{line}\n" for line in json_lines(batch).to_pylist()).encode())
                on_rows(rows)
            return rows
        writer = (
            pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")
            if form == "parquet"
            else pyarrow.csv.CSVWriter(file, schema)
        )
        with writer:
            for batch in _batches(selection, schema):
                rows += batch.num_rows
                writer.write_batch(batch)
                on_rows(rows)
    return rows


def _batches(selection: Selection, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    waiting: list[dict[str, Any]] = []
    for line in metrics_lines(selection.run.path, selection.from_ns, selection.to_ns):
        if "checkpoint" in line:
            continue
        waiting.append({name: _typed(line.get(name), name) for name in schema.names})
        if len(waiting) == BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(waiting, schema=schema)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=schema)


def _typed(value: Any, name: str) -> Any:
    """The number of a metric; the unchanged value of a column of _ABOUT."""
    if any(name == each for each, _ in _ABOUT):
        return value
    return number_of(value)
