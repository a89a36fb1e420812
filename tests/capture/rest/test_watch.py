"""The process that asks the JobManager for a tap, on saved answers."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.capture.rest.http_client import RestPlace
from flinknet.capture.rest.process import RestWatch
from flinknet.trace.metrics import METRICS_NAME, describe_metrics
from tests.capture.rest.saved import directory


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
def test_without_an_answer_the_reason_is_known(tmp_path: Path) -> None:
    watch = RestWatch(RestPlace("http://127.0.0.1:9"), tmp_path)
    watch.close()
    assert not watch.has_answered
    assert watch.jobs == ()
    assert watch.error is not None
    assert "does not answer" in watch.error


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
            ready, _, _ = select.select([listening.fileno(), watch.fileno()], [], [], 20)
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
            "print(watch.pid, flush=True); input()"
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
        assert select.select([watch], [], [], 20)[0]
        watch.tick()
