"""Damaged traces: a named error, or a named partial answer; for tables as for rows."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet import notebook
from flinknet.errors import FlinknetError
from flinknet.predict.grid import Grid
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from tests.recorded_run import write_run
from tests.replay_documents import documents

pytestmark = pytest.mark.spark


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", buffers=60)


def tables(spark: Any, run: Path) -> None:
    for table in notebook.observed(spark, str(run), split=2).named().values():
        table.collect()


def rows(spark: Any, run: Path) -> None:
    notebook.events(spark, str(run)).collect()


@pytest.mark.parametrize("ask", [tables, rows])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "tm-1.fnt: the file is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "tm-1.fnt: not a flinknet trace"),
        (b"FLINKNET", "tm-1.fnt"),
    ],
)
def test_a_file_that_is_no_trace_is_named(
    spark: Any, run: Path, ask: Callable[..., None], content: bytes, says: str
) -> None:
    (run / "tm-1.fnt").write_bytes(content)
    with pytest.raises(FlinknetError, match=says), notebook.errors():
        ask(spark, run)


@pytest.mark.parametrize("ask", [tables, rows])
def test_a_damaged_block_is_named_without_the_stack_of_spark(
    spark: Any, run: Path, ask: Callable[..., None]
) -> None:
    data = bytearray((run / "tm-1.fnt").read_bytes())
    data[len(data) // 3] ^= 0xFF
    (run / "tm-1.fnt").write_bytes(data)
    with pytest.raises(FlinknetError, match=r"tm-1\.fnt: block \d+") as caught, notebook.errors():
        ask(spark, run)
    told = str(caught.value)
    assert "\n" not in told
    assert "; `flinknet trace verify RUN` shows all that is damaged" in told
    shown = traceback.format_exception(caught.value)
    assert not [line for line in shown if "java" in line or "During handling" in line]


def test_of_a_file_that_was_cut_what_is_there_is_answered_and_the_file_named(
    spark: Any, run: Path
) -> None:
    data = (run / "tm-1.fnt").read_bytes()
    (run / "tm-1.fnt").write_bytes(data[: len(data) // 2])
    grid = Grid(buffer_timeouts_ns=(1_000_000,))
    (answer,) = documents(replay_runs(spark, open_runs([run]), grid, split=2))
    assert answer["trace"]["damaged_files"] == ["tm-1.fnt"]
    assert answer["remarks"][0].startswith("tm-1.fnt is cut off")
    assert 0 < answer["observed"]["records"] < 1_200
    assert answer["observed"]["throughput_records_per_s"] == pytest.approx(2_000, rel=0.05)
    # Each fourth buffer waits for credit for half a beat.
    assert answer["regimes"]["waiting_for_flush"] == pytest.approx(0.875, abs=0.02)
    assert answer["regimes"]["idle"] < 0.03
    assert 0 < notebook.events(spark, str(run)).where("point = 'CONSUMED'").count() < 120
