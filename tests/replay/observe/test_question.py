"""Rows of a declared question merge alike in one step and in several."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.histogram import LogLinearHistogram
from flinknet.replay.observe.question import EVERY, Question, Summary
from flinknet.replay.spark.frames import rows_of, table_of


@dataclass(frozen=True)
class Row:
    run: int
    channel: int
    records: int
    latest_ns: int
    first_ns: int
    histogram: bytes


def row(channel: int, value: int) -> Row:
    histogram = LogLinearHistogram()
    histogram.add([value])
    return Row(0, channel, value, value, value, histogram.to_bytes())


QUESTION = Question(
    "rows",
    Row,
    keys=("run", "channel"),
    sums=("records",),
    maxima=("latest_ns",),
    minima=("first_ns",),
    histograms=("histogram",),
    ask=lambda unit, blocks: [],
)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**6)), max_size=6)))
@settings(max_examples=100, deadline=None)
def test_rows_with_the_same_keys_are_one_however_they_are_parted(
    parts: list[list[tuple[int, int]]],
) -> None:
    tables = [table_of(Row, [row(*each) for each in part]) for part in [[], *parts]]
    at_once = QUESTION.merged(tables)
    assert QUESTION.merged([QUESTION.combined([each]) for each in tables]) == at_once
    drawn = [each for part in parts for each in part]
    found = rows_of(Row, at_once)
    assert [each.channel for each in found] == sorted({channel for channel, _ in drawn})
    for each in found:
        own = [value for channel, value in drawn if channel == each.channel]
        assert (each.records, each.latest_ns, each.first_ns) == (sum(own), max(own), min(own))
        assert LogLinearHistogram.from_bytes(each.histogram).count == len(own)
    total = QUESTION.over(at_once, ("channel",))
    expected = [sum(value for _, value in drawn)] if drawn else []
    assert total["records"].to_pylist() == expected
    assert set(total["channel"].to_pylist()) <= {EVERY}


def test_a_summary_of_a_run_is_the_same_for_any_buckets() -> None:
    rows = QUESTION.merged([table_of(Row, [row(channel, channel) for channel in range(5)])])
    summary = Summary("rows", over=("channel",))
    parts = [summary.of_bucket(QUESTION, each) for each in (rows[:2], rows[2:])]
    assert summary.of_run(QUESTION, parts) == summary.of_bucket(QUESTION, rows)
    few = Summary("rows", columns=("run", "records")).of_bucket(QUESTION, rows)
    assert few.column_names == ["run", "records"]
