"""Metrics on their way from a TaskManager to live view, run directory and Prometheus."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.config import Scenario
from flinknet.errors import LocalTransportError
from flinknet.job.load.plan import load_plan_of, task_name
from flinknet.runtime.cluster.collected import Collected, ProgressMeter
from flinknet.runtime.cluster.reports import Statistics, TaskCounts
from flinknet.runtime.metrics_endpoint import THREADS_MAX, MetricsEndpoint
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
    assert head.startswith(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert body == b"new 2\n" + b"more 3\n" * 1_000_000
    assert f"Content-Length: {len(body)}".encode() in head
    assert answer(endpoint, b"HEAD /metrics HTTP/1.1") == head + b"\r\n\r\n"


def test_silent_connections_are_let_go_and_their_number_is_bounded(
    endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flinknet.runtime.metrics_endpoint._Handler.timeout", 0.2)
    with contextlib.ExitStack() as stack:
        for _ in range(3 * THREADS_MAX):
            silent = stack.enter_context(socket.create_connection(endpoint.address, timeout=5))
        assert silent.recv(1) == b""
        assert threading.active_count() <= THREADS_MAX
    while threading.active_count() > 3:
        time.sleep(0.01)
    assert b"404" in answer(endpoint, b"GET /other HTTP/1.1")


@pytest.mark.parametrize("request_line", [b"POST /metrics HTTP/1.1", b"\x16\x03\x01"])
def test_another_request_is_refused(endpoint: MetricsEndpoint, request_line: bytes) -> None:
    assert b"Error response" in answer(endpoint, request_line)


def test_a_port_that_is_taken_is_one_line(endpoint: MetricsEndpoint) -> None:
    with pytest.raises(LocalTransportError, match="cannot listen there"):
        MetricsEndpoint(*endpoint.address)
