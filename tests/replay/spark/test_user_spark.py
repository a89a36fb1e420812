"""On a Spark of the user, whose executors have no flinknet, and of a run in a store, the answer is
the same, to the byte: a standalone cluster, Spark Connect.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.object_store import BUCKET, ObjectStore
from tests.recorded_run import write_run
from tests.replay.spark.test_masters import SPARK_HOME, answer, environment

pytestmark = [pytest.mark.spark, pytest.mark.socket, pytest.mark.cluster]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def local_answer(run: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return answer(run, tmp_path_factory.mktemp("local") / "answer.json", "--master", "local[1]")


@pytest.fixture
def start_java(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process of Spark that says on stderr what it does."""
    started: list[subprocess.Popen[str]] = []
    own = {"SPARK_DAEMON_MEMORY": "512m", "SPARK_CONF_DIR": str(tmp_path)}

    def start(name: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        command = (str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}")
        process = subprocess.Popen(
            [*command, *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment() | own | more,
        )
        started.append(process)
        return process

    (tmp_path / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.e.ref = e\n"
        "appender.e.type = Console\nappender.e.name = e\nappender.e.target = SYSTEM_ERR\n"
        "appender.e.layout.type = PatternLayout\nappender.e.layout.pattern = %m%n\n"
        "logger.quiet.name = org.apache.spark\nlogger.quiet.level = warn\n"
        "logger.deploy.name = org.apache.spark.deploy\nlogger.deploy.level = info\n"
        "logger.connect.name = org.apache.spark.sql.connect\nlogger.connect.level = info\n"
    )
    yield start
    for process in reversed(started):
        process.terminate()
        process.communicate()


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


def told(process: subprocess.Popen[str], pattern: str) -> str:
    """What a process says on stderr."""
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(pattern, line)
        if found:
            return found[1]
    raise AssertionError(f"it ended with {process.wait()} before it said {pattern}")


def test_a_cluster_without_flinknet_answers_of_a_run_in_a_store(
    run: Path,
    local_answer: bytes,
    start_java: Callable[..., subprocess.Popen[str]],
    store: ObjectStore,
    python_without_flinknet: Path,
    tmp_path: Path,
) -> None:
    ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = start_java("master.Master", *ports)
    url = told(master, r"Starting Spark master at (spark://\S+)")
    more = ("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"))
    worker = start_java("worker.Worker", *ports, *more, url, AWS_ENDPOINT_URL="")
    told(worker, r"(Successfully registered) with master")

    there = store.upload(run, "run")
    options = ("--master", url, "--ship", "code", "--out", f"s3://{BUCKET}/tables")
    python = f"spark.pyspark.python={python_without_flinknet}"
    found = answer(there, tmp_path / "cluster.json", *options, "--spark-conf", python)
    assert found.replace(there.encode(), str(run).encode()) == local_answer
    assert any((tmp_path / "work").iterdir())  # an executor worked there
    tables = pyarrow.parquet.read_table(f"{BUCKET}/tables/latency", filesystem=store.client)
    assert tables.num_rows


def test_spark_connect_answers_without_flinknet_on_its_server(
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
