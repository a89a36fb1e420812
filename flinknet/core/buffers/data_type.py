"""DataType: what a buffer contains (Flink: Buffer.DataType; one byte on the wire, its ordinal)."""

from __future__ import annotations

from enum import IntEnum


class DataType(IntEnum):
    """Kinds of buffers and events; the flags follow from the kind and are not on the wire."""

    NONE = 0
    DATA_BUFFER = 1
    EVENT_BUFFER = 2
    PRIORITIZED_EVENT_BUFFER = 3
    ALIGNED_CHECKPOINT_BARRIER = 4
    TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER = 5
    RECOVERY_COMPLETION = 6
    END_OF_SEGMENT = 7
    DATA_BUFFER_WITH_CLEAR_END = 8
    END_OF_DATA = 9
    END_OF_PARTITION = 10
    RECOVERY_METADATA = 11
    ALIGNED_WATERMARK_EVENT = 12
    UNALIGNED_WATERMARK_EVENT = 13

    @property
    def is_buffer(self) -> bool:
        """Whether it is data: costs one credit, belongs to the record stream."""
        return self in IS_BUFFER


IS_BUFFER = frozenset({DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END})
"""Ordinals of data; contains plain ints, too, which the hot path uses."""

IS_BLOCKING_UPSTREAM = frozenset(
    {
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
        DataType.RECOVERY_COMPLETION,
        DataType.ALIGNED_WATERMARK_EVENT,
    }
)
"""Ordinals of events that stop the producer until ResumeConsumption."""
