"""What is written of a job's metrics, and when, by the process that asks the JobManager."""

from __future__ import annotations

import copy
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.capture.rest.http_client import RestPlace
from flinknet.capture.rest.process import RestWatch
from flinknet.capture.rest.sampler import Sampler, short_name
from flinknet.errors import RemoteTransportError
from flinknet.trace.metrics import METRICS_NAME, describe_metrics
from tests.capture.rest.saved import SINK, SOURCE, MadeAnswers, directory

OVERVIEW = "/jobs/overview"


def answers() -> MadeAnswers:
    """All saved answers of a release, and some metrics."""
    root = directory("2.3.0")
    found: dict[str, Any] = {
        f"/{path.relative_to(root).with_suffix('')}": json.loads(path.read_text())
        for path in root.rglob("*.json")
    }
    job = f"/jobs/{found[OVERVIEW]['jobs'][0]['jid']}"
    for vertex in (SOURCE, SINK):
        for subtask in range(3):
            found[f"{job}/vertices/{vertex}/subtasks/{subtask}/metrics"] = [
                {"id": "busyTimeMsPerSecond", "value": "NaN"},
                {"id": "Shuffle.Netty.Input.numBytesInLocal", "value": "9007199254740993"},
                {"id": "currentInputWatermark", "value": "-9223372036854775808"},
            ]
    for task_manager in ("tm-0", "tm-1"):
        found[f"/taskmanagers/{task_manager}/metrics"] = [
            {"id": "Status.JVM.CPU.Load", "value": "0.25"},
            {"id": "Status.Shuffle.Netty.UsedMemorySegments", "value": "20"},
        ]
    return MadeAnswers(found)


def sinks(found: MadeAnswers) -> list[dict[str, Any]]:
    path = next(each for each in found.answers if each.endswith(str(SINK)))
    subtasks: list[dict[str, Any]] = found.answers[path]["subtasks"]
    return subtasks


def test_new_values_are_asked_for_without_need_of_an_answer() -> None:
    found = answers()
    Sampler(found, lambda: 5).ask_for_new()
    assert found.asked == ["/jobmanager/metrics"]


def test_the_first_look_writes_every_task_every_task_manager_and_checkpoints() -> None:
    sampler = Sampler(answers(), lambda: 5)
    lines = sampler.look()
    tasks = [each for each in lines if "task" in each]
    assert [each["task"] for each in tasks] == [
        *("Source: source (1/2)", "Source: source (2/2)"),
        *("sink (1/3)", "sink (2/3)", "sink (3/3)"),
    ]
    last = tasks[-1]
    assert {each["at_ns"] for each in lines} == {5}
    assert (last["vertex"], last["subtask"], last["task_manager"]) == (str(SINK), 2, "tm-1")
    assert last["numBytesInLocal"] == 9007199254740993
    assert last["numRecordsIn"] > 0
    assert "busyTimeMsPerSecond" not in last
    assert "currentInputWatermark" not in last
    managers = [each for each in lines if set(each) & {"JVM.CPU.Load"}]
    assert [(each["task_manager"], each["UsedMemorySegments"]) for each in managers] == [
        ("tm-0", 20),
        ("tm-1", 20),
    ]
    checkpoints = [each for each in lines if "checkpoint" in each]
    assert [each["status"] for each in checkpoints] == ["COMPLETED"] * 3
    assert all(each["duration_ms"] > 0 for each in checkpoints)
    (job,) = sampler.jobs.values()
    assert job.vertices[1].task_managers == ("tm-0", "tm-0", "tm-1")


def test_a_checkpoint_has_what_it_took_in_each_task_that_reads_others() -> None:
    found = answers()
    job = f"/jobs/{found.answers[OVERVIEW]['jobs'][0]['jid']}"
    history = found.answers[f"{job}/checkpoints"]["history"]
    newest = max(each["id"] for each in history)
    found.answers[f"{job}/checkpoints/details/{newest}/subtasks/{SINK}"] = {
        "subtasks": [
            {"index": 0, "start_delay": 12, "alignment": {"duration": 3, "persisted": 0}},
            {"index": 1, "start_delay": 14, "alignment": {"duration": 0, "persisted": 0}},
            {"index": 2, "start_delay": -1, "alignment": None},
        ]
    }
    lines = [each for each in Sampler(found, lambda: 5).look() if "checkpoint" in each]
    detailed = {each["checkpoint"]: each for each in lines}
    assert detailed[newest]["start_delays_ms"] == {str(SINK): [12, 14]}
    assert detailed[newest]["alignments_ms"] == {str(SINK): [3, 0]}
    assert all("start_delays_ms" not in each for each in lines if each["checkpoint"] != newest)


def test_only_what_has_moved_is_asked_for_and_written_again() -> None:
    found = answers()
    sampler = Sampler(found, lambda: 5)
    sampler.look()
    found.asked.clear()
    assert sampler.look() == []
    assert not any("subtasks" in each for each in found.asked)
    sinks(found)[1]["metrics"]["read-records"] += 100
    lines = sampler.look()
    assert [each["task"] for each in lines] == ["sink (2/3)"]


def test_a_new_attempt_is_written_with_its_number() -> None:
    found = answers()
    sampler = Sampler(found, lambda: 5)
    sampler.look()
    sinks(found)[0]["attempt"] = 1
    (line,) = sampler.look()
    assert (line["task"], line["attempt"]) == ("sink (1/3)", 1)


def test_tasks_without_a_place_keep_their_last_one() -> None:
    found = answers()
    sampler = Sampler(found, lambda: 5)
    sampler.look()
    for each in sinks(found):
        each["taskmanager-id"] = "(unassigned)"
    sampler.look()
    (job,) = sampler.jobs.values()
    assert job.vertices[1].task_managers == ("tm-0", "tm-0", "tm-1")


def test_a_job_that_ends_between_two_requests_disturbs_nothing() -> None:
    found = answers()
    sampler = Sampler(found, lambda: 5)
    sampler.look()
    for path in [each for each in found.answers if "vertices" in each]:
        del found.answers[path]
    assert sampler.look() == []
    found.answers[OVERVIEW] = copy.deepcopy(found.answers[OVERVIEW])
    found.answers[OVERVIEW]["jobs"][0]["state"] = "FINISHED"
    assert sampler.look() == []
    assert len(sampler.jobs) == 1


def test_without_an_answer_the_reason_is_raised() -> None:
    with pytest.raises(RemoteTransportError, match="404"):
        Sampler(MadeAnswers({}), lambda: 5).look()


def test_metrics_have_short_names() -> None:
    assert short_name("Shuffle.Netty.Input.Buffers.inPoolUsage") == "inPoolUsage"
    assert short_name("Status.Shuffle.Netty.UsedMemorySegments") == "UsedMemorySegments"
    assert short_name("Status.JVM.CPU.Time") == "JVM.CPU.Time"


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found[OVERVIEW]["jobs"][0].pop("jid"),
        lambda found: found[OVERVIEW]["jobs"][0].update(jid="../../secret"),
        lambda found: found[subtasks_of(found)]["subtasks"][0].update(metrics=[1]),
        lambda found: found[subtasks_of(found)]["subtasks"][0].update(subtask=float("inf")),
        lambda found: found[subtasks_of(found)]["subtasks"][0].pop("subtask"),
        lambda found: found[checkpoints_of(found)].update(history=[1]),
        lambda found: found[checkpoints_of(found)].update(history=[{"id": []}]),
    ],
)
def test_what_is_not_described_as_flink_does_is_told(change: Callable[[Any], object]) -> None:
    strange = answers()
    change(strange.answers)
    with pytest.raises(RemoteTransportError, match="--rest: "):
        Sampler(strange, lambda: 5).look()


def subtasks_of(found: dict[str, Any]) -> str:
    return next(each for each in found if each.endswith(str(SINK)))


def checkpoints_of(found: dict[str, Any]) -> str:
    return next(each for each in found if each.endswith("checkpoints"))


def test_a_number_beyond_all_floats_is_no_metric() -> None:
    strange = answers()
    metrics = "/taskmanagers/tm-0/metrics"
    strange.answers[metrics] = [
        {"id": "Status.JVM.CPU.Load", "value": 10**400},
        {"id": "Status.JVM.CPU.Time", "value": "9" * 5000},
    ]
    lines = Sampler(strange, lambda: 5).look()
    assert not any("JVM.CPU.Load" in each and each.get("task_manager") == "tm-0" for each in lines)


@pytest.mark.socket
def test_jobs_and_metrics_come_from_a_process_of_their_own(tmp_path: Path) -> None:
    watch = RestWatch(RestPlace(str(directory("2.3.0"))), tmp_path)
    watch.tick()
    watch.keep()
    watch.close()
    assert watch.has_answered
    assert watch.error is None
    assert watch.settings.cluster[1].keys["taskmanager.memory.segment-size"] == "32768 b"
    (job,) = watch.jobs
    assert job.vertices[1].task_managers == ("tm-0", "tm-0", "tm-1")
    described = describe_metrics(tmp_path)
    assert described is not None
    assert len(described.tasks) == 5
    assert {"numRecordsIn", "accumulateIdleTimeMs"} <= set(described.names)
    lines = [json.loads(line) for line in (tmp_path / METRICS_NAME).read_text().splitlines()]
    assert len({(each.get("task"), each.get("checkpoint")) for each in lines}) == len(lines)


@pytest.mark.socket
def test_a_job_manager_that_is_not_up_yet_is_waited_for(tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    address = taken.getsockname()
    taken.close()
    watch = RestWatch(RestPlace(f"http://127.0.0.1:{address[1]}"), tmp_path)
    _until_heard(watch)
    assert watch.error is not None
    assert watch.error.endswith("asked again until it answers")
    with socket.create_server(address) as listening:
        while watch.error is not None:
            ready, _, _ = select.select([listening.fileno(), watch.out], [], [], 20)
            if ready == [listening.fileno()]:
                sock, _ = listening.accept()
                sock.recv(1 << 16)
                sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"jobs":[]}')
                sock.close()
            watch.tick()
    watch.close()
    assert watch.has_answered


@pytest.mark.socket
def test_the_process_ends_with_its_parent_even_if_it_was_stopped(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        code = (
            "import sys; from pathlib import Path\n"
            "from flinknet.capture.rest.http_client import RestPlace\n"
            "from flinknet.capture.rest.process import RestWatch\n"
            "watch = RestWatch(RestPlace(sys.argv[1]), Path(sys.argv[2]))\n"
            "print(watch.process.pid, flush=True); input()"
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        parent = subprocess.Popen(
            [sys.executable, "-c", code, url, tmp_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        asking, _ = listening.accept()
        asking.settimeout(20)
        assert asking.recv(1 << 16).startswith(b"GET /")
        os.kill(child, signal.SIGSTOP)
        parent.kill()
        parent.communicate()
        assert asking.recv(1) == b""
        asking.close()


def _until_heard(watch: RestWatch) -> None:
    while watch.error is None:
        assert select.select([watch.out], [], [], 20)[0]
        watch.tick()
