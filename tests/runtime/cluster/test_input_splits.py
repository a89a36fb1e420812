"""Splits of a source: created by the master, handed out on request, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.errors import ConfigError, RunFailedError
from flinknet.graph import StreamExecutionEnvironment, execution_graph_of, job_graph_of
from flinknet.graph.execution_graph import ExecutionState
from flinknet.graph.failover import InputSplits
from flinknet.job.sources import RequestedSplits
from flinknet.runtime.cluster.control_messages import TaskStateChanged
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.placement import SharedCluster
from tests.runtime.cluster.live_job import RESTARTS, Start

SPLITS = 60
S = 1_000_000_000

READS = """
import os
import time


def main(env, mark, created, out):
    env.set_parallelism(2)

    def create(parallelism: int) -> list[list[int]]:
        with open(created, "a") as file:
            print(os.getppid(), parallelism, file=file)
        return [[first, first + 1] for first in range(0, 120, 2)]

    class Read:
        def open(self):
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                self.is_slow = True
            except FileExistsError:
                self.is_slow = False

        def __call__(self, split) -> list[str]:
            time.sleep(0.2 if self.is_slow else 0.005)
            return [f"{os.getpid()} {number}" for number in split]

    env.create_input(create, Read()).name("Read").write_as_text(out)
    env.execute("Reads")
"""
"""The subtask that opens first takes its time for each split."""


@pytest.mark.socket
@pytest.mark.row("S165")
def test_each_split_is_read_once_and_the_quick_subtask_reads_more(
    start: Start, tmp_path: Path
) -> None:
    created, out = tmp_path / "created", tmp_path / "out"
    spread = {"taskmanager.load-balance.mode": "SLOTS"}
    job = start(READS, tmp_path / "mark", created, out, task_managers=2, settings=spread)
    assert job.ended().state == "FINISHED"
    found = [
        line.split() for each in sorted(out.iterdir()) for line in each.read_text().splitlines()
    ]
    assert sorted(int(number) for _, number in found) == list(range(2 * SPLITS))
    counts = sorted(sum(pid == each for pid, _ in found) for each in {pid for pid, _ in found})
    assert len(counts) == 2
    assert counts[1] > 2 * counts[0]
    assert len(created.read_text().splitlines()) == 1  # by the master


@pytest.mark.socket
@pytest.mark.quick
@pytest.mark.row("S165")
def test_splits_that_cannot_be_created_refuse_the_job(start: Start) -> None:
    program = (
        "def main(env):\n"
        "    env.create_input(lambda parallelism: [object()], list, output_type=int).print()\n"
        "    env.execute()\n"
    )
    with pytest.raises(
        RunFailedError, match=r"Split Source.*: its splits cannot be created: .*JSON"
    ):
        start(program)


def numbers(split: int) -> list[int]:
    return [split]


@pytest.mark.row("S165")
def test_splits_of_a_failed_attempt_are_handed_out_again_in_order() -> None:
    env = StreamExecutionEnvironment(RESTARTS)
    env.set_parallelism(2)
    env.create_input(lambda parallelism: range(3), numbers).print()
    graph = execution_graph_of(job_graph_of(env.execute()))
    master = JobMaster(graph, 1, SharedCluster(2), now_ns=0)
    master.register(0, now_ns=0)
    one, two = graph.subtasks()
    (operator_id, _), *_ = one.job_vertex.job_vertex.operator_ids
    old = one.current.attempt_id
    assert [master.splits.next(old, operator_id) for _ in range(2)] == [(0,), (1,)]
    assert master.splits.next(two.current.attempt_id, operator_id) == (2,)
    assert master.update_state(TaskStateChanged(old, ExecutionState.FAILED), now_ns=0)
    master.handle_deadline(now_ns=S)
    assert master.splits.next(old, operator_id) == ()  # a late request of the failed attempt
    new = one.current.attempt_id
    assert [master.splits.next(new, operator_id) for _ in range(3)] == [(0,), (1,), ()]


@pytest.mark.row("S165")
def test_the_next_split_is_requested_when_the_one_before_was_taken() -> None:
    requests: list[None] = []
    source = RequestedSplits(lambda: requests.append(None))
    assert [source.take(now_ns=0) for _ in range(3)] == [None] * 3
    assert (len(requests), source.next_ns(now_ns=5)) == (1, None)
    source.receive(["a"])
    assert source.next_ns(now_ns=5) == 5
    taken = source.take(now_ns=5)
    assert taken is not None
    assert taken[0] == ["a"]
    assert len(requests) == 1
    assert source.take(now_ns=6) is None
    source.receive([])
    assert (len(requests), source.is_ended) == (2, True)


def test_a_program_whose_splits_fail_says_why() -> None:
    env = StreamExecutionEnvironment()
    env.create_input(lambda parallelism: 1 // 0, numbers).print()
    with pytest.raises(ConfigError, match=r"its splits cannot be created: .*zero"):
        InputSplits(execution_graph_of(job_graph_of(env.execute())))
