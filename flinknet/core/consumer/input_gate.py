"""SingleInputGate: all channels of one input, read in turns of one buffer.

Invariant: a channel stands in the ready queue at most once, and stands there while it has something
    to read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinknet.core.buffers import NetworkBuffer

from .input_channel import RemoteInputChannel


class SingleInputGate:
    """The consuming end of one edge in one subtask (Flink: SingleInputGate)."""

    def __init__(self) -> None:
        self.channels: Sequence[RemoteInputChannel] = ()
        self._ready: deque[RemoteInputChannel] = deque()
        self._is_queued: list[bool] = []
        self._ended: set[int] = set()

    def set_channels(self, channels: Sequence[RemoteInputChannel]) -> None:
        """Attach the channels, once; their order is that of the producers."""
        self.channels = tuple(channels)
        self._is_queued = [False] * len(self.channels)

    def queue_channel(self, channel: RemoteInputChannel) -> None:
        """A channel has something to read: put it at the end of the ready queue, once."""
        index = channel.index_in_gate
        if not self._is_queued[index] and index not in self._ended:
            self._is_queued[index] = True
            self._ready.append(channel)

    @property
    def is_available(self) -> bool:
        """Whether `poll` may return something."""
        return bool(self._ready)

    @property
    def is_finished(self) -> bool:
        """Whether every channel has come to its end."""
        return len(self._ended) == len(self.channels)

    def poll(self) -> tuple[RemoteInputChannel, NetworkBuffer, int] | None:
        """The next buffer or event with its channel and sequence number; the caller recycles it.

        Raises: the error of a channel that failed.
        """
        ready = self._ready
        while ready:
            channel = ready.popleft()
            index = channel.index_in_gate
            self._is_queued[index] = False
            received = channel.received
            if not received:
                if channel.error is not None:
                    raise channel.error
                continue
            buffer, sequence_number = received.popleft()
            if received or channel.error is not None:
                self._is_queued[index] = True
                ready.append(channel)
            return channel, buffer, sequence_number
        return None

    def end_channel(self, channel: RemoteInputChannel) -> None:
        """EndOfPartition was read: the channel is never queued again and is released."""
        index = channel.index_in_gate
        if index in self._ended:
            raise RuntimeError(f"channel {channel.index} ended twice")
        self._ended.add(index)
        if self._is_queued[index]:
            self._ready.remove(channel)
            self._is_queued[index] = False
        channel.release()
