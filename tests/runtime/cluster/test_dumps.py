"""Running jobs describe themselves: they have what their plans say, object by object."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.graph import (
    PhysicalPlan,
    execution_graph_of,
    job_graph_of,
    load_program,
    physical_plan_of,
)
from flinknet.results import JobDump
from tests.runtime.cluster.live_job import Start
from tests.runtime.cluster.programs import PIPELINE

pytestmark = pytest.mark.socket


JOBS = sorted((Path(__file__).parents[3] / "bench" / "jobs").glob("*.py"))


def renumbered(tasks: dict[str, object]) -> str:
    """Ids of data sets by their first appearance: they follow from numbers that operators have in
    one process.
    """
    text = repr(sorted(tasks.items()))
    for number, found in enumerate(dict.fromkeys(re.findall(r"'([0-9a-f]{32})(?:#|')", text))):
        text = text.replace(found, f"data set {number}")
    return text


def planned(plan: PhysicalPlan) -> dict[str, object]:
    """Every task with its objects, by name."""
    found = {}
    for task in plan.tasks():
        gates = [
            (
                gate.edge + 1,
                str(gate.data_set_id),
                gate.remote_channels * gate.buffers.exclusive_per_channel,
                [
                    (each.producer, each.subpartition, each.is_local)
                    for each in plan.channels()
                    if (each.edge, each.consumer) == (gate.edge, task.subtask)
                ],
            )
            for gate in task.gates
        ]
        partitions = [
            (str(each.id), each.partition_type.name, each.subpartitions) for each in task.partitions
        ]
        found[task.name] = (task.task_manager, task.slot, str(task.attempt_id), partitions, gates)
    return found


def running(dump: JobDump) -> dict[str, object]:
    """The same of a running job."""
    return {
        task.name: (
            manager.index,
            task.slot,
            task.attempt_id,
            [(each.id, each.type, each.subpartitions) for each in task.partitions],
            [
                (gate.edge_number, gate.data_set, gate.exclusive_buffers, list(gate.channels))
                for gate in task.gates
            ],
        )
        for manager in dump.task_managers
        for task in manager.tasks
    }


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.row("S147")
@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_what_runs_is_what_was_planned(start: Start, path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = []
        if "socket_text_stream" in path.read_text():
            arguments = ["127.0.0.1", str(server.getsockname()[1])]
        job = start(path.read_text(), *arguments, task_managers=2, slots=2)
        job.until_running(records=0)
        dump = job.client.dump()
        graph = job_graph_of(load_program(path, {}, arguments).stream_graph)
        plan = physical_plan_of(
            execution_graph_of(graph, dump.job_id), task_managers=2, slots_per_task_manager=2
        )
        assert plan.channels_total > 0
        assert renumbered(running(dump)) == renumbered(planned(plan))
        assert dump.name == graph.name


def test_the_command_shows_the_tasks_of_a_running_job(start: Start) -> None:
    job = start(PIPELINE, 2)
    job.until_running()
    call = [sys.executable, "-c", "from flinknet.cli import main; main()"]
    call += ["job", "status", str(job.run_dir), "--graph", "json"]
    document = json.loads(subprocess.run(call, capture_output=True, check=True).stdout)
    assert document["name"] == "Pipeline"
    (_, second) = document["task_managers"]
    assert sorted(len(each["gates"]) for each in second["tasks"]) == [0, 1]
