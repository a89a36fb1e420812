"""Notes of predictions, as the terminal and the page tell them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from flinknet.report.trade_words import notes_of
from tests.page_answer import typed

FLOATING = "taskmanager.network.memory.floating-buffers-per-gate"


def grid(
    noted: Callable[[int, int, float], bool],
    timeouts: tuple[int, ...] = (1, 5, 10),
    floating: tuple[int, ...] = (2, 8),
    rates: tuple[float, ...] = (1.0, 4.0),
) -> list[str]:
    """The notes where all settings with `noted` (timeout in ms, floating buffers, rate) have one.

    What was recorded, with a timeout of its own, is among them and has none.
    """
    settings = [(100, 8, 1.0), *product(timeouts, floating, rates)]
    points: list[dict[str, Any]] = [
        {
            "config": {
                "execution.buffer-timeout.interval": f"{timeout} ms",
                FLOATING: str(buffers),
            },
            "rate_factor": rate,
            "notes": ["doubtful"] if timeout != 100 and noted(timeout, buffers, rate) else [],
        }
        for timeout, buffers, rate in settings
    ]
    return notes_of(typed({"trade_offs": points}).trade_offs)


@pytest.mark.parametrize(
    ("noted", "where"),
    [
        (lambda timeout, floating, rate: timeout == 1, "buffer timeout 1ms"),
        (lambda timeout, floating, rate: timeout < 10, "buffer timeout 1ms, 5ms"),
        (lambda timeout, floating, rate: floating == 2, "floating 2"),
        (lambda timeout, floating, rate: rate == 4, "rate x4"),
        (lambda timeout, floating, rate: timeout == 1 and rate == 4, "buffer timeout 1ms rate x4"),
        (
            lambda timeout, floating, rate: (timeout == 1) != (floating == 2),
            "buffer timeout 1ms floating 8, buffer timeout 5ms floating 2,"
            " buffer timeout 10ms floating 2",
        ),
    ],
)
def test_settings_are_named_by_what_they_have_in_common(
    noted: Callable[[int, int, float], bool], where: str
) -> None:
    assert grid(noted) == [f"{where}: doubtful"]


def test_where_one_thing_varies_its_values_are_enough_and_many_are_counted() -> None:
    alone = grid(lambda timeout, *_: timeout < 9, tuple(range(1, 12)), (8,), (1.0,))
    assert alone == ["1ms, 2ms, 3ms, 4ms and 4 more: doubtful"]
