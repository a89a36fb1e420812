"""What stood in the buffers of a run, and how large those were."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FillLevels:
    """Bytes in each of the six places between two operators, in the order in which a record passes
    them. The third and fourth are the kernel's.
    """

    subpartition_bytes: int = 0  # written, and not handed to the connection
    netty_outbound_bytes: int = 0  # handed over, and not taken by the socket
    socket_send_bytes: int = 0  # in the sender's socket
    socket_receive_bytes: int = 0  # in the receiver's socket
    netty_inbound_bytes: int = 0  # read, and staged for lack of a buffer
    input_channel_bytes: int = 0  # in buffers of the gate, and not taken by the task

    @property
    def total_bytes(self) -> int:
        """All six together."""
        return (
            self.subpartition_bytes
            + self.netty_outbound_bytes
            + self.socket_send_bytes
            + self.socket_receive_bytes
            + self.netty_inbound_bytes
            + self.input_channel_bytes
        )

    def __add__(self, other: FillLevels) -> FillLevels:
        return FillLevels(
            self.subpartition_bytes + other.subpartition_bytes,
            self.netty_outbound_bytes + other.netty_outbound_bytes,
            self.socket_send_bytes + other.socket_send_bytes,
            self.socket_receive_bytes + other.socket_receive_bytes,
            self.netty_inbound_bytes + other.netty_inbound_bytes,
            self.input_channel_bytes + other.input_channel_bytes,
        )


@dataclass(frozen=True, slots=True)
class ChannelLevels:
    """Bytes of one channel in the first and the last of the six places. What lies between them is
    one queue of all channels of a connection.
    """

    channel: int
    subpartition_bytes: int = 0
    input_channel_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FillSample:
    """Fill levels at an instant (ns since the start of the run), over all connections, and what
    they led to: is every socket read, does every socket take bytes, does no writer wait?

    Attributes:
        channels: the ends by channel, in runs of few; empty otherwise.
    """

    at_ns: int
    levels: FillLevels
    is_reading: bool
    is_writable: bool
    is_writing: bool
    channels: tuple[ChannelLevels, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffering:
    """The six places over a run; `bounds` is the most that each can hold."""

    bounds: FillLevels
    samples: tuple[FillSample, ...]


@dataclass(frozen=True, slots=True)
class DebloatingSample:
    """One evaluation of a gate: the size that its producers' buffers have from then on, what it
    consumed per second, data in flight towards it, and how long it takes to consume as many buffers
    of the size.

    In flight: what the gate holds, and the backlog that the producers announced, as if all were
    of the size last announced.
    """

    at_ns: int  # since the start of the run
    buffer_size_bytes: int
    throughput_bytes_per_s: int
    in_flight_bytes: int
    time_to_consume_ns: int


@dataclass(frozen=True, slots=True)
class DebloatedGate:
    """One gate of a run with buffer debloating, named by its task."""

    name: str
    target_ns: int
    samples: tuple[DebloatingSample, ...]
