"""What the machine added is read off the rows whose due instant is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.core.probe import FlushReason
from flinknet.histogram import LogLinearHistogram
from flinknet.predict.fit.delays import NO_DELAYS, PARTS, Delays, DelaysByQuiet, fit_delays
from flinknet.simulator.cost_model import CostModel

COUNT = 1000
COSTS = CostModel(0.0, 0.0, 40_000.0, 9_000.0, 0.0, (1_000.0,))
CONSUMER_OF = {0: 0}
GAP_NS = 1_000_000


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
    delays = fit_delays(
        *rows(reason, np.full(COUNT, 30_000)), timeout_ns, COSTS, CONSUMER_OF, CONSUMER_OF
    )
    assert (delays.spread_ns == 30_000).all()


def test_where_no_due_instant_is_known_nothing_is_claimed() -> None:
    assert (
        fit_delays(
            *rows(FlushReason.FLUSH, np.full(COUNT, 30_000)),
            100_000_000,
            COSTS,
            CONSUMER_OF,
            CONSUMER_OF,
        )
        is NO_DELAYS
    )


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
    delays = fit_delays(
        *beats(late_ns, 10_000_000, 9_000_000), 10_000_000, COSTS, CONSUMER_OF, CONSUMER_OF
    )
    assert np.mean(delays.spread_ns > 2_900_000) == pytest.approx(0.05, abs=0.003)
    assert np.median(delays.spread_ns) == 0


def test_how_much_the_parts_of_a_run_differ_is_told() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 1_000_000, 10_000)
    late_ns[-COUNT // PARTS :] *= 3
    delays = fit_delays(
        *beats(late_ns, 10_000_000, 9_000_000), 10_000_000, COSTS, CONSUMER_OF, CONSUMER_OF
    )
    assert np.round(np.array(delays.tails_ns) / 1e6, 1).tolist() == [1.0, 1.0, 1.0, 3.0]
    assert "between 1.0 and 3.0 ms" in str(delays.note)


def test_a_quiet_machine_is_not_told_of() -> None:
    late_ns = np.full(COUNT, 10_000)
    delays = fit_delays(
        *beats(late_ns, 10_000_000, 9_000_000), 10_000_000, COSTS, CONSUMER_OF, CONSUMER_OF
    )
    assert len(delays.spread_ns)
    assert delays.note is None


def test_a_beat_that_may_have_found_nothing_to_flush_tells_nothing() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 3_000_000, 10_000)
    rows_of_beats = beats(late_ns, 10_000_000, -1_000)
    assert fit_delays(*rows_of_beats, 10_000_000, COSTS, CONSUMER_OF, CONSUMER_OF) is NO_DELAYS


def test_the_spread_of_the_rows_appears_in_the_predicted_percentiles() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 500_000, 30_000)
    delays = fit_delays(*rows(FlushReason.FLUSH, late_ns), 0, COSTS, CONSUMER_OF, CONSUMER_OF)
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
    delays = fit_delays(
        *rows(FlushReason.FULL, np.full(COUNT, 30_000)), -1, COSTS, CONSUMER_OF, CONSUMER_OF
    )
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
    delays = fit_delays(sent, every, -1, slow, CONSUMER_OF, CONSUMER_OF)
    assert np.abs(delays.spread_ns).max() < 200_000
    assert delays.queued_at_start_ns > 10 * GAP_NS


def test_a_consumer_that_stands_still_is_one() -> None:
    sent, consumed = rows(FlushReason.FULL, np.zeros(COUNT, np.int64))
    stall = slice(500, 520)
    consumed["at_ns"][stall] = consumed["at_ns"][520] - np.arange(20, 0, -1)
    delays = fit_delays(sent, consumed, -1, COSTS, CONSUMER_OF, CONSUMER_OF)
    assert np.mean(delays.spread_ns > GAP_NS) == pytest.approx(0.019, abs=0.003)
