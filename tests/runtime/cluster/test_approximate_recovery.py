"""Approximate local recovery: a failed reader begins again alone, at a whole record."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.cluster.live_job import RESTARTS, LiveJob, gone

pytestmark = pytest.mark.socket

Start = Callable[..., LiveJob]

APPROXIMATE = RESTARTS | {"execution.state-recovery.approximate-local-recovery": "true"}
RECORDS = 1200

NUMBERED = f"""
import time

SIZE = 50 << 10


def main(env, path):
    made = env.generate(rate="500/s", records={RECORDS}, record_size="50kb").name("Made")
    made.slot_sharing_group("up").rebalance().map(number_of).slot_sharing_group("down") \\
        .name("Read").add_sink(Numbers(path))
    env.execute("Numbered")


def number_of(record: tuple[int, bytes]) -> int:
    time.sleep(0.004)
    assert len(record[1]) == SIZE and not any(record[1][8:]), "a torn record"
    return int.from_bytes(record[1][:8], "big")


class Numbers:
    def __init__(self, path):
        self.path = path

    def __call__(self, number: int) -> None:
        with open(self.path, "a") as file:
            print(number, file=file)
"""
"""Each record spans several buffers; its payload begins with its number. The reader is too slow, so
that some are always on their way.
"""


@pytest.mark.row("S159")
def test_a_killed_reader_begins_again_alone_with_a_whole_record_and_loses_what_it_had(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "numbers"
    job = start(NUMBERED, path, task_managers=3, settings=APPROXIMATE)
    job.until_running(records=300)
    lost = job.task_managers()[1]
    lost.kill()
    assert gone([lost])
    assert job.ended().state == "FINISHED"
    result = job.result()
    attempts = [[task["attempt"] for task in each["tasks"]] for each in result["vertices"]]
    assert attempts == [[0], [1]]
    found = list(map(int, path.read_text().split()))
    assert found == sorted(set(found))  # in order, none twice
    assert (found[0], found[-1]) == (0, RECORDS - 1)
    (warning,) = (each["text"] for each in result["warnings"] if each["code"] == "records-lost")
    sent, limit = map(int, re.findall(r" (\d+) (?:records|were)", warning))
    assert sent == RECORDS
    assert 0 < RECORDS - len(found) <= limit < RECORDS // 2
