"""What a setting costs, as cells and in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.report.page import page_of
from flinknet.report.price_cells import price_cells, price_line
from flinknet.report.trade_words import cpu_text
from tests.page_answer import answer, typed


def priced(**recorded: Any) -> Any:
    """The answer of the page's tests, of which every point has a price."""
    plain = answer()
    for number, point in enumerate(plain["trade_offs"]):
        point["price"] = {
            "messages_per_s": 100.0 * (number + 1),
            "packets_per_s": 150.0,
            "bytes_per_s": 2048.0,
            "messages_per_s_change": 1900.0,
            "cpu_cores_change": 0.0612 if not point["is_recorded"] else 0.0,
        }
    cost = {"ns_per_message": 90_000.0, "how": "assumed: as measured", "is_learnt": False}
    return typed(plain | {"cpu_cost": cost} | recorded)


def test_cells_are_those_of_packets_bytes_and_cpu() -> None:
    points = priced().trade_offs
    other = next(each for each in points if not each.is_recorded)
    base = next(each for each in points if each.is_recorded)
    assert price_cells(other) == ["150", "2.00 KiB/s", "+6.1%"]
    assert price_cells(base)[-1] == "0%"
    assert len(price_cells(typed(answer()).trade_offs[0])) == 3


def test_a_sentence_says_what_another_setting_gives_and_takes() -> None:
    line = price_line(priced())
    assert line is not None
    assert " instead of " in line
    assert (
        "1/10 of the buffers, +1.90 k messages/s, +6.1% of a core"
        " (90.0 us a message, assumed: as measured)" in line
    )
    assert line in page_of([priced()])


def test_without_prices_there_is_no_sentence() -> None:
    assert price_line(typed(answer())) is None


@pytest.mark.parametrize(
    ("cores", "text"), [(0.0612, "+6.1%"), (-0.25, "−25%"), (1.5, "+150%"), (0.0, "+0.0%")]
)
def test_cpu_is_a_part_of_a_core(cores: float, text: str) -> None:
    assert cpu_text(cores) == text
