"""The example of the README for notebooks: it runs, and nothing is read before a table is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flinknet.errors import FlinknetError
from flinknet.replay import notebook

README = Path(__file__).parent.parent.parent / "README.md"

pytestmark = pytest.mark.spark


def test_the_example_of_the_readme_runs(
    spark: Any, sawtooth_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(
        r"```python\n(from flinknet\.replay import notebook\n.+?)```", README.read_text(), re.DOTALL
    )
    exec(example.replace('"big"', repr(str(sawtooth_run))), {"spark": spark})
    shown = capsys.readouterr().out
    assert "sum(value)" in shown
    assert re.search(r"\|\s+0\|\s*1000\|", shown)  # records of channel 0
    assert re.search(r"\|\s+5000000\|", shown)


def test_tables_are_lazy(spark: Any, tmp_path: Path, make_run: Any) -> None:
    run = make_run(tmp_path / "run", buffers=20)
    tables = notebook.observed(spark, str(run))
    predictions = notebook.predicted(spark, str(run), buffer_timeouts_ns=[0])
    for file in run.glob("*.fnt"):
        file.unlink()
    with pytest.raises(Exception, match="cannot open the trace"):
        tables.latency.collect()
    with pytest.raises(Exception, match=r"not there|cannot open the trace"):
        predictions.collect()


def test_what_is_no_run_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(FlinknetError, match="not a run directory"):
        notebook.observed(spark, str(tmp_path))
