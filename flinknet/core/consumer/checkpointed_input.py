"""CheckpointedInput: handles the events of a task's gate (Flink: CheckpointedInputGate).

Recovery, barriers, cancellations and ends go to the barrier handler. For an unaligned checkpoint,
the overtaken data, which it would store, is counted.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.buffers import DataType
from flinknet.core.wire import events
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.errors import FrameCorruptedError

from .checkpoint_barriers import (
    CheckpointableTask,
    CheckpointBarrierTracker,
    SingleCheckpointBarrierHandler,
)
from .input_channel import RemoteInputChannel
from .input_gate import InputChannel, SingleInputGate, UnionInputGate
from .priority_events import data_bytes_before

_ALIGNS_BY_ITSELF = frozenset({DataType.RECOVERY_COMPLETION, DataType.ALIGNED_WATERMARK_EVENT})
"""Blocking events that unblock all channels once they have arrived on each, without
other effect.
"""

NO_CHECKPOINT = -1


Gate = SingleInputGate | UnionInputGate
"""The gate of a task; `index_in_input` is a channel's position in it."""

CheckpointBarrierHandler = SingleCheckpointBarrierHandler | CheckpointBarrierTracker
"""Handles barriers for exactly-once or at-least-once."""


class CheckpointedInput(CheckpointableTask):
    """Handles the events of one gate. The subclass, the task's, implements the checkpoint.

    All data of a channel from the start of an unaligned checkpoint to the channel's barrier belongs
    to it: what is queued, and what the task reads until then (Flink: ChannelStatePersister).
    Differs from Flink in that a buffer counts as read when the task takes it, not after its last
    record.

    Attributes:
        read_bytes: bytes of data read so far, by `index_in_input`; kept up to date by the task.
        ended_data_channels: number of channels whose records have all been read.
        is_recovered: whether the end of recovery has arrived on every channel.
        overtaken_bytes: bytes that the last unaligned checkpoint would store.
    """

    def __init__(
        self, gate: Gate, create_handler: Callable[[CheckpointableTask], CheckpointBarrierHandler]
    ) -> None:
        self.read_bytes = [0] * len(gate.channels)
        self._gate = gate
        self._handler = create_handler(self)
        self._counted_checkpoint = NO_CHECKPOINT  # whose data in flight is counted
        self._counted_bytes = 0
        self._read_at_start: dict[int, int] = {}
        self._reading: tuple[int, int] = (-1, -1)
        self._waiting: dict[int, list[InputChannel]] = {}
        self._ended_channels = 0
        self._ended_data: set[int] = set()
        self.ended_data_channels = 0
        self.is_recovered = False
        self.overtaken_bytes = 0

    def handle(
        self,
        event: events.Event,
        data_type: int,
        channel: InputChannel,
        sequence_number: int,
        *,
        now_ns: int,
    ) -> None:
        """Handle an event. Raises: FrameCorruptedError for a channel that ends twice, or never."""
        handler = self._handler
        place = channel.index_in_input
        if isinstance(event, events.EndOfData):
            if place in self._ended_data:
                raise FrameCorruptedError(f"channel {channel.index} has ended its data twice")
            self._ended_data.add(place)
            self.ended_data_channels += 1
            channel.acknowledge_all_records_processed()
        elif isinstance(event, events.EndOfPartitionEvent):
            if place not in self._ended_data:
                raise FrameCorruptedError(f"channel {channel.index} ended before its data did")
            self._gate.end_channel(channel)
            self._ended_channels += 1
            for waited_for in list(self._waiting):
                self._resume_if_all_wait(waited_for)
            self._count_in_flight(place, None)
            handler.receive_end_of_partition(place, now_ns=now_ns)
        elif data_type in _ALIGNS_BY_ITSELF:
            self._waiting.setdefault(data_type, []).append(channel)
            self._resume_if_all_wait(data_type)
        elif isinstance(event, CheckpointBarrier):
            self._reading = (place, sequence_number)
            if event.checkpoint_id == self._counted_checkpoint:
                self._count_in_flight(place, sequence_number)
            handler.receive_barrier(event, place, now_ns=now_ns)
            self._reading = (-1, -1)
        elif isinstance(event, events.EventAnnouncement):
            announced = event.announced_event
            if isinstance(announced, CheckpointBarrier):
                handler.receive_announcement(announced, event.sequence_number, place, now_ns=now_ns)
        elif isinstance(event, events.CancelCheckpointMarker):
            handler.receive_cancellation(event.checkpoint_id, place, now_ns=now_ns)

    def next_deadline_ns(self) -> int | None:
        return self._handler.next_deadline_ns()

    def handle_deadline(self, *, now_ns: int) -> None:
        self._handler.handle_deadline(now_ns=now_ns)

    # CheckpointableTask: called by the barrier handler

    def resume_consumption(self, channel: int) -> None:
        self._gate.channels[channel].resume_consumption()

    def convert_to_priority_event(self, channel: int, sequence_number: int) -> None:
        """Let an announced barrier overtake data; only remote channels announce any."""
        remote = self._gate.channels[channel]
        assert isinstance(remote, RemoteInputChannel)
        remote.convert_to_priority_event(sequence_number)

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        self._counted_checkpoint = barrier.checkpoint_id
        self._counted_bytes = 0
        self._read_at_start = dict(enumerate(self.read_bytes))
        self._count_in_flight(*self._reading)

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        self.overtaken_bytes = self._counted_bytes
        self._counted_checkpoint = NO_CHECKPOINT
        self._read_at_start.clear()

    def _count_in_flight(self, channel: int, sequence_number: int | None) -> None:
        """Stop counting for a channel: its barrier has arrived, or (None) it ended without one."""
        read_at_start = self._read_at_start.pop(channel, None)
        if read_at_start is not None:
            self._counted_bytes += self.read_bytes[channel] - read_at_start
            waiting = self._gate.channels[channel]
            if isinstance(waiting, RemoteInputChannel):  # a local one's data is at its producer
                self._counted_bytes += data_bytes_before(waiting.received, sequence_number)

    def _resume_if_all_wait(self, data_type: int) -> None:
        """Unblock all channels if the event has arrived on each, or the channel has ended."""
        waiting = self._waiting[data_type]
        if len(waiting) + self._ended_channels == len(self._gate.channels):
            del self._waiting[data_type]
            for each in waiting:
                each.resume_consumption()
            if data_type == DataType.RECOVERY_COMPLETION:
                self.is_recovered = True
