"""CheckpointBarrier: separates two checkpoints (Flink: CheckpointBarrier, CheckpointOptions)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import ClassVar, Final, Self

from flinknet.errors import FrameCorruptedError, LocalProtocolError

NO_ALIGNMENT_TIMEOUT_MS: Final = 0x7FFF_FFFF_FFFF_FFFF
"""Timeout of an aligned barrier that stays aligned."""

_BARRIER_START = struct.Struct(">iqqb")
_BARRIER_END = struct.Struct(">bq")
_I32 = struct.Struct(">i")


class SnapshotType(IntEnum):
    """The kind of snapshot, with the action after a savepoint."""

    CHECKPOINT = 0
    SAVEPOINT = 1
    SAVEPOINT_SUSPEND = 2
    SAVEPOINT_TERMINATE = 3
    FULL_CHECKPOINT = 4

    @property
    def is_savepoint(self) -> bool:
        """Whether it is a savepoint, which has a format byte."""
        return SnapshotType.SAVEPOINT <= self <= SnapshotType.SAVEPOINT_TERMINATE


class SavepointFormatType(IntEnum):
    """The format of a savepoint's files."""

    CANONICAL = 0
    NATIVE = 1


class AlignmentType(IntEnum):
    """How the receiver aligns its channels (Flink: CheckpointOptions.AlignmentType)."""

    AT_LEAST_ONCE = 0
    ALIGNED = 1
    UNALIGNED = 2
    FORCED_ALIGNED = 3


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Separates the records before a checkpoint from those after it.

    | i32 tag | i64 id | i64 timestamp | i8 kind | i8 format, savepoints only |
    | i32 length of location, -1 for none | location | i8 alignment | i64 timeout |
    """

    checkpoint_id: int
    timestamp_ms: int
    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int = NO_ALIGNMENT_TIMEOUT_MS
    location: bytes | None = None
    savepoint_format: SavepointFormatType | None = None

    TAG: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.snapshot_type.is_savepoint != (self.savepoint_format is not None):
            raise LocalProtocolError("a savepoint has a format, and nothing else has one")

    @property
    def is_unaligned(self) -> bool:
        """Whether it overtakes data, and channels do not wait for each other."""
        return self.alignment is AlignmentType.UNALIGNED

    @property
    def is_timeoutable(self) -> bool:
        """Whether it is aligned, and becomes unaligned after a timeout."""
        return self.alignment is AlignmentType.ALIGNED and self.aligned_timeout_ms not in (
            0,
            NO_ALIGNMENT_TIMEOUT_MS,
        )

    def as_unaligned(self) -> CheckpointBarrier:
        """The same barrier after its timeout (Flink: CheckpointBarrier.asUnaligned)."""
        return replace(
            self, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=NO_ALIGNMENT_TIMEOUT_MS
        )

    def encode(self) -> bytes:
        parts = [
            _BARRIER_START.pack(self.TAG, self.checkpoint_id, self.timestamp_ms, self.snapshot_type)
        ]
        if self.savepoint_format is not None:
            parts.append(bytes((self.savepoint_format,)))
        if self.location is None:
            parts.append(_I32.pack(-1))
        else:
            parts += (_I32.pack(len(self.location)), self.location)
        parts.append(_BARRIER_END.pack(self.alignment, self.aligned_timeout_ms))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        _, checkpoint_id, timestamp_ms, kind = _BARRIER_START.unpack_from(data)
        snapshot_type = SnapshotType(kind)
        at = _BARRIER_START.size
        savepoint_format = None
        if snapshot_type.is_savepoint:
            savepoint_format = SavepointFormatType(data[at])
            at += 1
        (length,) = _I32.unpack_from(data, at)
        at += _I32.size
        location = None
        if length != -1:
            if not 0 <= length <= len(data) - at:
                raise FrameCorruptedError(f"a barrier with a location of {length} bytes")
            location = data[at : at + length]
            at += length
        alignment, aligned_timeout_ms = _BARRIER_END.unpack_from(data, at)
        return cls(
            checkpoint_id,
            timestamp_ms,
            snapshot_type,
            AlignmentType(alignment),
            aligned_timeout_ms,
            location,
            savepoint_format,
        )
