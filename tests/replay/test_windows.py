"""How much of a run is simulated: all of it where that takes seconds, else windows spread over it;
and a window that was asked for is refused if it holds too few beats of the buffer timeout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.predict.fit.costs import CostFit
from flinknet.predict.grid import Grid
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.predict.what_if import simulate
from flinknet.replay import figures, simulations, windows
from flinknet.replay.advise.advice import UNKNOWN_ERROR, withheld
from flinknet.replay.candidates import Candidates, plan_candidates
from flinknet.replay.observe.arrivals import Slice, Slicing
from flinknet.replay.outcome import Candidate, Window
from flinknet.replay.read import AskedPart, RecordedRun, open_recorded_run, part_of
from flinknet.replay.trade_off import model_error, trade_off_points
from flinknet.simulator.cost_model import CostModel
from tests.recorded_run import MS, write_run
from tests.simulation import S

NOTHING = np.zeros(0, np.int64)


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """Twenty seconds, recorded with a timeout of 100 ms."""
    return open_recorded_run(write_run(tmp_path / "run", buffers=200, period_ns=100 * MS), 0)


def planned(
    run: RecordedRun,
    grid: Grid,
    *,
    records: int = 2_000,
    buffers: int = 200,
    arrivals: tuple[Any, ...] = (),
    **options: Any,
) -> Candidates:
    measured = SimpleNamespace(
        records=records, buffers=buffers, latency_ns=SimpleNamespace(count=records)
    )
    observed: Any = SimpleNamespace(
        run=run, measured=measured, rows=SimpleNamespace(arrivals=arrivals, barriers=[])
    )
    given = {"max_records": None, "split": None, "may_slice": True} | options
    return plan_candidates([observed], grid, **given)


def test_all_of_a_run_is_used_and_of_it_the_simulator_takes_the_first_part(
    run: RecordedRun,
) -> None:
    (candidate,) = planned(run, Grid(), records=2_000_000).all
    assert (candidate.to_ns, candidate.windows) == (run.to_ns, ())
    assert candidate.capped_to_ns == run.from_ns + run.duration_ns // 4


def test_the_part_for_the_simulator_holds_enough_beats(run: RecordedRun) -> None:
    grid = Grid(buffer_timeouts_ns=(100 * MS, 500 * MS))
    for candidate in planned(run, grid, records=10**9).all:
        assert candidate.capped_to_ns == run.from_ns + 10 * S


def test_of_more_than_takes_seconds_windows_are_spread_over_the_run(run: RecordedRun) -> None:
    grid = Grid(buffer_timeouts_ns=(0, 5 * MS))
    plan = planned(run, grid, records=10**8, buffers=10**6)
    assert not plan.why_long
    for candidate in plan.all:
        found = candidate.windows
        assert len(found) == 5
        assert (found[0].from_ns, found[-1].to_ns) == (run.from_ns, run.to_ns)
        (length_ns,) = {each.to_ns - each.from_ns for each in found}
        assert 2 * S <= length_ns < 2.4 * S  # 20 beats of 100 ms and more
        assert candidate.to_ns == run.to_ns


def test_windows_hold_a_share_of_the_run_however_long_the_beat_is(run: RecordedRun) -> None:
    for share, timeout_ns, count, together_ns in (
        (0.5, MS, windows.WINDOWS, 10 * S),
        (0.5, 100 * MS, 5, 10 * S),
        (0.046, 100 * MS, 1, 2 * S),
        (0.046, S, 1, 20 * S),
        (0.046, -1, windows.WINDOWS, 0.92 * S),
    ):
        setting = Setting(NetworkConfig(buffer_timeout_ns=timeout_ns))
        found = windows.spread_windows(run, share, [setting])
        assert len(found) == count
        simulated_ns = sum(each.to_ns - each.from_ns for each in found)
        assert simulated_ns == pytest.approx(together_ns, abs=10)


def test_a_window_that_is_more_than_the_share_is_the_beginning_and_that_is_reported(
    run: RecordedRun,
) -> None:
    plan = planned(run, Grid(buffer_timeouts_ns=(0,)), records=10**9, buffers=10**6)
    for candidate in plan.all:
        assert (candidate.to_ns, candidate.windows) == (run.from_ns + 2 * S, ())
    (line,) = plan.why_long
    assert line.startswith(
        "2.00 s of 20.0 s are simulated, 1.7 times what is meant to be: 20 beats"
    )


def test_slices_are_spread_over_the_run() -> None:
    slices = tuple(Slice(at, at * S, (at + 1) * S) for at in range(100))
    found = windows.spread_slices(Slicing(slices, 0), 0.2)
    assert len(found.slices) == 20
    assert (found.slices[0], found.slices[-1]) == (slices[0], slices[-1])
    assert found.simulated_ns == 20 * S
    few = Slicing(slices[:10], 0)
    assert windows.spread_slices(few, 1.0) is few
    first = windows.spread_slices(few, 0.012)
    assert (first.slices, first.simulated_ns) == (slices[:1], None)


def test_a_single_slice_is_a_shorter_run(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = tuple(
        Slice(at, run.from_ns + at * 2 * S, run.from_ns + (at + 1) * 2 * S) for at in range(10)
    )
    edges = [run.from_ns, *(each.to_ns for each in slices)]
    monkeypatch.setattr("flinknet.replay.candidates.slice_edges", lambda *_: edges)
    monkeypatch.setattr("flinknet.replay.candidates.slicing_of", lambda *_: Slicing(slices, 0))
    plan = planned(run, Grid(buffer_timeouts_ns=(0,)), records=5 * 10**9, arrivals=(None,))
    assert {each.to_ns for each in plan.all} == {run.from_ns + 2 * S}
    (slicing,) = plan.slicings.values()
    assert slicing.slices == slices[:1]
    assert "8.3 times what is meant to be: a slice is the least" in plan.why_long[0]


@pytest.mark.parametrize(("to_ns", "is_asked"), [(2 * S, True), (None, False)])
def test_a_part_that_was_asked_for_is_known_as_such(
    run: RecordedRun, to_ns: int | None, is_asked: bool
) -> None:
    (candidate,) = planned(part_of(run, AskedPart(to_ns=to_ns)), Grid()).all
    assert candidate.is_asked == is_asked


@pytest.mark.parametrize(("records", "is_asked"), [(200, True), (None, False), (2_000, False)])
def test_so_are_records_that_were_asked_for(
    run: RecordedRun, records: int | None, is_asked: bool
) -> None:
    (candidate,) = planned(run, Grid(), max_records=records).all
    assert candidate.is_asked == is_asked
    assert candidate.to_ns == run.from_ns + (2 * S if is_asked else 20 * S)


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_part_that_was_asked_for_holds_enough_beats_of_what_is_predicted(
    run: RecordedRun, is_asked: bool
) -> None:
    """A run that is no longer than that is answered."""
    settings = [Setting(NetworkConfig(buffer_timeout_ns=each * MS)) for each in (5, 100)]
    unit = simulations.PredictionUnit(
        run.run,
        list(run.place),
        [0, 1],
        settings,
        [Window(run.from_ns, run.from_ns + S)],
        run.from_ns + S,
        S,
        is_asked=is_asked,
    )
    short, long = simulations._simulate_unit(unit, None)
    assert short.error is None
    refused = "1.00 s are 10 beats of a buffer timeout of 100ms, and a prediction needs 20"
    assert (long.error or "").startswith(refused if is_asked else "")
    assert (long.records is None) == is_asked
    recorded = settings[1]
    candidates = [Candidate(run, number, each, run.to_ns) for number, each in enumerate(settings)]
    points = trade_off_points(candidates, [short, long], recorded)
    measured: Any = SimpleNamespace(
        throughput_records_per_s=1.0, buffers=0, latency_ns=SimpleNamespace(p50=1.0, p99=1.0)
    )
    error = model_error(points[1], measured, is_from_between=False)
    assert (withheld(error, points) == UNKNOWN_ERROR) == is_asked


def exchange(seconds: float) -> RecordedExchange:
    """A channel with 10 000 records a second."""
    records, from_ns = int(10_000 * seconds), S
    to_ns = from_ns + int(seconds * S)
    arrivals = Ramps(np.array([records]), np.array([from_ns]), np.array([to_ns - 1]))
    return RecordedExchange(
        1,
        1,
        (RecordedChannel(0, 0, 0, 0, arrivals, 105.0),),
        NetworkConfig(),
        False,
        from_ns,
        to_ns,
        7,
        CostModel(12_000.0, 0.15, 50_000.0, 12_000.0, 100.0, (20.0,)),
    )


@pytest.mark.parametrize(("exclusive_buffers", "is_known"), [(2, True), (0, False)])
def test_what_the_compiled_model_does_not_know_is_simulated_in_part_and_says_so_first(
    exclusive_buffers: int, is_known: bool
) -> None:
    whole = exchange(2.0)
    network = replace(whole.network, buffer_timeout_ns=MS, exclusive_buffers=exclusive_buffers)
    setting = Setting(network)
    fit = CostFit(whole.costs, ("a note",))
    unpredicted = figures.unpredicted(0, 0, setting, fit, whole.measured_to_ns)
    found = simulations._simulated(unpredicted, [whole], fit, setting, None, 200 * MS)
    assert found.method == ("kernel" if is_known else "simulator")
    assert found.records == (20_000 if is_known else 2_000)
    assert found.window_to_ns == whole.measured_from_ns + (2 * S if is_known else 200 * MS)
    note = "a note" if is_known else "of the first 0.2 s only: it is simulated message by message"
    assert found.notes[0] == note


def test_windows_are_added_up() -> None:
    one = exchange(2.0)
    setting = Setting(replace(one.network, buffer_timeout_ns=MS))
    fit = CostFit(one.costs, ())
    unpredicted = figures.unpredicted(0, 0, setting, fit, 100 * S)
    found = simulations._simulated(unpredicted, [one] * 3, fit, setting, None, 0)
    alone = simulate(one, setting.network)
    assert (found.windows, found.simulated_ns, found.method) == (3, 6 * S, "kernel")
    assert found.records == found.count == 3 * alone.records
    assert found.throughput_records_per_s == alone.throughput_records_per_s
    assert found.buffers_per_s == alone.buffers_per_s
    assert (found.p50, found.p99) == (alone.latency.percentile(0.5), alone.latency.percentile(0.99))
    assert found.backlog_buffers_mean == pytest.approx(alone.backlog_buffers.mean)
    assert found.window_to_ns == 100 * S


@pytest.mark.parametrize(
    ("part_ns", "windows", "simulated_s", "note"),
    [
        (5 * S, 2, 4, "of the first 2 of 3 windows only: it is simulated message by message"),
        (S, 1, 1, "of the first 1 s only: it is simulated message by message"),
    ],
)
def test_of_windows_that_the_compiled_model_does_not_know_the_first_are_simulated(
    part_ns: int, windows: int, simulated_s: int, note: str
) -> None:
    one = exchange(2.0)
    setting = Setting(replace(one.network, buffer_timeout_ns=MS, exclusive_buffers=0))
    fit = CostFit(one.costs, ("a note",))
    unpredicted = figures.unpredicted(0, 0, setting, fit, 100 * S)
    found = simulations._simulated(unpredicted, [one] * 3, fit, setting, None, part_ns)
    assert (found.method, found.windows, found.notes[0]) == ("simulator", windows, note)
    assert found.records == simulated_s * 10_000
    assert found.simulated_ns == (simulated_s * S if windows > 1 else None)
    assert found.window_to_ns == (100 * S if windows > 1 else one.measured_from_ns + S)


def test_a_window_in_which_nothing_came_is_known() -> None:
    one = exchange(2.0)
    idle = replace(one, channels=(replace(one.channels[0], arrivals=Ramps.of(NOTHING)),))
    setting = Setting(replace(one.network, buffer_timeout_ns=MS))
    fit = CostFit(one.costs, ())
    unpredicted = figures.unpredicted(0, 0, setting, fit, 100 * S)
    alone, found = (
        simulations._simulated(unpredicted, each, fit, setting, None, 0)
        for each in ([one, one], [idle, one])
    )
    assert (found.method, found.records, found.p50) == ("kernel", 20_000, alone.p50)
    assert found.buffers_per_s == pytest.approx(alone.buffers_per_s / 2)
