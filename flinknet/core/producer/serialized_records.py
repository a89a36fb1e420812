# mypyc
"""SerializedRecords: a batch of records as bytes, with their ends; SerializedElement: another
stream element.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class SerializedRecords:
    """Adjacent records (length prefix, element, length prefix, …) of equal or different lengths,
    with their intended instants.

    Args:
        instants_ns: an int64 array with one entry per record, or one int for all.
        ends: of each record, if their lengths differ.

    Attributes:
        record_bytes: length of every record, prefix included; 0 if they differ.
    """

    __slots__ = ("_ends", "_instants", "data", "record_bytes")

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
        """The offset of `position` within its record (0: a record begins there), and the record's
        end.
        """
        ends = self._ends
        if ends is None:
            into = position % self.record_bytes
            return into, position - into + self.record_bytes
        index = bisect_right(ends, position)
        return position - (ends[index - 1] if index else 0), ends[index]

    def ended_between(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Records whose last byte is in [start, end): their number, first and last intended instant
        in ns.
        """
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
        """Describe this many pieces of `size_bytes` from `position` on: the number of leading bytes
        that continue a record; the number of records that end in the piece, and the intended
        instants of the first and the last in ns (0, -1, -1: none).
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
    """A stream element other than a record, such as a watermark: is written like a record, but does
    not count as one.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(memoryview(data), -1, record_bytes=len(data))

    def ended_between(self, start: int, end: int) -> tuple[int, int, int] | None:
        """No record ends in an element."""
        return None

    def cut(self, position: int, size_bytes: int, pieces: int) -> list[tuple[int, int, int, int]]:
        """Describe pieces of the element; see SerializedRecords."""
        return [(each[0], 0, -1, -1) for each in super().cut(position, size_bytes, pieces)]
