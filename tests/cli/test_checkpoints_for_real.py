"""Checkpoints over real sockets: what the command tells of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_bench_for_real import bench

pytestmark = pytest.mark.socket

SLOW = [
    *("--producers", "2", "--consumers", "2", "--slow-consumer", "0:20us"),
    *("--duration", "1s", "--warmup", "300ms", "--checkpoint-interval", "50ms"),
    *("--json", "-"),
]
UNALIGNED = ["-D", "execution.checkpointing.unaligned.enabled=true"]


def checkpoints(directory: Path, *options: str) -> dict[str, Any]:
    done = bench(directory, *SLOW, *options)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    found: dict[str, Any] = run["measured"]["checkpoints"]
    return found


def test_unaligned_barriers_overtake_the_data_of_a_slow_consumer(tmp_path: Path) -> None:
    found = checkpoints(tmp_path, *UNALIGNED, "--out", "out")
    assert found["completed"] == found["unaligned"] > 0
    assert found["overtaken_bytes_mean"] > 32 * 1024
    assert found["travel_ns"]["count"] == 4 * found["completed"]
    verified = (tmp_path / "out" / "run-0001" / "result.json").read_text()
    assert json.loads(verified)["measured"]["checkpoints"] == found


@pytest.mark.slow("real processes, for rules tested without")
def test_aligned_barriers_wait_and_overtake_nothing(tmp_path: Path) -> None:
    found = checkpoints(tmp_path, "--no-trace")
    assert found["completed"] > 0
    assert found["unaligned"] == found["overtaken_bytes_max"] == 0
    assert found["alignment_ns"]["count"] == 2 * found["completed"]
