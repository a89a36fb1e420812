# mypyc
"""DecompressingInputGate: the input gate of an exchange whose buffers may be compressed.

A gate of its own, so that streaming exchanges, which are never compressed, do not look for it.
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
    """An input gate that hands out what buffers held before they were compressed (Flink:
    SingleInputGate with its BufferDecompressor).

    Args:
        codec: of the producers; it is not on the wire.
        segment_size_bytes: the most that a buffer can have held.
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
        """The next buffer or event, as it was before it was compressed.

        Raises: the error of a channel that failed; GateClosedError; FrameCorruptedError for bytes
            that are not of the codec.
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
