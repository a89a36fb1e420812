"""Producers that misbehave, one by one (`by_producers`): what the consumer does about it, and that
its other channels feel nothing.
"""

from __future__ import annotations

from types import NoneType

import pytest

from tests.pair import Consumer
from tests.peers.by_producers import ALL_FAIL, CASES, DATA, EVENT, FAILS, Case, buffer
from tests.peers.consumer import consumer_of, outcome


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            each,
            id=f"C{each.number:02d}-{each.said}-{each.when}",
            marks=[pytest.mark.row(row) for row in each.rows],
        )
        for each in CASES
    ],
)
def test_a_producer_that(case: Case) -> None:
    consumer, other = consumer_of(case.when), Consumer()
    assert outcome(consumer, case.data) == case.must
    error = consumer.channels[0].error
    assert isinstance(error, case.error if case.must in (FAILS, ALL_FAIL) else NoneType)
    for each in (consumer, other):
        beside = each.channels[-1]
        if beside.error is None:
            kind = DATA if beside.initial_credit else EVENT
            each.receive(buffer(to=beside.receiver_id, kind=kind))
            assert len(beside.received) == 1
    assert other.channels[0].error is None
    for each in (consumer, other):
        each.close()
        each.connection.receive_eof(now_ns=0)
        assert each.memory.available_buffers == each.memory.total_buffers
