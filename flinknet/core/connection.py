"""Connection: the only interface between drivers and the network stack.

A driver (real sockets or simulated links) owns one `Connection` per TCP connection. It feeds
received bytes, sends what `data_to_send` returns, and calls `handle_deadline` at
`next_deadline_ns`. `now_ns` is always the driver's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from flinknet.errors import TransportError

LOW_BYTES = 32 * 1024
HIGH_BYTES = 64 * 1024
"""Netty's defaults, which Flink 2.x keeps."""


class WriteWaterMarks:
    """Two marks with hysteresis: unwritable above `high_bytes` of pending bytes, writable again
    below `low_bytes`. Invariant: 0 < low_bytes <= high_bytes.
    """

    __slots__ = ("high_bytes", "is_writable", "low_bytes")

    def __init__(self, low_bytes: int = LOW_BYTES, high_bytes: int = HIGH_BYTES) -> None:
        self.set(low_bytes, high_bytes)
        self.is_writable = True

    @classmethod
    def classic(cls, segment_size_bytes: int) -> WriteWaterMarks:
        """The marks of Flink up to 1.12: one buffer always fits, two never do."""
        return cls(segment_size_bytes + 1, 2 * segment_size_bytes)

    def set(self, low_bytes: int, high_bytes: int) -> None:
        """Set both at once. Raises: ValueError if low is above high or not positive."""
        if not 0 < low_bytes <= high_bytes:
            raise ValueError(
                f"water marks must be 0 < low <= high, not {low_bytes} and {high_bytes}"
            )
        self.low_bytes, self.high_bytes = low_bytes, high_bytes

    def set_pending(self, pending_bytes: int) -> None:
        if pending_bytes > self.high_bytes:
            self.is_writable = False
        elif pending_bytes < self.low_bytes:
            self.is_writable = True


RECEIVE_BYTES: Final = 128 * 1024
"""Most bytes that a driver reads at once: four segments, so that they are still in the cache when
they are decoded."""


SEND_BATCH_BYTES: Final = 256 * 1024
"""Most bytes handed to a writable socket at once. Flink hands over one buffer at a time; larger
batches do not change what may leave, since credit limits it, and save system calls."""


@dataclass(frozen=True, slots=True)
class ProducerChannelSnapshot:
    """State of a requested channel (-1: unknown) at a producer; `starved_ns` is how long data has
    waited for credit so far.
    """

    channel: int
    backlog_buffers: int
    credits_available: int
    starved_ns: int


class Connection(Protocol):
    """One end of one TCP connection of the data port."""

    @property
    def is_closing(self) -> bool:
        """Whether the driver must close the connection once everything is sent."""

    @property
    def wants_data(self) -> bool:
        """While False the driver must leave incoming bytes in the socket (Netty: auto-read).
        Changes only in `receive_data` and `handle_deadline`.
        """

    @property
    def is_ready(self) -> bool:
        """Whether it has something to send, or is due, since it was asked last.

        The driver must look when all its connections have sent, and take another turn at once if
        the socket of one that is ready takes more: another connection may have released memory of
        the same pool for which this one waited. Flink's threads notify the event loop then.
        """

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Take bytes from the peer, in order, split anywhere. The view may be reused after the
        call. Raises: RemoteProtocolError; the driver must then send what is left to send and close.
        """

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """The peer closed or the connection broke: fail or release every channel on it. `error` is
        for "the connection to … {error}"; None: the peer closed it.
        """

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, room_bytes: int = SEND_BATCH_BYTES
    ) -> Sequence[bytes | memoryview]:
        """Pieces to send after those of earlier calls, in order; empty if there are none, or if
        enough is waiting for the socket (Netty's writability).

        Args:
            unsent_bytes: bytes of earlier pieces that the socket has not taken yet. They must not
                change; pieces that it has taken are recycled by this call.
            room_bytes: bytes that the socket can take now, as far as the driver knows.
        """

    def next_deadline_ns(self) -> int | None:
        """When to call `handle_deadline`, None for never. The driver must ask in every turn, after
        its tasks: a buffer that they recycled may make something due at once.
        """

    def handle_deadline(self, *, now_ns: int) -> None:
        """Handle a deadline; early calls are harmless. Tasks must have a turn afterwards."""


@runtime_checkable
class ScatteringConnection(Connection, Protocol):
    """Can provide memory for the next bytes; a driver that reads into it saves a copy."""

    def memory_to_fill(self) -> Sequence[memoryview]:
        """Memory for the peer's next bytes, in order; empty if unknown: then use `receive_data`.
        Valid until the next call of the connection.
        """

    def memory_filled(self, count: int, *, now_ns: int) -> None:
        """Take `count` bytes that were read into that memory; see `receive_data`."""
