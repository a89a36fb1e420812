"""What a setting costs, as cells and in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from flinknet.report import trade_words
from flinknet.report.export import answer_document
from flinknet.report.page import page_of
from flinknet.report.replay import replay_page
from flinknet.report.replay_headline import replay_sentences
from flinknet.results import Choice, EdgeAnswer, LatencySummary
from flinknet.results.trades import Trade, range_of_change
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


def lines_of(answered: EdgeAnswer) -> list[str]:
    return [each.text for each in trade_words.trades(answered.alone)]


def test_a_sentence_says_what_another_setting_gives_and_takes() -> None:
    first, *others = lines_of(priced())
    assert first.startswith("buffer timeout 0 instead of 10ms: p50 −")
    assert first.endswith("+6.1% of a core, +1.90 k messages/s; CPU: 90.0 us for a buffer and its"
                          " credit, assumed: as measured")  # fmt: skip
    assert [each.split(":")[0] for each in others] == [
        f"buffer timeout {timeout} instead of 10ms" for timeout in ("100ms", "-1")
    ]
    assert "1/10 of the buffers/s" in others[0]
    assert not any("and its credit" in each for each in others)
    assert json.dumps(first[1:])[1:-1] in page_of(replay_page([priced().alone]))


def test_a_price_in_cpu_that_no_counter_of_the_job_shows_is_called_assumed() -> None:
    assumed = priced().alone
    assert assumed.cpu_cost is not None
    measured = replace(assumed, cpu_cost=replace(assumed.cpu_cost, is_learnt=True))
    said = [replay_sentences(each)[2].text for each in (assumed, measured)]
    assert ", +6.1% of a core (assumed), +1.90 k messages/s" in said[0]
    assert ", +6.1% of a core, +1.90 k messages/s" in said[1]


def test_what_meets_a_target_is_compared_with_the_recorded_setting() -> None:
    asked = priced()
    names = [each.config["execution.buffer-timeout.interval"] for each in asked.trade_offs]
    choice = Choice(("p99<=1ms",), names.index("0 ms"), True, 0.1, None, "")
    (line,) = lines_of(replace(asked, advice=replace(asked.advice, choice=choice)))
    assert line.startswith("buffer timeout 0 instead of 10ms: ")


def test_timeouts_are_compared_with_the_recorded_one_5ms_first_and_no_more_than_four() -> None:
    def compared(recorded_ms: int, *others_ms: int) -> list[int]:
        timeouts_ns = {each: each * NS_PER_MS if each > 0 else each for each in others_ms}
        return trade_words.compared_timeouts(
            timeouts_ns, recorded_ms * NS_PER_MS if recorded_ms > 0 else -1
        )

    assert compared(20, 0, 1, 5, 100) == [5, 1, 0, 100]
    assert compared(100, 0, 1, 2, 5, 10, 20, 50, 200) == [5, 2, 20, 0]
    assert compared(1, 0, 10, -1) == [0, 10, -1]
    assert compared(-1, 10, 50) == [10, 50]
    assert compared(5) == []


def test_without_other_timeouts_the_least_latency_is_compared_with_what_was_recorded() -> None:
    asked = priced()
    recorded = next(each for each in asked.trade_offs if each.is_recorded)
    key = "taskmanager.network.memory.floating-buffers-per-gate"
    slower, faster = (
        replace(
            recorded,
            is_recorded=False,
            config=recorded.config | {key: floating},
            latency_ns=replace(recorded.latency_ns, p50=p50_ns),
        )
        for floating, p50_ns in (("2", 9e6), ("4", 1e6))
    )
    asked = replace(asked, advice=replace(asked.advice, situations=()))
    (line,) = lines_of(replace(asked, trade_offs=(recorded, slower, faster)))
    assert line.startswith("floating 4 instead of 8: p50 −")
    alike = replace(faster, latency_ns=recorded.latency_ns)
    (line,) = lines_of(replace(asked, trade_offs=(recorded, alike)))
    assert line.endswith("; latency hardly depends on it here")


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
    assert trade_words.duration_text(2e6, (5e5, 4e6)) == "+2.00 ms (+0.50 … +4.00)"
    assert trade_words.duration_text(-2e6, (-4e6, -59_300)) == "−2.00 ms (−4.00 … −0.06)"
    ends = (-109.144e6, -90.042e6)
    assert trade_words.from_to(100e6, 512e3, ends) == "100 ms → 512 us (−109 ms … −90.0 ms)"


def test_a_sentence_has_the_interval_of_each_change() -> None:
    trade = Trade(p50_ns=-46e6, p50_range_ns=(-52e6, -40e6), p99_ns=2e6, p99_range_ns=(-5e5, 4e6))
    assert trade_words.trade_sentence("5ms", "100ms", trade) == (
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


@pytest.mark.parametrize(
    ("cores", "text"), [(0.0612, "+6.1%"), (-0.25, "−25%"), (1.5, "+150%"), (0.0, "0%")]
)
def test_cpu_is_a_part_of_a_core(cores: float, text: str) -> None:
    assert trade_words.cpu_text(cores) == text
