"""The metrics file in three forms: typed columns, what is missing is null."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet
import pytest

from flinknet.errors import TraceFormatError
from flinknet.export import select
from flinknet.export.metrics import write_metrics
from flinknet.trace import open_run
from flinknet.trace.metrics import METRICS_NAME
from tests.synthetic_trace import START_NS, write_run

LINES = [
    {"at_ns": START_NS, "task_manager": "x", "task": "A (1/1)", "attempt": 0, "numRecordsIn": 7},
    {"at_ns": START_NS + 1, "task_manager": "x", "UsedMemory": 2.5},
    {"at_ns": START_NS + 1, "job": "1", "checkpoint": 3},
]


def test_metrics_are_typed_columns(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(run)
    (run / METRICS_NAME).write_text("".join(json.dumps(each) + "\n" for each in LINES))
    selection = select(open_run(run))
    paths = {form: tmp_path / f"metrics.{form}" for form in ("parquet", "csv", "json")}
    assert [write_metrics(selection, path, form=form) for form, path in paths.items()] == [2] * 3
    table = pyarrow.parquet.read_table(paths["parquet"])
    assert table.schema.field("attempt").type == "int32"
    assert table.schema.field("numRecordsIn").type == "double"
    rows = table.select(["at_ns", "task", "numRecordsIn", "UsedMemory"]).to_pylist()
    assert rows == [
        {"at_ns": START_NS, "task": "A (1/1)", "numRecordsIn": 7.0, "UsedMemory": None},
        {"at_ns": START_NS + 1, "task": None, "numRecordsIn": None, "UsedMemory": 2.5},
    ]
    first = json.loads(paths["json"].read_text().splitlines()[0])
    assert (first["attempt"], first["vertex"]) == (0, None)
    with paths["csv"].open() as file:
        assert [each["task"] for each in csv.DictReader(file)] == ["A (1/1)", ""]


def test_a_run_without_metrics_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    with pytest.raises(TraceFormatError, match="it has no metrics"):
        write_metrics(select(open_run(tmp_path / "run")), tmp_path / "metrics.parquet")
