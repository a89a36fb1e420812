"""Connection: the five verbs a driver may use, and no other door into the stack.

A driver (a real socket, a simulated link) owns one `Connection` for each TCP connection. It feeds
what arrived, sends what `data_to_send` returns, and wakes the connection at `next_deadline_ns`.
`now_ns` is always the driver's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from flinknet.errors import TransportError

RECEIVE_BYTES: Final = 128 * 1024
"""A driver reads at most this much in one go: four segments, and what was read is still in the
cache."""


@dataclass(frozen=True, slots=True)
class ProducerChannelSnapshot:
    """A channel that was requested of a producer, as it is at one instant.

    Attributes:
        channel: its index in the run, -1 if it is not of the run.
        is_open: its receiver has not cancelled it.
        starved_ns: time so far in which data waited and no credit was there.
    """

    channel: int
    is_open: bool
    backlog_buffers: int
    credits_available: int
    starved_ns: int


@dataclass(frozen=True, slots=True)
class ConsumerSnapshot:
    """The consumer's end of a connection, as it is at one instant.

    Attributes:
        unread_ns: time so far in which the socket was not read for want of a buffer; never any with
            credit.
        staged_bytes: payload that was read and waits for a buffer; None with credit, which stages
            nothing.
    """

    unread_ns: int = 0
    staged_bytes: int | None = None


class Connection(Protocol):
    """One end of one TCP connection of the data port."""

    @property
    def is_closing(self) -> bool:
        """Whether the driver must close once everything was sent."""

    @property
    def wants_data(self) -> bool:
        """While False the driver must leave what arrives in the socket (Netty: auto-read). It
        changes within `receive_data` and `handle_deadline` only.
        """

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Take bytes from the peer, in order, cut anywhere. The view may be reused after the call.

        Raises: RemoteProtocolError; the driver must then send what is left to send and close.
        """

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """The peer closed or the connection broke: fail or release every channel on it.

        Args:
            error: what became of the connection, for "the connection to … {error}"; None: the peer
                closed it.
        """

    def data_to_send(self, *, now_ns: int) -> Sequence[bytes | memoryview]:
        """Pieces to send, in order; empty if there is nothing.

        The driver must call this only when the pieces of the last call were taken completely:
        buffers behind them are recycled by the next call. That is Netty's writability check, and it
        keeps the backlog on the wire true.
        """

    def next_deadline_ns(self) -> int | None:
        """The instant at which `handle_deadline` wants to be called, None for never.

        The driver must ask in every turn, after its tasks had theirs: a buffer that a task gave
        back may make something due at once.
        """

    def handle_deadline(self, *, now_ns: int) -> None:
        """The deadline has come (it may be late, and it may be called early without harm).

        Tasks must have a turn afterwards: it may have handed them something to read.
        """


@runtime_checkable
class ScatteringConnection(Connection, Protocol):
    """A connection that can tell where the bytes that come next will be wanted. A driver that lays
    them there saves a copy; it need not.
    """

    def memory_to_fill(self) -> Sequence[memoryview]:
        """Where the next bytes of the peer are to be laid, in order; empty if that is not known,
        and `receive_data` is to be called. Good until the connection is called again.
        """

    def memory_filled(self, count: int, *, now_ns: int) -> None:
        """In the place of `receive_data`: `count` bytes were laid in that memory.

        Raises: as `receive_data`.
        """
