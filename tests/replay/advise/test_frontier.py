"""Frontier: on points whose answer is plain to see, and on any."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flinknet.replay.advise.advice import costs_of, frontier_of
from flinknet.results import BacklogSummary, LatencySummary, TradeOffPoint


def point(
    p99_ms: float, buffers_per_s: float, memory: int = 1000, *, is_recorded: bool = False
) -> TradeOffPoint:
    return TradeOffPoint(
        config={},
        throughput_records_per_s=1000.0,
        latency_ns=LatencySummary(count=1000, p99=p99_ms * 1e6),
        backlog_buffers=BacklogSummary(0.0, 0),
        buffers_per_s=buffers_per_s,
        is_recorded=is_recorded,
        memory_bytes=memory,
    )


POINTS = [
    point(0.2, 1000.0),
    point(5.0, 200.0),
    point(10.0, 100.0, is_recorded=True),
    point(10.0, 100.0, 400),
    point(30.0, 100.0, 600),
    point(100.0, 10.0),
    point(5000.0, 6.0),
]


def test_what_another_beats_everywhere_is_not_on_the_frontier() -> None:
    assert frontier_of(POINTS) == [0, 1, 3, 5, 6]


def test_of_what_differs_by_less_than_a_percent_one_stands_for_all() -> None:
    near = [point(10.0, 100.0), point(10.05, 99.5, is_recorded=True), point(10.04, 99.9)]
    assert frontier_of(near) == [1]
    assert frontier_of([near[0], point(10.05, 99.9)]) == [0]


def test_what_is_better_by_less_than_a_percent_is_not() -> None:
    assert frontier_of([point(1.0, 1000.0), point(2.0, 999.0), point(2.0, 500.0)]) == [0, 2]


def test_a_ring_of_small_differences_leaves_a_frontier() -> None:
    """Each loses less than a percent in two costs and gains more than one in the third, so each
    seems to beat the next."""
    small, large = 1.0095, 1.0190
    ring = [
        point(10.0, 100.0 * small, round(100_000 * large)),
        point(10.0 * large, 100.0, round(100_000 * small)),
        point(10.0 * small, 100.0 * large, 100_000),
    ]
    assert frontier_of(ring)


COSTS = st.floats(1.0, 1.05) | st.floats(1.0, 1000.0)


@given(
    st.lists(
        st.builds(
            lambda p99_ms, buffers, memory, records, rate, recorded: replace(
                point(p99_ms, buffers, memory, is_recorded=recorded),
                throughput_records_per_s=records,
                rate_factor=rate,
            ),
            *(COSTS, COSTS, st.integers(1000, 1050), COSTS),
            *(st.sampled_from([1.0, 2.0]), st.booleans()),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_frontier_is_never_empty_and_nobody_on_it_is_beaten(points: list[TradeOffPoint]) -> None:
    frontier = frontier_of(points)
    assert {points[index].rate_factor for index in frontier} == {
        each.rate_factor for each in points
    }
    for index in frontier:
        own = costs_of(points[index])
        for each in points:
            other = costs_of(each)
            is_no_worse = all(theirs <= ours for theirs, ours in zip(other, own, strict=True))
            if each.rate_factor == points[index].rate_factor:
                assert not is_no_worse or other == own
