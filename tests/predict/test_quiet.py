"""How long nothing had passed before a message, and how often something passes under a setting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.predict.fit.delays import GROUP_MIN, Flushes, delays_by_quiet
from flinknet.predict.fit.queued import busy_for_ns
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import (
    RecordedChannel,
    RecordedExchange,
    flushes_factor,
    flushes_per_s,
)
from tests.simulated_chain import COSTS
from tests.simulation import MS, US


def test_buffers_of_one_flush_have_the_quiet_time_before_it() -> None:
    passed_ns = np.array([0, 5 * MS, 5 * MS + 100 * US, 5 * MS + 200 * US, 9 * MS])
    quiet_ns = Flushes.of(passed_ns).quiet_ns(passed_ns)
    assert quiet_ns.tolist() == [0, 5 * MS, 5 * MS, 5 * MS, 4 * MS - 200 * US]


def test_what_passes_long_after_a_flush_began_finds_the_machine_awake() -> None:
    passed_ns = np.r_[0, 5 * MS + np.arange(10) * 150 * US]
    quiet_ns = Flushes.of(passed_ns).quiet_ns(passed_ns)
    assert quiet_ns[1:].tolist() == [5 * MS] * 7 + [0] * 3


def test_before_the_first_flush_seen_no_quiet_time_is_known() -> None:
    nothing, one = Flushes.of(np.zeros(0, np.int64)), Flushes.of(np.array([5 * MS]))
    at_ns = np.array([4 * MS, 5 * MS])
    assert nothing.quiet_ns(at_ns).tolist() == one.quiet_ns(at_ns).tolist() == [0, 0]


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
    return RecordedExchange(
        1,
        channels,
        tuple(RecordedChannel(at, 0, at, 0, arrivals, 100.0) for at in range(channels)),
        NetworkConfig(buffer_timeout_ns=10 * MS),
        False,
        0,
        records * MS,
        1,
        COSTS,
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
