"""What observers are shown in tests: golden conversations, and streams made of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flinknet.capture import ChannelTable, ConnectionObserver
from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.messages import BufferResponse, Message, PartitionRequest
from flinknet.trace.schema import COLUMN_NAMES
from tests.golden_vectors import Vector, encode
from tests.pair import RECEIVER, partition_id

SERVER, CLIENT = "producer->consumer", "consumer->producer"

Step = tuple[str, bytes]


@dataclass
class Rows:
    """A probe that keeps its events by the names of the columns."""

    all: list[dict[str, int]] = field(default_factory=list)

    def record(self, *values: int) -> None:
        self.all.append(dict(zip(COLUMN_NAMES, values, strict=True)))

    def values(self, *names: str) -> list[tuple[int, ...]]:
        return [tuple(row[name] for name in names) for row in self.all]


@dataclass
class Observed:
    """An observer, what it was told to write, and its channels."""

    is_from_start: bool = True
    rows: Rows = field(default_factory=Rows)
    table: ChannelTable = field(default_factory=ChannelTable)

    def __post_init__(self) -> None:
        self.observer = ConnectionObserver(self.rows, self.table, is_from_start=self.is_from_start)

    def show(self, steps: Iterable[Step], at_ns: int = 7) -> Observed:
        for direction, data in steps:
            feed = self.observer.from_server if direction == SERVER else self.observer.from_client
            feed(data, at_ns)
        return self


def steps_of(conversation: Vector) -> list[Step]:
    """Every frame of a golden conversation, of both directions."""
    steps = conversation["fields"]["steps"]
    return [(step["direction"], bytes.fromhex(step["hex"])) for step in steps if "hex" in step]


def cut(steps: Sequence[Step], size: int) -> list[Step]:
    """The same in pieces of at most `size` bytes."""
    return [
        (direction, data[start : start + size])
        for direction, data in steps
        for start in range(0, len(data), size)
    ]


def request(receiver: bytes = RECEIVER, credit: int = 1 << 20, last: int = 0) -> PartitionRequest:
    return PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, last), receiver, credit)


def buffer(
    number: int,
    payload: bytes,
    data_type: DataType = DataType.DATA_BUFFER,
    *,
    receiver: bytes = RECEIVER,
    backlog: int = 0,
    is_compressed: bool = False,
    sizes: tuple[int, ...] = (),
    subpartition: int = 0,
) -> BufferResponse:
    return BufferResponse(
        receiver, subpartition, number, backlog, data_type, is_compressed, payload, sizes
    )


def stream(*messages: Message, release: str = "2.3.0") -> bytes:
    return b"".join(encode(message, release) for message in messages)


def elements(lengths: Sequence[int], tag: int = 1) -> bytes:
    """Elements of these lengths with their prefix, all of one tag."""
    return b"".join(
        length.to_bytes(4) + (bytes([tag]) + bytes(length - 1) if length else b"")
        for length in lengths
    )
