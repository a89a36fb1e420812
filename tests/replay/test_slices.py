"""What-if slice by slice comes to the numbers of the whole, over seeds, settings and cuts.

The bound: records are the same; throughput and messages a second within 0.1%, mean and percentiles
of the latency within 1% (a bucket of the histogram is 0.8% wide), mean backlog within 0.02.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.synthetic_trace import make_run
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.options.what_if import Setting
from flinknet.predict.exchange import recorded_setting
from flinknet.predict.grid import Grid
from flinknet.predict.job import JobEdge, RecordedJob
from flinknet.predict.loading import load_exchange
from flinknet.replay import simulations, slices
from flinknet.replay.observe import traffic
from flinknet.replay.observe.tree import answers_of
from flinknet.replay.observe.units import work_units
from flinknet.replay.plans import Part, Plan, Window, plan_of, slices_between
from flinknet.replay.predictions import Prediction, units_of
from flinknet.replay.read import RecordedRun, open_recorded_run
from flinknet.replay.spark.frames import rows_of, table_of
from flinknet.results import CheckpointSummary

MS = 1_000_000


def made_run(directory: Path, *, seed: int, rate_per_s: float, timeout_ns: int) -> RecordedRun:
    network = NetworkConfig(buffer_timeout_ns=timeout_ns)
    workload = WorkloadConfig(
        producers=2,
        consumers=2,
        rate_per_s=rate_per_s,
        duration_ns=4_000 * MS,
        warmup_ns=100 * MS,
    )
    assert make_run(directory, Scenario(network=network, workload=workload, seed=seed))
    return open_recorded_run(directory, 0)


def arrivals_in(run: RecordedRun, parts: int) -> tuple[list[int], pa.Table]:
    """The edges of the slices of a run, and its table of arrivals, without Spark."""
    edges = traffic.slice_edges(run, parts)
    question = traffic.arrivals_in({run.run: edges})
    rows = [table_of(traffic.ArrivalsRow, [])]
    units = work_units([run])
    for unit in units.units:
        group = units.groups[unit.group]
        rows += [table for _, table in answers_of(unit, group, {question.name: question})]
    return edges, question.merged(rows)


def slices_in(edges: list[int], found: pa.Table) -> Part:
    """The slices of a run as its part."""
    question = traffic.arrivals_in({})
    totals = rows_of(traffic.ArrivalsRow, question.over(found, ("channel",)))
    return Part(tuple(slices_between(edges)), 0, latest_ns=totals[0].latest_ns)


def planned(run: RecordedRun, settings: list[Setting], parts: int, core_ns: int) -> Plan:
    part = replace(slices_in(*arrivals_in(run, parts)), core_ns=core_ns)
    return plan_of(run, settings, part)


def simulated(plan: Plan, parts: int) -> list[slices.SlicePart]:
    """What executors do with the slices of a run, without Spark."""
    _, found = arrivals_in(plan.run, parts)
    (unit,) = units_of(plan, shares=1)
    loads = traffic.loads_of(found, [each.number for each in plan.part.windows])
    units = [slices.SliceUnit.of(unit, [load]) for load in loads]
    return [part for each in units for part in slices.simulate_slice(each)]


def sliced(run: RecordedRun, settings: list[Setting], parts: int) -> list[Prediction]:
    plan = planned(run, settings, parts, run.duration_ns)
    found = simulated(plan, parts)
    return [
        slices.prediction_of_slices(
            unit, [each for each in found if [each.candidate] == unit.candidates]
        )
        for unit in units_of(plan, shares=len(settings))
    ]


@pytest.mark.parametrize(
    ("seed", "rate_per_s", "timeout_ns", "parts", "grid"),
    [
        (1, 10_000.0, MS, 4, Grid(buffer_timeouts_ns=(0, MS, 7 * MS, 50 * MS))),
        (2, 100_000.0, 5 * MS, 7, Grid(buffer_timeouts_ns=(5 * MS, -1))),
        (3, 20_000.0, 3 * MS, 11, Grid(rate_factors=(0.5, 2.0), floating_buffers=(2, 16))),
        (4, 20_000.0, 3 * MS, 3, Grid(round_trips_ns=(0, 2 * MS), consumer_speeds=(0.5, 2.0))),
        (5, 20_000.0, 9 * MS, 4, Grid(checkpoint_intervals_ns=(30 * MS, 170 * MS))),
    ],
)
def test_slices_add_up_to_the_whole(
    tmp_path: Path,
    seed: int,
    rate_per_s: float,
    timeout_ns: int,
    parts: int,
    grid: Grid,
) -> None:
    run = made_run(tmp_path / "run", seed=seed, rate_per_s=rate_per_s, timeout_ns=timeout_ns)
    exchange = load_exchange(run.path, run.from_ns, run.to_ns)
    job = RecordedJob([JobEdge(run.ends, exchange)])
    part = Part((Window(run.from_ns, run.to_ns),), run.duration_ns)
    settings = grid.settings(recorded_setting(run.manifest), is_max_rate=False)
    for setting, row in zip(settings, sliced(run, settings, parts), strict=True):
        own = row.point
        (alone,) = simulations._simulated([row], part, [setting], [job])
        whole = alone.point
        assert own.method == whole.method == "kernel"
        assert row.records == own.latency_ns.count == alone.records
        # where the segments that fill begin, depends on barriers before the warm-up
        bound = 1e-3 if setting.network.checkpoint_interval_ns is None else 3e-3
        for name in ("throughput_records_per_s", "buffers_per_s", "credits_per_s"):
            assert getattr(own, name) == pytest.approx(getattr(whole, name), rel=bound), name
        for name in ("mean", "p50", "p90", "p99", "p99_9"):
            ours, theirs = (getattr(each.latency_ns, name) for each in (own, whole))
            assert ours == pytest.approx(theirs, rel=0.01), name
        assert own.backlog_buffers.mean == pytest.approx(whole.backlog_buffers.mean, abs=0.02)
        assert own.memory_bytes == whole.memory_bytes
        assert_checkpoints_add_up(own.checkpoints, whole.checkpoints)


def assert_checkpoints_add_up(
    found: CheckpointSummary | None, whole: CheckpointSummary | None
) -> None:
    assert (found is None) == (whole is None)
    if found is None or whole is None:
        return
    assert found.triggered == found.completed == whole.triggered
    for name in ("duration_ns", "alignment_ns", "travel_ns"):
        ours, theirs = getattr(found, name), getattr(whole, name)
        assert ours.count == theirs.count
        assert ours.mean == pytest.approx(theirs.mean, rel=0.02, abs=1000)


def test_what_the_kernel_does_not_cover_is_simulated_as_far_as_without_slices(
    tmp_path: Path,
) -> None:
    run = made_run(tmp_path / "run", seed=1, rate_per_s=2_000.0, timeout_ns=20 * MS)
    plan = planned(run, [recorded_setting(run.manifest)], 2, 500 * MS)
    parts = simulated(plan, 2)
    assert [part.is_covered for part in parts] == [True, True]
    parts[1] = replace(parts[1], is_covered=False)
    (unit,) = units_of(plan)
    found = slices.prediction_of_slices(unit, parts)
    assert found.window_to_ns == run.from_ns + 500 * MS
    assert found.records == pytest.approx(2 * 2_000 * 0.5, abs=2)
    assert "of the first 0.5 s only" in found.point.notes[0]


def test_each_record_is_counted_in_one_slice(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", seed=1, rate_per_s=3_000.0, timeout_ns=50 * MS)
    for parts in (1, 5, 400):
        edges, found = arrivals_in(run, parts)
        loads = list(traffic.loads_of(found, range(len(edges) - 1)))
        assert sum(sum(each.records) for each in loads) == 2 * 3_000 * 4
        before = np.zeros(4, np.int64)
        for each in loads:
            assert each.channels == [0, 1, 2, 3]
            assert each.records_before == before.tolist()
            before += each.records


def test_what_comes_in_a_slice_does_not_depend_on_which_others_are_wanted(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", seed=1, rate_per_s=3_000.0, timeout_ns=50 * MS)
    _, found = arrivals_in(run, 7)
    every = list(traffic.loads_of(found, range(7)))
    assert list(traffic.loads_of(found, [5, 2])) == [every[2], every[5]]
    (unit,) = units_of(planned(run, [recorded_setting(run.manifest)], 7, run.duration_ns), shares=1)
    halves = [
        traffic.SliceLoad(
            0,
            3,
            *(own[:2] if half == 0 else own[2:] for own in _lists(every[3])),
        )
        for half in (0, 1)
    ]
    assert slices.SliceUnit.of(unit, halves) == slices.SliceUnit.of(unit, [every[3]])


def _lists(load: traffic.SliceLoad) -> list[list[Any]]:
    return [load.channels, load.records, load.records_before, load.record_wire_bytes]
