"""Peers that misbehave, one by one: what the producer, the consumer and the JobManager do about it,
that other channels feel nothing, and what a tap sees; and that the page of them is that of the
tables. That a tap passes on what it does not understand: tests/capture/test_tap.py. What else may
come to the control port, drawn at random: tests/runtime/cluster/test_control_connection.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Any

import pytest

from flinknet.core.wire.messages import AddCredit
from flinknet.errors import RemoteProtocolError
from flinknet.plain_values import decode_message
from flinknet.runtime.cluster import control_messages
from flinknet.runtime.cluster.control_connection import ControlConnection
from tests.capture.conversations import CLIENT, SERVER, Observed, elements
from tests.capture.conversations import buffer as observed_buffer
from tests.capture.conversations import request as observed_request
from tests.pair import OTHER_RECEIVER, RECEIVER, Consumer
from tests.peers import by_clients, by_consumers, by_producers, consumer, producer
from tests.peers.document import PATH, document
from tests.peers.flink import DIFFERENCES, NOT_COMPARED
from tests.peers.frames import OF_NO_PROTOCOL

HONEST = 400
"""Messages that follow: more bytes than any frame of the tables claims and does not have."""


def named(letter: str, cases: Iterable[Any]) -> list[Any]:
    """Cases as parameters, each with the rows that it shows."""
    return [
        pytest.param(
            each,
            id=f"{letter}{each.number:02d}-{each.said}-{each.when}",
            marks=[pytest.mark.row(row) for row in each.rows],
        )
        for each in cases
    ]


@pytest.mark.parametrize("case", named("P", by_consumers.CASES))
def test_a_consumer_that(case: by_consumers.Case) -> None:
    made = producer.Producer(case.when)
    assert producer.outcome(made, case) == case.must
    if case.must not in by_consumers.ENDS and case.when != by_consumers.STRANGE:
        assert made.gets(made.peer, OTHER_RECEIVER)
        assert made.gets(made.peer, RECEIVER) == case.goes_on
    assert made.gets(made.others, OTHER_RECEIVER)
    made.close()


@pytest.mark.parametrize("case", named("C", by_producers.CASES))
def test_a_producer_that(case: by_producers.Case) -> None:
    made, other = consumer.consumer_of(case.when), Consumer()
    assert consumer.outcome(made, case.data) == case.must
    fails = case.must in (by_producers.FAILS, by_producers.ALL_FAIL)
    assert isinstance(made.channels[0].error, case.error if fails else NoneType)
    for each in (made, other):
        beside = each.channels[-1]
        if beside.error is None:
            kind = by_producers.DATA if beside.initial_credit else by_producers.EVENT
            each.receive(by_producers.buffer(to=beside.receiver_id, kind=kind))
            assert len(beside.received) == 1
    assert other.channels[0].error is None
    for each in (made, other):
        each.close()
        each.connection.receive_eof(now_ns=0)
        assert each.memory.available_buffers == each.memory.total_buffers


@pytest.mark.parametrize(
    "case", by_clients.CASES, ids=lambda case: f"J{case.number:02d}-{case.said}"
)
def test_a_client_that(case: by_clients.Case) -> None:
    server = ControlConnection("secret", peer="127.0.0.1:4")
    if case.when == by_clients.LATER:
        by_clients.show_secret(server)
        assert server.peer_role is not None
    with pytest.raises(RemoteProtocolError, match=case.why):
        server.receive_data(memoryview(case.data), now_ns=0)
    assert not server.received
    assert server.loss is not None
    assert server.is_closing
    assert server.fault
    *_, refusal = server.data_to_send(now_ns=0)
    said = decode_message(control_messages.MESSAGES, bytes(refusal)[4:])
    assert isinstance(said, control_messages.Refused)


CREDIT = AddCredit(7, RECEIVER).encode() * HONEST
DATA = b"".join(observed_buffer(n, elements([40])).encode() for n in range(HONEST))


@pytest.mark.parametrize(
    ("cases", "side", "honest", "column", "last"),
    [
        (by_consumers.CASES, CLIENT, CREDIT, "value", 7),
        (by_producers.CASES, SERVER, DATA, "sequence_number", HONEST - 1),
    ],
    ids=["a consumer", "a producer"],
)
def test_a_tap_sees_the_later_messages_whatever_was_said(
    cases: Iterable[Any], side: Any, honest: bytes, column: str, last: int
) -> None:
    for case in cases:
        observed = Observed().show([(CLIENT, observed_request().encode()), (side, case.data)])
        observed.show([(side, honest)])
        assert observed.rows.all[-1][column] == last, case
        summary = observed.observer.summary()
        from_side = summary["bytes_from_client"] if side == CLIENT else summary["bytes_from_server"]
        assert from_side >= len(case.data) + len(honest)
        assert summary["skipped_bytes"] > 0 or case.said not in OF_NO_PROTOCOL, case


def test_the_page_is_made_from_the_tables() -> None:
    assert PATH.read_text(encoding="utf-8") == document(), "run python -m tests.peers.document"


def test_differences_are_of_cases_that_exist() -> None:
    tables = (("P", by_consumers), ("C", by_producers), ("J", by_clients))
    numbers = {f"{letter}{case.number:02d}" for letter, each in tables for case in each.CASES}
    assert DIFFERENCES.keys() | NOT_COMPARED.keys() <= numbers
    assert not DIFFERENCES.keys() & NOT_COMPARED.keys()
