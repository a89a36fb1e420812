"""What misbehaving peers say, as a tap sees it: it follows what comes behind. That it passes on
what it does not understand: tests/capture/test_tap.py.
"""

from __future__ import annotations

from flinknet.core.wire.messages import AddCredit
from tests.capture.conversations import CLIENT, SERVER, Observed, buffer, elements, request
from tests.pair import RECEIVER
from tests.peers import by_consumers, by_producers, frames

HONEST = 400
"""Messages that follow: more bytes than any frame of the tables claims and does not have."""


def test_whatever_a_consumer_says_its_later_messages_are_seen() -> None:
    credit = AddCredit(7, RECEIVER).encode() * HONEST
    for case in by_consumers.CASES:
        observed = Observed().show([(CLIENT, request().encode()), (CLIENT, case.data)])
        observed.show([(CLIENT, credit)])
        assert observed.rows.all[-1]["value"] == 7, case
        summary = observed.observer.summary()
        assert summary.bytes_from_client >= len(case.data) + len(credit)
        is_no_message = case.said in frames.OF_NO_PROTOCOL
        assert summary.skipped_bytes > 0 or not is_no_message, case


def test_whatever_a_producer_says_its_later_messages_are_seen() -> None:
    data = b"".join(buffer(number, elements([40])).encode() for number in range(HONEST))
    for case in by_producers.CASES:
        observed = Observed().show([(CLIENT, request().encode()), (SERVER, case.data)])
        observed.show([(SERVER, data)])
        assert observed.rows.all[-1]["sequence_number"] == HONEST - 1, case
        summary = observed.observer.summary()
        assert summary.bytes_from_server >= len(case.data) + len(data)
        is_no_message = case.said in frames.OF_NO_PROTOCOL
        assert summary.skipped_bytes > 0 or not is_no_message, case
