"""Lateness and spread are read off the rows whose due instant is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.core.probe import FlushReason
from flinknet.histogram import LogLinearHistogram
from flinknet.replay.delays import NO_DELAYS, Delays, fit_delays
from flinknet.workload.recorded import CostModel

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
def test_constant_lateness_is_found_and_leaves_no_spread(
    reason: FlushReason, timeout_ns: int
) -> None:
    delays = fit_delays(*rows(reason, np.full(COUNT, 30_000)), timeout_ns, COSTS, CONSUMER_OF)
    assert delays.late_ns == 30_000
    assert not delays.spread_ns.any()


def test_where_no_due_instant_is_known_nothing_is_claimed() -> None:
    assert (
        fit_delays(
            *rows(FlushReason.FLUSH, np.full(COUNT, 30_000)), 100_000_000, COSTS, CONSUMER_OF
        )
        is NO_DELAYS
    )


def test_the_spread_of_the_rows_appears_in_the_predicted_percentiles() -> None:
    late_ns = np.where(np.arange(COUNT) % 20 == 0, 500_000, 30_000)
    delays = fit_delays(*rows(FlushReason.FLUSH, late_ns), 0, COSTS, CONSUMER_OF)
    predicted = LogLinearHistogram()
    predicted.add(np.full(COUNT, 80_000))
    summary = delays.over(predicted)
    assert summary.p50 == pytest.approx(80_000, rel=0.01)
    assert summary.p99 == pytest.approx(550_000, rel=0.01)
    assert (summary.count, summary.max) == (COUNT, 550_000)
    assert summary.mean == pytest.approx(80_000 + 0.05 * 470_000, rel=0.01)


def test_percentiles_that_the_samples_do_not_support_stay_absent() -> None:
    predicted = LogLinearHistogram()
    predicted.add([80_000] * 20)
    summary = Delays(0.0, np.array([-1_000, 0, 1_000])).over(predicted)
    assert summary.p99 is None
    assert summary.p50 is not None


def test_without_spread_the_summary_is_that_of_the_simulation() -> None:
    predicted = LogLinearHistogram()
    predicted.add([70_000, 80_000])
    assert NO_DELAYS.over(predicted) == predicted.summary()
    assert replace(NO_DELAYS, late_ns=5.0).over(predicted) == predicted.summary()
