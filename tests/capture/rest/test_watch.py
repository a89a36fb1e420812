"""The process that asks the JobManager for a tap, on saved answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinknet.capture.tap.rest_watch import RestPlace, RestWatch
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
