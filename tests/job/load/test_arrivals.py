"""When records are due, their keys and sizes: by laws and seeds, or as recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.arrays import IntArray, RecordedLoad
from flinknet.config import EXPONENTIAL, RECORDED, RecordSize, check_arrivals
from flinknet.errors import ConfigError
from flinknet.job.load.arrivals import (
    DrawnSizes,
    KeyDraws,
    RecordedArrivals,
    RecordedSelector,
    RecordedSizes,
    ScheduledArrivals,
)
from tests.strategies import ArrivalPlan, arrival_plans

SECOND_NS = 10**9


def arrivals_of(plan: ArrivalPlan) -> ScheduledArrivals:
    return ScheduledArrivals(
        plan.law, plan.rate_per_s, start_ns=plan.start_ns, records=plan.records, seed=plan.seed
    )


def all_of(arrivals: ScheduledArrivals | RecordedArrivals) -> IntArray:
    """Every instant, taken one portion after another."""
    taken = []
    while arrivals.next_ns() is not None:
        taken.append(arrivals.take(2**62, 2**62).copy())
    return np.concatenate(taken) if taken else np.empty(0, np.int64)


@settings(max_examples=40)
@given(arrival_plans(), st.data())
def test_instants_are_ascending_complete_and_the_same_in_any_portions(
    plan: ArrivalPlan, data: st.DataObject
) -> None:
    whole = all_of(arrivals_of(plan))
    assert len(whole) == plan.records
    assert (np.diff(whole) >= 0).all()
    assert int(whole[0]) >= plan.start_ns
    arrivals = arrivals_of(plan)
    taken: list[int] = []
    for _ in range(12):
        next_ns = arrivals.next_ns()
        assert next_ns == (int(whole[len(taken)]) if len(taken) < len(whole) else None)
        if next_ns is None:
            break
        until_ns = next_ns + data.draw(st.integers(-1, 10**9))
        limit = data.draw(st.integers(1, 20_000))
        portion = arrivals.take(until_ns, limit).tolist()
        assert len(portion) <= limit
        assert all(instant <= until_ns for instant in portion)
        taken += portion
        assert taken == whole[: len(taken)].tolist()
    rest = all_of(arrivals)
    assert taken + rest.tolist() == whole.tolist()


def test_another_seed_gives_other_instants() -> None:
    for law in ("constant", "poisson", "bursts", "on-off:50ms:150ms"):
        first, second = (
            all_of(arrivals_of(ArrivalPlan(law, 1000, 0, 50, seed))) for seed in (1, 2)
        )
        assert first.tolist() != second.tolist()


def test_a_constant_rate_is_evenly_spaced_from_a_phase_of_its_own() -> None:
    instants = all_of(arrivals_of(ArrivalPlan("constant", 4000, 10 * SECOND_NS, 40_000, 3)))
    assert 0 <= int(instants[0]) - 10 * SECOND_NS < 250_000
    gaps = np.diff(instants)
    assert set(gaps.tolist()) <= {249_999, 250_000, 250_001}
    assert int(instants[-1] - instants[0]) == pytest.approx(39_999 * 250_000, abs=1)


def test_poisson_arrivals_have_the_mean_and_the_spread_of_their_law() -> None:
    instants = all_of(arrivals_of(ArrivalPlan("poisson", 1e6, 0, 40_000, 5)))
    gaps = np.diff(instants)
    # standard errors of 40,000 exponential gaps: 0.5% of the mean, 0.7% of the deviation
    assert gaps.mean() == pytest.approx(1000, rel=0.03)
    assert gaps.std() == pytest.approx(1000, rel=0.05)


def test_bursts_come_in_hundreds_at_one_instant_and_keep_the_mean_rate() -> None:
    instants = all_of(arrivals_of(ArrivalPlan("bursts", 1000, 0, 1050, 5)))
    values, counts = np.unique(instants, return_counts=True)
    assert counts.tolist() == [100] * 10 + [50]
    assert np.diff(values).tolist() == pytest.approx([100_000_000] * 10, abs=1)


@pytest.mark.parametrize("rate_per_s", [1e5, 1000.0, 3.0])
def test_on_and_off_keeps_the_mean_rate_and_its_silences(rate_per_s: float) -> None:
    whole_s = 40
    arrivals = ArrivalPlan("on-off:50ms:150ms", rate_per_s, 0, int(whole_s * rate_per_s), 5)
    instants = all_of(arrivals_of(arrivals))
    assert (instants % 200_000_000 <= 50_000_000).all()
    assert int(instants[-1]) == pytest.approx(whole_s * SECOND_NS, rel=0.02)
    if rate_per_s == 1000:
        gaps = np.diff(instants)
        assert sorted(set((gaps / 1e4).round().tolist())) == [25, 15_025]
        starts = np.flatnonzero(gaps > 150_000_000)
        assert set(np.diff(starts).tolist()) == {200}


@pytest.mark.parametrize("law", ["on-off:50ms", "on-off:0:5ms", "on-off:5:5", "often"])
def test_a_law_that_is_none_is_refused(law: str) -> None:
    with pytest.raises(ConfigError, match=r"--arrivals: "):
        check_arrivals(law, "--arrivals")


def test_without_a_number_of_records_there_is_no_end() -> None:
    arrivals = ScheduledArrivals("constant", 1e6, start_ns=0, records=None, seed=1)
    for _ in range(5):
        assert arrivals.next_ns() is not None
        assert len(arrivals.take(2**62, 2**62)) > 0


def test_what_was_not_taken_in_time_is_given_up() -> None:
    for taken_before in (0, 7):
        arrivals = ScheduledArrivals(
            "constant", 1e12, start_ns=0, records=10**15, seed=1, give_up_ns=500
        )
        assert len(arrivals.take(499, taken_before)) == taken_before
        assert arrivals.next_ns() is not None
        assert len(arrivals.take(500, 100)) == 0
        assert arrivals.next_ns() is None


@given(st.lists(st.integers(0, 1000)).map(sorted), st.lists(st.integers(0, 1100)))
def test_recorded_instants_are_taken_when_they_are_due(
    instants: list[int], until: list[int]
) -> None:
    arrivals = RecordedArrivals(np.array(instants, np.int64))
    taken: list[int] = []
    for until_ns in until:
        portion = arrivals.take(until_ns, 3).tolist()
        due = [each for each in instants[len(taken) :] if each <= until_ns]
        assert portion == due[:3]
        taken += portion
    next_ns = arrivals.next_ns()
    assert next_ns == (instants[len(taken)] if len(taken) < len(instants) else None)


@pytest.mark.parametrize("law", ["constant", "poisson", "bursts", "on-off:100us:100us"])
def test_records_are_counted_from_the_end_of_the_warm_up(law: str) -> None:
    arrivals = ScheduledArrivals(
        law, 1e6, start_ns=0, records=20_000, seed=5, counted_from_ns=7_000_000
    )
    instants = all_of(arrivals)
    assert np.count_nonzero(instants >= 7_000_000) == 20_000
    assert np.count_nonzero(instants < 7_000_000) == pytest.approx(7_000, rel=0.05)


portions = st.lists(st.integers(0, 9000), min_size=1, max_size=6)


@given(portions, st.sampled_from([0.0, 0.9]))
def test_keys_are_the_same_in_any_portions(counts: list[int], skew: float) -> None:
    draws = KeyDraws(1000, skew, seed=3)
    taken = [key for count in counts for key in draws.take(count).tolist()]
    assert taken == KeyDraws(1000, skew, seed=3).take(sum(counts)).tolist()


@given(portions, st.sampled_from([RecordSize(8, 500), RecordSize(8, 9000, EXPONENTIAL, 90)]))
def test_sizes_are_the_same_in_any_portions(counts: list[int], size: RecordSize) -> None:
    draws = DrawnSizes(size, seed=3)
    taken = [key for count in counts for key in draws.take(count).tolist()]
    assert taken == DrawnSizes(size, seed=3).take(sum(counts)).tolist()


def test_skewed_keys_have_the_shares_of_a_zipf_distribution() -> None:
    keys = KeyDraws(100, 1.0, seed=2).take(200_000)
    shares = np.bincount(keys, minlength=100) / len(keys)
    expected = 1 / np.arange(1, 101)
    expected /= expected.sum()
    # five standard errors of the largest share are 0.0044
    assert shares == pytest.approx(expected, abs=0.005)


def test_exponential_sizes_have_their_mean_and_spread() -> None:
    sizes = DrawnSizes(RecordSize(8, 20_000, EXPONENTIAL, 200), seed=2).take(100_000)
    assert sizes.min() == 8
    assert sizes.max() < 20_000
    # five standard errors of the mean are 3 bytes
    assert sizes.mean() == pytest.approx(200, abs=3)
    assert sizes.std() == pytest.approx(192, rel=0.03)


def test_exponential_sizes_are_cut_off() -> None:
    assert DrawnSizes(RecordSize(8, 100, EXPONENTIAL, 200), seed=2).take(1000).max() == 100


def test_columns_come_back_from_the_start_of_the_run_on(tmp_path: Path) -> None:
    instants = np.array([-20, -5, 0, 7])
    whole = RecordedLoad(instants, np.array([10, 11, 12, 13]), np.array([0, 1, 0, 2], np.int32))
    whole.save(tmp_path, 3)
    load = RecordedLoad.load(f"{RECORDED}{tmp_path}", 3, start_ns=990, measured_from_ns=1000)
    assert RecordedArrivals(load.instants_ns).take(2000, 10).tolist() == [995, 1000, 1007]
    assert load.value_bytes is not None
    take_sizes = RecordedSizes(load.value_bytes).take
    selector = RecordedSelector(load.subpartitions)
    assert [take_sizes(2).tolist(), take_sizes(2).tolist()] == [[11, 12], [13]]
    split = [
        (channel, np.arange(3)[picked].tolist()) for channel, picked in selector.split(3, None)
    ]
    assert split == [(0, [1]), (1, [0]), (2, [2])]


def test_only_the_instants_need_to_be_known(tmp_path: Path) -> None:
    RecordedLoad(np.array([1, 2])).save(tmp_path, 0)
    load = RecordedLoad.load(f"{RECORDED}{tmp_path}", 0, start_ns=0, measured_from_ns=0)
    assert (load.value_bytes, load.subpartitions) == (None, None)
    with pytest.raises(FileNotFoundError, match=r"arrivals-1\.npy"):
        RecordedLoad.load(f"{RECORDED}{tmp_path}", 1, start_ns=0, measured_from_ns=0)


def test_routes_of_one_record_at_a_time_are_those_of_all() -> None:
    routes = np.array([2, 0, 0, 1], np.int32)
    selector = RecordedSelector(routes)
    taken = [selector.split(1, None) for _ in routes]
    assert taken == [[(channel, slice(0, 1))] for channel in routes.tolist()]
    assert RecordedSelector(None, 5).split(3, None) == [(5, slice(0, 3))]
