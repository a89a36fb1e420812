"""jobs.py: the jobs a seed makes, the table of errors, the verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench.flink import jobs
from bench.flink.cluster import FlinkError
from bench.flink.exchange import Exchange, Outcome, Stage
from bench.flink.generated import MOST_RECORDS_PER_S, MOST_STAGES, described, generated
from bench.flink.incidents import incidents
from bench.flink.job_table import (
    Figure,
    MeasuredJob,
    Replayed,
    Truth,
    cells_of,
    print_cells,
    remote_buffers_per_s,
    summary,
    truth_of,
)
from bench.flink.slowed import (
    RecordedCase,
    TaskUse,
    cases,
    flinks_bottleneck,
    judged,
    print_verdicts,
    times,
    verdict_of,
)
from bench.flink.warm import SLOTS
from flinknet.results import LatencySummary

SOURCE, RELAY, SINK = "aa11" * 8, "bb22" * 8, "cc33" * 8


def made(count: int, seed: int = 1) -> list[Exchange]:
    return generated(count, Exchange(buffer_timeout_ms=20, seed=seed))


def test_a_job_follows_from_the_seed_and_its_place() -> None:
    assert made(3) == made(9)[:3]
    assert made(3) != made(3, seed=2)
    assert sorted(len(each.stages) for each in made(8)) == sorted([*range(1, MOST_STAGES + 1)] * 2)


def test_jobs_are_ones_that_flink_takes_and_two_cores_carry() -> None:
    found = made(300)
    for each in found:
        assert max(each.parallelisms) <= SLOTS
        rate_per_s = (each.rate_per_s or 0) * each.producers
        copies, carried = 1, 0
        for before, stage in zip(each.parallelisms, each.stages, strict=False):
            assert stage.partitioner != "forward" or before == stage.parallelism
            copies *= stage.parallelism if stage.partitioner == "broadcast" else 1
            carried += copies
        assert rate_per_s * carried <= MOST_RECORDS_PER_S * 1.01
        assert described(each)
    drawn = {
        "partitioner": {stage.partitioner for each in found for stage in each.stages},
        "arrivals": {each.arrivals for each in found},
        "sizes": {each.sizes for each in found},
        "placement": {each.placement for each in found},
    }
    assert {name: len(values) for name, values in drawn.items()} == {
        "partitioner": 4,
        "arrivals": 3,
        "sizes": 2,
        "placement": 2,
    }
    assert any(stage.hot_share for each in found for stage in each.stages)
    assert any(stage.service_ns for each in found for stage in each.stages)


def test_a_figure_knows_its_error_and_whether_its_interval_holds() -> None:
    figure = Figure(predicted=12.0, low=9.0, high=11.0, measured=10.0)
    assert figure.error == pytest.approx(0.2)
    assert figure.is_covered
    assert figure.half_width == pytest.approx(0.1)
    assert replace(figure, measured=20.0).is_covered is False
    unknown = Figure(None, None, None, 10.0)
    assert (unknown.error, unknown.is_covered, unknown.half_width) == (None, None, None)


def job(**more: Any) -> MeasuredJob:
    truths = {
        20: Truth(p50_ns=20e6, p99_ns=40e6, throughput_records_per_s=100.0, buffers_per_s=None),
        1: Truth(p50_ns=2e6, p99_ns=4e6, throughput_records_per_s=100.0, buffers_per_s=200.0),
    }
    given: dict[str, Any] = {
        "number": 1,
        "release": "2.3.0",
        "text": "a job",
        "settings": {},
        "vertices": {SOURCE: "source", RELAY: "stage-1", SINK: "sink"},
        "run": "there",
        "recorded_ms": 20,
        "truths": truths,
    }
    return MeasuredJob(**given | more)


def point(p50_ns: float | None, p99_ns: float, rate: float, buffers: float) -> dict[str, Any]:
    return {
        "latency_ns": {"p50": p50_ns, "p99": p99_ns},
        "latency_low_ns": {"p50": 0.9e6, "p99": p99_ns},
        "latency_high_ns": {"p50": 1.2e6, "p99": p99_ns},
        "throughput_records_per_s": rate,
        "buffers_per_s": buffers,
        "why_no_latency": "saturated" if p50_ns is None else None,
    }


def edge(vertex: str, *points: dict[str, Any], **more: Any) -> dict[str, Any]:
    name = f"data set 0 of vertex {vertex[:8]} → its consumers"
    return {
        "trace": {"edge": name},
        "trade_offs": points,
        "observed": {"buffers": 30, "duration_ns": 10**9},
        "is_bottleneck": False,
        "diagnosis": [],
    } | more


def test_edges_add_up_to_the_job_in_whatever_order_they_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = [
        edge(RELAY, point(1e6, 2e6, 90, 100), point(None, 1e6, 90, 30)),
        edge(SOURCE, point(1.2e6, 2e6, 120, 100), point(10e6, 20e6, 120, 30)),
    ]
    one, recorded = cells_of(job(), Replayed(answers))
    assert (one.timeout_ms, one.is_recorded, recorded.is_recorded) == (1, False, True)
    assert one.figures["p50_ns"].error == pytest.approx(0.1)
    assert one.figures["p50_ns"].is_covered
    assert one.figures["throughput_records_per_s"].predicted == 90
    assert one.figures["buffers_per_s"].error == pytest.approx(0)
    assert recorded.figures["p50_ns"].predicted is None
    assert recorded.figures["buffers_per_s"].measured == pytest.approx(60)
    assert recorded.why_unknown == "saturated"
    found = summary([one, recorded])
    assert found["figures"]["p50_ns"]["median_error"] == pytest.approx(0.1)
    assert found["figures"]["p50_ns"]["unknown"] == 1
    print_cells([one, recorded])
    out = capsys.readouterr().out
    assert "20 ms (recorded)" in out
    assert "job 1, 20 ms: saturated; a job" in out
    assert "records/s: " not in out  # 10% off is not far
    assert "p99: -48%" in out


def test_an_answer_about_the_whole_job_goes_before_those_about_its_edges() -> None:
    edges = [edge(each, point(1, 1, 1, 1), point(1, 1, 1, 1)) for each in (SOURCE, RELAY)]
    points = [
        {"timeouts_ns": [20_000_000], "why_unknown": None} | point(15e6, 30e6, 100, 60),
        {"timeouts_ns": [1_000_000], "why_unknown": "full"} | point(None, 4e6, 90, 150),
    ]
    whole = {"edges": ["source → relay", "relay → sink"], "points": points}
    one, recorded = cells_of(job(), Replayed(edges, whole))
    assert one.figures["buffers_per_s"].error == pytest.approx(-0.25)
    assert (one.figures["p50_ns"].predicted, one.why_unknown) == (None, "full")
    assert recorded.figures["p50_ns"].error == pytest.approx(-0.25)


def test_a_job_with_an_exchange_that_was_not_recorded_is_unknown() -> None:
    one, _ = cells_of(job(), Replayed([edge(SOURCE, *[point(1e6, 2e6, 90, 100)] * 2)]))
    assert (one.figures["p50_ns"].predicted, one.figures["p50_ns"].is_covered) == (None, None)
    assert one.why_unknown == "1 of 2 exchanges stay within TaskManagers, unseen by the tap"


def test_an_exchange_that_is_filled_in_is_not_missing() -> None:
    points = [
        {"timeouts_ns": [each], "why_unknown": None} | point(15e6, 30e6, 100, 60)
        for each in (20_000_000, 1_000_000)
    ]
    whole = {"edges": ["source → relay", "relay → sink"], "points": points}
    one, _ = cells_of(job(), Replayed([edge(SOURCE, *[point(1e6, 2e6, 90, 100)] * 2)], whole))
    assert (one.figures["p50_ns"].predicted, one.why_unknown) == (15e6, None)


def test_a_recording_that_cannot_be_replayed_is_unknown() -> None:
    found = summary(cells_of(job(), Replayed()))
    assert found["figures"]["p99_ns"] == {
        "median_error": None,
        "largest_error": None,
        "cells": 0,
        "unknown": 2,
    }


def test_what_was_measured_is_read_again(tmp_path: Path) -> None:
    kept = job(run=str(tmp_path / "2.3.0" / "tap"))
    jobs.keep([kept], tmp_path)
    assert json.loads((tmp_path / jobs.MEASURED_FILE).read_text())[0]["run"] == "2.3.0/tap"
    assert jobs.earlier(tmp_path) == [kept]
    case = RecordedCase("last stage", kept, (use("sink", 990, 0),), ("slow-tasks",), "sink")
    jobs.keep_cases([case], tmp_path)
    assert jobs.earlier_cases(tmp_path) == [case]
    with pytest.raises(FlinkError, match="nothing was measured"):
        jobs.earlier(tmp_path / "elsewhere")


def use(name: str, busiest: float | None, pressed: float) -> TaskUse:
    return TaskUse(name, busiest, busiest, pressed, pressed)


def test_flinks_bottleneck_is_busy_and_not_back_pressured() -> None:
    source, relay, sink = use("source", None, 900), use("stage-1", 700, 200), use("sink", 990, 0)
    assert flinks_bottleneck([source, relay, sink]) == "sink"
    assert flinks_bottleneck([source, use("stage-1", 950, 0), use("sink", 300, 0)]) == "stage-1"
    assert flinks_bottleneck([use("stage-1", 100, 0), use("sink", 100, 0)]) is None


def test_times_that_flink_does_not_have_are_left_out() -> None:
    answer = [{"id": "busyTimeMsPerSecond", "avg": "NaN", "max": 500.0}]
    assert times(answer) == {"busyTimeMsPerSecond.max": 500.0}


def test_a_verdict_is_right_if_it_names_the_cause_and_the_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = {"kind": "credit-starved", "share": 0.8, "text": "pressed"}
    old = [edge(SOURCE), edge(RELAY, is_bottleneck=True, diagnosis=[said])]
    assert verdict_of(old, job()).tasks == ("sink",)
    cause = {"cause": "slow-tasks", "tasks": ["sink (1/2)", "sink (2/2)"], "text": "sink is slow"}
    new = [edge(SOURCE, bottleneck=cause), edge(RELAY, bottleneck=cause)]
    uses = use("stage-1", 10, 900), use("sink", 990, 0)
    slow_last = RecordedCase("last stage", job(), uses, ("slow-tasks",), "sink")
    found = [judged(slow_last, answers) for answers in (old, new)]
    assert [each.is_right for each in found] == [False, True]
    assert all(each.is_flink_agreed for each in found)
    assert not judged(slow_last, [edge(SOURCE)]).is_right
    print_verdicts(found)
    assert (
        "right: 1 of 2 that are not void, the task alone 2 of 2; Flink's" in capsys.readouterr().out
    )
    assert json.dumps(jobs.cases_json(found))


def test_every_case_fits_the_cluster() -> None:
    for each in cases(Exchange(producers=3, consumers=3)):
        assert each.exchange.parallelisms == (3, 3, 3, 3), each.name
        assert each.exchange.stages[:-1] == each.exchange.relays
    for each in incidents(7, 60, Exchange()):
        assert max(each.exchange.parallelisms) <= SLOTS
    assert incidents(7, 60, Exchange()) == incidents(7, 60, Exchange())
    assert Stage(2).argument() == "2:rebalance:0:-1:0.0:false:0"


@pytest.mark.parametrize(
    "words", [["--jobs", "0"], ["--duration", "0"], ["--timeouts", "500us"], ["--release", "0.1"]]
)
def test_what_cannot_run_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        jobs.main(words)
    assert "error:" in capsys.readouterr().err


def test_the_list_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs.main(["--list", "--jobs", "2"]) == 0
    assert capsys.readouterr().out.startswith("1: ")
    assert asdict(made(1)[0])


def test_barriers_are_no_buffers() -> None:
    sink = {"numBuffersInRemote": 130}
    none = LatencySummary(0)
    done = Outcome(
        *(1, 1, 1),
        is_complete=True,
        throughput_records_per_s=1.0,
        latency=none,
        uncorrected=none,
        measured_from_ns=1,
        ended_ns=2 * 10**9,
        epoch_ns=0,
        first_arrival_ns=1,
        latest_ns=0,
        metrics={"sink": sink},
        checkpoints=5,
    )
    assert remote_buffers_per_s(done, channels=6) == pytest.approx(50)
    assert truth_of(replace(done, metrics={}), 6).buffers_per_s is None


def test_a_healthy_job_that_its_machine_held_up_does_not_count() -> None:
    healthy = RecordedCase("nothing", job(), (), ("none",), None, late_ns=2_000_000_000)
    assert healthy.is_void
    assert not replace(healthy, late_ns=0).is_void
    assert not replace(healthy, causes=("slow-tasks",)).is_void
