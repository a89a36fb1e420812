"""What a setting costs, as cells and in a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinknet.report.export import answer_document
from flinknet.report.page import page_of
from flinknet.report.replay import replay_page
from flinknet.report.trade_words import cpu_text, duration_text, trade_sentence, trades
from flinknet.results import Choice, EdgeAnswer, LatencySummary
from flinknet.results.trades import Trade, compared_timeouts, range_of_change
from flinknet.units import NS_PER_MS
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


def without_100ms(answered: EdgeAnswer) -> EdgeAnswer:
    """The answer with a setting of 200 ms instead of Flink's default."""
    key = "execution.buffer-timeout.interval"
    return replace(
        answered,
        trade_offs=tuple(
            replace(each, config=each.config | {key: "200 ms"})
            if each.config[key] == "100 ms"
            else each
            for each in answered.trade_offs
        ),
    )


def lines_of(answered: EdgeAnswer) -> list[str]:
    return [each.text for each in trades(answered.alone)]


def test_a_sentence_says_what_another_setting_gives_and_takes() -> None:
    line, *_ = lines_of(without_100ms(priced()))
    assert " instead of " in line
    assert (
        "1/10 of the buffers/s, +1.90 k messages/s, +6.1% of a core"
        " (90.0 us for a buffer and its credit, assumed: as measured)" in line
    )
    assert line[1:] in page_of(replay_page([without_100ms(priced()).alone]))


def test_short_timeouts_are_compared_with_the_default_of_flink() -> None:
    first, second = lines_of(priced())
    assert first.startswith("buffer timeout 0 instead of 10ms: p50 −")
    assert second.startswith("buffer timeout 0 instead of 100ms: p50 −49.5 ms")
    assert "and its credit" in first
    assert "and its credit" not in second


def test_what_meets_a_target_is_compared_with_the_recorded_setting_and_the_default() -> None:
    asked = priced()
    names = [each.config["execution.buffer-timeout.interval"] for each in asked.trade_offs]
    choice = Choice(("p99<=1ms",), names.index("0 ms"), True, 0.1, None, "")
    lines = lines_of(replace(asked, advice=replace(asked.advice, choice=choice)))
    assert [each.split(":")[0] for each in lines] == [
        "buffer timeout 0 instead of 10ms",
        "buffer timeout 0 instead of 100ms",
    ]


def test_no_more_than_four_timeouts_are_compared_and_none_with_itself() -> None:
    timeouts_ns = [0, *(each * NS_PER_MS for each in (1, 2, 5, 10, 50, 100, 200)), -1, None]
    assert compared_timeouts(timeouts_ns, 6, None) == [(0, 6), (1, 6), (3, 6), (4, 6)]
    assert compared_timeouts(timeouts_ns, 0, None) == [(0, 6), (1, 6), (3, 6), (4, 6)]
    assert compared_timeouts(timeouts_ns, 4, None) == [(1, 4), (0, 6), (1, 6), (2, 6), (3, 6)]
    assert compared_timeouts(timeouts_ns, 6, 3) == [(3, 6)]
    assert compared_timeouts(timeouts_ns, 3, 3) == [(3, 6)]
    assert compared_timeouts(timeouts_ns, 6, 6) == []
    assert compared_timeouts([0, 5 * NS_PER_MS], 0, None) is None
    assert compared_timeouts([100 * NS_PER_MS, -1], 0, None) is None


def test_the_least_latency_is_compared_with_the_most_where_neither_is_recorded() -> None:
    points = without_100ms(priced()).trade_offs
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
    first, second = lines_of(replace(asked, trade_offs=(recorded, one, *others, most)))
    assert "instead of 500ms" not in first
    assert "instead of 500ms: p50 −" in second
    assert "+2.00 k messages/s, +7.1% of a core" in second
    assert "and its credit" not in second
    assert "hardly" not in second
    alike = [replace(each, latency_ns=recorded.latency_ns) for each in (one, *others)]
    first, *_ = lines_of(replace(asked, trade_offs=(recorded, *alike)))
    assert first.endswith("; latency hardly depends on it here")


def with_interval(point: Any, p50_ns: float, low_ns: float, high_ns: float) -> Any:
    """The point with another p50 and the ends of its interval."""
    ends = (replace(point.latency_ns, p50=each) for each in (p50_ns, low_ns, high_ns))
    return replace(
        point, **dict(zip(("latency_ns", "latency_low_ns", "latency_high_ns"), ends, strict=True))
    )


def test_the_interval_of_a_change_comes_from_those_of_both_settings() -> None:
    shown, base, *_ = priced().trade_offs
    shown = with_interval(shown, 10e6, 7e6, 16e6)
    base = with_interval(base, 100e6, 92e6, 104e6)
    assert range_of_change(shown, base, "p50") == (-90e6 - 5e6, -90e6 + 10e6)
    exact = replace(base, latency_low_ns=None, latency_high_ns=None)
    assert range_of_change(shown, exact, "p50") == (-93e6, -84e6)
    assert range_of_change(exact, exact, "p50") is None
    unknown = replace(base, latency_ns=LatencySummary(count=0))
    assert range_of_change(shown, unknown, "p50") is None


def test_both_ends_of_an_interval_have_a_sign_in_the_unit_of_the_change() -> None:
    assert duration_text(2e6, (5e5, 4e6)) == "+2.00 ms (+0.50 … +4.00)"
    assert duration_text(-2e6, (-4e6, -59_300)) == "−2.00 ms (−4.00 … −0.06)"


def test_a_sentence_has_the_interval_of_each_change() -> None:
    trade = Trade(p50_ns=-46e6, p50_range_ns=(-52e6, -40e6), p99_ns=2e6, p99_range_ns=(-5e5, 4e6))
    assert trade_sentence("5ms", "100ms", trade) == (
        "5ms instead of 100ms: p50 −46.0 ms (−52.0 … −40.0), p99 +2.00 ms (−0.50 … +4.00)"
    )


def test_the_document_has_the_figures_of_each_sentence() -> None:
    asked = priced()
    points = tuple(with_interval(each, 10e6, 8e6, 12e6) for each in asked.trade_offs)
    asked = replace(asked, trade_offs=points)
    document = answer_document(asked)["trades"]
    assert [each["text"] for each in document] == lines_of(asked)
    assert "p50 unchanged (−2.83 ms … +2.83 ms)" in document[0]["text"]
    assert document[0]["p50_ns"] == 0
    assert document[0]["p50_range_ns"] == pytest.approx((-(8e6**0.5) * 1e3, 8e6**0.5 * 1e3))
    assert document[0]["instead_of"] in document[0]["text"]


def test_without_prices_there_is_no_sentence() -> None:
    assert lines_of(typed(answer())) == []


@pytest.mark.parametrize(
    ("cores", "text"), [(0.0612, "+6.1%"), (-0.25, "−25%"), (1.5, "+150%"), (0.0, "0%")]
)
def test_cpu_is_a_part_of_a_core(cores: float, text: str) -> None:
    assert cpu_text(cores) == text
