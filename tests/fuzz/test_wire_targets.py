"""What targets tell apart before they decide how far to follow an input."""

from __future__ import annotations

from flinknet.core.wire.messages import AddCredit
from tests.fuzz.wire_targets import refuse, refusing_producer
from tests.pair import RECEIVER
from tests.peers.by_consumers import NEW, READS, request
from tests.peers.producer import Producer, tell


def test_a_producer_shows_what_it_did_before_it_refused() -> None:
    for when, said in ((READS, AddCredit(5, RECEIVER)), (NEW, request())):
        producer = Producer(when)
        tell(producer.peer, said)
        refuse(producer.peer)
        assert producer.figures() != refusing_producer(when)
