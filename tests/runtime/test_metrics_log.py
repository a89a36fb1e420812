"""Metrics on their way from a TaskManager to live view, run directory and Prometheus."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.config import Scenario
from flinknet.errors import LocalTransportError
from flinknet.job.load.plan import load_plan_of, task_name
from flinknet.runtime.cluster.collected import Collected, ProgressMeter
from flinknet.runtime.cluster.reports import Statistics, TaskCounts
from flinknet.runtime.metrics_endpoint import MetricsEndpoint
from flinknet.runtime.metrics_log import MetricsLog
from flinknet.trace.metrics import METRICS_NAME, describe_metrics, metrics_lines

TIMES = {
    "busyTimeMsPerSecond": 700,
    "idleTimeMsPerSecond": 100,
    "backPressuredTimeMsPerSecond": 200,
}


def add(log: MetricsLog, index: int, *tasks: str, now_ns: int) -> None:
    log.add(index, dict.fromkeys(tasks, TIMES), {"UsedMemory": 7.0}, now_ns=now_ns)


def statistics_of(*tasks: str) -> Statistics:
    attempts = {task_name(each): each.attempt_id for each in load_plan_of(Scenario()).tasks}
    return Statistics(0, tuple(TaskCounts(attempts[each], each, dict(TIMES)) for each in tasks))


def test_each_task_has_a_line_and_the_memory_another(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    add(log, 0, "source 0", "source 1", now_ns=5)
    add(log, 1, "sink 0", now_ns=6)
    lines = [json.loads(line) for line in (tmp_path / METRICS_NAME).read_text().splitlines()]
    assert lines == [
        {"at_ns": 5, "task_manager": "tm-0", "task": "source 0", **TIMES},
        {"at_ns": 5, "task_manager": "tm-0", "task": "source 1", **TIMES},
        {"at_ns": 5, "task_manager": "tm-0", "UsedMemory": 7.0},
        {"at_ns": 6, "task_manager": "tm-1", "task": "sink 0", **TIMES},
        {"at_ns": 6, "task_manager": "tm-1", "UsedMemory": 7.0},
    ]
    log.close()
    described = describe_metrics(tmp_path)
    assert described is not None
    assert (described.lines, described.tasks) == (5, ("sink 0", "source 0", "source 1"))
    assert described.names == tuple(sorted(TIMES))


def test_a_file_that_cannot_be_written_is_given_up_and_reported(tmp_path: Path) -> None:
    (tmp_path / METRICS_NAME).mkdir()
    log = MetricsLog(tmp_path)
    add(log, 0, "sink 0", now_ns=5)
    add(log, 0, "sink 0", now_ns=6)
    assert log.error is not None
    assert log.error.startswith(f"{tmp_path / METRICS_NAME}: cannot be written (Is a directory)")
    log.close()
    assert describe_metrics(tmp_path) is None


def test_progress_keeps_the_last_metrics_of_each_task() -> None:
    meter = ProgressMeter(load_plan_of(Scenario()), Collected())
    meter.add(1, statistics_of("sink 0"), 1)
    meter.add(0, statistics_of("source 0"), 2)
    meter.add(1, statistics_of(), 3)
    tasks = meter.progress("starting", 4).tasks
    assert [(task.name, task.busy, task.idle, task.back_pressured) for task in tasks] == [
        ("source 0", 0.7, 0.1, 0.2),
        ("sink 0", 0.7, 0.1, 0.2),
    ]
    assert tasks[0].in_pool_usage is None


def test_what_is_kept_around_instants_adds_up(tmp_path: Path) -> None:
    kept_ns = (200, 260, 300, 1000)
    log = MetricsLog(tmp_path, keep_ns=100)
    for now_ns in range(0, 2000, 10):
        log.write([{"at_ns": now_ns, "task_manager": "tm-0"}])
        if now_ns in kept_ns:
            log.keep_around(now_ns)
        log.drop_old(now_ns)
    log.close()
    found = [line["at_ns"] for line in metrics_lines(tmp_path)]
    old = [each for each in found if each < 1800]
    assert old == [*range(100, 350, 10), *range(900, 1050, 10)]
    assert found[-1] == 1990
    assert len(found) < 80


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    opened = MetricsEndpoint("127.0.0.1", 0)
    yield opened
    opened.close()


def answer(endpoint: MetricsEndpoint, request: bytes) -> bytes:
    with socket.create_connection(endpoint.address, timeout=5) as asking:
        asking.sendall(request + b"\r\n\r\n")
        return b"".join(iter(lambda: asking.recv(1 << 16), b""))


def test_who_asks_gets_the_last_text_whole(endpoint: MetricsEndpoint) -> None:
    with socket.create_connection(endpoint.address, timeout=5):  # and says nothing
        endpoint.publish("old 1\n")
        endpoint.publish("new 2\n" + "more 3\n" * 1_000_000)
        head, _, body = answer(endpoint, b"GET /metrics?x=1 HTTP/1.1").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert body == b"new 2\n" + b"more 3\n" * 1_000_000
    assert f"Content-Length: {len(body)}".encode() in head
    assert answer(endpoint, b"HEAD /metrics HTTP/1.1") == head + b"\r\n\r\n"


def test_silent_connections_keep_no_request_waiting_and_are_let_go(
    endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.publish("a 1\n")
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            silent = stack.enter_context(socket.create_connection(endpoint.address, timeout=5))
        assert answer(endpoint, b"GET /metrics HTTP/1.1").endswith(b"\r\n\r\na 1\n")
        monkeypatch.setattr("flinknet.runtime.metrics_endpoint._PATIENCE", 1)
        assert silent.recv(1) == b""


def test_a_connection_that_is_reset_is_passed_over(
    endpoint: MetricsEndpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint.publish("a 1\n" * 1_000_000)
    for request in b"", b"GET / HTTP/1.1\r\n\r\n":
        with socket.create_connection(endpoint.address) as reset:
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reset.sendall(request)
    assert answer(endpoint, b"GET / HTTP/1.1").endswith(b"a 1\n")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /other HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"\x16\x03\x01", b"405 Method Not Allowed"),
    ],
)
def test_another_request_is_refused(
    endpoint: MetricsEndpoint, request_line: bytes, status: bytes
) -> None:
    assert answer(endpoint, request_line).startswith(b"HTTP/1.1 " + status)


def test_a_port_that_is_taken_is_one_line(endpoint: MetricsEndpoint) -> None:
    with pytest.raises(LocalTransportError, match="cannot listen there"):
        MetricsEndpoint(*endpoint.address)
