"""A job from its program to the answer of a replay: the edge that holds it up is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.graph import load_program
from flinknet.predict.grid import Grid
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.runtime.cluster.control_messages import SubmitJob
from flinknet.trace.run import open_run
from flinknet.trace.verify import verify_run
from tests.replay_documents import documents
from tests.simulated_job import S
from tests.traced_run import trace_job

PROGRAM = Path(__file__).parents[2] / "bench" / "jobs" / "slow_last_stage.py"
SETTINGS = {"taskmanager.memory.segment-size": "4kb"}


def run_in_virtual_time(directory: Path, *arguments: str) -> Path:
    """The trace of the three stages on two TaskManagers, where every edge is local in part."""
    program = load_program(PROGRAM, SETTINGS, arguments)
    submission = SubmitJob(str(PROGRAM), "", arguments, SETTINGS, True, None, 0, 1)
    return trace_job(directory, program.stream_graph, submission=submission, end_ns=S)


@pytest.mark.spark
def test_the_slow_last_stage_is_what_holds_the_job_up(spark: Any, tmp_path: Path) -> None:
    run = run_in_virtual_time(tmp_path, "300us")
    assert verify_run(open_run(run)).is_ok
    first, last = documents(replay_runs(spark, open_runs([run]), Grid()))
    assert first["trace"]["edge"] == "Source: Generator Source → Enrich"
    assert last["trace"]["edge"] == "Enrich → Sink: Slow"
    assert (first["is_bottleneck"], last["is_bottleneck"]) == (False, True)
    assert [each["kind"] for each in last["diagnosis"]] == ["bottleneck"]
    assert "alignment" not in {each["kind"] for each in first["diagnosis"]}
