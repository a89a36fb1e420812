"""Wherever Spark runs, the answer is the same, to the byte: here, a cluster, spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
from click.testing import CliRunner

import flinknet.__main__
from flinknet.cli import main
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.predict.synth.plan import plan
from flinknet.predict.synth.run import synthesize
from flinknet.replay.spark.jvm import find_java, launcher_home
from tests.runtime.processes import wait_until
from tests.shared_spark import commands_in

pytestmark = [pytest.mark.spark, pytest.mark.socket]

SPARK_HOME = Path(pyspark.__file__).parent
MS = 1_000_000

QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""For a JVM that lives for seconds."""

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
    synthesize(plan(Scenario(network=network, workload=workload), events=30_000), directory)
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


def environment() -> dict[str, str]:
    """What Spark's own scripts need."""
    return os.environ | {
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
    }


def arguments(run: Path) -> tuple[str, ...]:
    """Of every replay here."""
    return ("trace", "replay", str(run), "--buffer-timeout", "1ms,-1", "--split", "3")


def begin(
    run: Path, out: Path, *options: str, command: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """A replay in a process of its own."""
    command = command or (sys.executable, "-m", "flinknet")
    return subprocess.Popen(
        [*command, *arguments(run), *options, "--json", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def answer(run: Path, out: Path, *options: str, command: tuple[str, ...] = ()) -> bytes:
    """The JSON of a replay, whose stderr only says that it begins."""
    replay = begin(run, out, *options, command=command)
    error = ended(replay)
    if not command or not command[0].endswith("spark-submit"):
        assert error == "flinknet: starting Spark …\n"
    return out.read_bytes()


def ended(replay: subprocess.Popen[str]) -> str:
    """What a replay that ends well says on stderr."""
    _, error = replay.communicate()
    assert replay.returncode == 0, error
    assert "Traceback" not in error
    return error


@dataclass(frozen=True)
class Cluster:
    """Spark's own, on loopback: master and worker live in a JVM that runs anyway, executors in
    processes of their own.
    """

    url: str
    jvm: int

    def executors(self) -> list[psutil.Process]:
        """Those that have begun to work: each has started a Python process."""
        found = []
        for child in psutil.Process(self.jvm).children(recursive=True):
            with suppress(psutil.Error):
                if "pyspark.daemon" in child.cmdline():
                    found.append(psutil.Process(child.ppid()))
        return [each for each in found if each.pid != self.jvm and each.name() == "java"]


@pytest.fixture
def cluster(spark: Any, tmp_path: Path) -> Iterator[Cluster]:
    """A standalone cluster: a master, and a worker with room for two executors."""
    gateway = spark.sparkContext._gateway
    jvm, deploy = gateway.jvm, gateway.jvm.org.apache.spark.deploy
    conf, nothing = jvm.org.apache.spark.SparkConf(False), jvm.scala.Option.apply(None)
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1()
    try:
        urls = gateway.new_array(jvm.String, 1)
        urls[0] = f"spark://127.0.0.1:{master.address().port()}"
        there = ("127.0.0.1", 0, 0, 2, 2048, urls, str(tmp_path / "work"))
        worker = deploy.worker.Worker.startRpcEnvAndEndpoint(*there, nothing, conf, nothing)
        try:
            yield Cluster(urls[0], gateway.proc.pid)
        finally:
            worker.shutdown()
            worker.awaitTermination()
    finally:
        master.shutdown()
        master.awaitTermination()


def test_a_cluster_of_two_gives_the_same_bytes_when_an_executor_is_killed_in_mid_run(
    run: Path, local_answer: bytes, cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "cluster.json"
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
