"""flinknet bench over real sockets: one short run, a busy port, the ways to be ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flinknet.replay.read import open_recorded_run
from flinknet.trace import open_run
from tests.runtime.processes import wait_until

COMMAND = [sys.executable, "-c", "from flinknet.cli import main; main()", "bench"]
SOON = "from flinknet.report import live; live.LINE_EVERY_NS = 100_000_000"
TALKS_SOON = [sys.executable, "-c", f"{SOON}; from flinknet.cli import main; main()", "bench"]
"""The same, with a line of progress as soon as there is any."""

Start = Callable[..., subprocess.Popen[str]]
SHORT = ["--duration", "300ms", "--warmup", "100ms"]

pytestmark = pytest.mark.socket


def bench(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], cwd=directory, capture_output=True, text=True, check=False
    )


def wait_until_it_measures(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if "measuring" in line:
            return
    raise AssertionError(f"it ended with {process.wait()} before it measured")


def test_a_run_ends_with_numbers_a_trace_and_its_keys(tmp_path: Path) -> None:
    options = ["--rate", "1k/s", "--buffer-timeout", "5ms", "--json", "-", "--out", "out"]
    done = bench(tmp_path, *SHORT, *options)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["measured"]["records"] == pytest.approx(300, abs=2)
    assert run["measured"]["latency_ns"]["p50"] > 0
    assert run["config"]["execution.buffer-timeout.interval"] == "5 ms"
    directory = tmp_path / "out" / "run-0001"
    names = {path.name for path in directory.iterdir()}
    assert {"manifest.json", "result.json", "tm-0.fnt", "tm-1.fnt"} <= names


@pytest.mark.slow("real processes, for rules tested without")
def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = bench(tmp_path, *SHORT, "--no-trace", "-D", f"taskmanager.data.port={port}")
    assert done.returncode == 4
    assert f"{port}" in done.stderr.splitlines()[-1]
    assert "in use" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.slow("real processes, for rules tested without")
def test_ctrl_c_at_the_start_of_the_processes_says_no_more(
    tmp_path: Path, start_process: Start
) -> None:
    process = start_process(
        [*COMMAND, "--no-trace", "--duration", "60s"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert "starting" in process.stderr.readline()
    # As a terminal does: to the whole group, while TaskManagers are still being imported.
    wait_until(lambda: len(psutil.Process(process.pid).children()) >= 2, process)
    os.killpg(process.pid, signal.SIGINT)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 130
    assert [line for line in rest.splitlines() if line] == ["flinknet: interrupted"]


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_however_it_is_ended_no_process_and_no_temporary_file_is_left(
    tmp_path: Path, start_process: Start, number: signal.Signals, exit_code: int
) -> None:
    spilled = tmp_path / "temporary"
    spilled.mkdir()
    load = ["--rate", "1k/s", "--record-size", "10kb", "--duration", "60s", "--no-trace"]
    stored = ["--partition-type", "blocking", "-D", "taskmanager.network.compression.codec=NONE"]
    process = start_process(
        [*COMMAND, *load, *stored],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(spilled)},
    )
    wait_until(lambda: any(spilled.glob("flinknet-spill-*/*.data")), process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == exit_code
    assert "Traceback" not in rest
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    assert list(spilled.iterdir()) == []


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize(
    ("number", "exit_code", "expected"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_an_interrupted_run_ends_every_process_and_its_trace_is_whole(
    tmp_path: Path, start_process: Start, number: signal.Signals, exit_code: int, expected: str
) -> None:
    process = start_process(
        [*TALKS_SOON, "--duration", "60s", "--warmup", "0", "--rate", "1k/s", "--out", "out"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    )
    wait_until_it_measures(process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.send_signal(number)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == exit_code
    said = f"flinknet: {expected}; what was recorded until then is in out/run-0001"
    assert [line for line in rest.splitlines() if line and "measuring" not in line] == [said]
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    run = open_run(tmp_path / "out" / "run-0001")
    for reader in run.readers():
        with reader:
            assert reader.is_whole
    assert run.manifest is not None
    assert run.manifest.measured_from_ns is not None
    assert run.manifest.measured_to_ns is None
    recorded = open_recorded_run(run.path, 0)
    assert "interrupted" in recorded.notes[0]
    assert recorded.duration_ns > 0


PROGRAM = """
from flinknet.graph import StreamExecutionEnvironment

Record = tuple[int, bytes]


def as_it_is(record: Record) -> Record:
    return record


def main(env: StreamExecutionEnvironment) -> None:
    enriched = env.generate(rate="500/s").rebalance().map(as_it_is).name("Enrich")
    enriched.rebalance().measure_latency()
    enriched.rebalance().measure_latency().name("Second")
    env.execute("Two sinks")
"""


@pytest.mark.slow("real processes for three runs of a job")
def test_a_job_runs_again_with_timeouts_of_its_tasks(tmp_path: Path) -> None:
    """Each setting stands predicted and measured, over both sinks, and the new runs have the
    timeouts."""
    program, run, again = tmp_path / "job.py", tmp_path / "run", tmp_path / "again"
    program.write_text(PROGRAM, encoding="utf-8")
    options = ["--task-managers", "2", "--slots", "1", "--duration", "1s"]
    keys = ["-D", "execution.buffer-timeout.interval=20ms"]
    call = [*COMMAND[:-1], "job", "run", str(program), *options, *keys, "--out", str(run)]
    first = subprocess.run(call, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    asked = ["--edge-timeout", "1=5ms,Enrich=50ms", "--out", str(again), "--json"]
    done = bench(tmp_path, "again", str(run), *asked)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    names = [row["name"] for row in document["runs"]]
    assert names[0] == "buffer-timeout=20ms (as recorded)"
    assert names[1:] == ["Generator Source 5ms, Enrich 50ms"]
    control, mixed = document["runs"]
    assert mixed["predicted"]["latency_ns"]["p50"] > control["predicted"]["latency_ns"]["p50"]
    for row in document["runs"]:
        assert row["measured"]["latency_ns"]["count"] > 800
        assert row["error"]["p50"] is not None
    manifest = json.loads((again / "run-0002" / "manifest.json").read_text(encoding="utf-8"))
    edges = manifest["scenario"]["job"]["edges"]
    assert [each["buffer_timeout_ns"] for each in edges] == [5_000_000, 50_000_000, 50_000_000]
