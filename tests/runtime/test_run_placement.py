"""Who sits where, with real processes: local and remote channels, shared connections, relays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from flinknet.config import SlowConsumer
from flinknet.results import Progress, RunResult
from flinknet.runtime.cluster.launcher import run_scenario
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.runtime.processes import task_managers
from tests.runtime.runs import MS, scenario_of

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]


def established() -> dict[str, int]:
    """TCP sockets of the data port that each TaskManager has."""
    return {
        name: sum(
            each.status == psutil.CONN_ESTABLISHED or each.status == psutil.CONN_LISTEN
            for each in process.net_connections("tcp")
        )
        - 1  # the control connection
        for name, process in task_managers().items()
    }


def run(
    task_managers: int, placement: str = "spread", out_dir: Path | None = None, **workload: object
) -> tuple[RunResult, dict[str, int]]:
    """The result, and the sockets of each process in the middle of the run."""
    seen: dict[str, int] = {}

    def watch(progress: Progress) -> None:
        if progress.phase == "measuring" and not seen:
            seen.update(established())

    workload = {"producers": 1, "consumers": 1, "duration_ns": 600 * MS} | workload
    asked = scenario_of(timeout_ns=100 * MS, **workload)  # type: ignore[arg-type]
    scenario = replace(asked, task_managers=task_managers, placement=placement)
    trace = out_dir is not None
    return run_scenario(scenario, out_dir=out_dir, trace=trace, on_progress=watch), seen


@pytest.mark.quick
@pytest.mark.row("S080")
@pytest.mark.row("S079")
@pytest.mark.row("S044")
def test_the_worked_example_shares_one_connection_each_way(tmp_path: Path) -> None:
    result, sockets = run(2, out_dir=tmp_path, producers=4, consumers=4, rate_per_s=1000.0)
    wiring = result.wiring
    assert wiring is not None
    assert (wiring.local_channels, wiring.remote_channels) == (8, 8)
    assert wiring.connections == {"tm-0->tm-1": 4, "tm-1->tm-0": 4}
    assert wiring.bytes_in_local > 0
    assert wiring.bytes_in_remote > 0
    # each has a port, the connection it opened and the one it accepted
    assert sockets == {"tm-0": 3, "tm-1": 3}
    channels = open_run(tmp_path).manifest.channels  # type: ignore[union-attr]
    assert [channel.is_local for channel in channels] == [
        (channel.producer - channel.consumer) % 2 == 0 for channel in channels
    ]
    for channel in result.channels:
        assert channel.is_local is ((channel.producer - channel.consumer) % 2 == 0)
    assert verify_run(open_run(tmp_path)).is_ok


@pytest.mark.row("S043")
@pytest.mark.row("S103")
def test_within_one_task_manager_there_is_no_socket(tmp_path: Path) -> None:
    result, sockets = run(
        1,
        out_dir=tmp_path,
        producers=2,
        consumers=2,
        rate_per_s=20_000.0,
        slow_consumers=(SlowConsumer(0, 200_000),),
    )
    assert sockets == {"tm-0": 0}
    wiring = result.wiring
    assert wiring is not None
    assert (wiring.local_channels, wiring.remote_channels, wiring.connections) == (4, 0, {})
    assert wiring.bytes_in_local > 0
    assert wiring.bytes_in_remote == 0
    assert result.measured.credits.announced == 0
    assert verify_run(open_run(tmp_path)).is_ok


@pytest.mark.row("S044")
def test_the_same_job_brings_the_same_records_over_one_and_over_two_task_managers() -> None:
    records = [
        [
            (channel.producer, channel.consumer, channel.records)
            for channel in sorted(run(count, **job)[0].channels, key=lambda each: each.channel)
        ]
        for count in (1, 2)
        for job in ({"producers": 2, "consumers": 2, "rate_per_s": 2000.0},)
    ]
    assert records[0] == records[1]


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize(("task_managers", "placement"), [(3, "split"), (1, "spread")])
def test_records_pass_through_relays_and_are_counted_once(
    tmp_path: Path, task_managers: int, placement: str
) -> None:
    result, _ = run(*(task_managers, placement, tmp_path), relays=1, consumers=2, rate_per_s=5000.0)
    assert result.measured.records == 3000
    assert result.measured.latency_ns.count == 3000
    by_edge = [sum(c.records for c in result.channels if c.edge == edge) for edge in (0, 1)]
    assert by_edge == [3000, 3000]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [channel.get("edge", 0) for channel in manifest["channels"]] == [0, 1, 1]
    assert verify_run(open_run(tmp_path)).is_ok
