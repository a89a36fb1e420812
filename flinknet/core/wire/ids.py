"""Ids of the data port: 16 opaque bytes, and compounds of them. Packed: what has a tag and fields.

The hexadecimal text in Flink's logs and web interface is that of the bytes on the wire, in the same
order. All decoders take exactly the bytes of the id and raise FrameCorruptedError for anything
else.

| id | bytes | layout |
|---|---|---|
| InputChannelID, IntermediateDataSetID, ExecutionGraphID, JobVertexID | 16 | opaque |
| IntermediateResultPartitionID, ExecutionVertexID | 20 | id16, i32 |
| ExecutionAttemptID | 40 | ExecutionGraphID, ExecutionVertexID, i32 |
| ResultPartitionID | 60 | IntermediateResultPartitionID, ExecutionAttemptID |
| ResultSubpartitionIndexSet | 8 | i32 first, i32 last, both inclusive |
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar, NewType, Self

from flinknet.errors import FrameCorruptedError, LocalProtocolError

ID_BYTES = 16

Bytes = bytes | bytearray | memoryview

InputChannelID = NewType("InputChannelID", bytes)
"""The receiver of a message: one input channel of the consumer.

Plain bytes, because every message has one and the hot path looks up channels by it.
"""

_ID_AND_NUMBER = struct.Struct(">16si")
_NUMBER = struct.Struct(">i")
_RANGE = struct.Struct(">ii")
_INT_MAX = 0x7FFF_FFFF

_PRINTED_PARTITION = re.compile(
    r"([0-9a-f]{32})#(\d{1,10})@([0-9a-f]{32})_([0-9a-f]{32})_(\d{1,10})_(\d{1,10})"
)


@dataclass(frozen=True, slots=True)
class Packed:
    """Base of events and stream elements that consist of their tag and fields of fixed sizes; bytes
    after these are ignored.
    """

    TAG: ClassVar[int]
    LAYOUT: ClassVar[struct.Struct] = _NUMBER

    def encode(self) -> bytes:
        values = (getattr(self, each.name) for each in fields(self))
        return self.LAYOUT.pack(self.TAG, *values)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(*cls.LAYOUT.unpack_from(data)[1:])


@dataclass(frozen=True, slots=True)
class AbstractID:
    """16 opaque bytes (Flink: AbstractID, two longs called lower and upper)."""

    raw: bytes

    BYTES: ClassVar[int] = ID_BYTES

    def __post_init__(self) -> None:
        if len(self.raw) != ID_BYTES:
            raise LocalProtocolError(
                f"{type(self).__name__} has {ID_BYTES} bytes, not {len(self.raw)}"
            )

    def encode(self) -> bytes:
        return self.raw

    @classmethod
    def decode(cls, data: Bytes) -> Self:
        _check_length(cls, cls.BYTES, data)
        return cls(bytes(data))

    def __str__(self) -> str:
        return self.raw.hex()


class IntermediateDataSetID(AbstractID):
    """The data set between two job vertices; each subtask of the first writes a partition."""

    __slots__ = ()


class ExecutionGraphID(AbstractID):
    """A run of a job; random."""

    __slots__ = ()


class JobVertexID(AbstractID):
    """A chain of operators."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class IntermediateResultPartitionID:
    """The output of one subtask, in any attempt."""

    intermediate_data_set_id: IntermediateDataSetID
    partition_number: int

    BYTES: ClassVar[int] = 20

    def encode(self) -> bytes:
        return _ID_AND_NUMBER.pack(self.intermediate_data_set_id.raw, self.partition_number)

    @classmethod
    def decode(cls, data: Bytes) -> Self:
        _check_length(cls, cls.BYTES, data)
        raw, partition_number = _ID_AND_NUMBER.unpack(data)
        return cls(IntermediateDataSetID(raw), partition_number)

    def __str__(self) -> str:
        return f"{self.intermediate_data_set_id}#{self.partition_number}"


@dataclass(frozen=True, slots=True)
class ExecutionVertexID:
    """One subtask of a job vertex."""

    job_vertex_id: JobVertexID
    subtask_index: int

    BYTES: ClassVar[int] = 20

    def encode(self) -> bytes:
        return _ID_AND_NUMBER.pack(self.job_vertex_id.raw, self.subtask_index)

    @classmethod
    def decode(cls, data: Bytes) -> Self:
        _check_length(cls, cls.BYTES, data)
        raw, subtask_index = _ID_AND_NUMBER.unpack(data)
        if subtask_index < 0:
            raise FrameCorruptedError(f"subtask index {subtask_index} is negative")
        return cls(JobVertexID(raw), subtask_index)

    def __str__(self) -> str:
        return f"{self.job_vertex_id}_{self.subtask_index}"


@dataclass(frozen=True, slots=True)
class ExecutionAttemptID:
    """One attempt of a subtask."""

    execution_graph_id: ExecutionGraphID
    execution_vertex_id: ExecutionVertexID
    attempt_number: int

    BYTES: ClassVar[int] = 40

    def __hash__(self) -> int:
        """Of what differs within a job; that of every part took most of the time of a look-up."""
        vertex = self.execution_vertex_id
        return hash((vertex.job_vertex_id.raw, vertex.subtask_index, self.attempt_number))

    def encode(self) -> bytes:
        return (
            self.execution_graph_id.raw
            + self.execution_vertex_id.encode()
            + _NUMBER.pack(self.attempt_number)
        )

    @classmethod
    def decode(cls, data: Bytes) -> Self:
        _check_length(cls, cls.BYTES, data)
        (attempt_number,) = _NUMBER.unpack_from(data, 36)
        if attempt_number < 0:
            raise FrameCorruptedError(f"attempt number {attempt_number} is negative")
        return cls(
            ExecutionGraphID(bytes(data[:16])),
            ExecutionVertexID.decode(data[16:36]),
            attempt_number,
        )

    def __str__(self) -> str:
        return f"{self.execution_graph_id}_{self.execution_vertex_id}_{self.attempt_number}"


@dataclass(frozen=True, slots=True)
class ResultPartitionID:
    """A partition with the attempt that produces it; consumers request it by this id."""

    partition_id: IntermediateResultPartitionID
    producer_id: ExecutionAttemptID

    BYTES: ClassVar[int] = 60

    def __hash__(self) -> int:
        """Of what differs within a job, as above."""
        partition, attempt = self.partition_id, self.producer_id.attempt_number
        return hash((partition.intermediate_data_set_id.raw, partition.partition_number, attempt))

    def encode(self) -> bytes:
        return self.partition_id.encode() + self.producer_id.encode()

    @classmethod
    def decode(cls, data: Bytes) -> ResultPartitionID:
        _check_length(cls, cls.BYTES, data)
        return _decoded_partition(bytes(data))

    @classmethod
    def parse(cls, text: str) -> ResultPartitionID:
        """Parse the form of Flink's logs, <data set>#<partition>@<graph>_<vertex>_<subtask>_
        <attempt>, or the hexadecimal form of its 60 bytes.

        Raises: LocalProtocolError if it is neither.
        """
        text = text.strip().lower()
        if re.fullmatch(rf"[0-9a-f]{{{2 * cls.BYTES}}}", text):
            try:
                return cls.decode(bytes.fromhex(text))
            except FrameCorruptedError as error:
                raise LocalProtocolError(f"{text} is not a result partition: {error}") from None
        match = _PRINTED_PARTITION.fullmatch(text)
        if match is None or any(int(match[group]) > _INT_MAX for group in (2, 5, 6)):
            raise LocalProtocolError(
                f"{text!r} is not a result partition; write it as Flink's logs do,"
                " DATASET#PARTITION@"
                f"GRAPH_VERTEX_SUBTASK_ATTEMPT, or as {2 * cls.BYTES} hexadecimal digits"
            )
        data_set, graph, vertex = (bytes.fromhex(match[group]) for group in (1, 3, 4))
        partition, subtask, attempt = (int(match[group]) for group in (2, 5, 6))
        return cls(
            IntermediateResultPartitionID(IntermediateDataSetID(data_set), partition),
            ExecutionAttemptID(
                ExecutionGraphID(graph), ExecutionVertexID(JobVertexID(vertex), subtask), attempt
            ),
        )

    def __str__(self) -> str:
        return f"{self.partition_id}@{self.producer_id}"


@lru_cache(maxsize=256)
def _decoded_partition(data: bytes) -> ResultPartitionID:
    """Each of its readers requests it; to make it again takes most of the time of a request."""
    return ResultPartitionID(
        IntermediateResultPartitionID.decode(data[:20]), ExecutionAttemptID.decode(data[20:])
    )


@dataclass(frozen=True, slots=True)
class ResultSubpartitionIndexSet:
    """A range of subpartitions, inclusive. Invariant: 0 <= start_index <= end_index."""

    start_index: int
    end_index: int

    BYTES: ClassVar[int] = 8

    def __post_init__(self) -> None:
        if not 0 <= self.start_index <= self.end_index:
            raise LocalProtocolError(f"subpartitions {self} are not a range")

    def encode(self) -> bytes:
        return _RANGE.pack(self.start_index, self.end_index)

    @classmethod
    def decode(cls, data: Bytes) -> Self:
        _check_length(cls, cls.BYTES, data)
        start_index, end_index = _RANGE.unpack(data)
        if not 0 <= start_index <= end_index:
            raise FrameCorruptedError(f"subpartitions {start_index} to {end_index} are not a range")
        return cls(start_index, end_index)

    def __len__(self) -> int:
        return self.end_index - self.start_index + 1

    def __str__(self) -> str:
        return f"[{self.start_index}, {self.end_index}]"


def _check_length(cls: type, expected_bytes: int, data: Bytes) -> None:
    if len(data) != expected_bytes:
        raise FrameCorruptedError(f"{cls.__name__} has {expected_bytes} bytes, not {len(data)}")
