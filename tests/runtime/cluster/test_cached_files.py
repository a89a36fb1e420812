"""Cached files: functions of every TaskManager read the copy that was made at submission."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flinknet.errors import RunFailedError
from tests.runtime.cluster.live_job import LiveJob

pytestmark = pytest.mark.socket

Start = Callable[..., LiveJob]

READS = """
import os


def main(env, path, out):
    env.set_parallelism(2)
    words = env.register_cached_file(path, "the words")

    def read(number: int) -> str:
        return f"{os.getpid()} {words} {words.read_text()}"

    numbers = env.from_sequence(1, 100)
    numbers.rebalance().map(read).write_as_text(out)
    env.execute("Reads")
"""


@pytest.mark.row("S164")
def test_every_task_manager_reads_the_file_as_it_was_and_it_is_gone_after_the_job(
    start: Start, tmp_path: Path
) -> None:
    original, out = tmp_path / "words.txt", tmp_path / "out"
    original.write_text("at submission")
    spread = {"taskmanager.load-balance.mode": "SLOTS"}
    job = start(READS, original, out, task_managers=2, settings=spread)
    original.write_text("later")
    assert job.ended().state == "FINISHED"
    lines = {line for each in out.iterdir() for line in each.read_text().splitlines()}
    found = [line.split(" ", 2) for line in lines]
    assert {text for _, _, text in found} == {"at submission"}
    assert len({pid for pid, _, _ in found}) == 2
    (copy,) = {Path(path) for _, path, _ in found}
    assert copy.name == "the%20words"
    assert not copy.exists()
    assert not copy.parent.exists()


@pytest.mark.quick
@pytest.mark.row("S164")
def test_a_cached_file_that_cannot_be_read_refuses_the_job_by_its_name(
    start: Start, tmp_path: Path
) -> None:
    with pytest.raises(RunFailedError, match=r"the cached file 'the words' cannot be copied: .*No"):
        start(READS, tmp_path / "missing", tmp_path / "out")
