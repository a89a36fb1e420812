# mypyc
"""DecompressingInputGate: the input gate of an exchange whose buffers may be compressed.

A class of its own, so that streaming exchanges, which are never compressed, do not check for it.
"""

from __future__ import annotations

from flinknet.core.buffers import (
    BufferSlice,
    LocalBufferPool,
    MemorySegment,
    NetworkBuffer,
    free_memory,
)
from flinknet.core.wire.compression import CompressionCodec, decompress

from .input_gate import Polled, SingleInputGate


class DecompressingInputGate(SingleInputGate):
    """An input gate that decompresses buffers (Flink: SingleInputGate with its BufferDecompressor).

    Args:
        codec: codec of the producers; it is not on the wire.
        segment_size_bytes: largest decompressed size.
    """

    def __init__(
        self,
        index: int = 0,
        *,
        codec: CompressionCodec,
        segment_size_bytes: int,
        channels: int | None = None,
        pool: LocalBufferPool | None = None,
    ) -> None:
        super().__init__(index, channels=channels, pool=pool)
        self._codec = codec
        self._segment_size_bytes = segment_size_bytes

    def poll(self, now_ns: int = 0) -> Polled | None:
        """The next buffer or event, decompressed.

        Raises: the error of a failed channel; GateClosedError; FrameCorruptedError for data that is
            invalid for the codec.
        """
        polled = super().poll(now_ns)
        if polled is None:
            return None
        channel, buffer, sequence_number = polled
        holder = buffer.buffer if isinstance(buffer, BufferSlice) else buffer
        if not holder.is_compressed:
            return polled
        try:
            data = decompress(self._codec, buffer.payload, self._segment_size_bytes)
        finally:
            buffer.recycle()
        segment = MemorySegment(memoryview(data))
        return channel, NetworkBuffer(segment, free_memory, size_bytes=len(data)), sequence_number
