"""A grid is all combinations of its lists, with the recorded setting among them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError
from flinknet.options import effective_flink_keys
from flinknet.options.what_if import (
    ALIGNED_NS,
    ALIGNMENT,
    CHECKPOINTS,
    DEBLOATING,
    FACTOR_MAX,
    FACTOR_MIN,
    SETTINGS,
    SITUATION,
    Asked,
    Setting,
    aligned_timeout_of,
    ascending,
    columns_of,
    network_of,
    words_of,
)
from flinknet.predict.grid import Grid
from flinknet.replay.predictions import AskedSetting
from flinknet.results import TradeOffPoint

MS = 1_000_000
RECORDED = Setting(NetworkConfig(buffer_timeout_ns=10 * MS))


def test_every_combination_and_the_recorded_one() -> None:
    grid = Grid(buffer_timeouts_ns=(-1, 5 * MS), floating_buffers=(2, 16), rate_factors=(2.0,))
    settings = grid.settings(RECORDED, is_max_rate=False)
    seen = [
        (s.rate_factor, s.network.floating_buffers, s.network.buffer_timeout_ns) for s in settings
    ]
    assert seen == [
        (1.0, 8, 10 * MS),
        (2.0, 2, 5 * MS),
        (2.0, 2, -1),
        (2.0, 16, 5 * MS),
        (2.0, 16, -1),
    ]
    assert settings[0] == RECORDED


def test_a_list_with_the_recorded_value_does_not_repeat_it() -> None:
    settings = Grid(buffer_timeouts_ns=(10 * MS, 10 * MS)).settings(RECORDED, is_max_rate=False)
    assert settings == [RECORDED]


def test_the_highest_rate_has_no_factor() -> None:
    assert Grid(rate_factors=(2.0,)).settings(RECORDED, is_max_rate=True) == [RECORDED]


def test_too_many_settings_are_refused_with_their_number() -> None:
    with pytest.raises(ConfigError, match=r"10 x 100 = 1,000 settings is too large; at most 512"):
        Grid(floating_buffers=range(1, 101), exclusive_buffers=range(10)).check()
    Grid(floating_buffers=range(1, 101), exclusive_buffers=range(5)).check()


@pytest.mark.parametrize("name", ["consumer_speeds", "rate_factors"])
@pytest.mark.parametrize("factor", [1e-9, 0.00099, 1001, 0.0, -1.0, float("inf"), float("nan")])
def test_a_factor_that_would_take_without_end_is_refused_with_its_bounds(
    name: str, factor: float
) -> None:
    with pytest.raises(ConfigError, match=rf"{name}: {factor} .* use 0.001 to 1000$"):
        Grid(**{name: (1.0, factor)})


def test_the_bounds_of_a_factor_are_factors() -> None:
    grid = Grid(rate_factors=(FACTOR_MIN, FACTOR_MAX), consumer_speeds=(FACTOR_MIN, FACTOR_MAX))
    grid.check()
    assert len(grid.asked(RECORDED, is_max_rate=False)) == 4


def test_checkpoints_are_off_then_rare_then_frequent_and_aligned_before_unaligned() -> None:
    grid = Grid(
        checkpoint_intervals_ns=(None, 100 * MS, 500 * MS),
        aligned_timeouts_ns=(0, ALIGNED_NS, 30 * MS),
    )
    settings = grid.settings(RECORDED, is_max_rate=False)
    networks = [each.network for each in settings]
    seen = [(each.checkpoint_interval_ns, aligned_timeout_of(each)) for each in networks]
    assert seen == [
        (None, ALIGNED_NS),
        *((500 * MS, each) for each in (ALIGNED_NS, 30 * MS, 0)),
        *((100 * MS, each) for each in (ALIGNED_NS, 30 * MS, 0)),
    ]
    assert settings[0] == RECORDED
    assert [each.unaligned_checkpoints for each in networks[1:4]] == [False, True, True]


def test_how_checkpoints_align_is_asked_at_the_recorded_interval() -> None:
    asked = Grid(aligned_timeouts_ns=(ALIGNED_NS, 0))
    with pytest.raises(ConfigError, match="the trace has none: give an interval"):
        asked.of_run(RECORDED, None).settings(RECORDED, is_max_rate=False)
    found = asked.of_run(RECORDED, 200 * MS).asked(RECORDED, is_max_rate=False)
    assert {each.network.checkpoint_interval_ns for each in found} == {200 * MS}
    given = Grid(aligned_timeouts_ns=(0,), checkpoint_intervals_ns=(50 * MS,))
    assert given.of_run(RECORDED, 200 * MS) == given
    network = NetworkConfig(checkpoint_interval_ns=70 * MS, unaligned_checkpoints=True)
    of_its_own = Setting(network)
    found = asked.of_run(of_its_own, 200 * MS).asked(of_its_own, is_max_rate=False)
    assert {each.network.checkpoint_interval_ns for each in found} == {70 * MS}
    assert of_its_own in found


def test_a_target_debloats_and_changes_nothing_without_debloating() -> None:
    targets = (100 * MS, 200 * MS)
    found = Grid(debloating_targets_ns=targets).settings(RECORDED, is_max_rate=False)
    assert [each.network.debloating_enabled for each in found] == [False, True, True]
    assert [each.network.debloating_target_ns for each in found[1:]] == list(targets)
    both = Grid(debloatings=(False, True), debloating_targets_ns=targets)
    assert both.settings(RECORDED, is_max_rate=False) == found


WORDS = {
    "buffer-timeout": ("5ms", "5ms"),
    "segment-size": ("8 kb", "8kb"),
    "exclusive-buffers": ("3", "3"),
    "floating-buffers": ("0", "0"),
    "debloating": ("on", "1s"),
    "debloat-target": ("100ms", "100ms"),
    "checkpoint-interval": ("1500ms", "1500ms"),
    "alignment": ("30ms", "30ms"),
    "flow-control": ("tcp", "tcp"),
    "round-trip": ("1ms", "+1.00 ms"),
    "consumer-speed": ("0.5", "x0.5"),
    "rate-factor": ("2", "x2"),
}


@pytest.mark.parametrize("asked", SETTINGS, ids=lambda each: each.option)
def test_what_is_asked_as_text_is_predicted_stored_and_shown(asked: Asked) -> None:
    text, shown = WORDS[asked.option]
    lists = {asked.values: [text]}
    if asked is ALIGNMENT:
        lists[CHECKPOINTS.values] = ["1s"]
    (setting,) = Grid(**lists).asked(RECORDED, is_max_rate=False)
    value = asked.kind.read(text, asked.option)
    assert asked.value(setting) == value != asked.value(RECORDED)
    assert words_of(setting)[asked.name] == shown
    if asked is not DEBLOATING:
        assert columns_of(setting)[asked.field] == value
    config = effective_flink_keys(setting.network)
    assert words_of(replace(setting, network=network_of(config))) == words_of(setting)
    assert ascending(setting) != ascending(RECORDED)


def test_the_columns_of_settings_are_those_of_predictions() -> None:
    assert columns_of(RECORDED).keys() == {each.name for each in fields(AskedSetting)}
    assert {*SITUATION} <= {each.name for each in fields(TradeOffPoint)}
