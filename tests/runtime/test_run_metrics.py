"""Metrics and buffer debloating of whole runs: they are there, and they agree with each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.config import SlowConsumer
from flinknet.results import Progress, RunResult
from flinknet.runtime.cluster.launcher import run_scenario
from flinknet.trace import open_run
from flinknet.trace.describe import describe_run
from flinknet.trace.metrics import METRICS_NAME
from flinknet.trace.verify import verify_run
from tests.runtime.runs import MS, run, scenario_of

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]


def total(result: RunResult, name: str, task: str = "") -> float:
    assert result.metrics is not None
    found = [
        each[name]
        for at, each in result.metrics.tasks.items()
        if at.startswith(task)
        if name in each
    ]
    return sum(each for each in found if not isinstance(each, str))


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize("partitioner", ["rebalance", "broadcast"])
def test_counters_of_both_ends_agree(partitioner: str) -> None:
    result = run(scenario_of(records=20_000, partitioner=partitioner))
    assert result.metrics is not None
    assert list(result.metrics.tasks) == ["source 0", "source 1", "sink 0", "sink 1"]
    assert list(result.metrics.task_managers) == ["tm-0", "tm-1"]
    copies = 2 if partitioner == "broadcast" else 1
    made, read = total(result, "numRecordsIn", "source"), total(result, "numRecordsIn", "sink")
    assert read == copies * made == copies * total(result, "numRecordsOut") >= 40_000
    assert total(result, "numBytesOut") == total(result, "numBytesIn")
    assert total(result, "numBytesIn") == total(result, "numBytesInRemote")
    assert total(result, "numBuffersOut") == total(result, "numBuffersInRemote") > 0
    assert total(result, "numRecordsInPerSecond") > 0
    for name, found in result.metrics.tasks.items():
        shares = [found[f"{each}TimeMsPerSecond"] for each in ("busy", "idle", "backPressured")]
        assert sum(each for each in shares if not isinstance(each, str)) == 1000, name
        assert found["backpressureLevel"] in ("OK", "LOW", "HIGH")
    for memory in result.metrics.task_managers.values():
        assert memory["TotalMemorySegments"] == 2048


def test_local_channels_are_counted_as_local() -> None:
    result = run(replace(scenario_of(records=5000), placement="spread"))
    assert total(result, "numBytesInLocal") > 0
    assert total(result, "numBytesInRemote") > 0
    assert total(result, "numBytesOut") == total(result, "numBytesIn")


def test_the_live_view_and_the_run_directory_get_them(tmp_path: Path) -> None:
    seen: list[Progress] = []
    run_scenario(scenario_of(records=20_000), out_dir=tmp_path, trace=True, on_progress=seen.append)
    tasks = {task.name: task for progress in seen for task in progress.tasks}
    assert tasks["source 0"].out_pool_usage is not None
    assert tasks["source 0"].in_pool_usage is None
    assert tasks["sink 1"].in_pool_usage is not None
    told = [json.loads(line) for line in (tmp_path / METRICS_NAME).read_text().splitlines()]
    assert {line.get("task") for line in told} == {None, *tasks}
    described = describe_run(open_run(tmp_path))["metrics"]
    assert described["lines"] == len(told)
    assert described["tasks"] == ("sink 0", "sink 1", "source 0", "source 1")
    assert {"outPoolUsage", "numRecordsInPerSecond"} <= {*described["names"]}


def test_a_debloated_run_tells_its_sizes(tmp_path: Path) -> None:
    scenario = scenario_of(duration_ns=400 * MS, slow_consumers=(SlowConsumer(0, 100_000),))
    network = replace(
        scenario.network,
        debloating_enabled=True,
        debloating_target_ns=20 * MS,
        debloating_period_ns=10 * MS,
        debloating_samples=2,
    )
    result = run_scenario(replace(scenario, network=network), out_dir=tmp_path, trace=True)
    assert [gate.name for gate in result.debloating] == ["sink 0", "sink 1"]
    slow = result.debloating[0]
    assert slow.target_ns == 20 * MS
    assert all(256 <= each.buffer_size_bytes <= 32_768 for each in slow.samples)
    assert [each.at_ns for each in slow.samples] == sorted({each.at_ns for each in slow.samples})
    assert slow.samples[0].at_ns >= 10 * MS
    assert any(each.in_flight_bytes for each in slow.samples)
    assert result.metrics is not None
    assert "debloatedBufferSize" in result.metrics.tasks["sink 0"]
    run = open_run(tmp_path)
    sizes = describe_run(run)["events_by_kind"]
    assert sizes["SENT"]["NEW_BUFFER_SIZE"] == sizes["RECEIVED"]["NEW_BUFFER_SIZE"] > 0
    assert verify_run(run).findings == ()
