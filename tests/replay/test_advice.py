"""Frontier, knee, targets and patches, on points whose answer is plain to see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError
from flinknet.options import effective_flink_keys
from flinknet.replay.advice import Target, advice, choose, frontier_of, knee_of, patch_of
from flinknet.results import BacklogSummary, LatencySummary, ModelError, TradeOffPoint

MS = 1_000_000
EXACT = ModelError(0.0, 0.0, 0.0)


def point(
    timeout_ns: int,
    p99_ms: float,
    buffers_per_s: float,
    *,
    floating: int = 8,
    is_recorded: bool = False,
    throughput: float = 1000.0,
) -> TradeOffPoint:
    network = NetworkConfig(buffer_timeout_ns=timeout_ns, floating_buffers=floating)
    return TradeOffPoint(
        config=dict(effective_flink_keys(network)),
        throughput_records_per_s=throughput,
        latency_ns=LatencySummary(count=1000, p50=p99_ms * MS / 2, p99=p99_ms * MS),
        backlog_buffers=BacklogSummary(0.0, 0),
        buffers_per_s=buffers_per_s,
        is_recorded=is_recorded,
        memory_bytes=(2 + floating) * 32768,
    )


POINTS = [
    point(0, 0.2, 1000.0),
    point(5 * MS, 5.0, 200.0),
    point(10 * MS, 10.0, 100.0, is_recorded=True),
    point(10 * MS, 10.0, 100.0, floating=2),
    point(10 * MS, 30.0, 100.0, floating=4),
    point(100 * MS, 100.0, 10.0),
    point(-1, 5000.0, 6.0),
]


def test_what_another_beats_everywhere_is_not_on_the_frontier() -> None:
    assert frontier_of(POINTS) == [0, 1, 3, 5, 6]


def test_differences_below_a_percent_decide_nothing() -> None:
    near = [point(0, 10.0, 100.0, is_recorded=True), point(5 * MS, 10.05, 100.5)]
    assert frontier_of(near) == [0, 1]


def test_other_worlds_do_not_compete() -> None:
    faster = replace(POINTS[0], rate_factor=0.5, latency_ns=LatencySummary(1000, p99=1.0))
    assert frontier_of([*POINTS, faster]) == [0, 1, 3, 5, 6, 7]
    choice = choose([*POINTS, faster], [Target.parse("p99<=1us")], EXACT)
    assert (choice.point, choice.nearest) == (None, 0)


def test_the_knee_gives_away_least_everywhere_at_once() -> None:
    assert knee_of(POINTS) == 3
    assert knee_of(POINTS[1:3]) is None


def test_a_target_gives_the_longest_timeout_that_holds_it_with_the_cheapest_buffers() -> None:
    choice = choose(POINTS, [Target.parse("p99 <= 20ms")], EXACT)
    assert (choice.point, choice.is_safe, choice.margin) == (3, True, 0.5)
    assert "floating-buffers-per-gate: 2" in choice.patch
    assert choice.patch.startswith("# Flink 2.x has no such option")


def test_the_error_of_the_model_is_kept_free() -> None:
    target = Target.parse("p99<=12ms")
    assert choose(POINTS, [target], EXACT).point == 3
    assert choose(POINTS, [target], ModelError(0.0, 0.0, -0.3)).point == 1
    only = [each for each in POINTS if each is not POINTS[0] and each is not POINTS[1]]
    unsafe = choose(only, [target], ModelError(0.0, 0.0, -0.3))
    assert (unsafe.point, unsafe.is_safe) == (1, False)


def test_several_targets_hold_at_once() -> None:
    slow = replace(POINTS[3], throughput_records_per_s=500.0)
    points = [*POINTS[:3], slow, *POINTS[4:]]
    targets = [Target.parse("p99<=20ms"), Target.parse("throughput>=900/s")]
    assert choose(points, targets, EXACT).point == 2


def test_a_target_that_nothing_holds_names_the_nearest() -> None:
    choice = choose(POINTS, [Target.parse("p50<=50us")], EXACT)
    assert (choice.point, choice.nearest, choice.patch) == (None, 0, "")
    assert choice.margin == pytest.approx(-1.0)


def test_a_patch_is_what_differs_in_flinks_keys() -> None:
    assert patch_of(POINTS[1], POINTS[2]) == "execution.buffer-timeout.interval: 5 ms"
    assert "execution.buffer-timeout.enabled: false" in patch_of(POINTS[6], POINTS[2])
    assert patch_of(POINTS[2], POINTS[2]) == ""


def test_all_of_it_is_plain_data() -> None:
    found = advice(POINTS, [Target.parse("p99<=20ms")], EXACT)
    assert (found["frontier"], found["knee"]) == ([0, 1, 3, 5, 6], 3)
    assert found["choice"]["point"] == 3
    assert advice(POINTS, [], EXACT)["choice"] is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("p42<=1ms", "is not a target"),
        ("p99", "is not a target"),
        ("p99>=1ms", "wrong side"),
        ("throughput<=5/s", "wrong side"),
        ("p99<=5", "has no unit"),
        ("throughput>=max", "has no limit"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Target.parse(text)
