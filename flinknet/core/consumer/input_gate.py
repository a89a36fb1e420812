# mypyc
"""SingleInputGate: all channels of one input, read in turns of one buffer.

Invariants: a channel stands in the ready queue at most once, and stands there while it has
    something to read; channels with a priority event stand before the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from flinknet.core.buffers import BufferSlice, DataType, LocalBufferPool, NetworkBuffer
from flinknet.core.wire.events import EndOfInputChannelStateEvent, OtherEvent
from flinknet.errors import FlinknetError, GateClosedError

from .input_channel import RemoteInputChannel
from .local_channel import LocalInputChannel
from .priority_events import PRIORITIZED_EVENT, unpooled_buffer

InputChannel = RemoteInputChannel | LocalInputChannel
"""A channel of either kind; `is_local` tells which."""

InputBuffer = NetworkBuffer | BufferSlice
"""A buffer or event that was read: of the consumer's memory, or the producer's own. Both have
`view`, `size_bytes`, `data_type`, `payload` and `recycle`."""

Polled = tuple[InputChannel, InputBuffer, int]
"""Channel, buffer or event, sequence number."""

RECOVERED = -1
"""Sequence number of what was not sent."""


class SingleInputGate:
    """The consuming end of one edge in one subtask (Flink: SingleInputGate).

    `is_available` and `has_priority_events`, asked after a poll, are what Flink returns with each
    element as "more available" and "more priority events"; they are also what its two availability
    futures stand for.

    Args:
        index: of the gate among those of its task.
        channels: how many there will be; None for as many as are set.
        pool: of the floating buffers, given back when the gate is closed.

    Attributes:
        listener: hears that the gate has something to read and had nothing before, or (True) a
            priority event and had none.
        is_state_consumed: what was recovered of its channels has been read, or there was nothing;
            partitions are not requested before.
        state_listener: hears that this has become so, in the turn of the task that read it (Flink:
            getStateConsumedFuture, with what is run in the mailbox then).
    """

    def __init__(
        self,
        index: int = 0,
        *,
        channels: int | None = None,
        pool: LocalBufferPool | None = None,
    ) -> None:
        self.index = index
        self.channels: Sequence[InputChannel] = ()
        self.is_requested = False
        self.is_closed = False
        self.listener: Callable[[SingleInputGate, bool], None] | None = None
        self.is_state_consumed = True
        self.state_listener: Callable[[SingleInputGate], None] | None = None
        self._recovering: set[int] = set()
        self._expected_channels = channels
        self._pool = pool
        self._local: Sequence[LocalInputChannel] = ()
        self._ready: deque[InputChannel] = deque()
        self._priority_channels = 0  # first so many of the ready ones
        self._is_queued: list[bool] = []
        self._ended: set[int] = set()
        self._unsent: list[tuple[InputChannel, OtherEvent]] = []

    def set_channels(self, channels: Sequence[InputChannel]) -> None:
        """Attach the channels, once; their order is that of the producers."""
        self.channels = tuple(channels)
        self._local = [each for each in channels if isinstance(each, LocalInputChannel)]
        self._is_queued = [False] * len(self.channels)

    def request_partitions(self, *, now_ns: int) -> None:
        """Let every channel request its subpartition; only the first call does anything.

        The first channel that cannot keeps the error, to be met when it is polled, and those behind
        it request nothing.

        Raises: RuntimeError when the gate is closed, has not as many channels as it should, or has
            recovered what was not read.
        """
        if self.is_requested:
            return
        if self.is_closed:
            raise RuntimeError("Already released.")
        if not self.is_state_consumed:
            raise RuntimeError("recovered state is not fully consumed")
        expected = self._expected_channels
        if expected is not None and expected != len(self.channels):
            raise RuntimeError(
                f"the gate should have {expected} channels, and {len(self.channels)} are set"
            )
        self.is_requested = True
        for channel in self.channels:
            try:
                channel.request_subpartition(now_ns=now_ns)
            except FlinknetError as error:
                channel.fail(error)
                return

    def finish_read_recovered_state(self) -> None:
        """All that was recovered is in the queues of its channels: each gets the end of that.

        Differs from Flink, where channels of another class hold it, in whose place the real ones
        step then; and in that nothing but the end is ever there, for checkpoints store nothing.
        """
        end = EndOfInputChannelStateEvent().encode()
        self.is_state_consumed = False
        self._recovering = {each.index_in_gate for each in self.channels}
        for channel in self.channels:
            channel.received.append((unpooled_buffer(end, DataType.EVENT_BUFFER), RECOVERED))
            self.queue_channel(channel)

    def end_recovered_state(self, channel: InputChannel) -> None:
        """The end of what was recovered was read from a channel."""
        self._recovering.discard(channel.index_in_gate)
        if not self._recovering:
            self.is_state_consumed = True
            if self.state_listener is not None:
                self.state_listener(self)

    def send_task_event(self, event: OtherEvent) -> None:
        """Send an event to the producer of every channel (Flink: sendTaskEvent); to those that are
        not there yet when they are.
        """
        self._unsent += [(channel, event) for channel in self.channels]
        self.send_pending_events()

    def send_pending_events(self) -> bool:
        """Send events to producers that are there now. Returns: whether some are still to come."""
        self._unsent = [each for each in self._unsent if not each[0].send_task_event(each[1])]
        return bool(self._unsent)

    @property
    def remote_channels(self) -> list[RemoteInputChannel]:
        """Those of its channels that come over a connection."""
        return [each for each in self.channels if isinstance(each, RemoteInputChannel)]

    def next_deadline_ns(self) -> int | None:
        """When a channel will repeat its request, None while none waits to."""
        due = (each.next_deadline_ns() for each in self._local)
        return min((each for each in due if each is not None), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        """Repeat the requests that are due."""
        for channel in self._local:
            channel.handle_deadline(now_ns=now_ns)

    def queue_channel(self, channel: InputChannel, has_priority: bool = False) -> None:
        """A channel has something to read: put it at the end of the ready queue, once; one that has
        a priority event behind the other such channels and before the rest.
        """
        if has_priority:
            self._queue_priority_channel(channel)
            return
        index = channel.index_in_gate
        if not self._is_queued[index] and index not in self._ended:
            self._is_queued[index] = True
            self._ready.append(channel)
            if self.listener is not None and len(self._ready) == 1:
                self.listener(self, False)

    def _queue_priority_channel(self, channel: InputChannel) -> None:
        """Also if it was queued already."""
        index = channel.index_in_gate
        if index in self._ended:
            return
        ready = self._ready
        if self._is_queued[index]:
            position = ready.index(channel)
            if position < self._priority_channels:
                return
            del ready[position]
        self._is_queued[index] = True
        ready.insert(self._priority_channels, channel)
        self._priority_channels += 1
        if self.listener is not None and self._priority_channels == 1:
            self.listener(self, True)

    @property
    def is_available(self) -> bool:
        """Whether `poll` may return something."""
        return bool(self._ready)

    @property
    def has_priority_events(self) -> bool:
        """Whether a channel with a priority event is next."""
        return self._priority_channels > 0

    @property
    def is_finished(self) -> bool:
        """Whether every channel has come to its end."""
        return len(self._ended) == len(self.channels)

    def poll(self, now_ns: int = 0) -> Polled | None:
        """The next buffer or event with its channel and sequence number; the caller recycles it.

        Never waits (Flink: pollNext). To wait (Flink: getNext) is the event loop's business: a task
        that got None is stepped again when the gate is available.

        Differs from Flink in that a channel that has failed is first read to the end of what had
        arrived: its task fails a little later, and the hot path does not look for an error at every
        buffer.

        Args:
            now_ns: the instant at which a local channel's buffer counts as sent and received.

        Raises: the error of a channel that failed; GateClosedError.
        """
        ready = self._ready
        while ready:
            channel = ready.popleft()
            index = channel.index_in_gate
            self._is_queued[index] = False
            if self._priority_channels:
                self._priority_channels -= 1
            received = channel.received
            if not received:
                if channel.error is not None:
                    raise channel.error
                if channel.is_local:
                    polled = self._poll_local(channel, now_ns)
                    if polled is not None:
                        return polled
                continue
            buffer, sequence_number = received.popleft()
            if received or channel.error is not None:
                self._is_queued[index] = True
                if buffer.data_type != PRIORITIZED_EVENT:
                    ready.append(channel)
                else:
                    is_next = received and received[0][0].data_type == PRIORITIZED_EVENT
                    self._requeue(channel, has_priority=bool(is_next))
            return channel, buffer, sequence_number
        if self.is_closed and not self.is_finished:
            raise GateClosedError("the input gate is closed")
        return None

    def poll_run(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int
    ) -> list[NetworkBuffer]:
        """The run that the buffer polled just now begins: it, and what the next polls would give as
        far as it is data and lies in memory right behind. Empty if nothing does, or if other
        channels wait for their turn.
        """
        received = channel.received
        if not received or len(self._ready) != 1 or channel.is_local:
            return []
        assert isinstance(buffer, NetworkBuffer)
        run = channel.take_run(buffer, sequence_number)
        if not received and channel.error is None:
            self._ready.clear()
            self._is_queued[channel.index_in_gate] = False
        return run

    def end_channel(self, channel: InputChannel) -> None:
        """EndOfPartition was read: the channel is never queued again and is released."""
        index = channel.index_in_gate
        if index in self._ended:
            raise RuntimeError(f"channel {channel.index} ended twice")
        self._ended.add(index)
        if self._is_queued[index]:
            if self._ready.index(channel) < self._priority_channels:
                self._priority_channels -= 1
            self._ready.remove(channel)
            self._is_queued[index] = False
        channel.release()

    def check_invariants(self) -> None:
        """Assert that what has something to read stands in the ready queue, once, and those with a
        priority event first.
        """
        ready = [each.index_in_gate for each in self._ready]
        assert len(set(ready)) == len(ready), f"channels {ready} are queued twice"
        assert 0 <= self._priority_channels <= len(ready), (
            f"{self._priority_channels} channels of {len(ready)} have a priority event"
        )
        for channel in self.channels:
            index = channel.index_in_gate
            is_queued = index in ready
            assert is_queued == self._is_queued[index], f"channel {channel.index} is not queued"
            has_news = bool(channel.received) or channel.error is not None
            assert is_queued or not has_news or self.is_closed or index in self._ended, (
                f"channel {channel.index} has something to read and is on no list"
            )

    def close(self) -> None:
        """Release all channels and the pool; who polls afterwards is told so."""
        if self.is_closed:
            return
        self.is_closed = True
        self._ready.clear()
        self._priority_channels = 0
        self._is_queued = [False] * len(self.channels)
        for channel in self.channels:
            channel.release()
        if self._pool is not None:
            self._pool.destroy()

    def _poll_local(self, channel: LocalInputChannel, now_ns: int) -> Polled | None:
        piece = channel.poll_view(now_ns)
        if piece is None:
            return None
        if piece.next_data_type and not self._is_queued[channel.index_in_gate]:
            self._is_queued[channel.index_in_gate] = True
            self._requeue(channel, has_priority=piece.next_data_type == PRIORITIZED_EVENT)
        return channel, piece, piece.sequence_number

    def _requeue(self, channel: InputChannel, *, has_priority: bool) -> None:
        if has_priority:
            self._ready.insert(self._priority_channels, channel)
            self._priority_channels += 1
        else:
            self._ready.append(channel)
