"""Jobs that are stopped: their sources end, and what these have emitted is processed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from tests.runtime.cluster.live_job import LiveJob
from tests.runtime.cluster.programs import WORD_COUNT

pytestmark = pytest.mark.socket

Start = Callable[..., LiveJob]

NUMBERED = """
def main(env, out):
    env.set_parallelism(2)
    made = env.generate(rate="2k/s", record_size="8b").name("Made")
    made.rebalance().map(number_of).delay("100us").name("Read").write_as_text(out)
    env.execute("Numbered")


def number_of(record: tuple[int, bytes]) -> int:
    return int.from_bytes(record[1], "big")
"""
"""Each subtask of the source numbers its records from 0, below its own number."""


@pytest.mark.row("S163")
def test_a_stopped_job_processes_everything_that_its_sources_have_emitted(
    start: Start, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = start(NUMBERED, out, task_managers=2, records_trace=False)
    job.until_running(records=500)
    told = CliRunner().invoke(main, ["job", "stop", str(job.run_dir)])
    assert told.exit_code == 0
    assert "(Numbered) ended: finished" in told.output
    result = job.result()
    assert result["state"] == "finished"
    written = [int(line) for each in out.iterdir() for line in each.read_text().splitlines()]
    made, read = result["vertices"]
    assert made["records_out"] == read["records_in"] == len(written)
    for subtask in (0, 1):
        own = sorted(each for each in written if each >> 40 == subtask)
        assert own == list(range(own[0], own[0] + len(own)))


@pytest.mark.row("S163")
def test_a_job_with_a_source_that_cannot_stop_is_refused_by_its_name_and_goes_on(
    start: Start,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        job = start(WORD_COUNT, server.getsockname()[1], task_managers=2)
        told = CliRunner().invoke(main, ["job", "stop", str(job.run_dir)])
        assert told.exit_code == 2
        assert "Source: Socket Stream cannot be stopped; cancel the job instead" in told.output
        job.until(lambda status: status.state == "RUNNING")
        assert job.client.cancel().state == "CANCELED"
