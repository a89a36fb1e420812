"""A figure of an edge under a setting is the same wherever it stands: in the tables of the job and
of the edge on a terminal, in JSON, CSV, the page and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flinknet.predict.grid import Grid
from flinknet.replay.pipeline import Replay, replay_runs
from flinknet.replay.read import open_runs
from flinknet.replay.spark.frames import write_tables
from flinknet.report.charts import Grid as PageGrid
from flinknet.report.export import csv_text, replay_document, replay_rows
from flinknet.report.page_parts import Page, Section
from flinknet.report.replay import replay_page
from flinknet.units import human_count, human_duration, parse_duration_ns
from tests.page_answer import print_replays
from tests.replay_documents import runs_of_every_kind

MS = 1_000_000
FIGURES = ("throughput_records_per_s", "buffers_per_s", "p50", "p99")

Found = dict[tuple[str, int, str], set[float]]
"""Values by edge, buffer timeout in ns, and figure."""


def found_in_document(found: Found, document: Any) -> None:
    def add(edge: str, timeout_ns: int, point: Any) -> None:
        for name in FIGURES:
            value = point[name] if name in point else point["latency_ns"][name]
            if value is not None:
                found[edge, timeout_ns, name].add(round(value, 3))

    for replay in document["replays"]:
        for point in replay["trade_offs"]:
            config = point["config"]
            timeout = config["execution.buffer-timeout.interval"].replace(" ", "")
            is_never = config["execution.buffer-timeout.enabled"] == "false"
            timeout_ns = -1 if is_never else parse_duration_ns(timeout, "timeout")
            add(replay["trace"]["edge"], timeout_ns, point)
    for job in document["jobs"]:
        for point in job["points"]:
            edges = zip(job["edges"], point["timeouts_ns"], point["edges"], strict=True)
            for each in edges:
                add(*each)


def found_in_page(found: Found, page: Page) -> None:
    """The figures behind the sliders of the edges."""
    names = {"records/s": FIGURES[0], "buffers/s": FIGURES[1]}
    for view in page.views[1:]:
        _, _, edge = view.name.partition(" ")
        parts = [part for each in view.details if isinstance(each, Section) for part in each.parts]
        (grid,) = (each for each in parts if isinstance(each, PageGrid))
        for point in grid.points:
            timeout = grid.sliders[0].labels[point.at[0]]
            timeout_ns = -1 if timeout == "-1" else parse_duration_ns(timeout, "timeout")
            for figure, value in zip(grid.figures, point.values, strict=True):
                name = names.get(figure.name, figure.name)
                if value is not None and name in FIGURES:
                    found[edge, timeout_ns, name].add(round(value, 3))


def found_in_csv(found: Found, text: str) -> None:
    for row in csv.DictReader(io.StringIO(text)):
        if row["kind"] != "predicted" or row["edge"] == "job":
            continue
        timeout = row["buffer_timeout"]
        timeout_ns = -1 if timeout == "-1" else parse_duration_ns(timeout, "timeout")
        for name in FIGURES:
            value = row[name] if name in row else row[f"latency_{name}_ns"]
            if value:
                found[row["edge"], timeout_ns, name].add(round(float(value), 3))


def found_in_parquet(found: Found, directory: Path, edges: list[str]) -> None:
    for table in ("trade_offs", "jobs"):
        for row in pq.read_table(directory / table / "part-00000.parquet").to_pylist():
            for name in FIGURES if row["edge"] >= 0 else ():
                if row[name] is not None:
                    key = edges[row["edge"]], row["buffer_timeout_ns"], name
                    found[key].add(round(row[name], 3))


def printed(replay: Replay) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=240)
    print_replays(replay.jobs, console, details=True)
    return stream.getvalue()


@pytest.mark.spark
def test_a_figure_of_an_edge_and_a_setting_is_the_same_wherever_it_stands(
    spark: Any, tmp_path: Path
) -> None:
    run = runs_of_every_kind(tmp_path)["edges"]
    replay = replay_runs(spark, open_runs([run]), Grid(buffer_timeouts_ns=(5 * MS, -1)))
    (job,) = replay.jobs
    found: Found = defaultdict(set)
    document = json.loads(json.dumps(replay_document(replay.jobs)))
    found_in_document(found, document)
    found_in_page(found, replay_page(replay.jobs))
    found_in_csv(found, csv_text(replay_rows(replay.jobs)))
    write_tables(replay.tables(), tmp_path / "tables")
    found_in_parquet(found, tmp_path / "tables", list(job.edges))
    assert len({(edge, timeout_ns) for edge, timeout_ns, _ in found}) == 6
    assert {key: values for key, values in found.items() if len(values) > 1} == {}
    text = printed(replay)
    for (_, _, name), (value,) in found.items():
        cell = human_duration(value) if name in ("p50", "p99") else human_count(value)
        assert text.count(f" {cell} ") >= 2, (name, cell)
