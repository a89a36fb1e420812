"""A job from its program to the answer of a replay: the edge that holds it up is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.graph import execution_graph_of, job_graph_of, load_program
from flinknet.predict.grid import Grid
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.runtime.cluster.control_messages import SubmitJob
from flinknet.runtime.cluster.job_files import Instants, save_manifest
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.measurements import Measurements
from flinknet.simulator.job_cluster import START_NS, JobCluster
from flinknet.trace import ProcessInfo, RunManifest, TraceRecorder, TraceWriter
from flinknet.trace.run import open_run
from flinknet.trace.verify import verify_run
from tests.replay_documents import documents
from tests.simulated_job import COSTS, S

PROGRAM = Path(__file__).parents[2] / "bench" / "jobs" / "slow_last_stage.py"
SETTINGS = {"taskmanager.memory.segment-size": "4kb"}


def run_in_virtual_time(directory: Path, *arguments: str) -> Path:
    """The trace of the three stages on two TaskManagers, where every edge is local in part."""
    program = load_program(PROGRAM, SETTINGS, arguments)
    graph = execution_graph_of(job_graph_of(program.stream_graph))
    master = JobMaster(graph, 2, 1, now_ns=0)
    master.register(0, now_ns=0)
    master.register(1, now_ns=0)
    (deployment,) = master.deployments
    measurements = Measurements()
    measurements.deploy(deployment.plan, deployment.tasks)
    processes = [ProcessInfo(f"tm-{index}", f"tm-{index}.fnt", index) for index in range(2)]
    recorders = [TraceRecorder(TraceWriter(directory / each.file, each)) for each in processes]
    cluster = JobCluster(deployment.plan, graph.job, COSTS, probes=recorders, end_ns=S)
    cluster.run()
    for recorder in recorders:
        recorder.close()
    submission = SubmitJob(str(PROGRAM), "", arguments, SETTINGS, True, None, 0, 1)
    instants = Instants("now", START_NS, START_NS, cluster.scheduler.now_ns)
    save_manifest(directory, submission, master, measurements, [], instants)
    replace(RunManifest.load(directory), processes=tuple(processes)).save(directory)
    return directory


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
