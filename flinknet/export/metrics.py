"""The metrics file of a run as a table: a row for each line, a typed column for each metric.

Lines about checkpoints are left out, as they have other columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flinknet.errors import TraceFormatError
from flinknet.storage import AnyPath
from flinknet.trace.metrics import metrics_lines, number_of

from .selection import Selection
from .tables import OnRows, write_batches

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
        form: parquet, csv or json, see `write_batches`.

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
    return write_batches(_batches(selection, schema), schema, path, on_rows, form=form)


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
