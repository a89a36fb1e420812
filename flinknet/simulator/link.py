# mypyc
"""SimulatedLink: two sockets and the wire between them; each end drives a Connection.

As with TCP, all bytes of a direction arrive in order; their delay and their division into pieces
may vary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flinknet.core.connection import RECEIVE_BYTES, Connection
from flinknet.errors import FlinknetError, InvariantViolatedError

from .faults import HostClock, LinkFaults

BUFFER_RESPONSE_PIECES = 2
"""Number of pieces of a message with a payload: header and buffer."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Properties of a link.

    Attributes:
        latency_ns: from the last byte sent until it can be read.
        bandwidth_bytes_per_s: of each direction; 0 for no limit.
        capacity_bytes: size of the buffers of both sockets. The sender's socket takes no more while
            this many bytes are sent but not read.
        high_water_bytes: bytes waiting in the connection above which a producer hands over no more
            until half of them are gone; 0: the default of the flow control.
    """

    latency_ns: int = 50_000
    bandwidth_bytes_per_s: float = 0.0
    capacity_bytes: int = 4 * 1024 * 1024
    high_water_bytes: int = 0


class Direction:
    """One direction of a link: the bytes that are sent but not read, with their arrivals.
    `wake_sender` is called with the instant at which a full socket takes bytes again,
    `wake_receiver` with that at which there is something to read.
    """

    def __init__(
        self,
        settings: LinkSettings,
        disturbance: LinkFaults | None,
        wake_sender: Callable[[int], None],
    ) -> None:
        self.settings = settings
        self.wake_sender = wake_sender
        self.wake_receiver: Callable[[int], None] = wake_sender  # until the ends are joined
        self.sent_bytes = 0
        self.in_flight_bytes = 0
        self._disturbance = disturbance
        self.pieces: deque[tuple[int, bytes]] = deque()
        self._wire_free_ns = 0
        self._last_arrival_ns = 0

    @property
    def is_full(self) -> bool:
        return self.in_flight_bytes >= self.settings.capacity_bytes

    def send(self, data: bytes, now_ns: int) -> None:
        settings = self.settings
        self.sent_bytes += len(data)
        self.in_flight_bytes += len(data)
        sent_ns = max(now_ns, self._wire_free_ns)
        if settings.bandwidth_bytes_per_s:
            sent_ns += int(len(data) * 1e9 / settings.bandwidth_bytes_per_s)
        self._wire_free_ns = sent_ns
        due_ns = sent_ns + settings.latency_ns
        arrival_ns = self._last_arrival_ns
        disturbance = self._disturbance
        for piece in (data,) if disturbance is None else disturbance.cut(data):
            late_ns = due_ns if disturbance is None else disturbance.arrival_ns(due_ns)
            arrival_ns = max(arrival_ns, late_ns)
            self.pieces.append((arrival_ns, piece))
        self._last_arrival_ns = arrival_ns
        self.wake_receiver(self.pieces[0][0])

    def end(self, now_ns: int) -> None:
        """Close the sender's side: the receiver reads an empty piece after all others."""
        self._last_arrival_ns = max(self._last_arrival_ns, now_ns + self.settings.latency_ns)
        self.pieces.append((self._last_arrival_ns, b""))
        self.wake_receiver(self.pieces[0][0])

    def take_piece(self, now_ns: int) -> bytes | None:
        """Take the next piece that has arrived; None if there is none."""
        if not self.pieces or self.pieces[0][0] > now_ns:
            return None
        data = self.pieces.popleft()[1]
        self.in_flight_bytes -= len(data)
        return data

    def clear(self) -> None:
        self.pieces.clear()


class LinkEnd:
    """One socket of a link, with its connection. `send_ns` are the sender's times for a message and
    a byte that it hands over; `wake` is called with an instant at which this end's TaskManager has
    something to do.

    Attributes:
        clock: clock of its TaskManager, whose times `receive` and `pump` take; None: virtual time.
        fail: called with an error of the connection; None to raise it.
        seed: seed of the run, for errors.
    """

    def __init__(
        self,
        connection: Connection,
        settings: LinkSettings,
        wake: Callable[[int], None],
        disturbance: LinkFaults | None = None,
        send_ns: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.connection = connection
        self.is_closed = False
        self.clock: HostClock | None = None
        self.seed = 0
        self.fail: Callable[[FlinknetError], None] | None = None
        self._settings = settings
        self._ns_per_message, self._ns_per_byte = send_ns
        self._wake = wake
        self._outgoing = Direction(settings, disturbance, wake)
        self._incoming = self._outgoing  # until the ends are joined
        self._unsent: deque[tuple[int, bytes | memoryview, bytes]] = deque()

    def join(self, peer: LinkEnd) -> None:
        for sender, receiver in ((self, peer), (peer, self)):
            wire = receiver._incoming = sender._outgoing
            wire.wake_receiver = receiver._wake

    @property
    def sent_bytes(self) -> int:
        return self._outgoing.sent_bytes

    @property
    def in_flight_bytes(self) -> int:
        """Bytes sent from here that the peer has not read."""
        return self._outgoing.in_flight_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait for this end's full socket (Netty's outbound buffer)."""
        return max(0, self.in_flight_bytes - self._settings.capacity_bytes)

    @property
    def is_ready(self) -> bool:
        return not self.is_closed and self.connection.is_ready and not self.unsent_bytes

    @property
    def next_arrival_ns(self) -> int | None:
        """Instant at which there is something to read; None if nothing is under way or wanted."""
        pieces = self._incoming.pieces
        if not pieces or self.is_closed or not self.connection.wants_data:
            return None
        arrival_ns = pieces[0][0]
        return arrival_ns if self.clock is None else self.clock.next_host_ns(arrival_ns)

    def receive(self, *, now_ns: int) -> int:
        """Read arrived pieces, some RECEIVE_BYTES. Returns: the instant at which it is done."""
        incoming, connection = self._incoming, self.connection
        was_full = incoming.is_full
        left_bytes = RECEIVE_BYTES
        while left_bytes > 0 and not self.is_closed and connection.wants_data:
            data = incoming.take_piece(self._virtual_ns(now_ns))
            if data is None:
                break
            left_bytes -= len(data)
            if data:
                connection.receive_data(memoryview(data), now_ns=now_ns)
            else:
                self.close(now_ns=self._virtual_ns(now_ns))
        if was_full:
            incoming.wake_sender(self._virtual_ns(now_ns))
        return now_ns

    def pump(self, *, now_ns: int) -> int:
        """Send until there is nothing or enough waits. Returns: the instant at which it is done."""
        connection, outgoing = self.connection, self._outgoing
        capacity_bytes = self._settings.capacity_bytes
        if self._unsent:
            self._check_unsent()
        while not self.is_closed:
            room_bytes = capacity_bytes - outgoing.in_flight_bytes
            pieces = connection.data_to_send(
                now_ns=now_ns, unsent_bytes=max(0, -room_bytes), room_bytes=max(0, room_bytes)
            )
            if not pieces:
                break
            messages = (len(pieces) + 1) // BUFFER_RESPONSE_PIECES
            data = b"".join(pieces)
            now_ns += int(self._ns_per_message * messages + self._ns_per_byte * len(data))
            outgoing.send(data, self._virtual_ns(now_ns))
            if outgoing.in_flight_bytes > capacity_bytes:
                self._note_unsent(pieces)
        if connection.is_closing and not self.is_closed:
            outgoing.end(self._virtual_ns(now_ns))
            self.close(now_ns=self._virtual_ns(now_ns))
        return now_ns

    def _note_unsent(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Remember pieces that the socket has not taken, which must not change until it has."""
        end_bytes, taken_bytes = self.sent_bytes - sum(map(len, pieces)), self._taken_bytes
        for piece in pieces:
            end_bytes += len(piece)
            if end_bytes > taken_bytes:
                self._unsent.append((end_bytes, piece, bytes(piece)))

    def _check_unsent(self) -> None:
        """Check that pieces waiting for the socket are unchanged."""
        for _, piece, sent in self._unsent:
            if piece != sent:
                raise InvariantViolatedError("what waits for a socket was changed", self.seed)
        taken_bytes = self._taken_bytes
        while self._unsent and self._unsent[0][0] <= taken_bytes:
            self._unsent.popleft()

    @property
    def _taken_bytes(self) -> int:
        return self.sent_bytes - self.unsent_bytes

    def inject(self, data: bytes, *, now_ns: int) -> None:
        """Send foreign bytes between the connection's, at an instant of virtual time."""
        if data and not self.is_closed:
            self._outgoing.send(data, now_ns)

    def close(self, *, now_ns: int) -> None:
        """Break the connection for this side, at an instant of virtual time; incoming bytes are
        lost.
        """
        if not self.is_closed:
            self.is_closed = True
            self._unsent.clear()
            self._incoming.clear()
            host_ns = now_ns if self.clock is None else self.clock.host_ns(now_ns)
            self.connection.receive_eof(now_ns=host_ns)
            self._wake(now_ns)

    def _virtual_ns(self, host_ns: int) -> int:
        return host_ns if self.clock is None else self.clock.virtual_ns(host_ns)


@dataclass(frozen=True, slots=True)
class SimulatedLink:
    """One TCP connection of the data port."""

    producer_end: LinkEnd
    consumer_end: LinkEnd

    @property
    def ends(self) -> tuple[LinkEnd, LinkEnd]:
        return self.producer_end, self.consumer_end

    def reset(self, *, now_ns: int) -> None:
        self.producer_end.close(now_ns=now_ns)
        self.consumer_end.close(now_ns=now_ns)
