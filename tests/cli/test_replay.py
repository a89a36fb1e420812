"""`flinknet trace replay` as a user calls it, in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.cli.replay_options import setting_warnings
from flinknet.cli.trace_replay import _say_verdict
from flinknet.options.what_if import FACTOR_MAX, FACTOR_MIN, SETTINGS
from flinknet.replay import plans
from flinknet.report.page_parts import WIDTH
from tests.recorded_run import write_run

TOOLS = ("bash", "sh", "cat", "dirname", "ps", "env", "head", "basename", "uname", "chmod")
"""What Spark's start scripts and Hadoop's file system call; everything but Java."""


@pytest.fixture
def environment_without_java(tmp_path: Path) -> dict[str, str]:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tools / tool).symlink_to(found)
    root = Path(__file__).parents[2]
    return {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(root),
        "NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"],  # compiling again takes many seconds
    }


def run_in(directory: Path, environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command line."""
    code = "from flinknet.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def test_help_shows_the_bounds_of_factors() -> None:
    text = " ".join(CliRunner().invoke(main, ["trace", "replay", "--help"]).stdout.split())
    assert text.count(f"from {FACTOR_MIN:g} to {FACTOR_MAX:g}") == 2


@pytest.mark.spark
def test_help_states_how_many_records_are_simulated_by_default() -> None:
    shown = " ".join(CliRunner().invoke(main, ["trace", "replay", "--help-all"]).output.split())
    assert (
        f"where each message must be simulated, {plans.CORE_RECORDS_MAX};"
        f" for a tap or a capture, {plans.CORE_RECORDS_MAX_CAPTURED};"
        f" at the highest rate, {plans.CORE_RECORDS_MAX_AT_MAX_RATE}]"
    ) in shown


@pytest.mark.slow("a JVM of its own")
def test_without_java_and_without_a_directory_to_write_to_there_is_an_answer_and_no_noise(
    tmp_path: Path, environment_without_java: dict[str, str]
) -> None:
    run = write_run(tmp_path / "run", buffers=40)
    here = tmp_path / "here"
    here.mkdir(mode=0o555)
    exit_code, stdout, stderr = run_in(
        here,
        environment_without_java,
        *("trace", "replay", str(run), "--buffer-timeout", "5ms", "--json", "-"),
        *("--out", str(tmp_path / "tables")),
    )
    assert stderr == "flinknet: starting Spark …\n"
    assert exit_code == 0
    assert list(here.iterdir()) == []
    answer = json.loads(stdout)
    assert answer["observed"]["records"] == 800
    recorded = [point["is_recorded"] for point in answer["trade_offs"]]
    assert recorded == [False, True]
    assert all(point["latency_ns"]["p50"] for point in answer["trade_offs"])
    assert abs(answer["model_error"]["throughput"]) < 0.05
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        "messages",
        "throughput",
        "backlog",
        "latency",
        "credit_starved",
        "arrivals",
        "regimes",
        "trade_offs",
    }
    assert list((tmp_path / "tables" / "latency").glob("*.parquet"))


@pytest.mark.spark
@pytest.mark.usefixtures("with_spark")
@pytest.mark.parametrize(("target", "exit_code"), [("p99<=10min", 0), ("p99<=1ns", 1)])
def test_a_target_that_nothing_holds_is_an_exit_code(
    tmp_path: Path, target: str, exit_code: int
) -> None:
    run = write_run(tmp_path / "run", buffers=40)
    arguments = ["trace", "replay", str(run), "--buffer-timeout", "5ms", "--json", "-"]
    done = CliRunner().invoke(main, [*arguments, "--target", target])
    assert done.exit_code == exit_code, done.output
    assert (json.loads(done.stdout)["advice"]["choice"]["point"] is None) == (exit_code == 1)


def test_a_key_that_flink_2_ignores_is_known_before_anything_runs() -> None:
    lists = dict.fromkeys(each.option.replace("-", "_") for each in SETTINGS)
    lists |= {"exclusive_buffers": "2, 4", "segment_size": "8kb"}
    found = setting_warnings(lists)
    assert [(name, [each.code for each in warnings]) for name, warnings in found] == [
        ("exclusive-buffers=2", []),
        ("exclusive-buffers=4", ["fixed-in-flink-2"]),
        ("segment-size=8kb", []),
    ]


def test_a_file_is_reported_as_what_it_is(tmp_path: Path) -> None:
    text, empty = tmp_path / "README.md", tmp_path / "empty.fnt"
    capture = tmp_path / "flink.pcap"
    capture.write_bytes(bytes.fromhex("d4c3b2a1") + bytes(80))
    compressed = tmp_path / "flink.pcap.gz"
    compressed.write_bytes(gzip.compress(capture.read_bytes()))
    text.write_text("# Read me, for longer than the header of a file\n")
    empty.touch()
    alone = next(write_run(tmp_path / "run", buffers=4).glob("*.fnt"))
    for file, actual in {
        text: "not a flinknet trace (wrong magic number): give a run directory,"
        " or a .fnt file in one",
        capture: "a capture of packets: `flinknet trace import` makes a trace of it, for this"
        " command",
        compressed: "a compressed file: if it is a capture, `flinknet trace import` makes a trace"
        " of it",
        empty: "the file is empty: its process ended before it recorded",
        alone: "a trace file alone does not say what was measured; give the run directory with its"
        " manifest.json",
    }.items():
        result = CliRunner().invoke(main, ["trace", "replay", str(file)])
        assert (result.exit_code, result.stderr) == (4, f"flinknet: {file}: {actual}\n")


def test_a_verdict_before_predictions_begin_is_as_wide_as_the_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _say_verdict("slow: " + "a task is busy and its siblings are not; " * 5 + "check its host")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("flinknet: slow: a task is busy")
    assert lines[-1].endswith("check its host")
    assert max(map(len, lines)) in range(80, WIDTH + 1)
    assert all(each.startswith(" " * len("flinknet: ")) for each in lines[1:])
