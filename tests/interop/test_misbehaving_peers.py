"""The peers of tests/peers misbehave to Flink's own network stack: where it does otherwise than our
tables say is listed in tests/peers/flink.py, and in docs/misbehaving_peers.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.exchange import Misbehaved, Release
from tests.interop.misbehaved import (
    CONSUMER_KEYS,
    NO_CREDIT,
    PRODUCER_KEYS,
    FlinkConsumer,
    FlinkProducer,
)
from tests.peers import by_consumers, by_producers
from tests.peers.flink import DIFFERENCES, NOT_COMPARED
from tests.peers.over_sockets import expected, outcome

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("usual_signals"),
    pytest.mark.skipif("FLINKNET_INTEROP_RECORDS" not in os.environ, reason="for make interop"),
]


@pytest.fixture(scope="module")
def misbehaved(release_of) -> Iterator[list[Misbehaved]]:  # type: ignore[no-untyped-def]
    """A producer, a consumer, and one whose channels have no initial credit."""
    flink: Release = release_of("2.3.0")
    processes = [
        flink.start_misbehaved(**keys)
        for keys in (PRODUCER_KEYS, CONSUMER_KEYS, CONSUMER_KEYS | NO_CREDIT)
    ]
    yield processes
    for each in processes:
        each.__exit__()


@pytest.fixture(scope="module")
def producer(misbehaved: list[Misbehaved]) -> FlinkProducer:
    return FlinkProducer(misbehaved[0])


@pytest.fixture(scope="module")
def consumers(misbehaved: list[Misbehaved]) -> list[Misbehaved]:
    for each in misbehaved[1:]:
        assert each.port
    return misbehaved[1:]


@pytest.mark.parametrize("case", by_consumers.CASES, ids=lambda case: f"P{case.number:02d}")
def test_consumers_at_flinks_producer(case: by_consumers.Case, producer: FlinkProducer) -> None:
    number = f"P{case.number:02d}"
    if number in NOT_COMPARED:
        pytest.skip(NOT_COMPARED[number])
    producer.serve(case)
    found, ours = outcome(case, producer), expected(case)
    assert described(found, ours) == DIFFERENCES.get(number, (described(ours, ours), ""))[0]


def described(found, ours) -> str:  # type: ignore[no-untyped-def]
    """What was done, and what of the channels is otherwise than with us."""
    parts = [found.did]
    for name, says in (
        ("goes_on", "the channel"),
        ("beside_goes_on", "its neighbour"),
        ("others_go_on", "the other connection"),
    ):
        theirs = getattr(found, name)
        if theirs != getattr(ours, name):
            parts.append(f"{says} {'carries on' if theirs else 'stops'}")
    return ", ".join(parts)


@pytest.mark.parametrize("case", by_producers.CASES, ids=lambda case: f"C{case.number:02d}")
def test_producers_at_flinks_consumer(case: by_producers.Case, consumers: list[Misbehaved]) -> None:
    number = f"C{case.number:02d}"
    if number in NOT_COMPARED:
        pytest.skip(NOT_COMPARED[number])
    process = consumers[case.when == by_producers.CREDITLESS]
    consumer = FlinkConsumer(process, case.number)
    try:
        found = consumer.outcome(case)
    finally:
        consumer.close()
    assert found == DIFFERENCES.get(number, (case.must, ""))[0]
