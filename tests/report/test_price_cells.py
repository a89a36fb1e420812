"""What a setting costs, as cells and in a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinknet.report.page import page_of
from flinknet.report.price_cells import price_cells, price_lines
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
    line, *_ = price_lines(priced())
    assert " instead of " in line
    assert (
        "1/10 of the buffers, +1.90 k messages/s, +6.1% of a core"
        " (90.0 us for a buffer and its credit, assumed: as measured)" in line
    )
    assert line in page_of([priced()])


def test_the_least_latency_is_compared_with_the_most_where_neither_is_recorded() -> None:
    points = priced().trade_offs
    recorded = next(each for each in points if each.is_recorded)
    one, *others = [each for each in points if not each.is_recorded]
    assert one.price is not None
    most = replace(
        one,
        config=one.config | {"execution.buffer-timeout.interval": "500 ms"},
        latency_ns=replace(one.latency_ns, p50=1e9),
        buffers_per_s=(one.buffers_per_s or 0.0) / 2,
        price=replace(one.price, messages_per_s_change=-100.0, cpu_cores_change=-0.01),
    )
    asked = priced()
    first, second = price_lines(replace(asked, trade_offs=(recorded, one, *others, most)))
    assert "instead of 500ms" not in first
    assert "instead of 500ms: p50 −" in second
    assert "+2.00 k messages/s, +7.1% of a core" in second
    assert "and its credit" not in second
    assert "hardly" not in second
    alike = [replace(each, latency_ns=recorded.latency_ns) for each in (one, *others)]
    first, *_ = price_lines(replace(asked, trade_offs=(recorded, *alike)))
    assert first.endswith("; latency hardly depends on it here")


def test_without_prices_there_is_no_sentence() -> None:
    assert price_lines(typed(answer())) == []


@pytest.mark.parametrize(
    ("cores", "text"), [(0.0612, "+6.1%"), (-0.25, "−25%"), (1.5, "+150%"), (0.0, "+0.0%")]
)
def test_cpu_is_a_part_of_a_core(cores: float, text: str) -> None:
    assert cpu_text(cores) == text
