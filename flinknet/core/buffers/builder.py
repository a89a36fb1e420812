# mypyc
"""BufferBuilder and BufferConsumer: one writes a segment, the other may read it while it is still
being filled.

The writer lays bytes into `view` and publishes them by `committed_bytes`. The consumer remembers
the position it saw last and looks again only in `build` and when it is created, as Flink's does: a
consumer that was queued before its bytes were written says "not finished" until it is built, even
if the builder has finished meanwhile. The rules of PipelinedSubpartition rest on this. A segment
that one batch fills as a whole needs neither of them: its BufferSlice is queued at once, and says
what a consumer would say.

Invariant: 0 <= consumer's read position <= committed_bytes <= written_bytes <= capacity_bytes <=
    segment size.
"""

from __future__ import annotations

from typing import Any

from .buffer import MemorySegment, NetworkBuffer, free_memory
from .data_type import IS_BUFFER


class BufferBuilder:
    """The writing side of one segment (Flink: BufferBuilder).

    Besides bytes it keeps marks: for each stretch of records that were completed in this buffer
    their number and the intended instants of the first and last, so that every slice can say what
    it carries.
    """

    __slots__ = (
        "_has_consumer",
        "buffer",
        "capacity_bytes",
        "committed_bytes",
        "finish_reason",
        "is_finished",
        "marks",
        "view",
        "written_bytes",
    )

    def __init__(self, buffer: NetworkBuffer) -> None:
        self.buffer = buffer
        self.view = buffer.view
        self.capacity_bytes = len(buffer.view)
        self.written_bytes = 0
        self.committed_bytes = 0
        self.is_finished = False
        self.finish_reason = 0
        self.marks: list[tuple[int, int, int]] = []
        self._has_consumer = False

    def finish(self, reason: int) -> int:
        """Publish everything and end the buffer. Returns: bytes in it."""
        self.committed_bytes = self.written_bytes
        self.is_finished = True
        self.finish_reason = reason
        return self.written_bytes

    @property
    def is_full(self) -> bool:
        """Whether no byte fits any more."""
        return self.written_bytes == self.capacity_bytes

    def trim(self, size_bytes: int) -> None:
        """Set the capacity: not below what is written, not above the segment; it may grow back."""
        self.capacity_bytes = min(max(size_bytes, self.written_bytes), len(self.view))

    def close(self) -> None:
        """Give up the writer's reference."""
        self.buffer.recycle()

    def create_consumer(self) -> BufferConsumer:
        """The one consumer of this buffer, from the current position on."""
        if self._has_consumer:
            raise RuntimeError("a buffer builder has exactly one consumer; copy it for more")
        self._has_consumer = True
        self.buffer.references += 1
        return BufferConsumer(self.buffer, self, self.committed_bytes)


class BufferConsumer:
    """The reading side: slices of what was committed, each byte once (Flink: BufferConsumer).

    `partial_record_length` is how many leading bytes continue a record begun in an earlier buffer.
    `is_buffer` says whether it is data; events never count as backlog.
    """

    __slots__ = (
        "_builder",
        "_marks_read",
        "buffer",
        "data_type",
        "is_buffer",
        "is_finished",
        "partial_record_length",
        "read_bytes",
        "visible_bytes",
    )

    def __init__(
        self,
        buffer: NetworkBuffer,
        builder: BufferBuilder | None,
        read_bytes: int,
        partial_record_length: int = 0,
    ) -> None:
        self.buffer = buffer
        self._builder = builder
        self.read_bytes = read_bytes
        self.partial_record_length = partial_record_length
        self.data_type = buffer.data_type
        self._marks_read = 0
        self.is_buffer = builder is not None
        if builder is None:
            self.visible_bytes = buffer.size_bytes
            self.is_finished = True
        else:
            self.visible_bytes = builder.committed_bytes
            self.is_finished = builder.is_finished

    @classmethod
    def of_event(cls, data: bytes, data_type: int) -> BufferConsumer:
        """A finished consumer over an event in plain memory; no pool, no credit."""
        segment = MemorySegment(memoryview(data))
        return cls(NetworkBuffer(segment, free_memory, data_type, len(data)), None, 0)

    def build(self) -> BufferSlice:
        """Look at the builder and hand out what is new; the slice may be empty. It holds a
        reference of its own.
        """
        buffer = self.buffer
        start = self.read_bytes
        builder = self._builder
        buffer.references += 1
        if builder is None:
            end = self.visible_bytes
            self.read_bytes = end
            return BufferSlice(buffer, buffer.view[start:end], end - start)
        self.visible_bytes = self.read_bytes = end = builder.committed_bytes
        self.is_finished = builder.is_finished
        marks = builder.marks
        read = self._marks_read
        self._marks_read = written = len(marks)
        records, first_ns, last_ns = 0, -1, -1
        if read < written:
            records, first_ns, last_ns = marks[read]
            for index in range(read + 1, written):
                more, _, last_ns = marks[index]
                records += more
        size = end - start
        return BufferSlice(
            buffer,
            buffer.view if size == len(buffer.view) else buffer.view[start:end],
            size,
            records,
            first_ns,
            last_ns,
            builder.finish_reason,
        )

    def take_rest(self) -> BufferSlice:
        """Hand out what is left of a finished buffer, and the queue's reference with it."""
        piece = self.build()
        piece.buffer.references -= 1  # never the last: the slice has one
        return piece

    def copy(self) -> BufferConsumer:
        """A second consumer of the same bytes with its own position (broadcast, snapshots)."""
        self.buffer.retain()
        copy = BufferConsumer(
            self.buffer, self._builder, self.read_bytes, self.partial_record_length
        )
        copy.visible_bytes = self.visible_bytes
        copy.is_finished = self.is_finished
        copy._marks_read = self._marks_read
        return copy

    def look(self) -> None:
        """See what was committed until now without handing it out, as a consumer made only now
        would.
        """
        assert self._builder is not None
        self.visible_bytes = self._builder.committed_bytes
        self.is_finished = self._builder.is_finished

    @property
    def unread_bytes(self) -> int:
        """What `build` would hand out now (looks at the builder)."""
        latest = self.visible_bytes if self._builder is None else self._builder.committed_bytes
        return latest - self.read_bytes

    @property
    def is_data_available(self) -> bool:
        """Whether there is something that `build` has not handed out yet."""
        return self.unread_bytes > 0

    def close(self) -> None:
        """Give up the consumer's reference."""
        self.buffer.recycle()


class BufferSlice:
    """What a subpartition hands out: bytes of a buffer, what they are, and the state of the queue
    behind them.

    Holds one reference of `buffer`. Mirrors ResultSubpartition.BufferAndBacklog together with the
    read-only slice. `records`, `first_record_ns` and `last_record_ns` tell of the records that end
    in these bytes (-1: none).

    The slice of a buffer that one batch filled is queued itself, in the place of a BufferConsumer,
    and says what that would say: not finished until it is built, without bytes until then unless
    they continue a record. (0.2 µs to make, against 1.3 µs for builder, consumer and slice.)

    Attributes:
        prefilled: says that not all its bytes are published; None if they are.
    """

    __slots__ = (
        "backlog_buffers",
        "buffer",
        "data_type",
        "first_record_ns",
        "is_finished",
        "last_record_ns",
        "next_data_type",
        "partial_record_length",
        "prefilled",
        "reason",
        "records",
        "sequence_number",
        "size_bytes",
        "view",
    )

    def __init__(
        self,
        buffer: NetworkBuffer,
        view: memoryview,
        size_bytes: int,
        records: int = 0,
        first_record_ns: int = -1,
        last_record_ns: int = -1,
        reason: int = 0,
        partial_record_length: int = 0,
    ) -> None:
        self.buffer = buffer
        self.view = view
        self.size_bytes = size_bytes
        self.data_type: int = buffer.data_type
        self.records = records
        self.first_record_ns = first_record_ns
        self.last_record_ns = last_record_ns
        self.reason = reason
        self.sequence_number = -1
        self.backlog_buffers = 0
        self.next_data_type = 0
        self.partial_record_length = partial_record_length
        self.is_finished = False
        self.prefilled: PrefilledSegment | None = None

    @property
    def is_buffer(self) -> bool:
        """Whether it is data."""
        return self.data_type in IS_BUFFER

    def build(self) -> BufferSlice:
        """Hand itself out, and the queue's reference with it."""
        self.is_finished = True
        return self

    def look(self) -> None:
        """See that it is finished without handing it out."""
        self.is_finished = True

    @property
    def visible_bytes(self) -> int:
        """The bytes that were there when it was queued; all of them once looked at."""
        return self.size_bytes if self.is_finished or self.partial_record_length else 0

    @property
    def unread_bytes(self) -> int:
        """What could be handed out now."""
        prefilled = self.prefilled
        return self.size_bytes if prefilled is None else prefilled.published_bytes

    @property
    def is_data_available(self) -> bool:
        """Whether `build` would hand out anything."""
        return self.size_bytes > 0

    def copy(self) -> BufferSlice:
        """A second slice of the same bytes (broadcast)."""
        return BufferSlice(
            self.buffer.retain(),
            self.view,
            self.size_bytes,
            self.records,
            self.first_record_ns,
            self.last_record_ns,
            self.reason,
            self.partial_record_length,
        )

    def close(self) -> None:
        """Give up the queue's reference."""
        self.buffer.recycle()

    @property
    def payload(self) -> memoryview:
        """The bytes, as NetworkBuffer names them."""
        return self.view

    def recycle(self) -> None:
        """Give up the slice's reference."""
        self.buffer.recycle()

    def __repr__(self) -> str:
        fields: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("data_type", "size_bytes", "sequence_number", "backlog_buffers")
        }
        return f"BufferSlice({fields})"


class PrefilledSegment:
    """A segment that was filled as a whole while only its first record may be read yet: its writer
    has nothing left to do but to publish the rest, and has a reference of its own until then.

    Whoever cannot wait for that, a reader of the first record or a writer of other bytes, needs a
    builder and a consumer in its place (PipelinedSubpartition.reopen).

    Attributes:
        piece: what is queued.
        published_bytes: those that end the first of its records.
        batch, position: where the writer goes on.
        builder: the one that has taken its place, if one has.
    """

    __slots__ = ("batch", "builder", "piece", "position", "published_bytes")

    def __init__(
        self, piece: BufferSlice, published_bytes: int, batch: object, position: int
    ) -> None:
        self.piece = piece
        self.published_bytes = published_bytes
        self.batch = batch
        self.position = position
        self.builder: BufferBuilder | None = None
        piece.prefilled = self
        piece.buffer.references += 1

    def publish(self) -> int:
        """Publish the rest. Returns: its bytes."""
        piece = self.piece
        piece.prefilled = None
        piece.buffer.recycle()
        return piece.size_bytes - self.published_bytes

    def reopen(self) -> tuple[BufferBuilder, BufferConsumer]:
        """The builder and the consumer that would be there if it had been filled up to the end of
        its first record only. They take over both references.
        """
        piece = self.piece
        piece.prefilled = None
        builder = self.builder = BufferBuilder(piece.buffer)
        builder.written_bytes = builder.committed_bytes = self.published_bytes
        builder.marks.append((1, piece.first_record_ns, piece.first_record_ns))
        builder._has_consumer = True
        consumer = BufferConsumer(piece.buffer, builder, 0, piece.partial_record_length)
        if not piece.partial_record_length:
            consumer.visible_bytes = 0
        return builder, consumer
