"""Round trips of credit, next to those of simulated links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.probe import TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.replay.advise.judged import judged
from flinknet.replay.observe.credit import CREDIT_TRIPS
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.observe.units import Unit
from flinknet.replay.read import open_runs
from flinknet.results import Cause
from flinknet.results.measures import CreditPath
from flinknet.simulator.cost_model import TYPICAL_COSTS
from flinknet.trace import TraceReader
from flinknet.trace.event_block import lazy_block
from tests.simulation import MS, scenario
from tests.traced_run import trace_load

US = 1_000


def _path(run: Path, split: int | None = 1) -> CreditPath:
    (observed,) = observe_here(open_runs([run]), split)
    (found,) = observed.credit
    return found


@pytest.mark.slow("simulates links of several lengths", first=True)
@pytest.mark.parametrize("rtt_ns", [2 * MS, 200 * US, 20 * MS])
@pytest.mark.parametrize(("exclusive", "floating"), [(1, 0), (2, 8)])
@pytest.mark.parametrize("rate_per_s", [0.0, 50_000.0])
def test_a_round_trip_is_that_of_the_link_and_the_ceiling_follows(
    tmp_path: Path, rtt_ns: int, exclusive: int, floating: int, rate_per_s: float
) -> None:
    network = NetworkConfig(exclusive_buffers=exclusive, floating_buffers=floating)
    costs = replace(TYPICAL_COSTS, transit_ns=rtt_ns / 2)
    load = scenario(10 * MS, rate_per_s=rate_per_s, records=20_000, network=network)
    found = _path(trace_load(tmp_path / "run", load, costs))
    assert found.round_trip_ns - 300 * US < rtt_ns <= found.round_trip_ns * 1.005
    assert exclusive <= found.credits < exclusive + floating + 1.5
    assert found.bytes_per_s <= found.most_bytes_per_s * 1.02
    if exclusive == 1 and not rate_per_s:  # one buffer at a time uses all of the credit
        assert found.bytes_per_s == pytest.approx(found.most_bytes_per_s, rel=0.12)
        assert found.is_limit
        assert "buffers (fixed in Flink 2.x), or segments of 64 KiB, carry" in found.remedy


def test_the_remedy_of_few_buffers_has_the_round_trip(tmp_path: Path) -> None:
    costs = replace(TYPICAL_COSTS, transit_ns=0.9 * MS)
    (run,) = open_runs([trace_load(tmp_path / "run", scenario(10 * MS, records=60_000), costs)])
    ((edge,), (observed,)) = judged(observe_here([run])), observe_here([run])
    assert edge.bottleneck.cause is Cause.FEW_BUFFERS
    assert observed.credit[0].text in edge.bottleneck.remedy


def test_slices_give_the_round_trips_of_the_whole(tmp_path: Path) -> None:
    costs = replace(TYPICAL_COSTS, transit_ns=2 * MS)
    run = trace_load(tmp_path / "run", scenario(10 * MS, records=60_000), costs)
    whole, cut = _path(run), _path(run, split=4)
    assert cut.round_trip_ns == pytest.approx(whole.round_trip_ns, rel=0.01)
    assert cut.credits == pytest.approx(whole.credits, rel=0.05)


def test_a_slow_consumer_is_no_lack_of_credit(tmp_path: Path) -> None:
    costs = replace(TYPICAL_COSTS, consume_ns_per_record=(20_000.0,))
    found = _path(trace_load(tmp_path / "run", scenario(10 * MS, records=30_000), costs))
    assert found.waits > 0.5
    assert found.is_limit is False
    assert "more carry no more" in found.remedy


def test_a_backlog_that_drains_after_the_load_passes_in_the_time_that_it_took(
    tmp_path: Path,
) -> None:
    costs = replace(TYPICAL_COSTS, consume_ns_per_record=(200_000.0,))
    network = NetworkConfig(exclusive_buffers=1, floating_buffers=0)
    load = scenario(10 * MS, rate_per_s=20_000.0, records=10_000, network=network)
    (run,) = open_runs([trace_load(tmp_path / "run", load, costs)])
    (observed,) = observe_here([replace(run, to_ns=run.from_ns + 500 * MS)])
    (found,) = observed.credit
    assert observed.measured.duration_ns > 1_500 * MS
    assert found.bytes_per_s <= found.most_bytes_per_s * 1.02


def test_between_taskmanagers_only_unmistakable_round_trips_count(tmp_path: Path) -> None:
    """The producer's file alone is a recording from its place: a buffer each 10 ms is alone on a
    round trip of 4 ms, four in a round trip show none."""
    costs = replace(TYPICAL_COSTS, transit_ns=2 * MS)
    found = []
    for timeout_ns in (10 * MS, MS):
        load = scenario(timeout_ns, rate_per_s=50_000.0, records=20_000)
        (run,) = open_runs([trace_load(tmp_path / f"{timeout_ns}", load, costs)])
        unit = Unit(0, 0, [], run.from_ns, run.to_ns, counted_at=TracePoint.SENT)
        with TraceReader(run.files[0]) as reader:
            tally = CREDIT_TRIPS.ask(unit)
            tally.take(next(lazy_block(reader, 0, []) for _ in reader.blocks()))
            (rows,) = tally.answers()
        found.append(LogLinearHistogram.from_bytes(rows["trip_ns"][0]))
    alone, crowded = found
    assert alone.count > 10
    assert alone.percentile(0.5) == pytest.approx(4 * MS, rel=0.02)
    assert crowded.count == 0
