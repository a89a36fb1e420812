"""Jobs of several exchanges from end to end: from a tapped trace to the answer."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError
from flinknet.predict.grid import Grid
from flinknet.replay.advise.advice import all_meet
from flinknet.replay.advise.judged import JudgedEdge
from flinknet.replay.advise.targets import Target
from flinknet.replay.edges import EdgeTimeouts, not_to_the_end
from flinknet.replay.pipeline import Replay, replay_runs
from flinknet.replay.plans import check_edge_timeouts
from flinknet.replay.read import open_runs
from flinknet.report.export import replay_document
from flinknet.report.page import page_of
from flinknet.report.replay import replay_page
from flinknet.report.replay_headline import replay_sentences
from flinknet.results import Bottleneck, Cause
from flinknet.trace.job_names import NOT_SHOWN, edges_in_flow
from tests.page_answer import print_replays
from tests.simulated_chain import (
    add_plan_and_counters,
    simulated,
    steady,
    write_tapped_chain,
)
from tests.simulation import MS
from tests.tapped_job import SECOND, SOURCE, TappedChannel, write_tapped_job

CHOSEN = "f362c87ffabe89c8a91fa7d0a523ba6c"
"""An id that follows from a uid."""


def scenario(timeout_ns: int) -> Any:
    chain = steady(relays=2)
    workload = replace(chain.workload, producers=2, consumers=2, records=1_000)
    return replace(chain, workload=workload, network=NetworkConfig(buffer_timeout_ns=timeout_ns))


@pytest.mark.spark
def test_a_tapped_job_is_predicted_from_end_to_end(spark: Any, tmp_path: Path) -> None:
    run = write_tapped_chain(tmp_path / "run", simulated(scenario(10 * MS)))
    real = simulated(scenario(50 * MS))
    found = replay_runs(
        spark,
        open_runs([run]),
        Grid(buffer_timeouts_ns=(50 * MS,)),
        targets=[Target.parse("p99<=60ms")],
        edge_timeouts=[EdgeTimeouts((("2", MS),))],
    )
    (job,) = found.jobs
    assert job.choice.point == 0
    assert job.feeding == (None, 0, 1)
    assert job.edges[0].endswith("vertex bc764cd8 → vertex 0a448493")
    recorded, longer, mixed = job.points
    assert recorded.is_recorded
    assert mixed.timeouts_ns == (10 * MS, MS, 10 * MS)
    assert job.model_error.buffers_per_s == pytest.approx(0, abs=0.02)
    assert (job.model_error.p50, job.observed.latency_ns.p50) == (None, None)
    total, low, high = longer, longer.latency_low_ns, longer.latency_high_ns
    assert total.throughput_records_per_s == pytest.approx(4_000, rel=0.02)
    messages = sum(real.messages(edge) for edge in range(3))
    assert total.buffers_per_s == pytest.approx(messages / 0.5, rel=0.04)
    p50_ns, p99_ns = (real.latency.percentile(q) or 0 for q in (0.5, 0.99))
    assert 0.9 * (low.p50 or 0) <= p50_ns <= 1.1 * (high.p50 or 0)
    assert total.latency_ns.p99 == pytest.approx(p99_ns, rel=0.15)
    assert (mixed.latency_ns.p50 or 0) < (recorded.latency_ns.p50 or 0)
    assert not any("edge alone" in remark for each in found.answers for remark in each.remarks)
    document = replay_document(found.jobs)
    assert len(document["replays"]) == 3
    assert json.loads(json.dumps(document))["jobs"][0]["edges"] == list(job.edges)
    edges = [each.trade_offs[0].price for each in found.answers]
    assert None not in edges
    total_price, sum_of_edges = recorded.price, sum(each.messages_per_s for each in edges)
    assert total_price.messages_per_s == pytest.approx(sum_of_edges, rel=0.05)
    assert total_price.cpu_cores_change == 0
    saved = (longer.price or total_price).cpu_cores_change
    assert saved == pytest.approx(
        (total.buffers_per_s - recorded.buffers_per_s) * job.cpu_cost.ns_per_message / 1e9
    )
    assert saved < 0
    first = printed(found)
    assert "already met: p99<=60ms by the job as a whole with buffer timeout 10ms" in first
    assert len(first.splitlines()) < 16
    text = printed(found, details=True)
    assert text.count("The job from end to end: ") == 1
    _, head, *rows = text[text.index("\nEdges, as recorded") + 1 :].splitlines()[:5]
    assert head.split()[0] == "edge"
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert text.count("Channels and messages") == 3
    assert "buffer timeout 10ms / 1ms / 10ms instead of 10ms: p50 −" in text
    assert "10ms / 1ms / 10ms" in text
    assert "latency unknown (not recorded)" in text
    assert "The job from end to end" in page_of(replay_page(found.jobs))


@pytest.mark.spark
def test_the_timeout_of_a_job_is_found_to_the_millisecond(spark: Any, tmp_path: Path) -> None:
    run = write_tapped_chain(tmp_path / "run", simulated(scenario(10 * MS)))
    grid, targets = Grid(buffer_timeouts_ns=(13 * MS,)), [Target.parse("p99<=35.5ms")]
    (job,) = replay_runs(spark, open_runs([run]), grid, targets=targets, refine=True).jobs
    one_for_all = [{*each.timeouts_ns} for each in job.points if len({*each.timeouts_ns}) == 1]
    assert one_for_all == [{each * MS} for each in (10, 11, 12, 13)]
    assert (job.choice.point, job.choice.next_longer_ns) == (1, 12 * MS)
    assert 0 < (job.choice.next_longer_margin or 0) < 0.05


@pytest.mark.spark
def test_nothing_is_predicted_or_advised_where_a_task_manager_stands_still(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_tapped_chain(tmp_path / "run", simulated(scenario(10 * MS)))
    stops = Bottleneck(
        cause=Cause.SLOW_HOST, evidence=("tm-0 stops at times",), remedy=("x",), place="tm-0"
    )
    monkeypatch.setattr(
        "flinknet.replay.pipeline.judged", lambda own: [JudgedEdge((), True, stops) for _ in own]
    )
    targets = [Target.parse("p99<=35.5ms")]
    found = replay_runs(spark, open_runs([run]), Grid(), targets=targets, refine=True)
    (job,) = found.jobs
    why = "latency depends on when tm-0 stands still, whatever the settings"
    of_edges = {each.advice.withheld for each in job.answers}
    assert of_edges | {job.advice.withheld} == {why}
    assert (job.choice, all_meet(found.jobs)) == (None, False)
    said = {each.name: each.text for each in replay_sentences(job)}
    assert said["trade-off"].startswith("not predicted: ")
    assert said["trade-off"].endswith(why)
    assert said["trust"].startswith("the verdict rests on")


def printed(found: Replay, **options: bool) -> str:
    stream = io.StringIO()
    print_replays(found.jobs, Console(file=stream, width=140), **options)
    return stream.getvalue()


def tapped(directory: Path, *vertices: str) -> Any:
    channels = [TappedChannel(each, buffers=3) for each in vertices]
    return open_runs([write_tapped_job(directory / "run", channels)])


def test_vertices_whose_ids_were_chosen_are_not_joined(tmp_path: Path) -> None:
    runs = tapped(tmp_path, SOURCE, CHOSEN)
    first, second = (each.ends for each in runs)
    assert (first.why_unknown, second.why_unknown) == (None, NOT_SHOWN)
    assert len({first.source, first.target, second.source, second.target}) == 4


def test_an_edge_at_the_end_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    runs = tapped(tmp_path, SOURCE, SECOND)
    assert not_to_the_end(runs) == ()
    vertices = [{"index": n, "name": name} for n, name in enumerate("ABCD")]
    edges = [{"index": n, "source": n, "target": n + 1} for n in range(3)]
    manifest = replace(runs[0].manifest, scenario={"job": {"vertices": vertices, "edges": edges}})
    flow = edges_in_flow(manifest)
    (line,) = not_to_the_end([replace(each, flow=flow) for each in runs])
    assert line.startswith("C → D was not recorded")


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        pytest.param("3", "there is no edge '3'; the edges are 1 data set 1", id="number"),
        pytest.param("Enrich", "there is no edge 'Enrich'", id="name"),
        pytest.param("set", "several edges match 'set'", id="ambiguous"),
    ],
)
def test_a_timeout_for_no_edge_is_refused(tmp_path: Path, edge: str, message: str) -> None:
    runs = tapped(tmp_path, SOURCE, SECOND)
    with pytest.raises(ConfigError, match=message):
        check_edge_timeouts(runs, [EdgeTimeouts(((edge, MS),))])


@pytest.mark.spark
@pytest.mark.parametrize("unseen_edge", [0, 1])
def test_what_stays_within_task_managers_counts_in_the_whole_job(
    spark: Any, tmp_path: Path, unseen_edge: int
) -> None:
    run = simulated(scenario(10 * MS))
    places = [("a", "b")] * (2 - unseen_edge) + [("b", "a")] * (2 + unseen_edge)
    unseen = frozenset(
        each.index
        for each in run.load.channels
        if places[each.edge][each.producer] == places[each.edge + 1][each.consumer]
    )
    path = write_tapped_chain(tmp_path / "run", run, unseen=unseen)
    add_plan_and_counters(path, run, places, ("forward", "forward", "rebalance"))
    found = replay_runs(spark, open_runs([path]), Grid(buffer_timeouts_ns=(50 * MS,)))
    assert len(found.answers) == 2
    (job,) = found.jobs
    assert job.edges == ("stage-0 → stage-1", "stage-1 → stage-2", "stage-2 → stage-3")
    assert job.feeding == (None, 0, 1)
    assert job.observed.throughput_records_per_s == pytest.approx(4_000, rel=0.05)
    assert job.model_error.throughput == pytest.approx(0, abs=0.05)
    assert job.points[-1].why_unknown is None
    assert job.points[-1].edges[unseen_edge].buffers_per_s == 0
    assert any("filled in by Flink's counters" in each for each in job.notes)
    assert job.edges[unseen_edge] in printed(found, details=True)
    assert "The job from end to end" in page_of(replay_page(found.jobs))
