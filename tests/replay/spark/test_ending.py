"""What ends a replay early ends its JVM and takes its temporary files, whenever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bench.synthetic_trace import make_run
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from tests.runtime.processes import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.socket, pytest.mark.slow("a JVM of its own")]

REPLAY = (sys.executable, "-m", "flinknet", "trace", "replay")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many events as a replay does not answer as soon as it works."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    network = NetworkConfig(buffer_timeout_ns=1_000_000)
    workload = WorkloadConfig(producers=2, consumers=2, rate_per_s=20_000.0, duration_ns=1)
    make_run(directory, Scenario(network=network, workload=workload), events=100_000)
    return directory


def is_launched(process: subprocess.Popen[str]) -> bool:
    """There is a JVM, or the shell that becomes one; it does not answer yet."""
    return bool(psutil.Process(process.pid).children())


def works(process: subprocess.Popen[str]) -> bool:
    """The JVM has Python workers."""
    with suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
        return any("pyspark.worker" in _command(each) for each in below)
    return False


def _command(process: psutil.Process) -> list[str]:
    """Empty for one that has ended, or that nobody has waited for."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


@pytest.mark.parametrize(
    ("number", "exit_code", "is_time", "told"),
    [
        (signal.SIGHUP, 129, is_launched, "terminated"),
        (signal.SIGTERM, 143, works, "terminated"),
        (signal.SIGINT, 130, works, "interrupted"),
    ],
)
def test_no_process_and_no_temporary_file_is_left(
    run: Path,
    tmp_path: Path,
    start_process: Callable[..., subprocess.Popen[str]],
    number: signal.Signals,
    exit_code: int,
    is_time: Callable[[subprocess.Popen[str]], bool],
    told: str,
) -> None:
    process = start_process(
        [*REPLAY, str(run)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    wait_until(lambda: is_time(process), process)
    assert list(tmp_path.glob("flinknet-spark-*"))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == exit_code
    lines = [line for line in said.splitlines() if line]
    assert [each for each in lines if each != "flinknet: starting Spark …"] == [f"flinknet: {told}"]
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_that_was_killed_is_one_line(run: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*REPLAY, str(run)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    wait_until(lambda: works(process), process)
    children = psutil.Process(process.pid).children(recursive=True)
    (jvm,) = (each for each in children if "java" in each.name())
    jvm.kill()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4
    assert said.splitlines() == [
        "flinknet: starting Spark …",
        "flinknet: Spark failed: its JVM was killed by signal 9; was there too little memory?",
    ]
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    assert list(tmp_path.iterdir()) == []
