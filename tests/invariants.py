"""Invariants of the stack's parts, asserted on their inner state, and views of it for checkers."""

from __future__ import annotations

from functools import singledispatch
from itertools import islice

from flinknet.core.buffers import DataType, LocalBufferPool, NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.consumer.buffer_manager import BufferManager
from flinknet.core.consumer.priority_events import ReceivedBuffers, _is_before
from flinknet.core.producer import PipelinedSubpartition, ProducerConnection
from flinknet.core.producer.approximate_subpartition import PipelinedApproximateSubpartitionView
from flinknet.core.producer.view_reader import (
    UNCOUNTED,
    CreditBasedSequenceNumberingViewReader,
    SequenceNumberingViewReader,
)
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.core.wire.events import decode_event
from flinknet.core.wire.layout import next_sequence_number

PRIORITIZED_EVENT = int(DataType.PRIORITIZED_EVENT_BUFFER)


@singledispatch
def check_invariants(part: object) -> None:
    """Assert the invariants of a part of the stack."""
    raise TypeError(f"{type(part).__name__} has no invariants")


@check_invariants.register
def _(pool: LocalBufferPool) -> None:
    """Assert that free, used and requested segments add up."""
    free, requested = len(pool._free), pool.requested_buffers
    assert 0 <= free <= requested, f"{free} segments are free of {requested} requested"
    assert not free or requested <= pool.size_buffers, (
        f"{free} segments are kept though {requested} exceed the size {pool.size_buffers}"
    )
    charged, quota = pool._channel_buffers, pool.max_buffers_per_channel
    assert min(charged, default=0) >= 0, f"channels are charged {charged}"
    assert sum(charged) <= requested - free, (
        f"channels are charged {charged}, {requested - free} segments are out"
    )
    at_quota = len([count for count in charged if count >= quota])
    assert at_quota == pool._channels_at_quota, (
        f"{at_quota} channels are at their quota, not {pool._channels_at_quota}"
    )
    assert not pool.is_destroyed or not (free or pool._listeners), (
        "a destroyed pool has segments or listeners"
    )


@check_invariants.register
def _(memory: NetworkBufferPool) -> None:
    """Assert that no segment is in two places, and that pools do not exceed the total."""
    for pool in memory._pools:
        check_invariants(pool)
    free = free_segments(memory)
    assert len(free) == len(set(free)), "a segment is free in two places"
    for pool in memory._pools:
        assert not pool.waits_for_segment or pool in memory._waiting_pools, (
            "a pool whose listeners wait for a segment is on no list"
        )
    requested = sum([pool.requested_buffers for pool in memory._pools])
    assert memory.available_buffers + requested <= memory.total_buffers, (
        f"{memory.available_buffers} segments are free and {requested} in local pools,"
        f" of {memory.total_buffers}"
    )
    exclusive = memory._required_buffers - sum([pool.required_buffers for pool in memory._pools])
    assert exclusive >= 0, f"{exclusive} exclusive segments"
    sizes = sum([pool.size_buffers for pool in memory._pools])
    assert exclusive + sizes <= memory.total_buffers, (
        f"{exclusive} exclusive segments and pools of {sizes}, of {memory.total_buffers}"
    )


@check_invariants.register
def _(manager: BufferManager) -> None:
    """Assert that free floating and exclusive buffers add up and are distinct, and that missing
    buffers are requested from the pool.
    """
    free, floating = manager._free, manager.floating_buffers
    assert len({id(segment) for segment in free}) == len(free), "a segment is free twice"
    assert 0 <= len(free) - floating <= manager.initial_credit, (
        f"{len(free)} buffers are free, {floating} of them floating, with"
        f" {manager.initial_credit} exclusive ones"
    )
    assert floating >= 0, f"{floating} floating buffers"
    assert not manager.is_released or not free, f"{len(free)} buffers are free after the release"
    if manager.is_released or manager.pool.is_destroyed:
        return
    assert manager._is_waiting or manager.required_buffers <= len(free), (
        f"{len(free)} buffers are free of {manager.required_buffers}, and none is waited for"
    )
    assert not manager._is_waiting or manager in manager.pool._listeners, (
        "a channel that waits for a buffer is on no list"
    )


@check_invariants.register
def _(connection: ConsumerConnection) -> None:
    """Assert that unannounced credit is queued for sending."""
    for channel in connection._channels.values():
        assert (
            not channel.unannounced_credit
            or channel.is_released
            or channel in connection._with_credit
        ), f"credit {channel.unannounced_credit} of channel {channel.index} is on no list"


@check_invariants.register
def _(remote: RemoteInputChannel) -> None:
    """Assert that no more credit is announced than buffers are free, and that queued buffers
    are valid and in order. The credit of a channel without exclusive buffers starts again after
    a blocking event.
    """
    check_invariants(remote.buffers)
    credit, free = remote.unannounced_credit, remote.buffers.available_buffers
    assert credit >= 0, f"unannounced credit {credit}"
    assert remote.is_released or not remote.initial_credit or credit <= free, (
        f"unannounced credit {credit} with {free} free buffers"
    )
    check_order(remote.received)


@check_invariants.register
def _(gate: SingleInputGate) -> None:
    """Assert that every readable channel is in the ready queue, once, and those with a priority
    event are first.
    """
    ready = [each.index_in_gate for each in gate._ready]
    assert len(set(ready)) == len(ready), f"channels {ready} are queued twice"
    assert 0 <= gate._priority_elements <= len(ready), (
        f"{gate._priority_elements} channels of {len(ready)} have a priority event"
    )
    for channel in gate.channels:
        index = channel.index_in_gate
        is_queued = index in ready
        assert is_queued == gate._is_queued[index], f"channel {channel.index} is not queued"
        has_news = bool(channel.received) or channel.error is not None
        assert is_queued or not has_news or gate.is_closed or index in gate._ended, (
            f"channel {channel.index} has something to read and is on no list"
        )


@check_invariants.register
def _(connection: ProducerConnection) -> None:
    """Assert the credit of all open channels, and that exactly the readers that can send are
    queued, but those that wait for their consumer.
    """
    readers = connection.queue.readers
    for reader in connection.queue.available:
        assert readers.get(reader.receiver_id) is reader, (
            f"channel {reader.channel} is closed and queued"
        )
    for reader in readers.values():
        check_invariants(reader)
        assert reader.is_enqueued == (reader in connection.queue.available), (
            f"channel {reader.channel} is enqueued or is not"
        )
        read = reader.subpartition
        assert (
            reader.is_enqueued
            or not reader.is_available
            or reader in connection._handler.notified
            or awaits_resumption(read)
        ), f"channel {reader.channel} may send and is on no list"


@check_invariants.register
def _(reader: SequenceNumberingViewReader) -> None:
    """Assert that credit is not counted."""
    assert reader.credits_available == UNCOUNTED, f"credit {reader.credits_available}"


@check_invariants.register
def _(reader: CreditBasedSequenceNumberingViewReader) -> None:
    """Assert that credit is not negative, and that only a reader without credit is starved."""
    credit = reader.credits_available
    assert credit >= 0, f"credit {credit}"
    assert reader.starved_since_ns < 0 or not credit, f"starved with credit {credit}"


@check_invariants.register
def _(subpartition: PipelinedSubpartition) -> None:
    """Assert that backlog and priority counts match the queue, and that no queued buffer was
    recycled.
    """
    queue = subpartition._queue
    waiting = len([each for each in queue if each.is_buffer])
    assert subpartition.buffers_in_backlog == waiting, (
        f"backlog {subpartition.buffers_in_backlog}, {waiting} data buffers are queued"
    )
    types = queued_types(subpartition)
    priority = types.count(PRIORITIZED_EVENT)
    assert types[: subpartition._priority_elements] == [PRIORITIZED_EVENT] * priority, (
        f"{subpartition._priority_elements} priority events lead, of {priority}"
    )
    barriers = [decode_event(each.buffer.payload) for each in islice(queue, priority)]
    ids = [each.checkpoint_id for each in barriers if isinstance(each, CheckpointBarrier)]
    assert ids == sorted(ids), f"barriers of checkpoints {ids} lead in this order"
    for each in queue:
        assert each.buffer.references > 0, "a queued buffer was given back"
    assert not subpartition.is_released or not queue, "a released subpartition has buffers"


def check_order(received: ReceivedBuffers) -> None:
    """Assert that no queued buffer was recycled, and that priority events are first, in the order
    in which they were sent.
    """
    before: int | None = None
    is_priority = True
    for buffer, number in received:
        assert buffer.references > 0, f"buffer {number} was given back before it was read"
        if buffer.data_type == PRIORITIZED_EVENT:
            assert is_priority, f"priority event {number} waits behind others"
            assert before is None or not _is_before(number, before), (
                f"priority event {number} waits behind {before}"
            )
            before = number
        else:
            is_priority = False


@singledispatch
def free_segments(part: object) -> list[int]:
    """Identities of the free segments of a pool or channel; of the network memory those that are
    free there and in its local pools, but for those that nobody has ever requested.
    """
    assert isinstance(part, LocalBufferPool | BufferManager)
    return [id(segment) for segment in part._free]


@free_segments.register
def _(memory: NetworkBufferPool) -> list[int]:
    free = [id(segment) for segment in memory._free]
    for pool in memory._pools:
        free += free_segments(pool)
    return free


def queued_types(subpartition: PipelinedSubpartition) -> list[int]:
    """Data types of the queued elements, in order."""
    return [each.data_type for each in subpartition._queue]


def queued_segments(subpartition: PipelinedSubpartition) -> set[int]:
    """Identities of the queued elements' segments."""
    return {id(each.buffer.segment) for each in subpartition._queue}


def unflushed_bytes(subpartition: PipelinedSubpartition) -> int:
    """Queued bytes that wait for more records, or for a flush."""
    queue = subpartition._queue
    if not queue or subpartition._flush_requested or queue[-1].is_finished:
        return 0
    return queue[-1].unread_bytes


def awaits_resumption(view: object) -> bool:
    """Whether a view is blocked and a priority event has left since: its reader is not notified of
    another one until it may go on, as in Flink.
    """
    if isinstance(view, PipelinedApproximateSubpartitionView):
        view = view._subpartition
    return (
        isinstance(view, PipelinedSubpartition)
        and view.is_blocked
        and view._sequence_number != next_sequence_number(view._blocked_at)
    )
