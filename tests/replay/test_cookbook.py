"""Each cell of docs/cookbook.md runs, in their order, and says what is known of the run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinknet.core.probe import MessageKind

PAGE = Path(__file__).parent.parent.parent / "docs" / "cookbook.md"

EXPECTED = {
    "SELECT run, direction, kind": [("sawtooth", "to_consumer", "BUFFER_RESPONSE", 202, 210_008)],
    "SELECT run, reason": [
        ("sawtooth", "FLUSH", 100, 1050.0, 1000),
        ("sawtooth", "FULL", 100, 1050.0, 1000),
    ],
    "SELECT s.run, s.channel": [
        ("sawtooth", 0, 20_000.0, 20_000),
        ("sawtooth", 1, 20_000.0, 20_000),
    ],
    "SELECT run, max(backlog_buffers)": [("sawtooth", 3)],
    "SELECT * FROM taken": [("sawtooth", 0, 1000, 105_000), ("sawtooth", 1, 1000, 105_000)],
    "SELECT run, count(*) AS events FROM stored": [("sawtooth", 501)],
}
"""The first rows of some cells, by how they begin."""

pytestmark = [pytest.mark.spark, pytest.mark.slow("every cell of the cookbook")]


def cells() -> Iterator[tuple[str, str]]:
    text = PAGE.read_text(encoding="utf-8")
    for found in re.finditer(r"```(python|sql)\n(.+?)```", text, re.DOTALL):
        yield found[1], found[2]


def test_every_cell_runs(
    spark: Any, sawtooth_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"spark": spark}
    seen = set()
    try:
        for language, cell in cells():
            cell = re.sub(r"runs/(demo|first|\*)", str(sawtooth_run), cell)
            cell = cell.replace("events.parquet", str(tmp_path / "events.parquet"))
            if language == "python":
                exec(cell, known)
                continue
            rows = [tuple(row) for row in spark.sql(cell).collect()]
            assert rows or cell.startswith("CREATE"), cell
            for begin, expected in EXPECTED.items():
                if cell.startswith(begin):
                    seen.add(begin)
                    assert rows[: len(expected)] == expected
    finally:
        for view in ("events", "backlog"):
            spark.catalog.dropTempView(view)
    assert seen == set(EXPECTED)
    assert known["answers"].is_reliable in (True, False)
    assert MessageKind.ADD_CREDIT.name in capsys.readouterr().out
