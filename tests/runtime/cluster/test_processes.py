"""Jobs on real processes: who they are, what they say to each other and over which ports, and that
none of them is left.
"""

from __future__ import annotations

import collections
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from flinknet.errors import TransportError
from flinknet.graph.job_config import START_CONDITION
from flinknet.results import STRANGERS
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.cluster.client import JobClient
from flinknet.runtime.cluster.job_files import Contact
from flinknet.runtime.visitors import VISITORS_MAX
from flinknet.trace import open_run
from flinknet.trace.manifest import RunManifest
from flinknet.trace.verify import verify_run
from tests.runtime.cluster.live_job import POLL_NS, RESTARTS, LiveJob, Start, gone, listening_port
from tests.runtime.cluster.programs import (
    ACROSS,
    FAILS_ONCE,
    HANGS,
    PIPELINE,
    TWO_INPUTS,
    TWO_REGIONS,
    WORD_COUNT,
)
from tests.runtime.processes import wait_until
from tests.strangers import intrude

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]


COMMAND = [sys.executable, "-c", "from flinknet.cli import main; main()"]
TEXT = "".join(f"the {number % 7} quick {number % 5} fox\n" for number in range(3000))


@pytest.mark.row("S148")
def test_a_detached_job_goes_on_without_its_client(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PIPELINE)
    run_dir = tmp_path / "run"
    submitted = subprocess.run(
        [
            *(*COMMAND, "job", "run", tmp_path / "program.py", "--task-managers", "2"),
            *("--slots", "1", "--detached", "--out", run_dir),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    contact = Contact.load(run_dir)
    assert contact is not None
    job_manager = psutil.Process(contact.pid)
    try:
        assert f"flinknet job status {run_dir}" in submitted.stdout
        assert f"JobManager pid {contact.pid}" in submitted.stdout
        assert contact.token not in submitted.stdout
        task_managers = job_manager.children()
        assert len({contact.pid, os.getpid(), *(each.pid for each in task_managers)}) == 4
        for process in (job_manager, *task_managers):
            assert contact.token not in " ".join(process.cmdline())
        assert (run_dir / "jobmanager.json").stat().st_mode & 0o077 == 0
        with JobClient(contact) as client:
            before = 0
            for _ in range(2):
                while (read := _records(client)) <= before:
                    client.receive(until_ns=monotonic_ns() + POLL_NS)
                before = read
        call = [*COMMAND, "job", "cancel", run_dir]
        cancelled = subprocess.run(call, capture_output=True, text=True, check=True)
        assert "ended: canceled" in cancelled.stdout
        assert gone([job_manager, *task_managers])
        assert not (run_dir / "jobmanager.json").exists()
    finally:
        with suppress(OSError):
            os.killpg(contact.pid, signal.SIGKILL)


@pytest.mark.quick
@pytest.mark.row("S148")
def test_who_stays_gets_the_result(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PIPELINE)
    call = [*COMMAND, "job", "run", tmp_path / "program.py", "--slots", "1", "--json", "-"]
    call += ["--out", tmp_path / "run", "--", "2", "max", "5000"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert '"state": "finished"' in ended.stdout
    assert '"records": 5000' in ended.stdout


@pytest.mark.row("S149")
def test_checkpoints_complete_when_all_tasks_have_acknowledged(start: Start) -> None:
    job = start(PIPELINE, settings={"execution.checkpointing.interval": "50ms"})
    running = job.until_running()
    assert [each.parallelism for each in running.vertices] == [2, 2]
    job.until(lambda status: status.checkpoints >= 3)
    assert job.client.cancel().state == "CANCELED"
    checkpoints = job.result()["checkpoints"]
    assert checkpoints["completed"] >= 3
    assert checkpoints["travel_ns"]["count"] >= 3 * 4  # each barrier over each channel


@pytest.mark.row("S150")
def test_a_task_manager_with_two_slots_runs_two_pipelines(start: Start) -> None:
    job = start(PIPELINE, 2, task_managers=1, slots=2)
    (task_manager,) = job.until_running().task_managers
    assert (task_manager.slots, task_manager.slots_in_use) == (2, 2)


@pytest.mark.row("S150")
def test_three_pipelines_wait_for_a_third_slot_and_then_fail(start: Start) -> None:
    job = start(PIPELINE, 3, task_managers=1, slots=2, settings={"slot.request.timeout": "500ms"})
    ended = job.ended()
    assert ended.state == "FAILED"
    assert "the job needs 3 slots; available: 2 (1 TaskManager with 2 each)" in ended.reason
    assert "waited for 500ms" in ended.reason


@pytest.mark.row("S020")
def test_a_task_that_waits_for_any_input_reads_one_before_the_other_is_complete(
    start: Start,
) -> None:
    settings = {START_CONDITION: "any"}
    job = start(TWO_INPUTS, task_managers=3, slots=1, settings=settings)
    assert job.ended().state == "FINISHED"
    times = {each["name"]: each["times"] for each in job.result()["vertices"]}
    slow, quick, reader = times.values()
    assert quick["finished_ns"] <= reader["deployed_ns"] < slow["finished_ns"]
    assert job.result()["vertices"][-1]["records_in"] == 160


@pytest.mark.quick
@pytest.mark.row("S151")
def test_a_stopped_task_manager_is_lost_and_its_tasks_go_elsewhere(start: Start) -> None:
    job = start(PIPELINE, 2, task_managers=2, slots=2, settings=RESTARTS)
    job.until_running()
    processes = job.task_managers()
    status = job.until(lambda status: all(each.heartbeats for each in status.task_managers))
    (used,) = (each for each in status.task_managers if each.slots_in_use)
    processes[used.index].send_signal(signal.SIGSTOP)
    status = job.until(lambda status: status.restarts == 1)
    assert "has not answered heartbeats for 3 s" in status.reason
    status = job.until_running(records=status.vertices[-1].records_in + 1000)
    assert {each.attempt for each in status.vertices} == {1}
    assert {each.index: each.state for each in status.task_managers} == {
        used.index: "lost",
        1 - used.index: "ready",
    }
    assert gone([processes[used.index]])
    job.client.cancel()
    assert gone([job.job_manager, *processes.values()])


@pytest.mark.row("S151")
def test_without_restarts_a_stopped_task_manager_ends_the_job_and_all_its_processes(
    start: Start,
) -> None:
    job = start(PIPELINE, 2)
    job.until_running()
    processes = job.task_managers()
    processes[1].send_signal(signal.SIGSTOP)
    ended = job.ended()
    assert ended.state == "FAILED"
    assert "tm-1" in ended.reason
    assert "heartbeats" in ended.reason
    assert gone([job.job_manager, *processes.values()])


@pytest.mark.row("S152")
def test_the_consumer_opens_the_connection(start: Start) -> None:
    job = start(ACROSS)
    job.until_running()
    processes = job.task_managers()
    ports = {index: listening_port(process) for index, process in processes.items()}
    remote = {
        index: {each.raddr.port for each in process.net_connections("tcp") if each.raddr}
        for index, process in processes.items()
    }
    (channel,) = _channels(job)
    producer, consumer = (int(name.removeprefix("tm-")) for name in channel)
    assert producer != consumer
    assert ports[producer] in remote[consumer]
    assert ports[consumer] not in remote[producer]


def test_strangers_are_named_in_the_result_of_a_job_that_they_visited(start: Start) -> None:
    job = start(ACROSS)
    job.until_running()
    for process in job.task_managers().values():
        intrude(listening_port(process))
    assert job.client.cancel().state == "CANCELED"
    (doubt,) = (each for each in job.result()["warnings"] if each["code"] == STRANGERS)
    assert "2 connections, 258 requests" in doubt["text"]


@pytest.mark.row("S153")
def test_heart_beats_go_on_while_the_data_port_is_blocked(start: Start) -> None:
    with Forwarder() as forwarder:
        job = start(
            ACROSS,
            "2k/s",
            settings={
                "taskmanager.data.bind-port": "0",
                "taskmanager.data.port": str(forwarder.port),
            },
        )
        processes = job.until(
            lambda status: all(each.state == "ready" for each in status.task_managers)
        )
        ports = [listening_port(psutil.Process(each.pid)) for each in processes.task_managers]
        forwarder.aim_at(ports[0])  # of the producer
        status = job.until_running(records=500)
        control = job.contact.port
        assert control not in ports
        forwarder.block()
        before = [each.heartbeats for each in status.task_managers]
        read = -1
        while read != (status := job.client.status()).vertices[-1].records_in:
            read = status.vertices[-1].records_in
            beats = [each.heartbeats for each in status.task_managers]
            job.until(lambda now, beats=beats: _more(now, beats))  # type: ignore[misc]
        assert _more(status, before)
        assert {each.state for each in status.task_managers} == {"ready"}
        forwarder.unblock()
        job.until_running(records=read + 500)


@pytest.mark.row("S154")
def test_a_word_count_over_a_socket_equals_a_plain_one(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        job = start(WORD_COUNT, server.getsockname()[1], task_managers=2, slots=1)
        connection, _ = server.accept()
        with connection:
            connection.sendall(TEXT.encode())
    assert job.ended().state == "FINISHED"
    counts: dict[str, int] = {}
    subtasks = set()
    for index in range(2):
        for line in (job.run_dir / f"tm-{index}.out").read_text().splitlines():
            found = re.fullmatch(r"(\d)> \((\w+),(\d+)\)", line)
            assert found is not None, line
            subtasks.add(found[1])
            counts[found[2]] = int(found[3])
    assert counts == collections.Counter(TEXT.split())
    assert subtasks == {"1", "2"}
    edges = job.result()["edges"]
    assert [each["records"] for each in edges] == [3000, 5 * 3000]
    assert verify_run(open_run(job.run_dir)).is_ok


def test_a_trace_that_is_gone_is_said_to_be_incomplete(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        job = start(WORD_COUNT, server.getsockname()[1], task_managers=2, slots=1)
        connection, _ = server.accept()
        with connection:
            job.until_running(records=0)
            (job.run_dir / "tm-0.fnt").unlink()
    ended = job.ended()
    assert ended.state == "FINISHED"
    assert ended.reason.startswith("its trace is not complete: ")
    assert "names tm-0.fnt, which is not there" in ended.reason
    assert job.result()["state"] == "finished"


@pytest.mark.quick
def test_a_task_that_fails_begins_again_and_its_region_with_it(
    start: Start, tmp_path: Path
) -> None:
    job = start(FAILS_ONCE, tmp_path / "mark", settings=RESTARTS)
    assert job.ended().state == "FINISHED"
    result = job.result()
    assert result["restarts"] == 1
    assert {task["attempt"] for each in result["vertices"] for task in each["tasks"]} == {1}
    printed = [
        int(line.split("> ")[1])
        for index in range(2)
        for line in (job.run_dir / f"tm-{index}.out").read_text().splitlines()
    ]
    assert set(printed) == set(range(1, 1001))


def test_what_a_failed_attempt_held_is_there_for_the_next_one(start: Start, tmp_path: Path) -> None:
    """One TaskManager has just the buffers that one attempt needs."""
    network = "taskmanager.memory.network"
    memory = {f"{network}.min": "256kb", f"{network}.max": "256kb"}
    job = start(FAILS_ONCE, tmp_path / "mark", task_managers=1, slots=2, settings=RESTARTS | memory)
    assert job.ended().state == "FINISHED"
    result = job.result()
    assert result["restarts"] == 1
    assert result["task_managers"][0]["memory"]["TotalMemorySegments"] == 8


@pytest.mark.row("S146")
def test_a_region_that_fails_does_not_disturb_its_neighbour_on_the_same_connection(
    start: Start, tmp_path: Path
) -> None:
    job = start(TWO_REGIONS, tmp_path / "mark", task_managers=2, slots=2, settings=RESTARTS)
    assert job.ended().state == "FINISHED"
    result = job.result()
    assert result["restarts"] == 1
    source, sink = ([task["attempt"] for task in each["tasks"]] for each in result["vertices"])
    assert sorted(source) == [0, 1]
    assert source == sink
    (connection,) = result["connections"]
    assert connection == "tm-0->tm-1"
    failed, living = source.index(1), source.index(0)
    read = [task["metrics"]["numRecordsIn"] for task in result["vertices"][1]["tasks"]]
    assert read[living] == 2000
    assert read[failed] == 2000  # from the beginning once more
    assert verify_run(open_run(job.run_dir)).is_ok


def test_a_task_that_fails_for_good_leaves_record_line_and_traceback(
    start: Start, tmp_path: Path
) -> None:
    job = start(FAILS_ONCE, tmp_path / "mark")
    ended = job.ended()
    assert ended.state == "FAILED"
    found = re.search(
        r"failed in attempt 0: Fails failed at its \d+th record, value 900 \(program\.py:13\):"
        r" ValueError: this once \(traceback: (.*)\)",
        ended.reason,
    )
    assert found is not None
    log = Path(found[1]).read_text()
    assert 'raise ValueError("this once")' in log
    assert log.endswith("ValueError: this once\nrecord: 900\n")


def test_task_managers_end_with_their_job_manager_also_stopped_ones(start: Start) -> None:
    job = start(PIPELINE, 2)
    job.until_running()
    processes = job.task_managers()
    processes[0].send_signal(signal.SIGSTOP)
    os.kill(job.job.job_manager.pid, signal.SIGKILL)
    job.job.job_manager.wait()
    assert gone(processes.values())
    with pytest.raises(TransportError, match="has died"):
        job.client.status()


def test_a_job_manager_that_does_not_answer_is_not_said_to_have_died(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start(PIPELINE, 2)
    job.job_manager.suspend()
    monkeypatch.setattr("flinknet.runtime.cluster.client.ANSWER_WAIT_S", 0.01)
    for name in ("END_WAIT_S", "DEATH_WAIT_S"):
        monkeypatch.setattr(f"flinknet.runtime.cluster.client.{name}", 0.01)
    with pytest.raises(TransportError, match=r"has not answered within 0\.01 s; its process runs"):
        job.client.status()
    with pytest.raises(TransportError, match=r"has not ended the job within 0\.02 s; its process"):
        job.client.cancel()
    with JobClient(job.contact) as client, pytest.raises(TransportError, match="another release"):
        client.status()  # it has never been heard


def test_strangers_on_the_control_port_do_not_disturb_a_job(start: Start) -> None:
    job = start(PIPELINE, 2)
    address = (job.contact.host, job.contact.port)
    silent = [socket.create_connection(address) for _ in range(2 * VISITORS_MAX)]
    text = b'{"message":"Hello","body":{"version":1,"role":"client","token":"\\ud800"}}'
    with socket.create_connection(address) as hostile, JobClient(job.contact) as owner:
        hostile.sendall(len(text).to_bytes(4, "big") + text)
        name = "{}:{}".format(*hostile.getsockname())
        while hostile.recv(1000):
            pass
        assert owner.status().name == job.contact.name
        assert owner.cancel().state == "CANCELED"
    for each in silent:
        each.close()
    log = (job.run_dir / "jobmanager.log").read_text()
    (line,) = (each for each in log.splitlines() if name in each)
    assert "the hello is of version 1, " in line
    assert len(log.splitlines()) == 1


def test_a_task_manager_that_hangs_in_a_function_ends_with_its_job_manager(
    start: Start, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    job = start(HANGS, mark, task_managers=1)
    processes = job.task_managers()
    job.until(lambda _: mark.exists())
    os.kill(job.job.job_manager.pid, signal.SIGKILL)
    job.job.job_manager.wait()
    assert gone(processes.values())


def running(
    start_process: Callable[..., subprocess.Popen[str]], call: list[Any]
) -> tuple[Any, list[psutil.Process]]:
    """A command whose job runs, and its processes."""
    client = start_process(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert client.stderr is not None
    while "running" not in client.stderr.readline():
        assert client.poll() is None
    return client, psutil.Process(client.pid).children(recursive=True)


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_attached_job_ends_with_its_client(
    tmp_path: Path, start_process: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    (tmp_path / "program.py").write_text(PIPELINE)
    call = [*COMMAND, "job", "run", tmp_path / "program.py", "--slots", "1"]
    call += ["--task-managers", "2", "--duration", "10min", "--out", tmp_path / "run"]
    client, processes = running(start_process, call)
    assert len(processes) == 3
    client.send_signal(number)
    client.communicate()
    assert client.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
    assert gone(processes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_function_that_does_not_return_does_not_keep_an_attached_job(
    tmp_path: Path, start_process: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    (tmp_path / "program.py").write_text(HANGS)
    mark = tmp_path / "mark"
    call = [*COMMAND, "job", "run", tmp_path / "program.py", "--out", tmp_path / "run", "--", mark]
    client, processes = running(start_process, call)
    wait_until(mark.exists, client)  # before the function has begun, canceling takes it down
    client.send_signal(number)
    if number is signal.SIGINT:
        line = client.stderr.readline()
        assert "waits up to 3min (task.cancellation.timeout) for Source: Sequence Source" in line
        assert line.endswith("to return; Ctrl-C again ends it now\n")
        client.send_signal(number)
        stdout, _ = client.communicate()
        assert client.returncode == 130
        assert "Hangs: canceled" in stdout
    assert gone(processes)


def test_who_has_not_the_secret_is_sent_away(start: Start) -> None:
    job = start(PIPELINE)
    with (
        JobClient(replace(job.contact, token="guess")) as client,
        pytest.raises(TransportError, match="secret"),
    ):
        client.cancel()
    job.until_running()


def test_a_program_that_is_none_is_reported_by_the_job_manager(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("def main(env):\n    env.nothing()\n")
    call = [*COMMAND, "job", "run", tmp_path / "program.py", "--out", tmp_path / "run"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "program.py:2" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


class Forwarder:
    """Stands before the data ports: passes bytes on, as long as it is not blocked."""

    def __init__(self) -> None:
        self._target = 0
        self._open = threading.Event()
        self._open.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._sockets: list[socket.socket] = [self._server]
        self._ready = threading.Event()

    def __enter__(self) -> Forwarder:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.unblock()
        for each in self._sockets:
            each.close()

    def aim_at(self, port: int) -> None:
        """Connect to this port whoever connects here, or has."""
        self._target = port
        self._ready.set()

    def block(self) -> None:
        """Pass nothing on."""
        self._open.clear()

    def unblock(self) -> None:
        """Pass on what has waited, and go on."""
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._server.accept()
            except OSError:
                return
            self._ready.wait()
            outer = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [inner, outer]
            self._start(self._pass, inner, outer)
            self._start(self._pass, outer, inner)

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                self._open.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()


def _records(client: JobClient) -> int:
    vertices = client.status().vertices
    return vertices[-1].records_in if vertices else 0


def _more(status: object, beats: list[int]) -> bool:
    """Whether every TaskManager has answered three heartbeats more."""
    now = [each.heartbeats for each in status.task_managers]  # type: ignore[attr-defined]
    return all(each >= before + 3 for each, before in zip(now, beats, strict=True))


def _channels(job: LiveJob) -> set[tuple[str, str]]:
    """Producer and consumer of the remote channels, by the manifest."""
    return {
        (each.producer_process, each.consumer_process)
        for each in RunManifest.load(job.run_dir).channels
    }
