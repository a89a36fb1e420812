"""A producer for TaskManagers that are not flinknet's: what it says while nobody comes."""

from __future__ import annotations

from threading import Thread

import pytest

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.errors import FlinknetError
from flinknet.job.load.plan import load_plan_of
from flinknet.runtime.cluster.peer import consumer_plan, producers_plan
from flinknet.runtime.cluster.peer_ends import ConsumerPeer, ProducerPeer

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


def test_a_producer_without_a_place_to_spill_ends_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: str) -> None:
        raise FlinknetError("the disk is full")

    monkeypatch.setattr("flinknet.runtime.cluster.peer.work_directory", fail)
    scenario = Scenario(workload=WorkloadConfig(records=1, partition_type="blocking", warmup_ns=0))
    peer = ProducerPeer(
        producers_plan(scenario, [load_plan_of(scenario).channels[0].partition_id]),
        directory=None,
        interrupts=[],
        on_listening=lambda _: None,
        on_writing=lambda: None,
        on_waiting=lambda _: None,
    )
    with pytest.raises(FlinknetError, match="the disk is full"):
        peer.run()
    peer.close()
    assert peer.result().records == 0


def test_a_producer_sends_barriers_at_the_interval_of_checkpoints() -> None:
    network = NetworkConfig(checkpoint_interval_ns=10_000_000)
    workload = WorkloadConfig(records=100, rate_per_s=1000, warmup_ns=0)
    scenario = Scenario(network, workload)
    partition = load_plan_of(scenario).channels[0].partition_id
    peers: list[ConsumerPeer] = []

    def consume(address: str) -> None:
        host, _, port = address.rpartition(":")
        peers.append(
            ConsumerPeer(
                consumer_plan(Scenario(), [partition], (0,)),
                (host, int(port)),
                is_stamped=True,
                directory=None,
                interrupts=[],
            )
        )
        consuming.append(Thread(target=peers[0].run))
        consuming[0].start()

    consuming: list[Thread] = []
    producer = ProducerPeer(
        producers_plan(scenario, [partition]),
        directory=None,
        interrupts=[],
        on_listening=consume,
        on_writing=lambda: None,
        on_waiting=lambda _: None,
    )
    try:
        producer.run()
        consuming[0].join()
    finally:
        for peer in (producer, *peers):
            peer.close()
    (channel,) = peers[0].result().channels
    assert channel.records == 100
    assert channel.events["ALIGNED_CHECKPOINT_BARRIER"] > 0
