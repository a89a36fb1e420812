"""Wherever a run lies and Spark runs, the answer is the same, to the byte: a store, a cluster whose
executors have no flinknet, Spark Connect; `test_masters` has others.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.object_store import BUCKET, ObjectStore
from tests.recorded_run import write_run
from tests.replay.spark.spark_processes import SparkProcesses, answer, spark_processes, told

pytestmark = [pytest.mark.spark, pytest.mark.socket, pytest.mark.cluster]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def local_answer(run: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return answer(run, tmp_path_factory.mktemp("local") / "answer.json", "--master", "local[1]")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[SparkProcesses]:
    with spark_processes(tmp_path) as found:
        yield found


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


def test_a_cluster_without_flinknet_answers_of_a_run_in_a_store(
    run: Path,
    local_answer: bytes,
    processes: SparkProcesses,
    store: ObjectStore,
    python_without_flinknet: Path,
    tmp_path: Path,
) -> None:
    url = processes.cluster(AWS_ENDPOINT_URL="")
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
    processes: SparkProcesses,
    python_without_flinknet: Path,
    tmp_path: Path,
) -> None:
    server = processes.start(
        "SparkSubmit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.connect.grpc.binding.port=0", "spark-internal"),
        PYSPARK_PYTHON=str(python_without_flinknet),
    )
    port = told(server, r"Spark Connect server started at: .*:(\d+)")
    remote = ("--remote", f"sc://127.0.0.1:{port}", "--ship", "code")
    assert answer(run, tmp_path / "connect.json", *remote) == local_answer
