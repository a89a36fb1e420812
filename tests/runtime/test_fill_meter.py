"""Fill levels in the runtime: of sockets as the kernel tells them, and over a whole run."""

from __future__ import annotations

import socket
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

from flinknet.config import CREDIT, TCP, RecordSize, Scenario, SlowConsumer, WorkloadConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import NullProbe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.results import ChannelLevels, FillLevels, FillSample
from flinknet.runtime.cluster.launcher import run_scenario
from flinknet.runtime.event_loop import EventLoop
from flinknet.runtime.fill_meter import CHANNELS_MAX, SAMPLES_MAX, FillMeter, FillTimeline

MS = 1_000_000
INTERVAL_NS = 50 * MS


def sample(at_ns: int, **levels: int) -> FillSample:
    return FillSample(at_ns, FillLevels(**levels), True, True, True)


def test_the_halves_of_all_task_managers_are_put_together_as_they_were_last_seen() -> None:
    timeline = FillTimeline(INTERVAL_NS)
    timeline.add(0, sample(1000, subpartition_bytes=5))
    timeline.add(1, sample(1000 + 10 * MS, input_channel_bytes=7))
    timeline.add(
        1, FillSample(1000 + 60 * MS, FillLevels(input_channel_bytes=9), False, True, True)
    )
    bounds = [FillLevels(subpartition_bytes=100), FillLevels(input_channel_bytes=50)]
    buffering = timeline.buffering(1000, bounds)
    assert buffering.bounds == FillLevels(subpartition_bytes=100, input_channel_bytes=50)
    assert [each.at_ns for each in buffering.samples] == [0, INTERVAL_NS]
    assert [each.levels for each in buffering.samples] == [
        FillLevels(subpartition_bytes=5, input_channel_bytes=7),
        FillLevels(subpartition_bytes=5, input_channel_bytes=9),
    ]
    assert [each.is_reading for each in buffering.samples] == [True, False]


def test_the_ends_are_joined_by_channel_in_runs_of_few() -> None:
    def joined(*halves: tuple[ChannelLevels, ...]) -> tuple[ChannelLevels, ...]:
        timeline = FillTimeline(INTERVAL_NS)
        for index, channels in enumerate(halves):
            timeline.add(index, replace(sample(1000), channels=channels))
        (only,) = timeline.buffering(1000, []).samples
        return only.channels

    written = (ChannelLevels(0, subpartition_bytes=5), ChannelLevels(1, subpartition_bytes=6))
    received = (ChannelLevels(1, input_channel_bytes=7),)
    assert joined(written, received) == (ChannelLevels(0, 5, 0), ChannelLevels(1, 6, 7))
    assert joined(written[:1], ()) == ()  # of one channel the places have everything
    assert joined(tuple(ChannelLevels(each) for each in range(CHANNELS_MAX + 1))) == ()


def test_a_long_run_is_thinned_out() -> None:
    timeline = FillTimeline(INTERVAL_NS)
    for number in range(10 * SAMPLES_MAX):
        timeline.add(0, sample(number * INTERVAL_NS))
    assert SAMPLES_MAX / 2 < len(timeline.buffering(0, []).samples) <= SAMPLES_MAX


def test_a_run_without_samples_has_a_timeline_without_any() -> None:
    assert FillTimeline(INTERVAL_NS).buffering(0, []).samples == ()


@pytest.mark.parametrize(
    ("is_blocked", "is_ready", "is_writing"),
    [(False, False, True), (True, False, False), (True, True, True)],
)
def test_a_source_whose_buffers_have_come_back_does_not_wait(
    is_blocked: bool, is_ready: bool, is_writing: bool
) -> None:
    source: Any = SimpleNamespace(is_blocked=is_blocked, is_ready=is_ready)
    meter = FillMeter(total_buffers=1, segment_size_bytes=4096, is_broadcast=False)
    assert meter.sample([], [source], now_ns=5).is_writing is is_writing


@pytest.mark.socket
@pytest.mark.row("S101")
def test_bytes_in_sockets_are_counted_on_the_side_where_they_lie() -> None:
    producer = ProducerConnection(
        ResultPartitionManager(), NullProbe(), {}, partition_request_timeout_ns=1
    )
    consumer = ConsumerConnection("the producer", NullProbe())
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    loop = EventLoop(may_spin=False)
    try:
        ends = [loop.add_transport(accepted, producer), loop.add_transport(client, consumer)]
        memory = NetworkBufferPool(1, 4096)
        meter = FillMeter(
            total_buffers=memory.total_buffers,
            segment_size_bytes=memory.segment_size_bytes,
            is_broadcast=False,
        )
        sent = 0
        while True:  # until neither socket takes any more
            try:
                sent += accepted.send(bytes(100_000))
            except BlockingIOError:
                break
        seen = meter.sample(ends, [], now_ns=5)
        levels, bounds = seen.levels, meter.bounds()
        assert levels.socket_receive_bytes > 0
        assert levels.socket_send_bytes > 0
        both = levels.socket_send_bytes + levels.socket_receive_bytes
        assert sent <= both <= sent + levels.socket_receive_bytes  # not acknowledged: in both
        assert levels.socket_send_bytes <= bounds.socket_send_bytes
        assert levels.socket_receive_bytes <= bounds.socket_receive_bytes
        assert levels.netty_outbound_bytes == levels.netty_inbound_bytes == 0
        assert (seen.at_ns, seen.is_reading, seen.is_writable, seen.is_writing) == (5, *[True] * 3)
    finally:
        loop.close()


def paused(flow_control: str) -> Scenario:
    """Two pairs of tasks over one connection; the second consumer pauses for the measured part."""
    return Scenario(
        workload=WorkloadConfig(
            producers=2,
            consumers=2,
            partitioner="forward",
            rate_per_s=10_000.0,
            record_size=RecordSize(1000, 1000),
            warmup_ns=100 * MS,
            duration_ns=1000 * MS,
            slow_consumers=(SlowConsumer(1, -1, slow_ns=1000 * MS),),
        ),
        flow_control=flow_control,
    )


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.socket
@pytest.mark.row("S101")
@pytest.mark.row("S074")
@pytest.mark.row("S102")
@pytest.mark.parametrize("flow_control", [CREDIT, TCP])
def test_a_run_tells_what_lay_where_and_no_place_held_more_than_it_can(flow_control: str) -> None:
    result = run_scenario(
        paused(flow_control), out_dir=None, trace=False, sample_interval_ns=INTERVAL_NS
    )
    has_credit = flow_control == CREDIT
    assert (result.measured.credits.messages > 0) == has_credit
    assert [channel.records for channel in result.channels] == [10_000, 10_000]
    assert result.buffering is not None
    samples, bounds = result.buffering.samples, result.buffering.bounds
    for each in samples:
        for place in fields(FillLevels):
            assert getattr(each.levels, place.name) <= getattr(bounds, place.name), place.name
        assert each.levels.total_bytes <= bounds.total_bytes
        assert sum(x.subpartition_bytes for x in each.channels) == each.levels.subpartition_bytes
        assert sum(x.input_channel_bytes for x in each.channels) == each.levels.input_channel_bytes
    pauser = [each.channels[1] for each in samples if len(each.channels) > 1]
    assert max(each.input_channel_bytes for each in pauser) > 200_000
    assert max(each.levels.input_channel_bytes for each in samples) > 200_000
    assert all(each.is_reading for each in samples) == has_credit
    assert (max(each.levels.netty_inbound_bytes for each in samples) == 0) == has_credit
    neighbour, slow = (channel.taken_records_per_s for channel in result.channels)
    assert neighbour is not None
    assert slow is not None
    # How fast the machine is does not matter: the one is fed all the time, the other starved.
    assert (neighbour > 10 * slow) or not has_credit
    if not has_credit:
        assert neighbour < 5_000
        # the consumer does not read, so the socket takes nothing, so the producer waits
        stopped = [(each.is_reading, each.is_writable, each.is_writing) for each in samples]
        assert (False, False, False) in stopped
