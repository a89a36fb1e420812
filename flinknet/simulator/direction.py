# mypyc
"""Direction: one way of the wire between two sockets. As with TCP, all bytes arrive in order; their
delay and their division into pieces may vary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .faults import LinkFaults

BUFFER_RESPONSE_PIECES = 2
"""Number of pieces of a message with a payload: header and buffer."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Properties of a link.

    Attributes:
        latency_ns: from the last byte sent until it can be read.
        bandwidth_bytes_per_s: of each direction; 0 for no limit.
        capacity_bytes: size of the buffers of both sockets. The sender's socket takes no more while
            this many bytes are sent but not read; further bytes wait in the connection.
        high_water_bytes: bytes waiting in the connection above which a producer hands over no more
            until half of them are gone; 0: the default of the flow control.
        receive_capacity_bytes: part of `capacity_bytes` in the receiver's socket, which is TCP's
            receive window.
    """

    latency_ns: int = 50_000
    bandwidth_bytes_per_s: float = 0.0
    capacity_bytes: int = 4 * 1024 * 1024
    high_water_bytes: int = 0
    receive_capacity_bytes: int = 2 * 1024 * 1024


class Direction:
    """One direction of a link: the bytes that are sent but not read, with their arrivals.

    Args:
        wake_sender: called with the instant at which a full socket takes bytes again.

    Attributes:
        wake_receiver: called with the instant at which there is something to read.
        pieces: pieces under way, each with its arrival.
        sent_bytes: bytes sent so far.
        in_flight_bytes: bytes sent but not read.
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
        """Whether the sender's socket takes no more."""
        return self.in_flight_bytes >= self.settings.capacity_bytes

    def send(self, data: bytes, now_ns: int) -> None:
        """Put bytes on the wire."""
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
        """Discard all pieces under way, as the connection broke."""
        self.pieces.clear()
