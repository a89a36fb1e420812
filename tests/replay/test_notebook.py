"""The example of docs/replay.md for notebooks: it runs, and nothing is read before a table is."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flinknet import notebook
from flinknet.errors import ConfigError, FlinknetError
from tests.recorded_run import MS, write_run

PAGE = Path(__file__).parent.parent.parent / "docs" / "replay.md"

pytestmark = pytest.mark.spark


def test_the_example_of_the_page_runs(
    spark: Any, sawtooth_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(
        r"```python\n(from flinknet import notebook\n.+?)```",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    exec(example.replace('"big"', repr(str(sawtooth_run))), {"spark": spark})
    shown = capsys.readouterr().out
    assert "sum(value)" in shown
    assert re.search(r"\|\s+0\|\s*1000\|", shown)  # records of channel 0
    assert re.search(r"\|\s+5000000\|", shown)


def test_the_example_notebook_runs(spark: Any, sawtooth_run: Path) -> None:
    """Each cell, and what it shows: the value of its last line, as Jupyter has it."""
    pytest.importorskip("matplotlib")
    document = json.loads((PAGE.parent / "notebook.ipynb").read_text(encoding="utf-8"))
    known: dict[str, Any] = {}
    shown = []
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            source = re.sub("runs/(demo|first)", str(sawtooth_run), "".join(cell["source"]))
            tree = ast.parse(source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "cell", "exec"), known)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), known))
    tables, latency, throughput, backlog, reasons, answers, chart, rows, page = shown
    assert "what consumers took" in tables._repr_html_()
    assert list(latency["count"]) == [1000, 1000]
    assert dict(reasons.groupby("reason")["buffers"].sum()) == {"FLUSH": 100, "FULL": 100}
    for picture in (throughput, backlog, chart):
        assert picture._repr_svg_().lstrip().startswith("<?xml")
    assert len(repr(tables)) < 200
    html = answers._repr_html_()
    assert html.index("Model error") < html.index("<td>← recorded</td>")
    assert answers.is_reliable == answers.to_pandas()["is_reliable"].all()
    assert list(rows["kind"][:2]) == ["observed", "predicted"]
    assert page._repr_html_().startswith("<iframe srcdoc=")


@pytest.mark.slow("a JVM of its own")
def test_a_session_starts_without_java_and_again_is_the_same(tmp_path: Path) -> None:
    program = (
        "from flinknet import notebook\n"
        "first, second = notebook.session(), notebook.session()\n"
        "print(first.range(3).count(), first.sparkContext is second.sparkContext)"
    )
    tools = tmp_path / "bin"
    tools.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for tool in Path(directory).iterdir():
            if tool.name != "java" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    environment = {name: text for name, text in os.environ.items() if name != "JAVA_HOME"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"PATH": str(tools)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (0, "3 True\n"), ran.stderr


def test_a_session_that_there_is_is_taken(spark: Any) -> None:
    assert notebook.session().sparkContext is spark.sparkContext


def test_tables_are_lazy(spark: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=20)
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


@pytest.mark.parametrize("ask", [notebook.observed, notebook.predicted, notebook.predicted_jobs])
def test_no_run_at_all_is_named(ask: Any) -> None:
    with pytest.raises(ConfigError, match="no run is named"):
        ask(None)


@pytest.mark.parametrize("ask", [notebook.events, notebook.observed, notebook.predicted])
def test_what_is_not_there_is_named_at_once(spark: Any, tmp_path: Path, ask: Any) -> None:
    with pytest.raises(FlinknetError, match="no such file or directory") as caught:
        ask(spark, str(tmp_path / "nowhere"))
    assert "\n" not in str(caught.value)


def test_tables_go_by_name(spark: Any, sawtooth_run: Path) -> None:
    tables = notebook.observed(spark, str(sawtooth_run))
    assert {"latency", "regimes"} <= set(tables.named())
    with pytest.raises(AttributeError, match="there are messages"):
        _ = tables.latencies


def test_durations_may_be_text(spark: Any, tmp_path: Path) -> None:
    run = str(write_run(tmp_path / "run", buffers=20))
    table = notebook.predicted(spark, run, buffer_timeouts_ns=["5ms", "-1"], round_trips_ns=["1ms"])
    rows = table.select("buffer_timeout_ns", "round_trip_ns").collect()
    assert {(5 * MS, MS), (-1, MS)} <= {tuple(row) for row in rows}


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        ({"buffer_timeouts_ns": [5.5]}, 'text such as "5ms"'),
        ({"buffer_timeouts_ns": ["5 apples"]}, "buffer_timeouts_ns"),
        ({"buffer_timeouts_ns": "5ms"}, "is not a list"),
        ({"buffer_timeouts_ms": [5]}, "there are buffer_timeouts_ns"),
        ({"floating_buffers": [True]}, "whole numbers"),
        ({"consumer_speeds": ["fast"]}, "consumer_speeds: 'fast' is not a factor"),
        ({"consumer_speeds": [None]}, "factors such as 0.5"),
        ({"consumer_speeds": [1e-12]}, "consumer_speeds: 1e-12 is out of range"),
        ({"rate_factors": [10_000]}, "use 0.001 to 1000"),
        ({"flow_controls": ["udp"]}, "not one of"),
    ],
)
def test_a_list_that_cannot_be_used_says_what_is_expected(
    spark: Any, sawtooth_run: Path, lists: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        notebook.predicted(spark, str(sawtooth_run), **lists)
