"""Where time goes: interval algebra against sets of instants, regimes against a channel drawn by
hand.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.intervals import NOTHING, Intervals, from_switches, merged
from flinknet.replay.observe.channel_events import Window
from flinknet.replay.observe.observed import observe
from flinknet.replay.observe.regimes import (
    REGIMES,
    Hindrances,
    hindrances_in,
    regimes_of,
)
from flinknet.replay.read import open_recorded_run
from flinknet.trace.buffers import BUFFER_COLUMNS, ChannelBuffers, paired_buffers

DATA = int(DataType.DATA_BUFFER)
WHOLE = Window(0, 100)


def intervals(*pairs: tuple[int, int]) -> Intervals:
    starts, ends = zip(*pairs, strict=True) if pairs else ((), ())
    return Intervals(np.array(starts, np.int64), np.array(ends, np.int64))


def instants(found: Intervals) -> set[int]:
    pairs = zip(found.starts_ns.tolist(), found.ends_ns.tolist(), strict=True)
    return {at for start, end in pairs for at in range(start, end)}


@st.composite
def interval_sets(draw: st.DrawFn) -> Intervals:
    edges = draw(st.lists(st.integers(0, 60), max_size=16))
    edges = sorted(edges)[: len(edges) // 2 * 2]
    return intervals(*zip(edges[::2], edges[1::2], strict=True))


@given(interval_sets(), interval_sets())
def test_intervals_behave_as_sets_of_instants(left: Intervals, right: Intervals) -> None:
    assert instants(left.both(right)) == instants(left) & instants(right)
    assert instants(left.without(right)) == instants(left) - instants(right)
    assert left.both(right).total_ns + left.without(right).total_ns == left.total_ns
    assert instants(left.without(right).union(right)) == instants(left) | instants(right)


@given(interval_sets(), st.integers(0, 60))
def test_the_length_before_an_instant(found: Intervals, at: int) -> None:
    expected = len([each for each in instants(found) if each < at])
    assert found.until(np.array([at])).tolist() == [expected]


@given(interval_sets(), st.integers(0, 60), st.integers(0, 60))
def test_clipping_keeps_what_lies_in_the_window(found: Intervals, start: int, width: int) -> None:
    window = set(range(start, start + width))
    assert instants(found.clipped(start, start + width)) == instants(found) & window


def test_a_switch_stays_until_it_is_set_again() -> None:
    found = from_switches(np.array([2, 5, 7]), np.array([True, False, True]), 10)
    assert instants(found) == {2, 3, 4, 7, 8, 9}
    assert instants(from_switches(np.zeros(0, np.int64), np.zeros(0, bool), 10)) == set()


def buffers(*lives: tuple[int, int, int, int]) -> ChannelBuffers:
    """Buffers by (first record, sent, received, consumed)."""
    table = np.array(lives, np.int64).reshape(-1, 4)
    ones = np.ones(len(table), np.int64)
    first, sent, received, consumed = table.T
    numbers = np.arange(len(table))
    return ChannelBuffers(numbers, first, sent, received, consumed, ones, ones, ones)


def split(
    lives: ChannelBuffers, starved: Intervals = NOTHING, blocked: Intervals = NOTHING
) -> dict[str, int]:
    found = regimes_of(lives, Hindrances(starved, blocked, NOTHING), WHOLE)
    spent = {name: getattr(found, name).total_ns for name in REGIMES if name != "idle"}
    return {name: ns for name, ns in spent.items() if ns}


def test_a_lone_buffer_goes_from_place_to_place() -> None:
    assert split(buffers((10, 30, 35, 50))) == {
        "waiting_for_flush": 20,
        "in_socket": 5,
        "in_receiver_queue": 15,
    }


def test_waiting_is_for_credit_where_there_was_none_and_for_alignment_before_that() -> None:
    found = split(buffers((10, 40, 41, 42)), intervals((20, 35)), intervals((30, 60)))
    assert found == {
        "waiting_for_flush": 10,
        "waiting_for_credit": 10,
        "blocked_by_alignment": 10,
        "in_socket": 1,
        "in_receiver_queue": 1,
    }


def test_what_is_ready_on_a_local_channel_lies_in_front_of_its_consumer() -> None:
    offered = intervals((10, 50))
    found = regimes_of(buffers((0, 50, 50, 60)), Hindrances(NOTHING, NOTHING, offered), WHOLE)
    assert instants(found.waiting_for_flush) == set(range(10))
    assert instants(found.in_receiver_queue) == set(range(10, 60))


def test_only_the_oldest_record_counts() -> None:
    """The second buffer was sent long ago when the first one is done: it waits in the queue."""
    assert split(buffers((0, 5, 10, 50), (6, 12, 15, 60))) == {
        "waiting_for_flush": 5,
        "in_socket": 5,
        "in_receiver_queue": 50,
    }


def test_what_lies_outside_the_window_does_not_count() -> None:
    assert split(buffers((-50, -40, -30, 10), (90, 120, 130, 140))) == {
        "in_receiver_queue": 10,
        "waiting_for_flush": 10,
    }


def test_a_buffer_without_record_instants_has_not_waited() -> None:
    assert split(buffers((-1, 30, 35, 40))) == {"in_socket": 5, "in_receiver_queue": 5}


def events(*rows: dict[str, int]) -> dict[str, Any]:
    names = (*BUFFER_COLUMNS, "backlog_buffers", "credit_after")
    unset = dict.fromkeys(names, -1) | {"data_type": DATA, "kind": 0}
    return {name: np.array([(unset | row)[name] for row in rows], np.int64) for name in names}


def test_starved_and_blocked_time_is_read_off_the_messages() -> None:
    sent, received = int(TracePoint.SENT), int(TracePoint.RECEIVED)
    found = events(
        {"at_ns": 10, "point": sent, "credit_after": 1, "backlog_buffers": 4},
        {"at_ns": 20, "point": sent, "credit_after": 0, "backlog_buffers": 3},
        {"at_ns": 25, "point": received, "kind": int(MessageKind.ADD_CREDIT), "credit_after": 2},
        {"at_ns": 30, "point": sent, "credit_after": 0, "backlog_buffers": 0},
        {
            "at_ns": 40,
            "point": sent,
            "data_type": int(DataType.ALIGNED_CHECKPOINT_BARRIER),
            "credit_after": 0,
            "backlog_buffers": 0,
        },
        {"at_ns": 70, "point": received, "kind": int(MessageKind.RESUME_CONSUMPTION)},
    )
    assert instants(hindrances_in(found, WHOLE).starved) == set(range(20, 25))
    assert instants(hindrances_in(found, WHOLE).blocked) == set(range(40, 70))
    assert instants(hindrances_in(found, WHOLE).offered) == set()


def test_a_local_channel_offers_what_its_backlog_tells() -> None:
    found = events(
        {"at_ns": 10, "point": int(TracePoint.SENT), "credit_after": -1, "backlog_buffers": 2},
        {"at_ns": 20, "point": int(TracePoint.CONSUMED), "credit_after": -1},
        {"at_ns": 30, "point": int(TracePoint.SENT), "credit_after": -1, "backlog_buffers": 0},
    )
    assert instants(hindrances_in(found, WHOLE).offered) == set(range(10, 30))


def test_a_local_channel_goes_on_without_a_message() -> None:
    sent = {"point": int(TracePoint.SENT), "credit_after": -1}
    barrier = int(DataType.ALIGNED_CHECKPOINT_BARRIER)
    found = events(
        {"at_ns": 10, "data_type": int(DataType.RECOVERY_COMPLETION)} | sent,
        {"at_ns": 30, "data_type": barrier} | sent,
        {"at_ns": 50} | sent,
        {"at_ns": 90} | sent,
    )
    assert instants(hindrances_in(found, WHOLE).blocked) == set(range(30, 50))


def test_buffers_are_paired_by_number_and_those_under_way_left_out() -> None:
    sent, received, consumed = 0, 1, 2
    rows = []
    for number, first in enumerate((5, -1, 17, -1)):
        rows.append(
            {
                "at_ns": 10 * number + 9,
                "point": sent,
                "sequence_number": number,
                "first_record_ns": first,
            }
        )
        if number < 3:
            rows.append({"at_ns": 10 * number + 10, "point": received, "sequence_number": number})
            rows.append({"at_ns": 10 * number + 11, "point": consumed, "sequence_number": number})
    found = paired_buffers(events(*rows))
    assert found.sequence_number.tolist() == [0, 1, 2]
    assert found.first_record_ns.tolist() == [5, 17, 17]  # 1 holds a piece of the record in 2
    assert (found.received_ns - found.sent_ns).tolist() == [1, 1, 1]


@pytest.mark.spark
def test_regimes_of_a_recorded_run_sum_to_its_time(
    spark: Any, tmp_path: Path, make_run: Callable[..., Path]
) -> None:
    run = open_recorded_run(make_run(tmp_path / "run"), 0)
    rows = observe(spark, [run]).regimes.collect()
    assert {row.regime for row in rows} == set(REGIMES)
    windows: dict[tuple[int, int], int] = {}
    for row in rows:
        assert 0 <= row.ns <= row.width_ns
        windows[row.channel, row.from_ns] = windows.get((row.channel, row.from_ns), 0) + row.ns
    assert set(windows.values()) == {20_000_000}
    assert len(windows) == 2 * 50
    spent = {name: sum(row.ns for row in rows if row.regime == name) for name in REGIMES}
    # On each of two channels 99 buffers of the window were under way for 20 us and lay 50 us in the
    # queue; 24 left with the last credit, and the next one came 5.02 ms later.
    assert spent["in_socket"] == 2 * 99 * 20_000
    assert spent["in_receiver_queue"] == 2 * 99 * 50_000
    assert spent["waiting_for_credit"] == 2 * 24 * (5_020_000 - 70_000)
    assert spent["blocked_by_alignment"] == spent["idle"] == 0


def test_a_credit_that_a_buffer_takes_at_once_ends_no_starving() -> None:
    """At 10 a credit comes and the buffer that takes it leaves, at the same instant."""
    rows = {
        "at_ns": [5, 10, 10, 30],
        "point": [TracePoint.SENT, TracePoint.SENT, TracePoint.RECEIVED, TracePoint.RECEIVED],
        "kind": [MessageKind.BUFFER_RESPONSE] * 2 + [MessageKind.ADD_CREDIT] * 2,
        "data_type": [DATA, DATA, 0, 0],
        "backlog_buffers": [1, 1, -1, -1],
        "credit_after": [0, 0, 1, 1],
        "place": [0, 2, 1, 3],
    }
    events = {name: np.array(values) for name, values in rows.items()}
    assert instants(hindrances_in(events, WHOLE).starved) == set(range(5, 30))


@given(st.lists(interval_sets(), max_size=4))
def test_sets_that_overlap_are_merged(found: list[Intervals]) -> None:
    union = merged(found)
    assert instants(union) == set[int]().union(*map(instants, found))
    assert (union.starts_ns[1:] > union.ends_ns[:-1]).all()
