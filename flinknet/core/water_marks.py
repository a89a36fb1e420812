"""WriteWaterMarks: when a connection with bytes that the socket has not taken hands over more.

Flink: the WRITE_BUFFER_LOW/HIGH_WATER_MARK of NettyServer; Netty: WriteBufferWaterMark and the
writability of ChannelOutboundBuffer.
"""

from __future__ import annotations

LOW_BYTES = 32 * 1024
HIGH_BYTES = 64 * 1024
"""Netty's defaults, which Flink 2.x leaves alone."""


class WriteWaterMarks:
    """Two marks with a memory: unwritable once more than `high_bytes` are pending, writable again
    once fewer than `low_bytes` are.

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
        """Those of Flink up to 1.12: one buffer is always let in, two never are."""
        marks = cls()
        marks.set(segment_size_bytes + 1, 2 * segment_size_bytes)
        return marks

    def set(self, low_bytes: int, high_bytes: int) -> None:
        """Set both, in the order that keeps low <= high in between (as Netty checks each alone).

        Raises: ValueError when low is above high or not positive; nothing has changed then.
        """
        _check(low_bytes, high_bytes)
        if low_bytes > self.high_bytes:
            self.set_high(high_bytes)
            self.set_low(low_bytes)
        else:
            self.set_low(low_bytes)
            self.set_high(high_bytes)

    def set_low(self, low_bytes: int) -> None:
        """Set the low mark alone. Raises: ValueError when it would be above the high one."""
        _check(low_bytes, self.high_bytes)
        self.low_bytes = low_bytes

    def set_high(self, high_bytes: int) -> None:
        """Set the high mark alone. Raises: ValueError when it would be below the low one."""
        _check(self.low_bytes, high_bytes)
        self.high_bytes = high_bytes

    def set_pending(self, pending_bytes: int) -> None:
        """So many bytes wait for the socket now."""
        if pending_bytes > self.high_bytes:
            self.is_writable = False
        elif pending_bytes < self.low_bytes:
            self.is_writable = True


def _check(low_bytes: int, high_bytes: int) -> None:
    if not 0 < low_bytes <= high_bytes:
        raise ValueError(f"water marks must be 0 < low <= high, not {low_bytes} and {high_bytes}")
