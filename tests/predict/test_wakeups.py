"""What messages take by their distance is found in the rows, and moves the costs to a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.predict.fit.wakeups import (
    POLLED_TRANSIT_NS,
    SHALLOW_WAKE_NS,
    UNKNOWN,
    Wakeups,
    fit_wakeups,
    gaps_of,
)
from flinknet.predict.recorded import RecordedExchange
from flinknet.runtime import event_loop
from flinknet.simulator.cost_model import FAR_NS, SPIN_NS, CostModel
from flinknet.trace import ChannelInfo
from tests.recorded_exchange import steady
from tests.recorded_run import channel_info

MS = 1_000_000
COUNT = 400
AWAKE_NS, ASLEEP_NS = 40_000, 240_000
COSTS = CostModel(0.0, 0.0, 240_000.0, 60_000.0, 0.0, (1_000.0,))
WAKEUPS = Wakeups((0.0, 10.0 * MS), (40_000.0, 240_000.0), 12_000.0, 2_000.0, 100.0, 1.0)


def test_a_thread_wakes_sooner_from_a_shorter_sleep_but_for_the_slack_of_timers() -> None:
    assert WAKEUPS.late_ns(150_000, 10 * MS, 10 * MS) == 150_000
    assert WAKEUPS.late_ns(150_000, 10 * MS, 0) == pytest.approx(50_000 + 100_000 * 40 / 240, abs=1)
    assert WAKEUPS.late_ns(30_000, 10 * MS, 0) == 30_000


def rows(gaps_ns: np.ndarray, ways_ns: np.ndarray, channels: int = 1) -> tuple[dict, dict]:
    """Buffers of ten records of 100 bytes, so far apart."""
    sent = {
        "at_ns": np.cumsum(gaps_ns),
        "channel": np.arange(len(gaps_ns)) % channels,
        "sequence_number": np.arange(len(gaps_ns)),
        "records": np.full(len(gaps_ns), 10),
        "payload_bytes": np.full(len(gaps_ns), 1_000),
    }
    return sent, {**sent, "at_ns": sent["at_ns"] + ways_ns}


def to_processes(names: str, producers: tuple[int, ...] = (0,) * 4) -> list[ChannelInfo]:
    """Channels to processes whose names are letters."""
    return [channel_info(n, producers[n], process=name) for n, name in enumerate(names)]


def fitted(
    rows: tuple[dict, dict], channels: Sequence[ChannelInfo] = (channel_info(0),)
) -> Wakeups | None:
    sent, received = rows
    ways_ns = received["at_ns"] - sent["at_ns"]
    return fit_wakeups(gaps_of(sent, channels), ways_ns, sent, channels, 12_000.0)


def test_messages_that_find_the_consumer_awake_are_quicker() -> None:
    gaps_ns = np.where(np.arange(COUNT) % 2 == 0, MS, 10 * MS)
    sent, received = rows(gaps_ns, np.where(gaps_ns == MS, AWAKE_NS, ASLEEP_NS))
    wakeups = fitted((sent, received))
    assert wakeups is not None
    found = wakeups.transit_after(np.array([0, MS, 10 * MS, 100 * MS]))
    assert found.tolist() == [AWAKE_NS, AWAKE_NS, ASLEEP_NS, ASLEEP_NS]
    assert wakeups.record_bytes == 100
    assert wakeups.records_per_s == pytest.approx(10e9 / np.mean(gaps_ns), rel=0.02)


def test_a_busy_moment_among_short_gaps_makes_no_others_slow() -> None:
    gaps_ns = np.where(np.arange(COUNT) % 5 == 0, MS, 10 * MS)
    ways_ns = np.where(gaps_ns == MS, 3 * MS, ASLEEP_NS)
    wakeups = fitted(rows(gaps_ns, ways_ns))
    assert wakeups is not None
    assert wakeups.transit_after(np.array([MS, 10 * MS, 100 * MS])).tolist() == [ASLEEP_NS] * 3


def test_gaps_are_those_of_each_task_manager() -> None:
    sent, _ = rows(np.full(6, MS), np.full(6, AWAKE_NS), channels=2)
    assert gaps_of(sent, to_processes("aa")).tolist() == [UNKNOWN, *[MS] * 5]
    assert gaps_of(sent, to_processes("ab")).tolist() == [UNKNOWN, UNKNOWN, *[2 * MS] * 4]
    nothing = {name: values[:0] for name, values in sent.items()}
    assert gaps_of(nothing, []).tolist() == []


def test_what_is_sent_at_one_instant_wakes_a_task_manager_once() -> None:
    sent, _ = rows(np.array([MS, 0, 0, 7 * MS, 0, 2 * MS]), np.full(6, AWAKE_NS), channels=3)
    expected = [*[UNKNOWN] * 3, 7 * MS, 7 * MS, 2 * MS]
    assert gaps_of(sent, to_processes("aaa")).tolist() == expected


@pytest.mark.parametrize(
    ("processes", "producers", "share", "flushers"),
    [
        ("aaaa", (0, 0, 0, 0), 1.0, 1.0),
        ("aaaa", (0, 0, 1, 1), 1.0, 2.0),
        ("abab", (0, 0, 1, 1), 0.5, 2.0),
    ],
)
def test_the_tasks_of_a_task_manager_are_woken_together(
    processes: str, producers: tuple[int, ...], share: float, flushers: float
) -> None:
    columns = rows(np.full(COUNT, MS), np.full(COUNT, AWAKE_NS), channels=4)
    wakeups = fitted(columns, to_processes(processes, producers))
    assert wakeups is not None
    assert wakeups.records_per_s == pytest.approx(share * 10_000, rel=0.01)
    assert wakeups.flushers == flushers


def test_few_messages_tell_nothing() -> None:
    nothing = fitted(rows(np.full(20, MS), np.full(20, AWAKE_NS)))
    assert nothing is None  # of the first one no gap is known
    little = fitted(rows(np.full(21, MS), np.full(21, AWAKE_NS)))
    assert little is not None
    assert little.gaps_ns == (0.0, MS)


@pytest.mark.parametrize(
    ("timeout_ns", "rate_factor", "gap_ns"),
    [
        (0, 1.0, 500_000.0),
        (0, 2.0, 250_000.0),
        (10 * MS, 1.0, 1e9 / (100 + 2_000 * 100 / 32_768)),
        (100_000, 1.0, 500_000.0),  # no more messages than records
        (-1, 1.0, 32_768 * 1e9 / (2_000 * 100)),
    ],
)
def test_the_distance_of_messages_follows_from_the_setting(
    timeout_ns: int, rate_factor: float, gap_ns: float
) -> None:
    network = replace(NetworkConfig(), buffer_timeout_ns=timeout_ns)
    assert WAKEUPS.gap_ns(network, rate_factor) == pytest.approx(gap_ns)


def exchange_of(buffer_timeout_ns: int) -> RecordedExchange:
    network = NetworkConfig(buffer_timeout_ns=buffer_timeout_ns)
    return steady(channels=(), network=network, costs=COSTS, wakeups=WAKEUPS)


def test_the_share_of_waking_is_that_of_way_and_work() -> None:
    exchange = exchange_of(10 * MS)
    network = exchange.network
    assert exchange.waking_share(Setting(network)) == 1.0
    closer = Setting(replace(network, buffer_timeout_ns=0))
    costs = exchange.costs_under(closer)
    found = costs.transit_ns + costs.receive_ns_per_message
    assert exchange.waking_share(closer) == pytest.approx(found / 300_000)
    assert exchange.waking_share(closer) < 0.3
    assert exchange.waking_share(replace(closer, round_trip_ns=MS, consumer_speed=0.5)) < 0.3
    assert replace(exchange, wakeups=None).waking_share(closer) == 1.0


@pytest.mark.parametrize(
    ("recorded_ns", "rate_factor", "timeout_ns", "stops"),
    [
        (10 * MS, 1.0, 0, False),  # every 0.5 ms
        (10 * MS, 2.5, 0, False),
        (10 * MS, 2.6, 0, True),
        (10 * MS, 1_000.0, 10 * MS, True),
        (10 * MS, 1.0, 100 * MS, False),
        (100_000, 1.0, 0, False),
    ],
)
def test_whether_task_managers_stop_sleeping(
    recorded_ns: int, rate_factor: float, timeout_ns: int, stops: bool
) -> None:
    network = replace(NetworkConfig(), buffer_timeout_ns=timeout_ns)
    found = exchange_of(recorded_ns)
    assert found.stops_sleeping(Setting(network, rate_factor=rate_factor)) == stops
    assert not replace(found, wakeups=None).stops_sleeping(
        Setting(network, rate_factor=rate_factor)
    )


def test_a_task_manager_that_already_polled_does_not_stop_sleeping() -> None:
    found = exchange_of(0)
    found = replace(found, wakeups=replace(WAKEUPS, records_per_s=20_000.0))
    assert not found.stops_sleeping(Setting(found.network))
    assert not found.starts_sleeping(Setting(found.network))


def test_one_that_polled_may_start_to_sleep() -> None:
    found = exchange_of(0)
    found = replace(found, wakeups=replace(WAKEUPS, records_per_s=20_000.0))
    longer = Setting(replace(found.network, buffer_timeout_ns=MS))
    assert found.starts_sleeping(longer)
    assert not found.starts_sleeping(replace(longer, rate_factor=1_000.0))
    assert not replace(found, wakeups=None).starts_sleeping(longer)


def test_when_a_task_manager_polls_is_known_as_it_is() -> None:
    assert SPIN_NS == event_loop.SPIN_NS
    assert FAR_NS == event_loop.SHORT_WAIT_NS


def test_costs_move_with_the_distance_and_stay_where_it_does() -> None:
    assert WAKEUPS.moved(COSTS, 10 * MS, 10 * MS) == COSTS
    closer = WAKEUPS.moved(COSTS, 10 * MS, 5 * MS)
    assert closer.transit_ns == pytest.approx(140_000)
    assert closer.receive_ns_per_message == pytest.approx(36_000)
    assert WAKEUPS.moved(COSTS, 5 * MS, 50 * MS).receive_ns_per_message == 60_000


def test_one_that_polls_saves_the_wake_and_no_more() -> None:
    sleeps, polls = SPIN_NS, SPIN_NS - 1
    assert WAKEUPS.moved(COSTS, 10 * MS, sleeps).transit_ns == pytest.approx(44_000)
    assert WAKEUPS.moved(COSTS, 10 * MS, polls).transit_ns == POLLED_TRANSIT_NS
    far = replace(WAKEUPS, transit_ns=(1_000_000.0, 1_200_000.0))
    far_costs = replace(COSTS, transit_ns=1_200_000.0)
    assert far.moved(far_costs, 10 * MS, polls).transit_ns == 1_000_000 - SHALLOW_WAKE_NS
    quick = replace(COSTS, transit_ns=POLLED_TRANSIT_NS - 1)
    assert WAKEUPS.moved(quick, sleeps, polls).transit_ns < POLLED_TRANSIT_NS
    without_cores = replace(WAKEUPS, may_poll=False)
    assert without_cores.moved(COSTS, 10 * MS, polls).transit_ns > POLLED_TRANSIT_NS


def test_without_a_core_each_task_managers_go_on_to_sleep() -> None:
    found = exchange_of(10 * MS)
    shared = replace(found, wakeups=replace(WAKEUPS, may_poll=False))
    setting = Setting(found.network, rate_factor=1_000.0)
    assert (found.stops_sleeping(setting), shared.stops_sleeping(setting)) == (True, False)
