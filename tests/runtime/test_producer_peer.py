"""A producer for TaskManagers that are not flinknet's: what it says while nobody comes."""

from __future__ import annotations

import pytest

from flinknet.config import Scenario, WorkloadConfig
from flinknet.job.load.peer import producers_plan
from flinknet.job.load.plan import load_plan_of
from flinknet.runtime.cluster.producer_peer import ProducerPeer

pytestmark = pytest.mark.socket


def test_a_producer_says_what_it_waits_for_until_it_is_interrupted() -> None:
    interrupts: list[int] = []
    told: list[str] = []

    def note(what: str) -> None:
        told.append(what)
        if len(told) == 3:
            interrupts.append(2)

    scenario = Scenario(workload=WorkloadConfig(consumers=4, records=1, warmup_ns=0))
    peer = ProducerPeer(
        producers_plan(scenario, [load_plan_of(scenario).channels[0].partition_id]),
        directory=None,
        interrupts=interrupts,
        on_listening=lambda _: None,
        on_writing=lambda: None,
        on_waiting=note,
        note_every_ns=0,
    )
    try:
        peer.run()
    finally:
        peer.close()
    assert told == [f"4 of 4 subpartitions to be requested from {peer.peer}"] * 3
    assert peer.result().end == "cancelled"
