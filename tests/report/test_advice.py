"""Advice as the terminal tells it."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.report.advice import (
    TOO_CLOSE,
    UNSAFE,
    UNTRIED,
    is_on_frontier,
    marks_of,
    recommendations,
)
from flinknet.report.trade_words import frontier_meaning
from tests import page_answer
from tests.page_answer import typed
from tests.report.printing import printed

CHOICE = {
    "targets": ["p99<=20ms"],
    "point": 1,
    "is_safe": True,
    "margin": 0.27,
    "nearest": None,
    "patch": "execution.buffer-timeout.interval: 15 ms",
    "next_longer_ns": 16_000_000,
}


def situation(rate: float = 1.0, **changes: Any) -> dict[str, Any]:
    return page_answer.situation(rate_factor=rate) | changes


def answer(*situations: dict[str, Any], rates: tuple[float, ...] = (1.0,), **changes: Any) -> Any:
    points = [
        {
            "config": {"execution.buffer-timeout.interval": f"{timeout} ms"},
            "flow_control": "credit",
            "rate_factor": rate,
            "is_recorded": (timeout, rate) == (100, 1.0),
        }
        for rate in rates
        for timeout in (100, 15)
    ]
    advice = {"frontier": [0, 1], "withheld": None, "situations": list(situations)} | changes
    return {"trade_offs": points, "advice": advice}


def text(*situations: dict[str, Any], **options: Any) -> str:
    return text_of(answer(*situations, **options))


def text_of(given: dict[str, Any]) -> str:
    """The advice as a terminal prints it."""
    parts = [
        part for each in recommendations(typed(given).alone) for part in each if part is not None
    ]
    return printed(*parts, width=300)


def test_the_setting_that_holds_the_target_stands_with_its_patch() -> None:
    actual = text(situation(choice=CHOICE))
    assert "p99<=20ms is met with buffer timeout 15ms: 27% below the limit" in actual
    assert "next longer predicted timeout: 16ms" in actual
    assert "    execution.buffer-timeout.interval: 15 ms" in actual


@pytest.mark.parametrize(
    ("buffers", "said"), [(90.0, "cheapest:"), (100.0, "cheapest:"), (110.0, "also met with")]
)
def test_a_limit_that_the_recorded_setting_keeps_is_already_met(buffers: float, said: str) -> None:
    """A choice of more buffers per second, as of smaller ones, is not called cheaper."""
    kept = CHOICE | {"recorded_margin": 0.4}
    given = answer(situation(choice=kept))
    for point, buffers_per_s in zip(given["trade_offs"], (100.0, buffers), strict=True):
        point["buffers_per_s"] = buffers_per_s
    actual = text_of(given)
    also = f"{said} buffer timeout 15ms: 27% below the limit"
    assert f"already met: p99<=20ms as recorded, 40% below the limit; {also}" in actual
    assert ("for Flink's config.yaml" in actual) == (said == "cheapest:")
    mark = "choice" if said == "cheapest:" else "also met"
    assert marks_of(typed(given).alone, 1) == [mark]
    actual = text(situation(choice=kept | {"point": 0, "margin": 0.4, "patch": ""}))
    assert "already met: p99<=20ms with buffer timeout 100ms: 40% below the limit" in actual


def test_the_next_longer_timeout_stands_with_the_reason_why_it_is_not_chosen() -> None:
    close = text(situation(choice=CHOICE | {"next_longer_margin": 0.02}))
    assert f"next longer predicted timeout: 16ms, 2% below the limit: {TOO_CLOSE}" in close
    assert UNTRIED not in close
    past = CHOICE | {"next_longer_ns": 20_000_000, "next_longer_margin": -0.12}
    far = text(situation(choice=past))
    assert f"next longer predicted timeout: 20ms, 12% past the limit\n  {UNTRIED}" in far
    longest = text(situation(choice=CHOICE | {"next_longer_ns": None}))
    assert "no longer timeout was tried" in longest


def test_each_situation_has_its_own_lines() -> None:
    missed = CHOICE | {"point": None, "nearest": 3, "margin": -0.5}
    actual = text(situation(choice=CHOICE), situation(2.0, choice=missed), rates=(1.0, 2.0))
    assert "is met with buffer timeout 15ms, rate x1: 27% below the limit" in actual
    assert "no predicted setting meets p99<=20ms at rate x2" in actual
    assert "closest: buffer timeout 15ms, rate x2: 50% past the limit" in actual
    far = text(situation(choice=missed | {"nearest": 0, "margin": -98.35}))
    assert "closest: buffer timeout 100ms: 99.3 times the limit" in far


def test_without_a_target_nothing_is_advised_and_the_frontier_is_of_p99_or_of_p50() -> None:
    given = answer(situation())
    assert text_of(given) == ""
    assert " of p99, throughput, " in frontier_meaning(typed(given).alone.points)
    given["trade_offs"][0]["latency_ns"] = {"count": 400, "p50": 5e6}
    assert " of p50, throughput, " in frontier_meaning(typed(given).alone.points)


def test_a_situation_of_one_setting_has_no_mark() -> None:
    single = answer(situation(), situation(2.0), rates=(1.0, 2.0), frontier=[0, 2])
    del single["trade_offs"][3], single["trade_offs"][1]
    single["advice"]["frontier"] = [0, 1]
    assert not is_on_frontier(typed(single).alone, 0)
    assert not is_on_frontier(typed(single).alone, 1)
    assert recommendations(typed(single).alone) == []
    mixed = answer(situation(), situation(2.0), rates=(1.0, 2.0), frontier=[0, 2])
    del mixed["trade_offs"][3]
    assert [is_on_frontier(typed(mixed).alone, index) for index in range(3)] == [True, False, False]


def test_an_answer_without_advice_has_no_lines_and_no_marks() -> None:
    without = typed({"trade_offs": [{"is_recorded": False}]}).alone
    assert recommendations(without) == []
    assert marks_of(without, 0) == []
    assert not is_on_frontier(without, 0)


def test_marks_and_rows_are_those_that_the_advice_speaks_of() -> None:
    given = answer(
        situation(choice=CHOICE),
        situation(2.0, choice=CHOICE | {"point": None, "nearest": 3}),
    )
    given["trade_offs"] *= 2
    given = typed(given).alone
    assert marks_of(given, 0) == ["recorded"]
    assert marks_of(given, 1) == ["choice"]
    assert marks_of(given, 3) == ["nearest"]
    assert is_on_frontier(given, 1)


@pytest.mark.parametrize(
    ("choice", "changes", "said"),
    [
        ({"is_safe": False}, {}, "5% or the model's error on the recorded setting: measure it"),
        ({"patch": ""}, {}, "nothing to change"),
        ({"patch": ""}, {"beyond_keys": ["flow control tcp is old"]}, "flow control tcp is old"),
    ],
)
def test_doubts_and_changes_without_keys_are_remarks(
    choice: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    actual = text(situation(choice=CHOICE | choice, **changes))
    assert said in actual
    assert ("nothing to change" in actual) == (said == "nothing to change")
    assert said not in text(situation(choice=CHOICE))


@pytest.mark.parametrize(
    ("choice", "point", "said"),
    [
        (
            {},
            {"latency_high_ns": {"p99": 19e6}, "buffers_low_per_s": 0.0},
            "up to 19.0 ms (90% interval), 27% below",
        ),
        (
            {},
            {"latency_high_ns": {"p99": 19e6}},
            "up to 19.0 ms (within the clocks' error), 27% below",
        ),
        (
            {"point": None, "nearest": 1, "margin": -1.2},
            {"notes": ["the machine delayed 1 record in 100 by 43.3 ms or more"]},
            "the machine may be the reason: it delayed 1 record in 100 by 43.3 ms",
        ),
    ],
)
def test_an_interval_and_a_busy_machine_are_named_with_the_target(
    choice: dict[str, Any], point: dict[str, Any], said: str
) -> None:
    given = answer(situation(choice=CHOICE | choice))
    given["trade_offs"][1] |= point
    assert said in text_of(given)


def test_what_is_not_advised_has_its_reason() -> None:
    off = text(frontier=[], withheld="the model is off")
    assert "no frontier or setting is advised: the model is off" in off


def test_that_a_setting_is_too_close_to_the_limit_stands_before_other_remarks() -> None:
    given = answer(situation(choice=CHOICE | {"is_safe": False, "margin": 0.01}))
    advised, _ = recommendations(typed(given).alone)[0]
    assert advised.notes[0] == UNSAFE
    assert len(advised.notes) > 1
