"""What the machine added is read off the rows whose due instant is known, and by the quiet time
before messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.core.probe import FlushReason
from flinknet.histogram import LogLinearHistogram
from flinknet.options.what_if import Setting
from flinknet.predict.fit.delays import (
    GROUP_MIN,
    NO_DELAYS,
    PARTS,
    Delays,
    DelaysByQuiet,
    delays_by_quiet,
    fit_delays,
    quiet_before_ns,
)
from flinknet.predict.fit.queued import busy_for_ns
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import (
    RecordedChannel,
    RecordedExchange,
    flushes_factor,
    flushes_per_s,
)
from flinknet.simulator.cost_model import CostModel
from tests.recorded_exchange import steady
from tests.recorded_run import channel_info
from tests.simulation import MS, US

COUNT = 1000
COSTS = CostModel(0.0, 0.0, 40_000.0, 9_000.0, 0.0, (1_000.0,))
INFOS = [channel_info(0)]
GAP_NS = 1_000_000
TIMEOUT_NS = 10_000_000


def fitted(rows: tuple[dict, dict], timeout_ns: int, costs: CostModel = COSTS) -> Delays:
    sent, consumed = rows
    return fit_delays(sent, consumed, INFOS, timeout_ns, costs)


def rows(reason: FlushReason, late_ns: np.ndarray) -> tuple[dict, dict]:
    """Buffers of one record each, a gap apart; sent late, consumed 50 µs after that."""
    number = np.arange(COUNT)
    came_ns = number * GAP_NS
    due_ns = came_ns + GAP_NS if reason == FlushReason.FULL else came_ns
    sent = {
        "at_ns": due_ns + late_ns,
        "channel": np.zeros(COUNT, np.int64),
        "sequence_number": number,
        "reason": np.full(COUNT, reason),
        "records": np.ones(COUNT, np.int64),
        "first_record_ns": came_ns,
        "last_record_ns": came_ns,
    }
    return sent, {**sent, "at_ns": sent["at_ns"] + 50_000}


@pytest.mark.parametrize(("reason", "timeout_ns"), [(FlushReason.FLUSH, 0), (FlushReason.FULL, -1)])
def test_constant_lateness_is_added_to_every_record(reason: FlushReason, timeout_ns: int) -> None:
    delays = fitted(rows(reason, np.full(COUNT, 30_000)), timeout_ns)
    assert (delays.spread_ns == 30_000).all()


def test_where_no_due_instant_is_known_nothing_is_claimed() -> None:
    found = fitted(rows(FlushReason.FLUSH, np.full(COUNT, 30_000)), 100_000_000)
    assert found is NO_DELAYS


def beats(late_ns: np.ndarray, timeout_ns: int, waited_ns: int) -> tuple[dict, dict]:
    """Buffers that the flusher sent, each a timeout after the one before, and late; their first
    records came so long before the beat was due."""
    number = np.arange(COUNT)
    at_ns = np.cumsum(timeout_ns + late_ns)
    came_ns = at_ns - late_ns - waited_ns
    sent = {
        "at_ns": at_ns,
        "channel": np.zeros(COUNT, np.int64),
        "sequence_number": number,
        "reason": np.full(COUNT, FlushReason.FLUSH),
        "records": np.ones(COUNT, np.int64),
        "first_record_ns": came_ns,
        "last_record_ns": came_ns,
    }
    return sent, {**sent, "at_ns": at_ns + 50_000}


def test_the_flushers_beat_tells_how_late_the_machine_was() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 3_000_000, 10_000)
    delays = fitted(beats(late_ns, TIMEOUT_NS, 9_000_000), TIMEOUT_NS)
    assert np.mean(delays.spread_ns > 2_900_000) == pytest.approx(0.05, abs=0.003)
    assert np.median(delays.spread_ns) == 0


def test_how_much_the_parts_of_a_run_differ_is_told() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 1_000_000, 10_000)
    late_ns[-COUNT // PARTS :] *= 3
    delays = fitted(beats(late_ns, TIMEOUT_NS, 9_000_000), TIMEOUT_NS)
    assert np.round(np.array(delays.tails_ns) / 1e6, 1).tolist() == [1.0, 1.0, 1.0, 3.0]
    assert "between 1.0 and 3.0 ms" in str(delays.note)


def test_a_quiet_machine_is_not_told_of() -> None:
    late_ns = np.full(COUNT, 10_000)
    delays = fitted(beats(late_ns, TIMEOUT_NS, 9_000_000), TIMEOUT_NS)
    assert len(delays.spread_ns)
    assert delays.note is None


def test_a_beat_that_may_have_found_nothing_to_flush_tells_nothing() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 3_000_000, 10_000)
    rows_of_beats = beats(late_ns, TIMEOUT_NS, -1_000)
    assert fitted(rows_of_beats, TIMEOUT_NS) is NO_DELAYS


def test_the_spread_of_the_rows_appears_in_the_predicted_percentiles() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 500_000, 30_000)
    delays = fitted(rows(FlushReason.FLUSH, late_ns), 0)
    predicted = LogLinearHistogram()
    predicted.add(np.full(COUNT, 80_000))
    summary = delays.added(predicted).summary()
    assert summary.p50 == pytest.approx(110_000, rel=0.01)
    assert summary.p99 == pytest.approx(580_000, rel=0.01)
    assert (summary.count, summary.max) == (COUNT, 580_000)
    assert summary.mean == pytest.approx(110_000 + 0.05 * 470_000, rel=0.01)


def test_percentiles_that_the_samples_do_not_support_stay_absent() -> None:
    predicted = LogLinearHistogram()
    predicted.add([80_000] * 20)
    summary = Delays(np.array([-1_000, 0, 1_000])).added(predicted).summary()
    assert summary.p99 is None
    assert summary.p50 is not None


def test_without_spread_the_summary_is_that_of_the_simulation() -> None:
    predicted = LogLinearHistogram()
    predicted.add([70_000, 80_000])
    assert NO_DELAYS.added(predicted).summary() == predicted.summary()


def test_what_waking_varies_by_goes_with_what_it_takes_and_the_rest_stays() -> None:
    delays = Delays(np.array([-20_000, 0, 40_000, 100_000, 2_000_000]), usual_ns=100_000.0)
    assert delays.awake(0.5).spread_ns.tolist() == [-10_000, 0, 20_000, 50_000, 1_950_000]
    assert delays.awake(1.0).spread_ns.tolist() == delays.spread_ns.tolist()
    assert len(NO_DELAYS.awake(0.5).spread_ns) == 0


def test_where_more_passes_fewer_messages_find_the_machine_asleep() -> None:
    quiet_ns = np.linspace(0, 10_000_000, 500).astype(np.int64)
    awake_ns, asleep_ns = np.full(500, 100_000), np.full(500, 900_000)
    by_quiet = DelaysByQuiet(quiet_ns, np.array([0, 5_000_000]), (awake_ns, asleep_ns))
    delays = Delays(asleep_ns, by_quiet=by_quiet)
    for more, share in ((1.0, 0.5), (1.25, 0.375), (0.5, 0.75), (20.0, 0.0)):
        spread_ns = delays.awake(0.3, more).spread_ns
        assert (spread_ns == 900_000).mean() == pytest.approx(share, abs=0.01)
    longer_ns = delays.times(2.0).awake(1.0, 1.0).spread_ns
    assert set(longer_ns.tolist()) == {200_000, 1_800_000}


def test_the_usual_is_the_way_and_the_work_of_a_message() -> None:
    delays = fitted(rows(FlushReason.FULL, np.full(COUNT, 30_000)), -1)
    assert delays.usual_ns == COSTS.transit_ns + COSTS.receive_ns_per_message


def test_waiting_for_messages_ahead_is_no_delay_of_the_machine() -> None:
    sent, consumed = rows(FlushReason.FULL, np.zeros(COUNT, np.int64))
    slow = replace(COSTS, consume_ns_per_record=(2.0 * GAP_NS,))
    queue_ns = 20 * GAP_NS  # what lay there before the rows begin
    before = {name: np.repeat(values[:1], 10) for name, values in consumed.items()}
    before["sequence_number"] = np.arange(-10, 0)
    before["at_ns"] = sent["at_ns"][0] + 2 * GAP_NS * np.arange(1, 11)
    service_ns = 2 * GAP_NS + 9_000
    consumed["at_ns"] = sent["at_ns"][0] + queue_ns + service_ns * np.arange(1, COUNT + 1)
    every = {name: np.concatenate((before[name], consumed[name])) for name in consumed}
    delays = fitted((sent, every), -1, slow)
    assert np.abs(delays.spread_ns).max() < 200_000
    assert delays.queued_at_start_ns > 10 * GAP_NS


def test_a_consumer_that_stands_still_is_one() -> None:
    sent, consumed = rows(FlushReason.FULL, np.zeros(COUNT, np.int64))
    stall = slice(500, 520)
    consumed["at_ns"][stall] = consumed["at_ns"][520] - np.arange(20, 0, -1)
    delays = fitted((sent, consumed), -1)
    assert np.mean(delays.spread_ns > GAP_NS) == pytest.approx(0.019, abs=0.003)


def test_buffers_of_one_flush_have_the_quiet_time_before_it() -> None:
    passed_ns = np.array([0, 5 * MS, 5 * MS + 100 * US, 5 * MS + 200 * US, 9 * MS])
    quiet_ns = quiet_before_ns(passed_ns, passed_ns)
    assert quiet_ns.tolist() == [0, 5 * MS, 5 * MS, 5 * MS, 4 * MS - 200 * US]


def test_what_passes_long_after_a_flush_began_finds_the_machine_awake() -> None:
    passed_ns = np.r_[0, 5 * MS + np.arange(10) * 150 * US]
    quiet_ns = quiet_before_ns(passed_ns, passed_ns)
    assert quiet_ns[1:].tolist() == [5 * MS] * 7 + [0] * 3


def test_before_the_first_flush_seen_no_quiet_time_is_known() -> None:
    at_ns = np.array([4 * MS, 5 * MS])
    for passed_ns in (np.zeros(0, np.int64), np.array([5 * MS])):
        assert quiet_before_ns(passed_ns, at_ns).tolist() == [0, 0]


def test_groups_with_few_messages_are_put_to_the_next_one() -> None:
    quiet_ns = np.repeat([0, 600 * US, 3 * MS], [GROUP_MIN - 1, GROUP_MIN, 2 * GROUP_MIN])
    found = delays_by_quiet(quiet_ns // 10, np.ones(len(quiet_ns), np.int64), quiet_ns)
    assert found.from_ns.tolist() == [0, MS]
    assert [int(each.max()) for each in found.spreads_ns] == [60 * US, 300 * US]
    few = delays_by_quiet(quiet_ns[:30], np.ones(30, np.int64), quiet_ns[:30])
    assert few.from_ns.tolist() == [0]


def test_a_consumer_works_on_one_message_after_the_other() -> None:
    at_ns = np.array([0, 1, 10, 11])
    assert busy_for_ns(at_ns, np.array([3, 1, 1, 1]), 2.0).tolist() == [0, 5, 0, 1]


def exchange(channels: int, records: int) -> RecordedExchange:
    """Of one producer, whose channels get a record each at the same instants, one each ms."""
    arrivals = Ramps.of(np.arange(records) * MS)
    return steady(
        consumers=channels,
        channels=tuple(RecordedChannel(at, 0, at, 0, arrivals, 100.0) for at in range(channels)),
        network=NetworkConfig(buffer_timeout_ns=10 * MS),
        measured_from_ns=0,
        measured_to_ns=records * MS,
    )


@pytest.mark.parametrize(
    ("timeout_ns", "per_s"), [(20 * MS, 50), (10 * MS, 100), (MS, 1_000), (0, 1_000), (-1, 6)]
)
def test_a_flush_is_of_all_channels_of_a_producer(timeout_ns: int, per_s: float) -> None:
    recorded = exchange(channels=2, records=1_000)
    setting = Setting(replace(recorded.network, buffer_timeout_ns=timeout_ns))
    assert flushes_per_s(recorded, setting) == pytest.approx(per_s, rel=0.05)
    assert flushes_factor([recorded], [setting]) == pytest.approx(per_s / 100, rel=0.05)
    faster = replace(setting, rate_factor=2.0)
    expected = per_s * (1 if timeout_ns > 0 else 2)
    assert flushes_per_s(recorded, faster) == pytest.approx(expected, rel=0.05)
