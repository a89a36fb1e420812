"""Deployment: values of the job and of each vertex travel once to each TaskManager."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.cluster.live_job import LiveJob
from tests.runtime.cluster.programs import PIPELINE

pytestmark = pytest.mark.socket

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
