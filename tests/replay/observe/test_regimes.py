"""Where time goes: interval algebra against sets of instants, regimes against a channel drawn by
hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


UNHINDERED = Hindrances(NOTHING, NOTHING, NOTHING)


@dataclass(frozen=True)
class Case:
    """Buffers by (first record, sent, received, consumed), and the time in each regime."""

    name: str
    lives: list[tuple[int, int, int, int]]
    spent: dict[str, int]
    hindrances: Hindrances = UNHINDERED


FLUSH, CREDIT, ALIGNMENT, SOCKET, QUEUE, _ = REGIMES
WITHOUT_CREDIT_THEN_BLOCKED = Hindrances(intervals((20, 35)), intervals((30, 60)), NOTHING)
OFFERED = Hindrances(NOTHING, NOTHING, intervals((10, 50)))

CASES = [
    Case("from place to place", [(10, 30, 35, 50)], {FLUSH: 20, SOCKET: 5, QUEUE: 15}),
    Case(
        "for credit where there was none, and for alignment before that",
        [(10, 40, 41, 42)],
        {FLUSH: 10, CREDIT: 10, ALIGNMENT: 10, SOCKET: 1, QUEUE: 1},
        WITHOUT_CREDIT_THEN_BLOCKED,
    ),
    Case("a local channel's is offered", [(0, 50, 50, 60)], {FLUSH: 10, QUEUE: 50}, OFFERED),
    Case("the oldest counts", [(0, 5, 10, 50), (6, 12, 15, 60)], {FLUSH: 5, SOCKET: 5, QUEUE: 50}),
    Case("within", [(-50, -40, -30, 10), (90, 120, 130, 140)], {QUEUE: 10, FLUSH: 10}),
    Case("no record instants", [(-1, 30, 35, 40)], {SOCKET: 5, QUEUE: 5}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_instant_belongs_to_the_place_of_the_oldest_record(case: Case) -> None:
    found = regimes_of(buffers(*case.lives), case.hindrances, WHOLE)
    spent = {name: getattr(found, name).total_ns for name in REGIMES if name != "idle"}
    assert {name: ns for name, ns in spent.items() if ns} == case.spent


def events(*rows: dict[str, int]) -> dict[str, Any]:
    names = (*BUFFER_COLUMNS, "backlog_buffers", "credit_after")
    unset = dict.fromkeys(names, -1) | {"data_type": DATA, "kind": 0}
    return {name: np.array([(unset | row)[name] for row in rows], np.int64) for name in names}


def event(at_ns: int, credit: int = -1, backlog: int = -1, **more: int) -> dict[str, int]:
    """A sent buffer, unless there is more."""
    sent = {"point": int(TracePoint.SENT), "credit_after": credit, "backlog_buffers": backlog}
    return {"at_ns": at_ns} | sent | more


RECEIVED, BARRIER = int(TracePoint.RECEIVED), int(DataType.ALIGNED_CHECKPOINT_BARRIER)


def test_starved_and_blocked_time_is_read_off_the_messages() -> None:
    found = events(
        *(event(10, 1, 4), event(20, 0, 3)),
        event(25, 2, point=RECEIVED, kind=int(MessageKind.ADD_CREDIT)),
        *(event(30, 0, 0), event(40, 0, 0, data_type=BARRIER)),
        event(70, point=RECEIVED, kind=int(MessageKind.RESUME_CONSUMPTION)),
    )
    hindrances = [instants(each) for each in hindrances_in(found, WHOLE)]
    assert hindrances == [set(range(20, 25)), set(range(40, 70)), set()]


def test_a_local_channel_offers_what_its_backlog_tells() -> None:
    found = events(
        event(10, backlog=2), event(20, point=int(TracePoint.CONSUMED)), event(30, backlog=0)
    )
    assert instants(hindrances_in(found, WHOLE).offered) == set(range(10, 30))


def test_a_local_channel_goes_on_without_a_message() -> None:
    recovered = event(10, data_type=int(DataType.RECOVERY_COMPLETION))
    found = events(recovered, event(30, data_type=BARRIER), event(50), event(90))
    assert instants(hindrances_in(found, WHOLE).blocked) == set(range(30, 50))


def test_buffers_are_paired_by_number_and_those_under_way_left_out() -> None:
    rows = []
    for number, first in enumerate((5, -1, 17, -1)):
        row = {"sequence_number": number, "first_record_ns": first}
        points = range(3 if number < 3 else 1)  # sent, received, consumed
        rows += [{"at_ns": 10 * number + 9 + each, "point": each} | row for each in points]
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
