"""WriteWaterMarks: limits on the bytes of a connection that the socket has not taken.

Flink: the WRITE_BUFFER_LOW/HIGH_WATER_MARK of NettyServer; Netty: WriteBufferWaterMark and the
writability of ChannelOutboundBuffer.
"""

from __future__ import annotations

LOW_BYTES = 32 * 1024
HIGH_BYTES = 64 * 1024
"""Netty's defaults, which Flink 2.x keeps."""


class WriteWaterMarks:
    """Two marks with hysteresis: unwritable above `high_bytes` of pending bytes, writable again
    below `low_bytes`.

    Invariant: 0 < low_bytes <= high_bytes, after every single setting.
    """

    __slots__ = ("high_bytes", "is_writable", "low_bytes")

    def __init__(self, low_bytes: int = LOW_BYTES, high_bytes: int = HIGH_BYTES) -> None:
        _check(low_bytes, high_bytes)
        self.low_bytes = low_bytes
        self.high_bytes = high_bytes
        self.is_writable = True

    @classmethod
    def classic(cls, segment_size_bytes: int) -> WriteWaterMarks:
        """The marks of Flink up to 1.12: one buffer always fits, two never do."""
        marks = cls()
        marks.set(segment_size_bytes + 1, 2 * segment_size_bytes)
        return marks

    def set(self, low_bytes: int, high_bytes: int) -> None:
        """Set both, in the order that keeps low <= high in between (Netty checks each alone).

        Raises: ValueError if low is above high or not positive; then nothing is changed.
        """
        _check(low_bytes, high_bytes)
        if low_bytes > self.high_bytes:
            self.set_high(high_bytes)
            self.set_low(low_bytes)
        else:
            self.set_low(low_bytes)
            self.set_high(high_bytes)

    def set_low(self, low_bytes: int) -> None:
        """Set the low mark alone. Raises: ValueError if it would be above the high mark."""
        _check(low_bytes, self.high_bytes)
        self.low_bytes = low_bytes

    def set_high(self, high_bytes: int) -> None:
        """Set the high mark alone. Raises: ValueError if it would be below the low mark."""
        _check(self.low_bytes, high_bytes)
        self.high_bytes = high_bytes

    def set_pending(self, pending_bytes: int) -> None:
        """Update the number of bytes waiting for the socket."""
        if pending_bytes > self.high_bytes:
            self.is_writable = False
        elif pending_bytes < self.low_bytes:
            self.is_writable = True


def _check(low_bytes: int, high_bytes: int) -> None:
    if not 0 < low_bytes <= high_bytes:
        raise ValueError(f"water marks must be 0 < low <= high, not {low_bytes} and {high_bytes}")
