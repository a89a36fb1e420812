from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from flinknet.replay.spark.worker import DAEMON, VARIABLE, early_daemon

pytestmark = [pytest.mark.spark, pytest.mark.slow("a JVM of its own")]

PORT = struct.Struct(">i")


def started_by_spark(variables: dict[str, str]) -> subprocess.Popen[bytes]:
    """The daemon as a JVM starts it: it answers on its stdout where it listens."""
    return subprocess.Popen(
        [sys.executable, "-m", DAEMON, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | variables,
    )


def answer_of(daemon: Any) -> int:
    port: int = PORT.unpack(daemon.stdout.read(PORT.size))[0]
    return port


def test_the_early_daemon_takes_the_place_of_the_one_that_spark_starts(tmp_path: Path) -> None:
    path = tmp_path / "daemon"
    with early_daemon({}, path):
        daemon = started_by_spark({VARIABLE: str(path)})
        with daemon:
            assert 0 < answer_of(daemon) < 65536
            assert not path.exists()
            daemon.stdin.close()  # as a JVM does that ends
            assert daemon.wait() == 0


def test_without_an_early_daemon_the_one_that_spark_starts_loads_by_itself(tmp_path: Path) -> None:
    with started_by_spark({VARIABLE: str(tmp_path / "nobody")}) as daemon:
        assert 0 < answer_of(daemon) < 65536


def test_an_early_daemon_that_nobody_asks_for_ends_with_its_session(tmp_path: Path) -> None:
    before = children_of_this_process()
    with early_daemon({}, tmp_path / "daemon"):
        assert len(children_of_this_process()) == len(before) + 1
    assert children_of_this_process() == before


def test_there_is_none_where_a_socket_cannot_have_the_path(tmp_path: Path) -> None:
    before = children_of_this_process()
    with early_daemon({}, tmp_path / ("x" * 120)):
        assert children_of_this_process() == before


def children_of_this_process() -> list[int]:
    return [each.pid for each in psutil.Process().children()]
