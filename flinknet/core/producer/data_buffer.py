# mypyc
"""Data buffers of a sort-merge partition: collect records of all subpartitions in memory and return
them subpartition by subpartition. A record is never split between two data buffers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray


class SerializedRecords:
    """Adjacent records (length prefix, element, length prefix, …), with their intended instants.

    Args:
        instants_ns: an int64 array with one entry per record, or one int for all.
        ends: of each record, if their lengths differ.

    Attributes:
        record_bytes: length of every record, prefix included; 0 if they differ.
    """

    def __init__(
        self,
        data: memoryview,
        instants_ns: NDArray[np.int64] | int,
        *,
        record_bytes: int = 0,
        ends: Sequence[int] | None = None,
    ) -> None:
        self.data = data
        self.record_bytes = record_bytes
        self._ends = ends
        self._instants = instants_ns

    def locate(self, position: int) -> tuple[int, int]:
        """The offset of `position` in its record (0: one begins there), and the record's end."""
        ends = self._ends
        if ends is None:
            into = position % self.record_bytes
            return into, position - into + self.record_bytes
        index = bisect_right(ends, position)
        return position - (ends[index - 1] if index else 0), ends[index]

    def ended_between(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Records whose last byte is in [start, end): number, first and last instant in ns."""
        ends = self._ends
        if ends is None:
            first, last = start // self.record_bytes, end // self.record_bytes
        else:
            first = bisect_right(ends, start)
            last = bisect_right(ends, end, first)
        if first == last:
            return None
        instants = self._instants
        if isinstance(instants, int):
            return last - first, instants, instants
        return last - first, int(instants[first]), int(instants[last - 1])

    def cut(self, position: int, size_bytes: int, pieces: int) -> list[tuple[int, int, int, int]]:
        """Describe pieces of `size_bytes` from `position` on: the number of leading bytes that
        continue a record, and the mark as of `ended_between` (0, -1, -1: none).
        """
        found: list[tuple[int, int, int, int]] = []
        reached = position + pieces * size_bytes
        if self._ends is not None:
            for start in range(position, reached, size_bytes):
                into, record_end = self.locate(start)
                continued_bytes = min(record_end - start, size_bytes) if into else 0
                mark = self.ended_between(start, start + size_bytes) or (0, -1, -1)
                found.append((continued_bytes, *mark))
            return found
        record_bytes, instants = self.record_bytes, self._instants
        first_ns = last_ns = instants if isinstance(instants, int) else -1
        begun = position // record_bytes
        continued_bytes = -position % record_bytes
        for end in range(position + size_bytes, reached + 1, size_bytes):
            if continued_bytes > size_bytes:
                found.append((size_bytes, 0, -1, -1))
                continued_bytes -= size_bytes
                continue
            ended = end // record_bytes
            if ended == begun:
                found.append((continued_bytes, 0, -1, -1))
            else:
                if not isinstance(instants, int):
                    first_ns, last_ns = int(instants[begun]), int(instants[ended - 1])
                found.append((continued_bytes, ended - begun, first_ns, last_ns))
            begun = ended
            continued_bytes = -end % record_bytes
        return found


class SerializedElement(SerializedRecords):
    """A stream element such as a watermark: written like a record, but not counted as one."""

    def __init__(self, data: bytes) -> None:
        super().__init__(memoryview(data), -1, record_bytes=len(data))

    def ended_between(self, start: int, end: int) -> tuple[int, int, int] | None:
        return None

    def cut(self, position: int, size_bytes: int, pieces: int) -> list[tuple[int, int, int, int]]:
        return [(each[0], 0, -1, -1) for each in super().cut(position, size_bytes, pieces)]


SORT_INDEX_ENTRY_BYTES: Final = 16
"""Bytes per record in addition to its own, if records are sorted (Flink: SortBuffer)."""


class Piece:
    """A buffer or event: the first `size_bytes` of `view`, and the records that end in it."""

    def __init__(self, view: memoryview, size_bytes: int = 0, *, is_event: bool = False) -> None:
        self.view = view
        self.size_bytes = size_bytes
        self.is_event = is_event
        self.records = 0
        self.first_record_ns = -1
        self.last_record_ns = -1

    @property
    def payload(self) -> memoryview:
        return self.view[: self.size_bytes]

    def add_records(self, records: int, first_ns: int, last_ns: int) -> None:
        if not self.records:
            self.first_record_ns = first_ns
        self.records += records
        self.last_record_ns = last_ns


class HashBasedDataBuffer:
    """Keeps each segment to one subpartition, so that it can be written as it is (Flink:
    HashBasedDataBuffer); for pools of at least two segments per subpartition.
    """

    def __init__(self, segments: Sequence[memoryview], subpartitions: int) -> None:
        self.is_empty = True
        self._free = list(reversed(segments))
        self._segment_bytes = len(segments[0]) if segments else 0
        self._pieces: list[list[Piece]] = [[] for _ in range(subpartitions)]

    def append(self, subpartition: int, batch: SerializedRecords, position: int) -> int:
        """Add records from `position` on, where one begins. Returns: the position reached; before
        the end of the batch if the next record does not fit.
        """
        pieces, size = self._pieces[subpartition], self._segment_bytes
        data = batch.data
        piece = pieces[-1] if pieces else None
        if piece is not None and (piece.is_event or piece.size_bytes == size):
            piece = None
        room = len(self._free) * size
        if piece is not None:
            room += size - piece.size_bytes
        end = len(data)
        if room < end - position:
            into, _ = batch.locate(position + room)
            end = position + room - into
        while position < end:
            if piece is None:
                piece = Piece(self._free.pop())
                pieces.append(piece)
                self.is_empty = False
            start = piece.size_bytes
            reached = position + size - start
            if reached > end:
                reached = end
            filled = start + reached - position
            piece.view[start:filled] = data[position:reached]
            piece.size_bytes = filled
            mark = batch.ended_between(position, reached)
            if mark is not None:
                piece.add_records(*mark)
            position = reached
            if filled == size:
                piece = None
        return position

    def append_event(self, subpartition: int, event: bytes) -> None:
        self._pieces[subpartition].append(Piece(memoryview(event), len(event), is_event=True))
        self.is_empty = False

    def pieces(self, order: Sequence[int]) -> Iterator[tuple[int, Piece]]:
        for subpartition in order:
            for piece in self._pieces[subpartition]:
                yield subpartition, piece


class SortBasedDataBuffer:
    """Collects records of all subpartitions in order of arrival, and sorts them into pieces on
    output (Flink: SortBasedDataBuffer).

    Differs from Flink in that the space of index entries is left empty, since they are kept outside
    the segments, and in that events take no space.

    Args:
        write_segments: memory for the pieces, in turn.
    """

    def __init__(
        self,
        segments: Sequence[memoryview],
        write_segments: Sequence[memoryview],
        subpartitions: int,
    ) -> None:
        self.is_empty = True
        self._segments = segments
        self._write_segments = write_segments
        self._segment_bytes = len(segments[0])
        self._used = 0
        self._at = 0
        self._offset = 0
        self._entries: list[list[tuple[int, int, int, int] | bytes]] = [
            [] for _ in range(subpartitions)
        ]

    def append(self, subpartition: int, batch: SerializedRecords, position: int) -> int:
        data, entries = batch.data, self._entries[subpartition]
        total = len(data)
        while position < total:
            _, record_end = batch.locate(position)
            if not self._allocate(SORT_INDEX_ENTRY_BYTES + record_end - position):
                break
            self._move(SORT_INDEX_ENTRY_BYTES)
            mark = batch.ended_between(position, record_end)
            assert mark is not None
            entries.append((self._at, self._offset, record_end - position, mark[1]))
            while position < record_end:
                start = self._offset
                length = min(record_end - position, self._segment_bytes - start)
                self._segments[self._at][start : start + length] = data[
                    position : position + length
                ]
                self._move(length)
                position += length
            self.is_empty = False
        return position

    def append_event(self, subpartition: int, event: bytes) -> None:
        self._entries[subpartition].append(event)
        self.is_empty = False

    def pieces(self, order: Sequence[int]) -> Iterator[tuple[int, Piece]]:
        segments, write_segments, size = self._segments, self._write_segments, self._segment_bytes
        count = 0
        for subpartition in order:
            piece: Piece | None = None
            for entry in self._entries[subpartition]:
                if isinstance(entry, bytes):
                    if piece is not None:
                        yield subpartition, piece
                        piece = None
                    yield subpartition, Piece(memoryview(entry), len(entry), is_event=True)
                    continue
                at, offset, length, record_ns = entry
                while length:
                    if piece is None:
                        piece = Piece(write_segments[count % len(write_segments)])
                        count += 1
                    start = piece.size_bytes
                    part = min(length, size - start, size - offset)
                    piece.view[start : start + part] = segments[at][offset : offset + part]
                    piece.size_bytes = start + part
                    length -= part
                    offset += part
                    if offset == size:
                        at += 1
                        offset = 0
                    if not length:
                        piece.add_records(1, record_ns, record_ns)
                    if piece.size_bytes == size:
                        yield subpartition, piece
                        piece = None
            if piece is not None:
                yield subpartition, piece

    def _allocate(self, required_bytes: int) -> bool:
        """Reserve the segments for a record. Returns: False if there are too few."""
        available = 0 if self._at == self._used else self._segment_bytes - self._offset
        if available >= required_bytes:
            return True
        if available < SORT_INDEX_ENTRY_BYTES:  # an entry is never split
            self._move(available)
            available = 0
        more = -((available - required_bytes) // self._segment_bytes)
        if self._used + more > len(self._segments):
            return False
        self._used += more
        return True

    def _move(self, count: int) -> None:
        self._offset += count
        if self._offset == self._segment_bytes:
            self._at += 1
            self._offset = 0
