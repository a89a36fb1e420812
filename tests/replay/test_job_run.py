"""From a run to its answer: the limit of a job, timeouts of operators, a run of producers alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.config import Scenario, WorkloadConfig
from flinknet.graph import StreamExecutionEnvironment, load_program
from flinknet.predict.exchange import recorded_setting
from flinknet.predict.grid import Grid
from flinknet.replay.advise.targets import Target
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.runtime.cluster.control_messages import SubmitJob
from flinknet.trace.run import open_run
from flinknet.trace.verify import verify_run
from tests.edited_manifest import edit_manifest
from tests.replay_documents import documents
from tests.simulated_job import MS, S
from tests.traced_run import trace_job, trace_load

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
    steps: list[str] = []
    replay = replay_runs(
        spark, open_runs([run]), Grid(), on_progress=steps.append, on_verdict=steps.append
    )
    said, predicting = (
        next(n for n, each in enumerate(steps) if each.startswith(begin))
        for begin in ("slow: all 2 subtasks of Sink: Slow are busy", "simulating")
    )
    assert said < predicting
    first, last = documents(replay)
    (job,) = replay.jobs
    assert (job.feeding, job.edges) == ((None, 0), (first["trace"]["edge"], last["trace"]["edge"]))
    assert "Enrich → Sink: Slow: saturated" in (job.points[0].why_unknown or "")
    assert first["trace"]["edge"] == "Source: Generator Source → Enrich"
    assert last["trace"]["edge"] == "Enrich → Sink: Slow"
    assert (first["is_bottleneck"], last["is_bottleneck"]) == (False, True)
    assert [each["cause"] for each in last["diagnosis"]] == ["slow-tasks"]
    assert "alignment" not in {each["cause"] for each in first["diagnosis"]}


def in_steps(env: StreamExecutionEnvironment) -> None:
    """Two edges with buffer timeouts of their own, neither of them that of the job."""
    env.set_parallelism(2)
    made = env.generate(rate="1k/s").set_buffer_timeout("5ms").rebalance()
    made.map(as_it_is).set_buffer_timeout("20ms").rebalance().measure_latency()
    env.execute("In steps")


def as_it_is(record: tuple[int, bytes]) -> tuple[int, bytes]:
    return record


def without_timeouts(manifest: dict[str, Any]) -> None:
    """As earlier releases wrote it."""
    for edge in manifest["scenario"]["job"]["edges"]:
        del edge["buffer_timeout_ns"]


@pytest.mark.spark
def test_the_buffer_timeout_of_each_operator_is_recorded(spark: Any, tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    in_steps(env)
    run = trace_job(tmp_path, env.get_stream_graph(), end_ns=S)
    grid, target = Grid(buffer_timeouts_ns=[5 * MS]), Target.parse("p99<=15ms")
    replay = replay_runs(spark, open_runs([run]), grid, targets=[target])
    (job,) = replay.jobs
    assert [each.timeouts_ns for each in job.points] == [(5 * MS, 5 * MS), (5 * MS, 20 * MS)]
    assert job.points[1].is_recorded
    for error in (job.model_error, replay.answers[0].model_error):
        assert error.p50 == pytest.approx(0, abs=0.1)
        assert error.p99 == pytest.approx(0, abs=0.1)
    assert "set_buffer_timeout" in job.notes[0]
    assert job.choice.patch.endswith('set_buffer_timeout("5ms")')

    edit_manifest(run, without_timeouts)
    settings = [recorded_setting(each.manifest).network for each in open_runs([run])]
    assert [each.buffer_timeout_ns for each in settings] == [100 * MS] * 2


@pytest.mark.spark
def test_a_run_that_recorded_its_producers_alone_is_observed_where_it_sent(
    spark: Any, tmp_path: Path
) -> None:
    """As `bench produce` does: its consumers are those of another run, or of a Flink."""
    workload = WorkloadConfig(records=1000, rate_per_s=1000, duration_ns=None, warmup_ns=0)
    run = trace_load(tmp_path, Scenario(workload=workload))

    def without_consumers(manifest: dict[str, Any]) -> None:
        manifest["processes"] = [each for each in manifest["processes"] if each["name"] == "tm-0"]

    edit_manifest(run, without_consumers)
    (run / "tm-1.fnt").unlink()
    (answer,) = replay_runs(spark, open_runs([run]), Grid(buffer_timeouts_ns=[MS])).answers
    assert answer.observed.records == 1000
    assert answer.observed.latency_ns.count == 0
    assert answer.model_error.throughput == pytest.approx(0, abs=0.02)
    assert answer.model_error.buffers_per_s == pytest.approx(0, abs=0.2)
    assert any(each.startswith("its consumers were not recorded") for each in answer.remarks)
