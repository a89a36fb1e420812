"""Features of jobs, each on real processes."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.errors import RunFailedError
from flinknet.results import JobStatus
from tests.runtime.cluster.live_job import RESTARTS, LiveJob, Start, gone
from tests.runtime.cluster.programs import BESIDE, HANGS, PIPELINE, WORD_COUNT

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


@pytest.mark.socket
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


@pytest.mark.socket
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


@pytest.mark.socket
@pytest.mark.quick
@pytest.mark.row("S164")
def test_a_cached_file_that_cannot_be_read_refuses_the_job_by_its_name(
    start: Start, tmp_path: Path
) -> None:
    with pytest.raises(RunFailedError, match=r"the cached file 'the words' cannot be copied: .*No"):
        start(READS, tmp_path / "missing", tmp_path / "out")


SPY = """
from flinknet.plain_values import to_plain
from flinknet.runtime.cluster import control_connection

_send = control_connection.ControlConnection.send

def send(self, message):
    if type(message).__name__ == "SubmitTask":
        with open({path!r}, "a") as file:
            print(json.dumps(to_plain(message.task)), file=file)
    _send(self, message)

control_connection.ControlConnection.send = send
"""
"""Part of a program, which the JobManager runs: it notes the tasks that are sent."""


@pytest.mark.socket
@pytest.mark.row("S162")
def test_information_on_job_and_vertices_is_sent_once_and_tasks_have_their_names_from_it(
    start: Callable[..., LiveJob], tmp_path: Path
) -> None:
    path = tmp_path / "sent.jsonl"
    program = "import json\n" + SPY.format(path=str(path)) + PIPELINE
    job = start(program, 4, "1k/s", task_managers=2, slots=2)
    job.until_running()
    running = [each.name for one in job.client.dump().task_managers for each in one.tasks]
    assert job.client.cancel().state == "CANCELED"
    sent = list(map(json.loads, path.read_text().splitlines()))
    assert len(sent) == 8
    jobs = [each["task_manager"] for each in sent if each["job_information"]]
    assert sorted(jobs) == [0, 1]
    vertices = Counter(
        (each["task_manager"], each["task_information"]["vertex_name"])
        for each in sent
        if each["task_information"]
    )
    names = ("Source: Made", "Sink: Read")
    assert vertices == Counter((each, name) for each in (0, 1) for name in names)
    assert sorted(running) == [f"{name} ({at}/4)" for name in sorted(names) for at in range(1, 5)]


def test_the_metrics_of_a_task_have_the_watermark_of_its_input(start: Start) -> None:
    job = start(PIPELINE, 2, "1k/s", 1000)
    assert job.ended().state == "FINISHED"
    vertices = job.result()["vertices"]
    for task in vertices[1]["tasks"]:
        assert task["metrics"]["currentInputWatermark"] == 2**63 - 1  # the end of time


BY_SUBTASK = """
def main(env, out):
    env.set_parallelism(2)
    made = env.generate(rate="2k/s", record_size="8b").name("Made")
    made.rebalance().map(number_of).delay("100us").name("Read").write_as_text(out)
    env.execute("Numbered")


def number_of(record: tuple[int, bytes]) -> int:
    return int.from_bytes(record[1], "big")
"""
"""Each subtask of the source numbers its records from 0, below its own number."""


@pytest.mark.socket
@pytest.mark.row("S163")
def test_a_stopped_job_processes_everything_that_its_sources_have_emitted(
    start: Start, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = start(BY_SUBTASK, out, task_managers=2, records_trace=False)
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


@pytest.mark.socket
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


QUICK_RECORDS = 1000


def records_in(status: JobStatus, name: str) -> int:
    return sum(each.records_in for each in status.vertices if each.name.startswith(name))


@pytest.mark.socket
def test_a_function_that_sleeps_holds_up_neither_other_channels_nor_heart_beats(
    start: Start, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    beats = {"heartbeat.interval": "100ms", "heartbeat.timeout": "1500ms"}
    job = start(BESIDE, mark, QUICK_RECORDS, task_managers=2, slots=2, settings=beats)
    job.until(lambda status: records_in(status, "Quick") == QUICK_RECORDS)
    assert len(mark.read_text().split()) < 3
    job.until(lambda _: len(mark.read_text().split()) >= 1)
    assert job.client.cancel().state == "CANCELED"
    result = job.result()
    assert result["restarts"] == 0
    places = {
        vertex["name"].partition(" ")[0]: task["task_manager"]
        for vertex in result["vertices"]
        for task in vertex["tasks"]
    }
    assert places["Quick"] == places["Slow"] != places["Source:"]


@pytest.mark.socket
@pytest.mark.slow("real processes, for rules tested without")
def test_a_canceled_function_that_does_not_return_costs_its_task_manager(
    start: Start, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    settings = {"task.cancellation.timeout": "200ms"}
    job = start(HANGS, mark, task_managers=1, settings=settings)
    processes = job.task_managers()
    job.until(lambda _: mark.exists())
    assert job.client.cancel().state == "CANCELED"
    assert gone(processes.values())
