"""A scan that a limit ends early, in a session of the user's own: no stack on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.replay.spark.installed import find_java, launcher_home

pytestmark = [pytest.mark.spark, pytest.mark.slow("a JVM of its own")]

SCAN = """
import sys
from pyspark.sql import SparkSession
from flinknet.replay.spark.source import register

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
spark = builder.getOrCreate()
register(spark)
events = spark.read.format("flinknet").load(sys.argv[1])
rows = events.toLocalIterator()
next(rows)
events.limit(5).show()
spark.stop()
"""


def scan(run: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {"JAVA_HOME": str(launcher_home(find_java())), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, "-c", SCAN, str(run)], capture_output=True, text=True, env=environment
    )


def test_a_limit_ends_a_scan_without_a_stack(tmp_path: Path) -> None:
    from bench.synthetic_trace import make_run
    from flinknet.config import NetworkConfig, Scenario, WorkloadConfig

    workload = WorkloadConfig(producers=2, consumers=2, rate_per_s=20_000.0, duration_ns=1)
    network = NetworkConfig(buffer_timeout_ns=1_000_000)
    scenario = Scenario(network=network, workload=workload)
    make_run(tmp_path / "run", scenario, events=300_000)
    done = scan(tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("DATA_BUFFER") == 5
    for word in ("Traceback", "BrokenPipe", "Error"):
        assert word not in done.stderr
