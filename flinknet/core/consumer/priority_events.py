# mypyc
"""The receive queue of a channel over a connection: priority events first, in the order in which
they were sent, then the rest (Flink: PrioritizedDeque of SequenceBuffer).
"""

from __future__ import annotations

from collections import deque

from flinknet.core.buffers import DataType, MemorySegment, NetworkBuffer, free_memory
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.core.wire.events import Event, EventAnnouncement, decode_event, encode_pipelined
from flinknet.errors import FrameCorruptedError

PRIORITIZED_EVENT = int(DataType.PRIORITIZED_EVENT_BUFFER)
TIMEOUTABLE_BARRIER = int(DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER)

ReceivedBuffers = deque[tuple[NetworkBuffer, int]]
"""Buffers and events, each with its sequence number."""


def unpooled_buffer(data: bytes, data_type: int) -> NetworkBuffer:
    return NetworkBuffer(MemorySegment(memoryview(data)), free_memory, data_type, len(data))


def add_priority_event(
    received: ReceivedBuffers, buffer: NetworkBuffer, sequence_number: int
) -> bool:
    """Queue a priority event behind earlier ones, before the rest. Returns: whether it is alone."""
    position, is_only = 0, True
    for queued, number in received:
        if queued.data_type != PRIORITIZED_EVENT:
            break
        is_only = False
        if _is_before(sequence_number, number):
            break
        position += 1
    received.insert(position, (buffer, sequence_number))
    return is_only


def announce_barrier(
    received: ReceivedBuffers, buffer: NetworkBuffer, sequence_number: int
) -> bool:
    """Queue the announcement of a queued barrier that may time out. Returns: whether there was no
    priority event before. Raises: FrameCorruptedError if it is another event, or none.
    """
    announcement = EventAnnouncement(_barrier_in(buffer), sequence_number)
    return add_priority_event(received, _priority_event(announcement), sequence_number)


def make_unaligned(received: ReceivedBuffers, sequence_number: int, channel: int) -> bool:
    """Replace the announced barrier with this number by an unaligned one, which overtakes the data
    before it. Returns: whether there was no priority event before.

    Differs from Flink in that a barrier of the next checkpoint may have arrived; Flink's task fails
    then (RemoteInputChannel.convertToPriorityEvent: lastBarrierSequenceNumber).

    Raises: RuntimeError if there is no such barrier.
    """
    queued = [(buffer.data_type, number) for buffer, number in received]
    announced = (TIMEOUTABLE_BARRIER, sequence_number)
    if announced not in queued:
        raise RuntimeError(f"channel {channel} holds no barrier {sequence_number}")
    position = queued.index(announced)
    buffer, _ = received[position]
    del received[position]
    unaligned = _barrier_in(buffer).as_unaligned()
    buffer.recycle()
    return add_priority_event(received, _priority_event(unaligned), sequence_number)


def data_bytes_before(received: ReceivedBuffers, sequence_number: int | None) -> int:
    """Bytes of the queued data sent before a message; of all queued data if None."""
    return sum(
        buffer.size_bytes
        for buffer, number in received
        if buffer.data_type in IS_BUFFER
        and (sequence_number is None or _is_before(number, sequence_number))
    )


def _barrier_in(buffer: NetworkBuffer) -> CheckpointBarrier:
    event = decode_event(buffer.payload)
    if not isinstance(event, CheckpointBarrier):
        raise FrameCorruptedError(f"{type(event).__name__} was sent as a barrier that may time out")
    return event


def _priority_event(event: Event) -> NetworkBuffer:
    return unpooled_buffer(encode_pipelined(event), PRIORITIZED_EVENT)


def _is_before(number: int, other: int) -> bool:
    """Whether a sequence number is before another; they wrap at 32 bits."""
    return (number - other) & 0xFFFF_FFFF > 0x7FFF_FFFF
