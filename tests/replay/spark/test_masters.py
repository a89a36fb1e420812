"""Wherever Spark runs and the traces are, the answer is the same, to the byte: here, a cluster,
spark-submit, Spark Connect, a store.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pyspark
import pytest

import flinknet.__main__
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.predict.synth.plan import plan
from flinknet.predict.synth.run import synthesize
from flinknet.replay.spark.jvm import find_java, launcher_home
from tests.object_store import BUCKET, ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.socket]

SPARK_HOME = Path(pyspark.__file__).parent
MS = 1_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 000 events."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    network = NetworkConfig(buffer_timeout_ns=5 * MS)
    workload = WorkloadConfig(producers=2, consumers=2, rate_per_s=20_000.0, duration_ns=1)
    synthesize(plan(Scenario(network=network, workload=workload), events=30_000), directory)
    return directory


@pytest.fixture(scope="module")
def local_answer(run: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return answer(run, tmp_path_factory.mktemp("local") / "answer.json", "--master", "local[*]")


def environment(**more: str) -> dict[str, str]:
    """What Spark's own scripts need."""
    return {
        **os.environ,
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **more,
    }


def answer(
    run: Path | str, out: Path, *options: str, command: tuple[str, ...] = (), **more: str
) -> bytes:
    """The JSON of a replay in a process of its own, whose stderr only says that it begins."""
    command = command or (sys.executable, "-m", "flinknet")
    arguments = ("trace", "replay", str(run), "--buffer-timeout", "1ms,-1", "--split", "3")
    done = subprocess.run(
        [*command, *arguments, *options, "--json", str(out)],
        capture_output=True,
        text=True,
        env=environment(**more),
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if not command[0].endswith("spark-submit"):
        assert done.stderr == "flinknet: starting Spark …\n"
    return out.read_bytes()


def test_one_thread_gives_the_same_bytes_and_so_does_another_time(
    run: Path, local_answer: bytes, tmp_path: Path
) -> None:
    assert answer(run, tmp_path / "one.json", "--master", "local[1]") == local_answer
    assert b'"method": "kernel"' in local_answer


@pytest.fixture
def start_java(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process of Spark that says on stderr what it does."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        own = {"SPARK_DAEMON_MEMORY": "512m", "SPARK_CONF_DIR": str(tmp_path)}
        process = subprocess.Popen(
            [
                str(SPARK_HOME / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{name}",
                *arguments,
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment(**own, **more),
        )
        started.append(process)
        return process

    (tmp_path / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.e.ref = e\n"
        "appender.e.type = Console\nappender.e.name = e\nappender.e.target = SYSTEM_ERR\n"
        "appender.e.layout.type = PatternLayout\nappender.e.layout.pattern = %m%n\n"
    )
    yield start
    for process in reversed(started):
        process.terminate()
        process.communicate()


@pytest.fixture
def cluster(
    tmp_path: Path, store: ObjectStore, start_java: Callable[..., subprocess.Popen[str]]
) -> str:
    """A standalone cluster on loopback, a master and a worker, that may read the store."""
    ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = start_java("master.Master", *ports)
    url = told(master, r"Starting Spark master at (spark://\S+)")
    more = ("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"))
    worker = start_java("worker.Worker", *ports, *more, url, AWS_ENDPOINT_URL="")
    told(worker, r"(Successfully registered) with master")
    return url


def told(process: subprocess.Popen[str], pattern: str) -> str:
    """What a process says on stderr."""
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(pattern, line)
        if found:
            return found[1]
    raise AssertionError(f"it ended with {process.wait()} before it said {pattern}")


@pytest.fixture
def python_without_flinknet(tmp_path: Path) -> Path:
    """A Python that has the packages of this one, but those that are installed as a link."""
    python = tmp_path / "python"
    packages = sysconfig.get_path("purelib")
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    return python


def test_a_cluster_without_flinknet_gives_the_same_bytes_of_a_run_in_a_store(
    run: Path,
    local_answer: bytes,
    cluster: str,
    store: ObjectStore,
    python_without_flinknet: Path,
    tmp_path: Path,
) -> None:
    there = store.upload(run, "run")
    options = ("--master", cluster, "--ship", "code", "--out", f"s3://{BUCKET}/tables")
    python = f"spark.pyspark.python={python_without_flinknet}"
    more = ("--spark-conf", python, "--report", f"s3://{BUCKET}/page.html")
    found = answer(there, tmp_path / "cluster.json", *options, *more)
    assert found.replace(there.encode(), str(run).encode()) == local_answer
    assert any((tmp_path / "work").iterdir())  # an executor worked there
    tables = pyarrow.parquet.read_table(f"{BUCKET}/tables/latency", filesystem=store.client)
    assert tables.num_rows
    assert store.client.get_file_info(f"{BUCKET}/page.html").size


def test_spark_connect_gives_the_same_bytes(
    run: Path,
    local_answer: bytes,
    start_java: Callable[..., subprocess.Popen[str]],
    python_without_flinknet: Path,
    tmp_path: Path,
) -> None:
    server = start_java(
        "SparkSubmit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.connect.grpc.binding.port=0", "spark-internal"),
        PYSPARK_PYTHON=str(python_without_flinknet),
    )
    port = told(server, r"Spark Connect server started at: .*:(\d+)")
    remote = ("--remote", f"sc://127.0.0.1:{port}", "--ship", "code")
    assert answer(run, tmp_path / "connect.json", *remote) == local_answer


def test_spark_submit_gives_the_same_bytes(run: Path, local_answer: bytes, tmp_path: Path) -> None:
    submit = (str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]")
    script = str(Path(flinknet.__main__.__file__))
    found = answer(run, tmp_path / "submitted.json", command=(*submit, script))
    assert found == local_answer
