"""Whole runs: real processes, real sockets, every record once and in order."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario, SlowConsumer
from flinknet.errors import ConfigError, LocalTransportError, RunFailedError
from flinknet.results import Progress
from flinknet.runtime.cluster import launcher
from flinknet.runtime.cluster.launcher import run_scenario
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run
from tests.runtime.processes import task_managers
from tests.runtime.runs import MS, run, scenario_of

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert task_managers() == {}


EACH_8, EACH_100 = RecordSize(8, 8), RecordSize(100, 100)
EACH_1K, EACH_100K = RecordSize(1024, 1024), RecordSize(102_400, 102_400)


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize(
    ("producers", "consumers", "partitioner", "size", "timeout_ns", "records"),
    [
        (1, 1, "rebalance", EACH_100, 5 * MS, 5000),
        (1, 1, "forward", EACH_8, 0, 5000),
        (1, 1, "rebalance", EACH_100K, -1, 200),
        (2, 2, "rebalance", EACH_8, -1, 5000),
        (2, 2, "hash", EACH_1K, 5 * MS, 3000),
        (2, 2, "forward", EACH_100K, 0, 100),
        (4, 4, "rebalance", EACH_1K, 0, 2000),
        (4, 4, "forward", EACH_100, -1, 3000),
        (2, 3, "broadcast", EACH_100, 5 * MS, 2000),
        (1, 4, "hash", RecordSize(8, 3000), 0, 1000),
    ],
)
def test_every_record_arrives_at_the_highest_rate(
    producers: int,
    consumers: int,
    partitioner: str,
    size: RecordSize,
    timeout_ns: int,
    records: int,
) -> None:
    result = run(
        scenario_of(
            producers,
            consumers,
            record_size=size,
            timeout_ns=timeout_ns,
            partitioner=partitioner,
            records=records,
        )
    )
    copies = consumers if partitioner == "broadcast" else 1
    measured = result.measured
    assert measured.records == records * producers * copies
    assert sum(channel.records for channel in result.channels) == measured.records
    assert len(result.channels) == producers * (1 if partitioner == "forward" else consumers)
    if size.is_constant:
        assert measured.bytes == measured.records * size.low_bytes
    assert measured.latency_ns.count == measured.records
    assert measured.credits.announced > 0
    if partitioner == "rebalance" and consumers == 2:
        assert {channel.records for channel in result.channels} == {records // 2}


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize("arrivals", ["constant", "poisson", "bursts"])
def test_a_rate_is_kept_and_every_record_arrives(arrivals: str) -> None:
    result = run(
        scenario_of(
            2,
            2,
            record_size=RecordSize(16, 400),
            timeout_ns=0,
            rate_per_s=5000.0,
            records=1500,
            arrivals=arrivals,
        )
    )
    # instants near the edges of the measured part may fall on either side
    slack = 400 if arrivals != "constant" else 4
    assert result.measured.records == pytest.approx(3000, abs=slack)
    assert result.measured.latency_uncorrected_ns.count == result.measured.records


@pytest.mark.quick
def test_a_duration_ends_the_run_and_progress_tells_of_it() -> None:
    seen: list[Progress] = []
    result = run(
        scenario_of(1, 1, rate_per_s=2000.0, duration_ns=300 * MS, timeout_ns=MS), seen.append
    )
    assert result.measured.records == pytest.approx(600, abs=2)
    assert result.measured.duration_ns >= 300 * MS
    phases = [progress.phase for progress in seen]
    assert phases[0] == "starting"
    assert phases[-1] == "finished"
    assert "measuring" in phases
    use = result.processors
    assert use is not None
    assert set(use.busy_share) == set(use.lacked_share) == {"tm-0", "tm-1"}
    assert all(0 <= share <= 1 for share in (*use.busy_share.values(), use.taken_share))
    assert seen[-1].fraction == 1.0
    fractions = [progress.fraction for progress in seen if progress.fraction is not None]
    assert fractions == sorted(fractions)


def test_a_rate_beyond_all_means_ends_with_the_drain_and_says_what_was_given_up() -> None:
    scenario = scenario_of(1, 1, rate_per_s=1e12, duration_ns=10 * MS)
    result = run_scenario(scenario, out_dir=None, trace=False, drain_max_ns=100 * MS)
    (warning,) = [each for each in result.warnings if each.code == "given-up"]
    assert "of 30.0 G records that were due" in warning.text


@pytest.mark.quick
@pytest.mark.row("S109")
def test_a_trace_of_a_real_run_keeps_every_rule(tmp_path: Path) -> None:
    scenario = scenario_of(2, 2, records=3000, record_size=RecordSize(8, 900))
    result = run_scenario(scenario, out_dir=tmp_path / "run", trace=True)
    assert result.trace == str(tmp_path / "run")
    verification = verify_run(open_run(tmp_path / "run"))
    assert verification.findings == ()
    assert (verification.files, verification.channels) == (2, 4)


@pytest.mark.quick
@pytest.mark.row("S115")
def test_a_paused_consumer_stops_its_own_channel_and_no_neighbour() -> None:
    result = run(
        scenario_of(
            4, 4, partitioner="forward", duration_ns=300 * MS, slow_consumers=(SlowConsumer(2, -1),)
        )
    )
    records = [channel.records for channel in result.channels]
    paused = records.pop(2)
    # what fits on both sides of one channel: ten buffers each, and what overdraft allows
    in_buffers = (10 + 10 + 20) * 32 * 1024 // 105
    assert paused <= in_buffers
    assert min(records) > in_buffers


def test_a_slow_consumer_holds_the_source_at_its_rate() -> None:
    result = run(
        scenario_of(1, 1, duration_ns=400 * MS, slow_consumers=(SlowConsumer(0, 100_000),))
    )
    # 10 records a millisecond for 0.4 s, and what the buffers of both sides hold
    assert result.measured.records <= 4000 + (10 + 10 + 20) * 32 * 1024 // 105
    assert (result.measured.credits.starved_ns or 0) > 0


def test_a_task_manager_that_hangs_is_declared_lost() -> None:
    stopped: list[int] = []

    def stop(progress: Progress) -> None:
        if progress.phase == "measuring" and not stopped:
            stopped.append(task_managers()["tm-1"].pid)
            os.kill(stopped[0], signal.SIGSTOP)

    scenario = replace(
        scenario_of(1, 1, duration_ns=60_000 * MS, rate_per_s=1000.0),
        heartbeat_interval_ns=1_000 * MS,
        heartbeat_timeout_ns=5_000 * MS,
    )
    with pytest.raises(RunFailedError, match=r"tm-1 .* has said nothing for 5 s"):
        run_scenario(scenario, out_dir=None, trace=False, on_progress=stop)
    assert len(stopped) == 1


def test_a_task_manager_that_never_registers_is_declared_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher, "START_WAIT_NS", MS)
    with pytest.raises(RunFailedError, match=r"tm-0 .* has said nothing for 0.001 s"):
        run_scenario(scenario_of(1, 1, records=10), out_dir=None, trace=False)


@pytest.mark.quick
def test_an_interrupt_ends_every_process() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.phase == "measuring":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(scenario_of(1, 1, duration_ns=30_000 * MS, rate_per_s=1000.0), interrupt)


@pytest.mark.row("S071")
def test_a_port_in_use_is_reported_before_anything_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        network = NetworkConfig(data_port=str(port))
        with pytest.raises(LocalTransportError, match=str(port)):
            run(scenario_of(1, 1, records=10, network=network))


def test_a_run_that_never_began_leaves_its_directory_free(tmp_path: Path) -> None:
    mine = tmp_path / "run" / "mine"
    mine.parent.mkdir()
    mine.touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        scenario = scenario_of(1, 1, records=10, network=NetworkConfig(data_port="0"))
        network = replace(scenario.network, data_port=str(taken.getsockname()[1]))
        for directory in (tmp_path / "new", mine.parent):
            with pytest.raises(LocalTransportError) as caught:
                run_scenario(replace(scenario, network=network), out_dir=directory, trace=True)
            assert "recorded" not in str(caught.value)
    assert list(tmp_path.rglob("*")) == [mine.parent, mine]


def test_a_second_run_in_the_same_directory_leaves_the_first_alone(tmp_path: Path) -> None:
    scenario = scenario_of(1, 1, records=100)
    refused: list[str] = []

    def run_another(progress: Progress) -> None:
        if progress.phase != "finished" and not refused:
            with pytest.raises(ConfigError) as caught:
                run_scenario(scenario, out_dir=tmp_path / "run", trace=True)
            refused.append(str(caught.value))

    result = run_scenario(scenario, out_dir=tmp_path / "run", trace=True, on_progress=run_another)
    assert refused == [
        f"--out: another run is writing to {tmp_path / 'run'}; give another directory"
    ]
    assert "trace-incomplete" not in {warning.code for warning in result.warnings}
    assert verify_run(open_run(tmp_path / "run")).is_ok


def test_a_trace_that_is_gone_at_the_end_is_not_announced_as_whole(tmp_path: Path) -> None:
    def remove(progress: Progress) -> None:
        if progress.phase == "finished":
            (tmp_path / "run" / "tm-0.fnt").unlink()

    result = run_scenario(
        scenario_of(1, 1, records=100), out_dir=tmp_path / "run", trace=True, on_progress=remove
    )
    (text,) = (each.text for each in result.warnings if each.code == "trace-incomplete")
    assert "tm-0.fnt, which is not there" in text


@pytest.mark.row("S072")
@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (scenario_of(1, 2, partitioner="forward", records=1), "forward"),
        (scenario_of(1, 1, partitioner="random", records=1), "partitioner"),
        (replace(scenario_of(1, 1, records=1), task_managers=1), "task-managers|TaskManager"),
        (
            scenario_of(1, 1, records=10, network=NetworkConfig(ssl_internal_enabled=True)),
            r"security\.ssl\.internal\.keystore is missing",
        ),
        (
            scenario_of(
                1, 8, records=10, network=NetworkConfig(network_memory_bytes=8 * 32 * 1024)
            ),
            r"requires 24 .* has 8 of 32kb; set taskmanager\.memory\.network\.min to 768kb",
        ),
    ],
    ids=["forward", "partitioner", "task-managers", "tls", "memory"],
)
def test_a_bad_scenario_starts_nothing(scenario: Scenario, words: str) -> None:
    seen: list[Progress] = []
    with pytest.raises(ConfigError, match=words):
        run(scenario, seen.append)
    assert seen == []


def test_a_run_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="--out"):
        run_scenario(scenario_of(1, 1, records=1), out_dir=tmp_path / "file" / "run", trace=True)
