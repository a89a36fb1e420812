"""The job on a real Flink, if its jars and a JDK are here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.flink.cluster import Cluster
from bench.flink.distribution import flink_home, java
from bench.flink.exchange import Exchange, Stage, build, run, upload
from bench.flink.tapped import counted
from bench.flink.tapped_job import Bench

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def home() -> Path:
    """Of the release that the benches run."""
    found = flink_home()
    if found is None or java("javac") is None:
        pytest.skip("no jars of Flink (make flink), or no JDK")
    return found


@pytest.fixture(scope="module")
def jar(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job, compiled once."""
    return build(home, tmp_path_factory.mktemp("job"))


@pytest.mark.socket
@pytest.mark.usefixtures("quick_flink")
def test_a_job_runs_to_its_end_and_flinks_counters_agree_with_it(
    home: Path, jar: Path, tmp_path: Path
) -> None:
    exchange = Exchange(
        rate_per_s=2_000,
        buffer_timeout_ms=5,
        checkpoint_interval_ms=200,
        warmup_ns=200_000_000,
        duration_ns=500_000_000,
        producers=2,
        consumers=1,
    )
    chain = replace(
        exchange,
        consumers=2,
        partitioner="broadcast",
        relays=(Stage(2, "hash", hot_share=0.5), Stage(2, "forward", service_ns=100_000)),
        arrivals="onoff",
        sizes="exponential",
    )
    with Cluster(home, tmp_path, chain.task_managers(), jars=(jar,)) as cluster:
        processes = [each.popen for each in cluster.processes]
        jar_id = upload(cluster, jar)
        done = run(cluster, jar_id, exchange, tmp_path / "run", with_metrics=True)
        relayed = run(cluster, jar_id, chain, tmp_path / "chain")
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
    assert done.checkpoints > 0
    assert relayed.is_complete
    assert relayed.sent_records == 2 * 4 * 400  # bursts at 0, 200, 400 and 600 ms
    assert relayed.received_records == chain.copies * relayed.sent_records
    assert sorted(relayed.vertices.values()) == ["sink", "source", "stage-1", "stage-2"]


def test_the_job_compiles_against_1_20_too(tmp_path: Path) -> None:
    home = flink_home("1.20.5")
    if home is None or java("javac") is None:
        pytest.skip("no jars of Flink 1.20.5 (make flink), or no JDK")
    assert build(home, tmp_path).is_file()


@pytest.mark.socket
@pytest.mark.usefixtures("quick_flink")
def test_the_tap_counts_what_flink_counts(home: Path, jar: Path, tmp_path: Path) -> None:
    exchange = Exchange(
        rate_per_s=2_000,
        buffer_timeout_ms=5,
        checkpoint_interval_ms=200,
        warmup_ns=200_000_000,
        duration_ns=500_000_000,
        producers=2,
        consumers=2,
    )
    tapped = Bench(home, tmp_path, jar).tapped(exchange)
    assert tapped.outcome.sent_records == 2 * 1_400
    assert tapped.is_verified, tapped.verified
    for name, flink, observed in counted(tapped, exchange)["rows"]:
        assert flink == observed, name
