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
from flinknet.options.what_if import Setting, columns_of
from flinknet.predict.fit.costs import RATE_IS_FITTED
from flinknet.predict.grid import Grid
from flinknet.predict.job import JobEdge, RecordedJob
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.what_if import simulate
from flinknet.replay import plans, simulations
from flinknet.replay.advise.advice import UNKNOWN_ERROR, withheld
from flinknet.replay.answers import model_error
from flinknet.replay.plans import Part, Window, first_of, plan_exchanges, plan_of, slices_between
from flinknet.replay.predictions import (
    UNKNOWN_BACKLOG,
    UNKNOWN_LATENCY,
    AskedSetting,
    Prediction,
    units_of,
)
from flinknet.replay.read import AskedPart, RecordedRun, open_recorded_run, part_of
from flinknet.replay.simulations import NOT_WHOLE_MS
from flinknet.results import TradeOffPoint
from flinknet.trace.job_names import ONLY_EDGE, Edge
from flinknet.trace.manifest import TAP
from tests.recorded_exchange import steady
from tests.recorded_run import MS, write_run
from tests.simulation import US, S

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
) -> tuple[Part, list[str]]:
    """The part of a run to simulate, and lines about its length."""
    measured = SimpleNamespace(
        records=records, buffers=buffers, latency_ns=SimpleNamespace(count=records)
    )
    observed: Any = SimpleNamespace(
        run=run, measured=measured, rows=SimpleNamespace(arrivals=arrivals, barriers=[])
    )
    (plan,), lines = plan_exchanges([observed], grid, **options)
    return plan.part, lines


def test_all_of_a_run_is_used_and_of_it_the_simulator_takes_the_first_part(
    run: RecordedRun,
) -> None:
    part, _ = planned(run, Grid(), records=2_000_000)
    assert part.windows == (Window(run.from_ns, run.to_ns),)
    assert part.core_ns == run.duration_ns // 4
    part, _ = planned(run, Grid(buffer_timeouts_ns=(100 * MS, 500 * MS)), records=10**9)
    assert part.core_ns == 10 * S  # enough beats


def test_of_more_than_takes_seconds_windows_are_spread_over_the_run(run: RecordedRun) -> None:
    grid = Grid(buffer_timeouts_ns=(0, 5 * MS))
    part, lines = planned(run, grid, records=10**8, buffers=10**6)
    assert not lines
    assert len(part.windows) == 5
    assert (part.from_ns, part.to_ns) == (run.from_ns, run.to_ns)
    (length_ns,) = {each.to_ns - each.from_ns for each in part.windows}
    assert 2 * S <= length_ns < 2.4 * S  # 20 beats of 100 ms and more


def test_of_a_capture_as_much_is_simulated_as_of_a_job(run: RecordedRun) -> None:
    captured = replace(run, manifest=replace(run.manifest, origin=TAP))
    part, _ = planned(captured, Grid(buffer_timeouts_ns=(5 * MS,)), records=2 * plans.RECORDS_MAX)
    assert part.simulated_ns == pytest.approx(run.duration_ns / 2, abs=10)


def test_windows_hold_a_share_of_the_run_however_long_the_beat_is(run: RecordedRun) -> None:
    for share, timeout_ns, count, together_ns in (
        (0.5, MS, plans.WINDOWS, 10 * S),
        (0.5, 100 * MS, 5, 10 * S),
        (0.046, 100 * MS, 1, 2 * S),
        (0.046, S, 1, 20 * S),
        (0.046, -1, plans.WINDOWS, 0.92 * S),
    ):
        setting = Setting(NetworkConfig(buffer_timeout_ns=timeout_ns))
        found = plans.spread_windows(run, share, [setting])
        assert len(found) == count
        simulated_ns = sum(each.to_ns - each.from_ns for each in found)
        assert simulated_ns == pytest.approx(together_ns, abs=10)


def test_a_window_that_is_more_than_the_share_is_the_beginning_and_that_is_reported(
    run: RecordedRun,
) -> None:
    part, (line,) = planned(run, Grid(buffer_timeouts_ns=(0,)), records=10**9, buffers=10**6)
    assert part.windows == (Window(run.from_ns, run.from_ns + 2 * S),)
    assert line.startswith(
        "2.00 s of 20.0 s are simulated, 1.7 times what is meant to be: 20 beats"
    )


def test_slices_are_spread_over_the_run() -> None:
    slices = slices_between([at * S for at in range(101)])
    found = plans.spread_slices(slices, 0.2)
    assert len(found) == 20
    assert (found[0], found[-1]) == (slices[0], slices[-1])
    assert Part(found, 0).simulated_ns == 20 * S
    few = tuple(slices[:10])
    assert plans.spread_slices(few, 1.0) == few
    assert plans.spread_slices(few, 0.012) == few[:1]


def test_a_single_slice_is_a_shorter_run(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [run.from_ns + at * 2 * S for at in range(11)]
    monkeypatch.setattr("flinknet.replay.plans.slice_edges", lambda *_: edges)
    grid = Grid(buffer_timeouts_ns=(0,))
    part, (line,) = planned(run, grid, records=5 * 10**9, arrivals=(SimpleNamespace(latest_ns=0),))
    assert part.to_ns == run.from_ns + 2 * S
    assert part.latest_ns == 0
    assert part.windows == (Window(run.from_ns, run.from_ns + 2 * S),)
    assert "8.3 times what is meant to be: a slice is the least" in line


@pytest.mark.parametrize(
    ("to_ns", "records", "is_asked"),
    [(2 * S, None, True), (None, None, False), (None, 200, True), (None, 2_000, False)],
)
def test_a_part_that_was_asked_for_is_known_as_such(
    run: RecordedRun, to_ns: int | None, records: int | None, is_asked: bool
) -> None:
    part, _ = planned(part_of(run, AskedPart(to_ns=to_ns)), Grid(), max_records=records)
    assert part.is_asked == is_asked
    assert part.to_ns == run.from_ns + (2 * S if is_asked else 20 * S)


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_part_that_was_asked_for_holds_enough_beats_of_what_is_predicted(
    run: RecordedRun, is_asked: bool
) -> None:
    """A run that is no longer than that is answered."""
    settings = [Setting(NetworkConfig(buffer_timeout_ns=each * MS)) for each in (5, 100)]
    part = replace(first_of(run, S), is_asked=is_asked)
    (unit,) = units_of(plan_of(run, settings, part), shares=1)
    short, long = simulations.predictions_of(unit)
    assert short.point.why_unknown is None
    refused = "1.00 s are 10 beats of a buffer timeout of 100ms, and a prediction needs 20"
    assert (long.point.why_unknown or "").startswith(refused if is_asked else "")
    assert (long.records is None) == is_asked
    points = [short.point, long.point]
    assert [each.is_recorded for each in points] == [False, True]
    measured: Any = SimpleNamespace(
        throughput_records_per_s=1.0, buffers=0, latency_ns=SimpleNamespace(p50=1.0, p99=1.0)
    )
    error = model_error(points[1], measured, None)
    assert (withheld(error, points) or "").startswith(UNKNOWN_ERROR) == is_asked


def _point(*, is_recorded: bool = False) -> TradeOffPoint:
    return TradeOffPoint(
        config={},
        throughput_records_per_s=None,
        latency_ns=UNKNOWN_LATENCY,
        backlog_buffers=UNKNOWN_BACKLOG,
        buffers_per_s=None,
        is_recorded=is_recorded,
    )


@pytest.mark.parametrize("is_fitted", [False, True])
def test_a_rate_that_the_model_was_fitted_to_has_no_error(is_fitted: bool) -> None:
    given = _point(is_recorded=True)
    notes = (RATE_IS_FITTED,) if is_fitted else ()
    point = replace(given, throughput_records_per_s=2.0, buffers_per_s=3.0, notes=notes)
    measured: Any = SimpleNamespace(
        throughput_records_per_s=1.0, latency_ns=SimpleNamespace(p50=1.0, p99=1.0)
    )
    error = model_error(point, measured, 1.0)
    wanted = (None, None) if is_fitted else (1.0, 2.0)
    assert (error.throughput, error.buffers_per_s) == wanted


ONE_EDGE = Edge(1, 0, 0, 1, *ONLY_EDGE)


def predicted(
    exchanges: list[RecordedExchange], setting: Setting, core_ns: int, to_ns: int, *notes: str
) -> Prediction:
    """The prediction from some windows of a part that ends at an instant."""
    row = Prediction(
        run=0,
        candidate=0,
        setting=AskedSetting(**columns_of(setting)),
        point=_point(),
        window_to_ns=to_ns,
        assumed=list(notes),
    )
    windows = tuple(Window(each.measured_from_ns, each.measured_to_ns) for each in exchanges)
    jobs = [RecordedJob([JobEdge(ONE_EDGE, each)]) for each in exchanges]
    (found,) = simulations._simulated([row], Part(windows, core_ns), [setting], jobs)
    return found


@pytest.mark.parametrize(("exclusive_buffers", "is_known"), [(2, True), (0, False)])
def test_what_the_compiled_model_does_not_know_is_simulated_in_part_and_says_so_first(
    exclusive_buffers: int, is_known: bool
) -> None:
    whole = steady(10_000.0, 2.0)
    network = replace(whole.network, buffer_timeout_ns=MS, exclusive_buffers=exclusive_buffers)
    found = predicted([whole], Setting(network), 200 * MS, whole.measured_to_ns, "a note")
    assert found.point.method == ("kernel" if is_known else "simulator")
    assert found.records == (20_000 if is_known else 2_000)
    assert found.window_to_ns == whole.measured_from_ns + (2 * S if is_known else 200 * MS)
    note = "a note" if is_known else "of the first 0.2 s only: it is simulated message by message"
    assert found.point.notes[0] == note


def test_windows_are_added_up() -> None:
    one = steady(10_000.0, 2.0)
    setting = Setting(replace(one.network, buffer_timeout_ns=MS))
    found, alone = predicted([one] * 3, setting, 0, 100 * S), simulate(one, setting.network)
    point, latency_ns = found.point, found.point.latency_ns
    assert (found.windows, found.simulated_ns, point.method) == (3, 6 * S, "kernel")
    assert found.records == latency_ns.count == 3 * alone.records
    assert point.throughput_records_per_s == alone.throughput_records_per_s
    assert point.buffers_per_s == alone.buffers_per_s
    assert latency_ns.p50 == alone.latency.percentile(0.5)
    assert latency_ns.p99 == alone.latency.percentile(0.99)
    assert point.backlog_buffers.mean == pytest.approx(alone.backlog_buffers.mean)
    assert found.window_to_ns == 100 * S


@pytest.mark.parametrize(("exclusive_buffers", "core_ns"), [(2, 0), (0, 10 * S)])
def test_checkpoints_of_all_windows_count(exclusive_buffers: int, core_ns: int) -> None:
    one = steady(10_000.0, 2.0)
    network = replace(one.network, exclusive_buffers=exclusive_buffers, buffer_timeout_ns=MS)
    setting = Setting(replace(network, checkpoint_interval_ns=200 * MS))
    alone, found = (
        predicted([one] * windows, setting, core_ns, 100 * S).point.checkpoints
        for windows in (1, 3)
    )
    assert alone is not None
    assert found is not None
    assert found.completed == 3 * alone.completed > 0
    assert found.triggered == 3 * alone.triggered
    assert found.duration_ns.count == 3 * alone.duration_ns.count


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
    one = steady(10_000.0, 2.0)
    setting = Setting(replace(one.network, buffer_timeout_ns=MS, exclusive_buffers=0))
    found = predicted([one] * 3, setting, part_ns, 100 * S, "a note")
    assert (found.point.method, found.windows) == ("simulator", windows)
    assert found.point.notes[0] == note
    assert found.records == simulated_s * 10_000
    assert found.simulated_ns == (simulated_s * S if windows > 1 else None)
    assert found.window_to_ns == (100 * S if windows > 1 else one.measured_from_ns + S)


def test_a_window_in_which_nothing_came_is_known() -> None:
    one = steady(10_000.0, 2.0)
    idle = replace(one, channels=(replace(one.channels[0], arrivals=Ramps.of(NOTHING)),))
    setting = Setting(replace(one.network, buffer_timeout_ns=MS))
    alone, found = (predicted(each, setting, 0, 100 * S) for each in ([one, one], [idle, one]))
    assert (found.point.method, found.records) == ("kernel", 20_000)
    assert found.point.latency_ns.p50 == alone.point.latency_ns.p50
    assert found.point.buffers_per_s == pytest.approx((alone.point.buffers_per_s or 0) / 2)


@pytest.mark.parametrize(
    ("timeout_ns", "recorded_ns", "is_refused"),
    [(500 * US, 0, True), (1500 * US, 0, True), (2 * MS, 0, False), (500 * US, 500 * US, False)],
)
def test_a_timeout_that_flink_does_not_accept_says_why_it_is_not_advised(
    timeout_ns: int, recorded_ns: int, is_refused: bool
) -> None:
    recorded, setting = (
        Setting(NetworkConfig(buffer_timeout_ns=each)) for each in (recorded_ns, timeout_ns)
    )
    point = _point(is_recorded=setting == recorded)
    asked = AskedSetting(**columns_of(setting))
    row = Prediction(run=0, candidate=0, setting=asked, point=point, window_to_ns=0)
    assert (
        NOT_WHOLE_MS in simulations.with_notes(row, recorded, is_timed=True).point.notes
    ) is is_refused
