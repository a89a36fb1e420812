"""Consumers that misbehave, one by one (`by_consumers`): what the producer does about it, and that
its other channels feel nothing.
"""

from __future__ import annotations

import pytest

from tests.pair import OTHER_RECEIVER, RECEIVER
from tests.peers.by_consumers import CASES, ENDS, STRANGE, Case
from tests.peers.producer import Producer, outcome


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            each,
            id=f"P{each.number:02d}-{each.said}-{each.when}",
            marks=[pytest.mark.row(row) for row in each.rows],
        )
        for each in CASES
    ],
)
def test_a_consumer_that(case: Case) -> None:
    producer = Producer(case.when)
    assert outcome(producer, case) == case.must
    if case.must not in ENDS and case.when != STRANGE:
        assert producer.gets(producer.peer, OTHER_RECEIVER)
        assert producer.gets(producer.peer, RECEIVER) == case.goes_on
    assert producer.gets(producer.others, OTHER_RECEIVER)
    producer.close()
