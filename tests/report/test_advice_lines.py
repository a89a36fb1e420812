"""Advice as the terminal tells it."""

from __future__ import annotations

from typing import Any

from flinknet.report.advice_lines import advice_lines, mark_of

CHOICE = {
    "targets": ["p99<=20ms"],
    "point": 1,
    "is_safe": True,
    "margin": 0.27,
    "nearest": None,
    "patch": "execution.buffer-timeout.interval: 15 ms",
}


def lines(**changes: Any) -> list[str]:
    advice = {"frontier": [0, 1], "knee": 1, "knee_patch": "a.key: 5", "choice": None} | changes
    answer = {"trade_offs": [{"name": "first"}, {"name": "second"}], "advice": advice}
    return advice_lines(answer, lambda point: f"the {point['name']} setting")


def test_the_setting_that_holds_the_target_stands_with_its_patch() -> None:
    text = "\n".join(lines(choice=CHOICE))
    assert "[bold]p99<=20ms[/bold] holds with the second setting, 27% of the limit to spare" in text
    assert "    execution.buffer-timeout.interval: 15 ms" in text
    assert "knee" not in text


def test_a_margin_below_the_error_of_the_model_is_called_so() -> None:
    assert "measure it" in "\n".join(lines(choice=CHOICE | {"is_safe": False}))
    assert "measure it" not in "\n".join(lines(choice=CHOICE))


def test_what_was_recorded_needs_no_patch() -> None:
    assert "nothing to change" in "\n".join(lines(choice=CHOICE | {"patch": ""}))


def test_a_target_that_nothing_holds_names_the_nearest() -> None:
    missed = CHOICE | {"point": None, "nearest": 0, "margin": -0.5}
    text = "\n".join(lines(choice=missed))
    assert "no predicted setting holds p99<=20ms" in text
    assert "nearest is the first setting, off by 50% of the limit" in text


def test_without_a_target_the_knee_is_told() -> None:
    text = "\n".join(lines())
    assert "[bold]knee[/bold] of the frontier: the second setting" in text
    assert "    a.key: 5" in text
    assert "knee" not in "\n".join(lines(knee=None))


def test_an_answer_without_advice_has_no_lines() -> None:
    assert advice_lines({"trade_offs": []}, str) == []
    assert mark_of({"trade_offs": []}, 0) == ""
    assert mark_of({"advice": {"frontier": [2]}}, 2) == "◆"
