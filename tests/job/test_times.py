import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.job.times import TaskTimes, TimerGauge

S = 1_000_000_000
MS = 1_000_000


def test_a_gauge_tells_the_milliseconds_of_a_second() -> None:
    gauge = TimerGauge()
    gauge.start(now_ns=0)
    gauge.stop(now_ns=1 * S)
    gauge.update(now_ns=5 * S)
    assert gauge.ms_per_s == 200
    assert gauge.longest_ns == 1 * S


def test_a_period_that_spans_intervals_is_split() -> None:
    gauge = TimerGauge()
    gauge.start(now_ns=4 * S)
    gauge.update(now_ns=5 * S)
    assert gauge.ms_per_s == 200
    gauge.stop(now_ns=8 * S)
    gauge.update(now_ns=10 * S)
    assert gauge.ms_per_s == 400
    assert gauge.longest_ns == 4 * S
    assert gauge.accumulated_ns == 4 * S


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    gauge = TimerGauge()
    gauge.start(now_ns=0)
    gauge.stop(now_ns=5 * S)
    for interval in range(1, 13):
        gauge.update(now_ns=interval * 5 * S)
    assert gauge.ms_per_s == 1000 // 12
    gauge.update(now_ns=65 * S)
    assert gauge.ms_per_s == 0


@given(st.lists(st.integers(1, 9 * S), min_size=2, max_size=40))
def test_nothing_is_counted_twice(steps: list[int]) -> None:
    gauge, now_ns, expected, next_update = TimerGauge(), 0, 0, 5 * S
    for index, step in enumerate(steps):
        is_on = index % 2 == 0
        (gauge.start if is_on else gauge.stop)(now_ns=now_ns)
        while next_update <= now_ns + step:
            gauge.update(now_ns=next_update)
            assert 0 <= gauge.ms_per_s <= 1000
            next_update += 5 * S
        now_ns += step
        expected += step if is_on else 0
        assert gauge.accumulated_until(now_ns) == expected


@pytest.mark.row("S039")
def test_busy_is_what_is_neither_idle_nor_back_pressured() -> None:
    times = TaskTimes(start_ns=0)
    times.idle.start(now_ns=0)
    times.idle.stop(now_ns=1 * S)
    times.soft_back_pressured.start(now_ns=2 * S)
    times.soft_back_pressured.stop(now_ns=4 * S)
    times.hard_back_pressured.start(now_ns=4 * S)
    times.update(now_ns=5 * S)
    found = times.metrics(now_ns=6 * S)
    assert found["idleTimeMsPerSecond"] == 200
    assert found["softBackPressuredTimeMsPerSecond"] == 400
    assert found["hardBackPressuredTimeMsPerSecond"] == 200
    assert found["backPressuredTimeMsPerSecond"] == 600
    assert found["busyTimeMsPerSecond"] == 200
    assert found["accumulateBackPressuredTimeMs"] == 4000
    assert found["accumulateBusyTimeMs"] == 1000
    assert found["maxSoftBackPressureTimeMs"] == 2000


def test_a_timer_marked_after_the_interval_was_due_counts_in_the_next() -> None:
    times = TaskTimes(start_ns=0)
    times.idle.start(now_ns=5 * S + 100 * MS)
    times.update(now_ns=5 * S + 200 * MS)
    assert times.idle.ms_per_s == 0
    times.update(now_ns=10 * S)
    assert times.idle.ms_per_s == 490
