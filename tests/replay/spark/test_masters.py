"""Wherever Spark runs, the answer is the same, to the byte: here, a cluster, spark-submit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import flinknet.__main__
from bench.synthetic_trace import make_run
from flinknet.cli import main
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from tests.replay.spark.spark_processes import (
    QUICK_JAVA,
    SPARK_HOME,
    answer,
    arguments,
    begin,
    cluster_within,
    ended,
)
from tests.runtime.processes import wait_until
from tests.shared_spark import commands_in

pytestmark = [pytest.mark.spark, pytest.mark.socket, pytest.mark.slow("a JVM of its own")]

MS = 1_000_000

TWO_EXECUTORS = (
    *("--spark-conf", "spark.executor.cores=1"),
    *("--spark-conf", f"spark.executor.extraJavaOptions={QUICK_JAVA}"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 000 events."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    network = NetworkConfig(buffer_timeout_ns=5 * MS)
    workload = WorkloadConfig(producers=2, consumers=2, rate_per_s=20_000.0, duration_ns=1)
    make_run(directory, Scenario(network=network, workload=workload), events=30_000)
    return directory


@pytest.fixture(scope="module")
def local_answer(run: Path, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """That of all cores of this machine."""
    out = tmp_path_factory.mktemp("local") / "answer.json"
    with commands_in(spark):
        done = CliRunner().invoke(
            main, [*arguments(run), "--json", str(out)], catch_exceptions=False
        )
    assert done.exit_code == 0, done.output
    return out.read_bytes()


def test_a_cluster_of_two_gives_the_same_bytes_when_an_executor_is_killed_in_mid_run(
    run: Path, local_answer: bytes, spark: Any, tmp_path: Path
) -> None:
    out = tmp_path / "cluster.json"
    with cluster_within(spark, tmp_path) as cluster:
        replay = begin(run, out, "--master", cluster.url, *TWO_EXECUTORS)
        wait_until(lambda: bool(cluster.executors()), replay)
        cluster.executors()[0].kill()
        assert replay.poll() is None
        ended(replay)
    assert out.read_bytes() == local_answer


def test_spark_submit_gives_the_same_bytes_another_time_on_one_thread(
    run: Path, local_answer: bytes, tmp_path: Path
) -> None:
    assert b'"method": "kernel"' in local_answer
    submit = (str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[1]")
    submit += ("--driver-java-options", QUICK_JAVA)
    script = str(Path(flinknet.__main__.__file__))
    found = answer(run, tmp_path / "submitted.json", command=(*submit, script))
    assert found == local_answer
