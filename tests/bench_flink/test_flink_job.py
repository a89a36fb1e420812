"""The job on a real Flink, if its jars and a JDK are here."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.flink.cluster import Cluster
from bench.flink.distribution import flink_home, java
from bench.flink.exchange import Exchange, build, run, upload
from bench.flink.tapped import counted
from bench.flink.tapped_job import Bench


@pytest.mark.interop
@pytest.mark.socket
def test_a_job_runs_to_its_end_and_flinks_counters_agree_with_it(tmp_path: Path) -> None:
    home = flink_home()
    if home is None or java("javac") is None:
        pytest.skip("no jars of Flink (make flink), or no JDK")
    exchange = Exchange(
        rate_per_s=2_000,
        buffer_timeout_ms=5,
        checkpoint_interval_ms=200,
        warmup_ns=200_000_000,
        duration_ns=500_000_000,
        producers=2,
        consumers=1,
    )
    jar = build(home, tmp_path)
    with Cluster(home, tmp_path, exchange.task_managers()) as cluster:
        processes = [each.popen for each in cluster.processes]
        done = run(cluster, upload(cluster, jar), exchange, tmp_path / "run", with_metrics=True)
    assert all(each.returncode is not None for each in processes)
    assert done.is_complete
    assert done.sent_records == 2 * 1_400
    assert done.measured_records == 2 * 1_000
    assert done.latency.count == done.uncorrected.count == 2_000
    out, taken = done.metrics["source"], done.metrics["sink"]
    assert out["numRecordsOut"] == taken["numRecordsIn"] == done.sent_records
    assert out["numBytesOut"] == done.sent_records * exchange.wire_bytes
    assert taken["numBuffersInLocal"] == 0
    assert taken["numBytesInRemote"] > out["numBytesOut"]  # events count here


@pytest.mark.interop
def test_the_job_compiles_against_1_20_too(tmp_path: Path) -> None:
    home = flink_home("1.20.5")
    if home is None or java("javac") is None:
        pytest.skip("no jars of Flink 1.20.5 (make flink), or no JDK")
    assert build(home, tmp_path).is_file()


@pytest.mark.interop
@pytest.mark.socket
def test_the_tap_counts_what_flink_counts(tmp_path: Path) -> None:
    home = flink_home()
    if home is None or java("javac") is None:
        pytest.skip("no jars of Flink (make flink), or no JDK")
    exchange = Exchange(
        rate_per_s=2_000,
        buffer_timeout_ms=5,
        checkpoint_interval_ms=200,
        warmup_ns=200_000_000,
        duration_ns=500_000_000,
        producers=2,
        consumers=2,
    )
    tapped = Bench(home, tmp_path, build(home, tmp_path)).tapped(exchange)
    assert tapped.outcome.sent_records == 2 * 1_400
    assert tapped.is_verified, tapped.verified
    for name, flink, observed in counted(tapped, exchange)["rows"]:
        assert flink == observed, name
