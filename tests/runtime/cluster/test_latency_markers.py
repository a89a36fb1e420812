"""Latency markers on real processes, next to how old the records were."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.cluster.live_job import LiveJob
from tests.runtime.cluster.programs import PIPELINE

Start = Callable[..., LiveJob]

SETTINGS = {
    "metrics.latency.interval": "10 ms",
    "metrics.latency.granularity": "SUBTASK",
    "execution.buffer-timeout.interval": "50 ms",
}


def test_markers_tell_the_wait_in_buffers_as_the_records_do(start: Start) -> None:
    job = start(PIPELINE, 2, "1k/s", 1000, settings=SETTINGS)
    assert job.ended().state == "FINISHED"
    measured = job.result()["latency_markers"]
    assert (measured["interval_ns"], measured["granularity"]) == (10_000_000, "subtask")
    (sink,) = measured["operators"]
    assert (sink["source"], sink["operator"]) == ("Source: Made", "Sink: Read")
    assert 10 <= sink["markers"] <= 120  # of two sources, for half a second or a bit more
    records = sink["records_ns"]
    assert records["count"] == 1000
    assert sink["latency_ms"]["p50"] * 1e6 == pytest.approx(records["p50"], rel=0.5, abs=2e7)
    histograms = measured["histograms"]
    assert {(each["source_subtask"], each["subtask"]) for each in histograms} == {
        (source, subtask) for source in (0, 1) for subtask in (0, 1)
    }
    assert sum(each["markers"] for each in histograms) == sink["markers"]
    vertices = job.result()["vertices"]
    for task in vertices[1]["tasks"]:
        assert task["metrics"]["currentInputWatermark"] == 2**63 - 1  # the end of time
