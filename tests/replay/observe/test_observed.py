"""The questions to a recorded run, answered by Spark, against answers computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.advise.judged import judged
from flinknet.replay.observe import observed
from flinknet.replay.observe.latency import LatencyRow, total_latency
from flinknet.replay.observe.measured import message_counts, over_time, replayed_channels
from flinknet.replay.observe.observed import ObservedTables, collect, observe
from flinknet.replay.observe.question import group_rows
from flinknet.replay.observe.traffic import WINDOWS_MAX, window_width_ns
from flinknet.replay.observe.units import work_units
from flinknet.replay.read import open_recorded_run
from flinknet.replay.spark.frames import collected
from flinknet.results import ReplayedChannel

MS = 1_000_000
BUFFERS = 100
RECORDS_PER_BUFFER = 10
PERIOD_NS = 10 * MS
LAG_NS = 70_000  # transit and consumption

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark: Any, sawtooth_run: Path) -> ObservedTables:
    return observe(spark, [open_recorded_run(sawtooth_run, 0)])


def test_messages_are_counted_by_kind_channel_and_point(tables: ObservedTables) -> None:
    rows = tables.messages.collect()
    counts = {
        (row.channel, row.point, row.kind): row.messages for row in rows if row.data_type == 0
    }
    assert counts[1, TracePoint.SENT, MessageKind.ADD_CREDIT] == BUFFERS
    data = [row for row in rows if (row.channel, row.point, row.data_type) == (0, 0, 1)]
    assert [(row.reason, row.messages) for row in data] == [(1, 50), (2, 50)]
    assert sum(row.payload_bytes for row in data) == BUFFERS * RECORDS_PER_BUFFER * 105
    credit = [row for row in rows if row.kind == MessageKind.ADD_CREDIT]
    assert all(row.credit == 2 * row.messages for row in credit)


def test_throughput_over_time_adds_up_window_by_window(tables: ObservedTables) -> None:
    rows = tables.throughput.collect()
    assert {row.width_ns for row in rows} == {20 * MS}
    assert [row.from_ns for row in rows if row.channel == 0] == list(range(0, 1001 * MS, 20 * MS))
    inner = [row for row in rows if 0 < row.from_ns < 1000 * MS]
    assert all((row.buffers, row.records) == (2, 20) for row in inner)
    drain = [(row.buffers, row.records) for row in rows if row.from_ns == 1000 * MS]
    assert drain == [(1, 10), (1, 10)]  # one on each channel


def test_backlog_over_time_has_mean_and_largest_of_each_window(tables: ObservedTables) -> None:
    rows = [row for row in tables.backlog.collect() if row.channel == 1]
    # Buffer 3, 7, … carry a backlog of 3 and leave at 40 ms, 80 ms, …: in every second window of 20
    # ms.
    # The last buffer leaves in the drain, right behind the window.
    assert [row.backlog_buffers_max for row in rows] == [0, 0, *[3, 0] * 24, 3]
    assert [row.backlog_buffers_sum for row in rows] == [0, 0, *[3, 0] * 24, 3]


def test_starved_time_runs_from_the_last_credit_to_the_next_across_blocks(
    tables: ObservedTables,
) -> None:
    rows = tables.credit_starved.collect()
    # 24 buffers of the window leave with the last credit; half a period and the transit later comes
    # the next.
    assert {row.channel: row.starved_ns for row in rows} == {
        0: 24 * (PERIOD_NS // 2 + 20_000),
        1: 24 * (PERIOD_NS // 2 + 20_000),
    }


def test_latencies_are_those_of_evenly_spread_records(tables: ObservedTables) -> None:
    step_ns = PERIOD_NS // RECORDS_PER_BUFFER
    exact = [PERIOD_NS - i * step_ns + LAG_NS for i in range(RECORDS_PER_BUFFER)]
    rows = {row.channel: row for row in tables.latency.collect()}
    assert rows[-1]["count"] == 2 * BUFFERS * RECORDS_PER_BUFFER
    for channel in (0, 1):
        row = rows[channel]
        assert row["count"] == BUFFERS * RECORDS_PER_BUFFER
        assert (row.min, row.max) == (min(exact), max(exact))
        assert row.mean == pytest.approx(np.mean(exact))
        assert row.p50 == pytest.approx(sorted(exact)[4], rel=0.005)
        assert row.p99 == pytest.approx(max(exact), rel=0.005)
        assert row.p99_9 is None
        assert row.payload_bytes == pytest.approx(BUFFERS * RECORDS_PER_BUFFER * 105)


def test_only_records_of_the_measured_window_count_whenever_they_arrive(
    spark: Any, tmp_path: Path, make_run: Callable[..., Path]
) -> None:
    start_ns = 1_000_000 * MS
    window_ns = (start_ns + 105 * MS, start_ns + 205 * MS)
    run = open_recorded_run(make_run(tmp_path / "run", window_ns=window_ns), 0)
    (row,) = collected(LatencyRow, total_latency(spark, work_units([run])))
    assert row.latency_ns.count == 2 * 10 * RECORDS_PER_BUFFER
    # The buffer that holds the last of them leaves at 210 ms.
    assert row.consumed_to_ns == start_ns + 210 * MS + LAG_NS


def test_several_runs_are_answered_at_once_and_kept_apart(
    spark: Any, sawtooth_run: Path, tmp_path: Path, make_run: Callable[..., Path]
) -> None:
    other = make_run(tmp_path / "other", buffers=20, channels=1)
    runs = [open_recorded_run(sawtooth_run, 0), open_recorded_run(other, 1)]
    rows = observe(spark, runs).latency.collect()
    counts = {(row.run, row.channel): row["count"] for row in rows}
    assert counts == {(0, -1): 2000, (0, 0): 1000, (0, 1): 1000, (1, -1): 200, (1, 0): 200}


def test_rows_are_grouped_by_all_their_keys() -> None:
    keys, group = group_rows(np.array([-1, 7, -1, 7]), np.array([3, 3, 3, 5]))
    assert [key.tolist() for key in keys] == [[-1, 7, 7], [3, 3, 5]]
    assert group.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("duration_ns", [1, 59, 60, 61, 10**9, 7 * 10**11])
def test_windows_are_as_narrow_as_their_number_allows(duration_ns: int) -> None:
    width_ns = window_width_ns(duration_ns)
    assert duration_ns / width_ns <= WINDOWS_MAX
    assert width_ns == 1 or duration_ns / width_ns > WINDOWS_MAX / 2.5
    assert str(width_ns).rstrip("0") in ("1", "2", "5")


CHANNELS = 12
WANTED = 5


def tells_most(channel: ReplayedChannel) -> tuple[float, ...]:
    late_ns, waits_ns = channel.latency_ns.p99 or 0, channel.starved_ns or 0
    return -late_ns, -waits_ns, -channel.records, channel.channel


@pytest.mark.spark
def test_answers_are_about_the_channels_that_tell_most_and_verdicts_rest_on_all(
    spark: Any,
    tmp_path: Path,
    make_run: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = open_recorded_run(make_run(tmp_path / "run", buffers=150, channels=CHANNELS), 0)
    tables = observe(spark, [run])
    (whole,) = collect(tables, [run])
    monkeypatch.setattr(observed, "DETAILED_CHANNELS_MAX", 3)
    (some,) = collect(tables, [run], [WANTED])

    assert some.measured == whole.measured
    assert judged([some]) == judged([whole])
    assert message_counts(some) == message_counts(whole)
    assert over_time(some) == over_time(whole)

    every, told = replayed_channels(whole), replayed_channels(some)
    assert (len(every), whole.rows.channels_omitted) == (CHANNELS, 0)
    assert (len(told), some.rows.channels_omitted) == (3, CHANNELS - 3)
    others = [each for each in sorted(every, key=tells_most) if each.channel != WANTED]
    expected = {WANTED, others[0].channel, others[1].channel}
    assert [each for each in every if each.channel in expected] == list(told)
