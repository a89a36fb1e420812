"""What-if slice by slice comes to the numbers of the whole, over seeds, settings and cuts.

The bound: records are the same; throughput and messages a second within 0.1 %, mean and percentiles
of the latency within 1 % (a bucket of the histogram is 0.8 % wide), mean backlog within 0.02.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.predict import what_if as simulator
from flinknet.predict.exchange import load_exchange, recorded_setting
from flinknet.predict.grid import Grid
from flinknet.predict.synth import run as synth_run
from flinknet.predict.synth.plan import plan
from flinknet.predict.synth.run import write_file
from flinknet.replay import slices, what_if
from flinknet.replay.observe import arrivals
from flinknet.replay.outcome import Candidate, Outcome
from flinknet.replay.read import RecordedRun, open_recorded_run
from flinknet.replay.spark.units import work_units
from flinknet.trace import TraceReader
from flinknet.trace.event_block import EventBlock

MS = 1_000_000
_KEYS = ("channel", "slice", "records", "whole_records", "payload_bytes", "latest_ns")


def made_run(directory: Path, *, seed: int, rate_per_s: float, timeout_ns: int) -> RecordedRun:
    directory.mkdir()
    network = NetworkConfig(buffer_timeout_ns=timeout_ns)
    workload = WorkloadConfig(
        producers=2,
        consumers=2,
        rate_per_s=rate_per_s,
        duration_ns=4_000 * MS,
        warmup_ns=100 * MS,
    )
    found = plan(Scenario(network=network, workload=workload, seed=seed))
    synth_run._manifest(found, ["tm-0", "tm-1"], found.end_ns).save(directory)
    for number in range(2):
        counters = SimpleNamespace(value=0), SimpleNamespace(value=0)
        write_file(found, directory, number, *counters, SimpleNamespace(value=found.end_ns))
    return open_recorded_run(directory, 0)


def slicing_in(run: RecordedRun, parts: int) -> arrivals.Slicing:
    """What `MERGE_ARRIVALS` gives, without Spark."""
    edges = arrivals.slice_edges(run, parts)
    asked = arrivals.arrivals_asked({run.run: edges})
    rows = []
    for unit in work_units([run], cores=2):
        with TraceReader(unit.file) as reader:
            blocks = (EventBlock(reader.read_block(i, asked.columns)) for i in unit.blocks)
            for answer in asked.question(unit, blocks):
                columns = [np.asarray(answer[key]).tolist() for key in _KEYS]
                rows += [arrivals.ArrivalsRow(run.run, *row) for row in zip(*columns, strict=True)]
    return arrivals.slicing_of(rows, edges)


def sliced(run: RecordedRun, grid: Grid, parts: int) -> dict[int, Outcome]:
    settings = grid.settings(recorded_setting(run.manifest), is_max_rate=False)
    candidates = [
        Candidate(run, number, each, run.to_ns, run.to_ns) for number, each in enumerate(settings)
    ]
    parts_of: dict[int, list[slices.SlicePart]] = {each.number: [] for each in candidates}
    for unit in what_if._slice_units(candidates, {run.run: slicing_in(run, parts)}):
        for part in slices.simulate_slice(unit):
            parts_of[part.candidate].append(part)
    return {
        each.number: what_if._outcome_of_slices(each, parts_of[each.number]) for each in candidates
    }


@pytest.mark.parametrize(
    ("seed", "rate_per_s", "timeout_ns", "parts", "grid"),
    [
        (1, 10_000.0, MS, 4, Grid(buffer_timeouts_ns=(0, MS, 7 * MS, 50 * MS))),
        (2, 100_000.0, 5 * MS, 7, Grid(buffer_timeouts_ns=(5 * MS, -1))),
        (3, 20_000.0, 3 * MS, 11, Grid(rate_factors=(0.5, 2.0), floating_buffers=(2, 16))),
        (4, 20_000.0, 3 * MS, 3, Grid(round_trips_ns=(0, 2 * MS), consumer_speeds=(0.5, 2.0))),
    ],
)
def test_slices_add_up_to_the_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    rate_per_s: float,
    timeout_ns: int,
    parts: int,
    grid: Grid,
) -> None:
    monkeypatch.setattr(simulator, "FAST_FROM_MESSAGES", 0)
    run = made_run(tmp_path / "run", seed=seed, rate_per_s=rate_per_s, timeout_ns=timeout_ns)
    exchange, fit = load_exchange(run.path, run.from_ns, run.to_ns)
    settings = grid.settings(recorded_setting(run.manifest), is_max_rate=False)
    for number, row in sliced(run, grid, parts).items():
        setting = settings[number]
        whole = what_if._simulated(row, [exchange], fit, setting, simulator.simulate, 0)
        assert row.method == whole.method == "kernel"
        assert row.records == row.count == whole.records
        for name in ("throughput_records_per_s", "buffers_per_s", "credits_per_s"):
            assert getattr(row, name) == pytest.approx(getattr(whole, name), rel=1e-3), name
        for name in ("mean", "p50", "p90", "p99", "p99_9"):
            assert getattr(row, name) == pytest.approx(getattr(whole, name), rel=0.01), name
        assert row.backlog_buffers_mean == pytest.approx(whole.backlog_buffers_mean, abs=0.02)
        assert row.memory_bytes == whole.memory_bytes


def test_what_the_kernel_does_not_cover_is_simulated_as_far_as_without_slices(
    tmp_path: Path,
) -> None:
    run = made_run(tmp_path / "run", seed=1, rate_per_s=2_000.0, timeout_ns=20 * MS)
    setting = recorded_setting(run.manifest)
    capped_to_ns = run.from_ns + 500 * MS
    candidate = Candidate(run, 0, setting, run.to_ns, capped_to_ns)
    units = list(what_if._slice_units([candidate], {0: slicing_in(run, 2)}))
    parts = [part for unit in units for part in slices.simulate_slice(unit)]
    assert [part.is_covered for part in parts] == [True, True]
    parts[1] = replace(parts[1], is_covered=False)
    found = what_if._outcome_of_slices(candidate, parts)
    assert found.window_to_ns == capped_to_ns
    assert found.records == pytest.approx(2 * 2_000 * 0.5, abs=2)
    assert "of the first 0.5 s only" in found.notes[0]


def test_each_record_is_counted_in_one_slice(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", seed=1, rate_per_s=3_000.0, timeout_ns=50 * MS)
    for parts in (1, 5, 400):
        found = slicing_in(run, parts)
        assert sum(sum(each.records.values()) for each in found.slices) == 2 * 3_000 * 4
        assert json.dumps(sorted(found.record_wire_bytes)) == "[0, 1, 2, 3]"
        before = dict.fromkeys(found.slices[0].records, 0)
        for each in found.slices:
            assert each.records_before == before
            before = {key: before[key] + count for key, count in each.records.items()}
