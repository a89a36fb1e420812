"""Channels within TaskManagers, which a tap does not see: filled in from Flink's plan and counters,
against the whole job in the simulator."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.config import NetworkConfig, WorkloadConfig
from flinknet.predict.exchange import recorded_setting
from flinknet.predict.job import RecordedJob
from flinknet.predict.job_run import simulate_job
from flinknet.predict.loading import FIRST_IS_LOCAL, consumer_of, load_job
from flinknet.predict.local_channels import NO_COUNTERS, planned_edge
from flinknet.predict.outcome import BEHIND_UNKNOWN, Outcome
from flinknet.trace import open_run
from flinknet.trace.metrics import METRICS_NAME
from tests.simulated_chain import (
    Simulated,
    add_plan_and_counters,
    simulated,
    steady,
    write_tapped_chain,
)
from tests.simulation import MS

RELAYS_APART = (("a", "b"), ("b", "a"), ("b", "a"), ("b", "a"))
"""The sources send to the other TaskManager, the relays to those beside them, and these to a sink
on each."""

SOURCES_BESIDE = (("a", "b"), ("a", "b"), ("b", "a"), ("b", "a"))
FORWARD = ("forward", "forward", "rebalance")


def job(timeout_ns: int) -> Simulated:
    """Two sources, two stages of two relays and two sinks."""
    chain = steady(relays=2)
    workload: WorkloadConfig = replace(chain.workload, producers=2, consumers=2, records=2_000)
    network = NetworkConfig(buffer_timeout_ns=timeout_ns)
    return simulated(replace(chain, workload=workload, network=network))


def tapped(path: Path, run: Simulated, places: Any, partitioners: Any = FORWARD) -> Path:
    """What a tap has of the job, and what Flink says of it."""
    unseen = frozenset(
        each.index
        for each in run.load.channels
        if places[each.edge][each.producer] == places[each.edge + 1][each.consumer]
    )
    write_tapped_chain(path, run, unseen=unseen)
    add_plan_and_counters(path, run, places, partitioners)
    return path


def loaded(path: Path) -> RecordedJob:
    manifest = open_run(path).manifest
    assert manifest is not None
    span = manifest.measured_from_ns, manifest.measured_to_ns
    assert span[0] is not None
    assert span[1] is not None
    return load_job(path, span[0], span[1], (0, 1, 2))


def outcome(path: Path, timeout_ns: int) -> Outcome:
    manifest = open_run(path).manifest
    assert manifest is not None
    setting = recorded_setting(manifest)
    network = replace(setting.network, buffer_timeout_ns=timeout_ns)
    return simulate_job(loaded(path), [replace(setting, network=network)] * 3)


def counted(run: Simulated) -> Counter[tuple[int, int, int]]:
    """Records of each channel, by its edge, producer and consumer."""
    found: Counter[tuple[int, int, int]] = Counter()
    ends = {each.index: (each.edge, each.producer, each.consumer) for each in run.load.channels}
    for row in run.rows.buffers():
        found[ends[row.channel]] += max(row.records, 0)
    return found


@pytest.mark.parametrize("places", [RELAYS_APART, SOURCES_BESIDE], ids=["middle", "first"])
def test_every_channel_has_its_records(tmp_path: Path, places: Any) -> None:
    run = job(10 * MS)
    real = counted(run)
    found = loaded(tapped(tmp_path / "run", run, places))
    for edge, each in enumerate(found.edges):
        assert each.why_unknown is None
        for channel in each.exchange.channels:
            wanted = real[edge, channel.producer, channel.consumer]
            assert channel.records == pytest.approx(wanted, rel=0.05)
            is_local = places[edge][channel.producer] == places[edge + 1][channel.consumer]
            assert (channel.connection < 0) == is_local
        assert len(each.exchange.channels) == sum(key[0] == edge for key in real)


@pytest.mark.parametrize("places", [RELAYS_APART, SOURCES_BESIDE], ids=["middle", "first"])
def test_the_whole_job_is_predicted_and_messages_between_task_managers(
    tmp_path: Path, places: Any
) -> None:
    path = tapped(tmp_path / "run", job(10 * MS), places)
    real = job(50 * MS)
    found = outcome(path, 50 * MS)
    assert found.why_unknown is None
    rate = float(real.records)  # in a second
    assert found.throughput_records_per_s == pytest.approx(rate, rel=0.03)
    assert found.likely is not None
    low, high = (each.latency_ns for each in found.likely)
    for name, quantile in (("p50", 0.5), ("p99", 0.99)):
        wanted = real.latency.percentile(quantile) or 0
        assert 0.9 * getattr(low, name) <= wanted <= 1.1 * getattr(high, name)
    ends = {each.index: each for each in real.load.channels}
    remote = sum(
        places[ends[row.channel].edge][ends[row.channel].producer]
        != places[ends[row.channel].edge + 1][ends[row.channel].consumer]
        for row in real.rows.buffers()
    )
    assert found.buffers_per_s == pytest.approx(remote, rel=0.15, abs=10)
    unseen = next(n for n in range(3) if places[n] == places[n + 1])
    assert found.edges[unseen].buffers_per_s == 0


def test_without_counters_what_is_local_stays_unknown(tmp_path: Path) -> None:
    path = tapped(tmp_path / "run", job(10 * MS), RELAYS_APART)
    (path / METRICS_NAME).write_text("")
    found = loaded(path)
    assert [each.why_unknown for each in found.edges] == [None, NO_COUNTERS, None]
    assert found.whys_unknown == (None, NO_COUNTERS, BEHIND_UNKNOWN)
    assert outcome(path, 50 * MS).latency.count == 0


def test_a_first_edge_that_nothing_tells_of_stays_unknown(tmp_path: Path) -> None:
    places = (("a", "b"), ("a", "b"), ("a", "b"), ("b", "a"))
    path = tapped(tmp_path / "run", job(10 * MS), places)
    assert loaded(path).edges[0].why_unknown == FIRST_IS_LOCAL


def test_a_plan_that_does_not_fit_is_not_used(tmp_path: Path) -> None:
    path = tapped(tmp_path / "run", job(10 * MS), RELAYS_APART)
    manifest = open_run(path).manifest
    assert manifest is not None
    found = planned_edge(manifest, 2)
    assert found is not None
    assert found.local == [(0, 0), (1, 1)]
    described: Any = manifest.scenario["job"]
    for change in ({"channels": 3}, {"local_channels": 0}, {"channels": None}):
        edges = [{**each, **change} for each in described["edges"]]
        other = replace(manifest, scenario={"job": {**described, "edges": edges}})
        assert planned_edge(other, 2) is None
    moved = [{**each, "task_managers": [None, "a"]} for each in described["vertices"]]
    other = replace(manifest, scenario={"job": {**described, "vertices": moved}})
    assert planned_edge(other, 2) is None
    joined = [{**each, "target": 3} for each in described["edges"]]
    other = replace(manifest, scenario={"job": {**described, "edges": joined}})
    assert planned_edge(other, 2) is None


@pytest.mark.parametrize(
    ("producers", "consumers", "subpartitions", "expected"),
    [
        pytest.param(2, 3, 3, [[0, 1, 2], [0, 1, 2]], id="all to all"),
        pytest.param(3, 3, 1, [[0], [1], [2]], id="forward"),
        pytest.param(2, 4, 2, [[0, 1], [2, 3]], id="each feeds two"),
        pytest.param(2, 3, 2, [[0, 1], [2]], id="one feeds two, one feeds one"),
        pytest.param(4, 2, 1, [[0], [0], [1], [1]], id="two feed each"),
    ],
)
def test_subpartitions_lead_to_subtasks(
    producers: int, consumers: int, subpartitions: int, expected: list[list[int]]
) -> None:
    found = [
        [
            consumer_of(producer, each, subpartitions, (producers, consumers))
            for each in range(len(expected[producer]))
        ]
        for producer in range(producers)
    ]
    assert found == expected
