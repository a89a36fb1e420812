"""BufferManager: the free buffers of one remote channel; each one free is one credit of its
producer.

Exclusive buffers belong to the channel for its life; floating ones are borrowed from the pool of
the gate, up to what the producer's backlog asks for, and go back when they are not needed.

Invariant (no resume pending): producer's credit + AddCredit in flight + unannounced credit + data
in flight = available.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from flinknet.core.buffers import (
    LocalBufferPool,
    MemorySegment,
    NetworkBuffer,
    NetworkBufferPool,
)


class CreditListener(Protocol):
    """The channel; it announces what the manager gains outside of the channel's own calls."""

    def notify_credit(self, credit: int) -> None:
        """`credit` more buffers are free."""


class BufferManager:
    """Exclusive and floating buffers of one channel (Flink: BufferManager with
    AvailableBufferQueue).
    """

    __slots__ = (
        "_channel",
        "_exclusive",
        "_floating",
        "_global_pool",
        "_is_waiting",
        "_recycler",
        "initial_credit",
        "is_released",
        "pool",
        "required_buffers",
    )

    def __init__(
        self,
        channel: CreditListener,
        global_pool: NetworkBufferPool,
        pool: LocalBufferPool,
        exclusive_buffers: int,
    ) -> None:
        self._channel = channel
        self._global_pool = global_pool
        self.pool = pool
        self.initial_credit = exclusive_buffers
        self.required_buffers = 0
        self.is_released = False
        self._is_waiting = False
        self._recycler = self._recycle_exclusive
        self._floating: deque[NetworkBuffer] = deque()
        self._exclusive: deque[MemorySegment] = deque(
            global_pool.request_exclusive_segments(exclusive_buffers)
        )

    @property
    def available_buffers(self) -> int:
        """Buffers ready to take data."""
        return len(self._floating) + len(self._exclusive)

    @property
    def floating_buffers(self) -> int:
        """Floating ones among them."""
        return len(self._floating)

    def take(self) -> NetworkBuffer | None:
        """A buffer for a message that is arriving: floating first; None if there is none."""
        self.required_buffers -= 1
        if self._floating:
            return self._floating.popleft()
        if self._exclusive:
            return NetworkBuffer(self._exclusive.popleft(), self._recycler)
        return None

    def request_for_backlog(self, backlog_buffers: int) -> int:
        """Ask the pool for what the announced backlog needs (Flink:
        RemoteInputChannel.onSenderBacklog).

        Returns: credit gained, in buffers.
        """
        self.required_buffers = required = backlog_buffers + self.initial_credit
        if self._is_waiting or len(self._floating) + len(self._exclusive) >= required:
            return 0
        return self._request_floating()

    def release_floating(self) -> None:
        """Give all floating buffers back and want none (a channel without exclusive buffers that is
        being blocked).
        """
        self.required_buffers = 0  # else the pool would offer them to this channel again
        floating, self._floating = self._floating, deque()
        for buffer in floating:
            buffer.recycle()

    def release(self) -> None:
        """The channel is gone: everything goes back to where it came from."""
        if self.is_released:
            return
        self.is_released = True
        self.release_floating()
        self._global_pool.recycle_exclusive_segments(list(self._exclusive))
        self._exclusive.clear()

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        """The pool offers a recycled buffer; refused when nothing is short any more."""
        self._is_waiting = False
        missing = self.required_buffers - len(self._floating) - len(self._exclusive)
        if missing <= 0 or self.is_released:
            return False
        self._floating.append(buffer)
        self._channel.notify_credit(1 + self._request_floating() if missing > 1 else 1)
        return True

    def handle_pool_destroyed(self) -> None:
        """The pool of the gate is gone."""
        self._is_waiting = False

    def _request_floating(self) -> int:
        """Take what is missing from the pool, and wait for what it does not have; to be called only
        while something is missing and nothing waited for.

        Returns: buffers gained.
        """
        missing = self.required_buffers - len(self._floating) - len(self._exclusive)
        gained = 0
        while gained < missing:
            buffer = self.pool.try_request()
            if buffer is None:
                self._is_waiting = self.pool.add_listener(self)
                break
            self._floating.append(buffer)
            gained += 1
        return gained

    def _recycle_exclusive(self, segment: MemorySegment) -> None:
        """An exclusive buffer is free again: one new credit, unless a floating one can go back in
        its stead.
        """
        if self.is_released:
            self._global_pool.recycle_exclusive_segments([segment])
            return
        self._exclusive.append(segment)
        if self._floating and self.available_buffers > self.required_buffers:
            self._floating.popleft().recycle()
        else:
            self._channel.notify_credit(1)
