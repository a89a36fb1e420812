"""Every type of exchange over real sockets: with its scheduling, its files and its codecs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario
from flinknet.errors import ConfigError
from flinknet.results import RunResult
from tests.runtime import runs

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]

RECORDS = 3000


def scenario_of(partition_type: str, codec: str = "NONE", **workload: object) -> Scenario:
    """Two producers, two consumers, two TaskManagers; every TaskManager has both kinds of tasks."""
    usual = {"partitioner": "hash", "records": RECORDS, "warmup_ns": 0}
    usual |= {"record_size": RecordSize(50, 300), "partition_type": partition_type}
    return runs.scenario_of(
        network=NetworkConfig(segment_size_bytes=4096, compression_codec=codec),
        timeout_ns=-1 if partition_type == "blocking" else 100 * runs.MS,
        **(usual | workload),  # type: ignore[arg-type]
    )


def run(scenario: Scenario) -> RunResult:
    """A run that checks every record itself; none is lost, and nothing is left behind."""
    result = runs.run(scenario)
    assert result.measured.records == RECORDS * scenario.workload.producers
    return result


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of blocking exchanges lie."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.row("S018")
@pytest.mark.row("S019")
@pytest.mark.parametrize(
    ("partition_type", "scheduling"),
    [
        ("pipelined", "all-at-once"),
        ("pipelined-bounded", "first-output"),
        ("blocking", "complete-output"),
        ("pipelined-approximate", "all-at-once"),
    ],
)
def test_each_type_runs_with_its_scheduling(
    partition_type: str, scheduling: str, temporary_files: Path
) -> None:
    result = run(scenario_of(partition_type, scheduling=scheduling))
    assert bool(result.blocking) == (partition_type == "blocking")
    if scheduling == "all-at-once":
        assert [each.deployed_ns for each in result.deployments.values()] == [0, 0]
    assert list(temporary_files.iterdir()) == []


@pytest.mark.row("S019")
def test_a_combination_that_there_is_not_starts_nothing() -> None:
    with pytest.raises(ConfigError, match="first-output does not go with blocking"):
        run(scenario_of("blocking", scheduling="first-output"))


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize("codec", ["NONE", "LZ4", "ZSTD"])
def test_a_blocking_exchange_tells_its_phases_and_what_compression_left(
    codec: str, temporary_files: Path
) -> None:
    (exchange,) = run(scenario_of("blocking", codec)).blocking
    assert exchange.records == 2 * RECORDS
    assert exchange.codec == codec
    assert exchange.data_bytes > 2 * RECORDS * 55
    if codec == "NONE":
        assert exchange.stored_bytes == exchange.data_bytes
    else:
        assert exchange.stored_bytes < exchange.data_bytes / 2
    assert min(exchange.write_duration_ns, exchange.read_duration_ns) > 0
    assert list(temporary_files.iterdir()) == []


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.row("S018")
@pytest.mark.parametrize(
    ("partition_type", "scheduling"),
    [("blocking", "complete-output"), ("pipelined-bounded", "first-output")],
)
def test_three_stages_are_deployed_one_after_the_other(
    partition_type: str, scheduling: str
) -> None:
    scenario = scenario_of(
        partition_type, "LZ4", scheduling=scheduling, relays=1, rate_per_s=RECORDS / 0.3
    )
    result = run(replace(scenario, task_managers=3))
    first, second, last = result.deployments.values()
    assert first.deployed_ns == 0
    for before, after in ((first, second), (second, last)):
        assert after.deployed_ns is not None
        assert before.finished_ns is not None
        if scheduling == "complete-output":
            assert after.deployed_ns >= before.finished_ns
        else:
            assert before.first_output_ns is not None
            assert before.first_output_ns <= after.deployed_ns < before.finished_ns
    if scheduling == "complete-output":
        assert [exchange.records for exchange in result.blocking] == [2 * RECORDS] * 2


def test_blocking_exchanges_within_a_task_manager_are_read_without_a_connection() -> None:
    scenario = scenario_of("blocking", "ZSTD", relays=1, partitioner="rebalance")
    result = run(replace(scenario, placement="spread"))
    assert [exchange.records for exchange in result.blocking] == [2 * RECORDS] * 2


def test_a_blocking_exchange_without_credit_is_read_too() -> None:
    run(replace(scenario_of("blocking", "LZ4"), flow_control="tcp"))


def test_broadcast_is_written_to_every_consumer() -> None:
    result = runs.run(scenario_of("blocking", "LZ4", partitioner="broadcast"))
    (exchange,) = result.blocking
    assert result.measured.records == exchange.records == 4 * RECORDS


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize("partitioner", ["rescale", "shuffle", "global"])
def test_other_partitioners_bring_every_record(partitioner: str) -> None:
    result = run(scenario_of("pipelined-bounded", partitioner=partitioner, consumers=3))
    reached = {channel.consumer for channel in result.channels if channel.records}
    assert reached == ({0} if partitioner == "global" else {0, 1, 2})
    if partitioner == "rescale":
        wired = [(channel.producer, channel.consumer) for channel in result.channels]
        assert sorted(wired) == [(0, 0), (0, 1), (1, 2)]
