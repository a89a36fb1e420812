"""RecordCounter: counts the records that end in the bytes of one subpartition, without storing any.

Reads the length prefixes of `records` and skips the rest; the times of elements are read where they
are asked for. Adjacent elements of equal length, the usual case, are checked all at once with
numpy. After a gap `RecordSearch` looks for the next boundary.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np

from .records import (
    LENGTH_PREFIX_BYTES,
    RECORD_BYTES_MAX,
    TAG_REC_WITHOUT_TIMESTAMP,
    TAG_RECORD_ATTRIBUTES,
    TAG_WATERMARK,
    TIME_BYTES,
    RecordTimes,
)

ELEMENT_BYTES_MAX: Final = 1 << 20
"""Longer elements are not followed, so that records as long as this are not found again."""

CHAINS_MAX: Final = 1 << 14
"""Chains that are followed at a time."""

ENDS_MIN, ELEMENTS_MIN = 2, 3
"""Buffers that end with an element of the chain, and elements in it, that prove it."""

BUFFERS_MIN, MANY_ELEMENTS, TIMES_OTHERS = 3, 16, 4
"""Where buffers do not end with elements: buffers that a chain went through, elements in it, and
how many times those of every other chain."""

_BYTES_BY_TAG = {0: (9, None), 1: (1, None), 2: (9, 9), 3: (29, 29), 4: (5, 5), 5: (2, 2)}
_BYTES_BY_TAG |= {6: (13, 13)}
_LEAST = np.full(1 << 8, ELEMENT_BYTES_MAX + 1, np.uint32)
_MOST = np.zeros(1 << 8, np.uint32)
for _tag, (_least, _most) in _BYTES_BY_TAG.items():
    _LEAST[_tag], _MOST[_tag] = _least, _most or ELEMENT_BYTES_MAX


class _Chain(NamedTuple):
    """A chain of elements up to where its next one is to start: their number, the buffers that
    ended with one, the number of the buffer with the first, and whether the last is a record.
    """

    elements: int
    ends: int
    since: int
    is_record: bool


class Boundary(NamedTuple):
    """Where the next element starts, at the end of a buffer: bytes of the current element that are
    to come, bytes of the next one that have come, and whether the current one is a record.
    """

    left: int
    prefix: bytes
    is_record: bool


class RecordSearch:
    """Looks for the boundaries of elements in the bytes of one subpartition."""

    __slots__ = ("_at", "_buffers", "_chains", "_tail")

    def __init__(self) -> None:
        self._at = 0  # bytes so far
        self._buffers = 0
        self._chains: dict[int, _Chain] = {}  # by where the next element is to start
        self._tail = b""  # too short for a length and a tag

    def feed(self, payload: memoryview) -> None:
        """Take the next bytes, which follow those before without a gap."""
        data = self._tail + bytes(payload)
        start = self._at - len(self._tail)
        self._at += len(payload)
        count = max(len(data) - LENGTH_PREFIX_BYTES, 0)
        self._tail = data[count:]
        if not count:
            return
        lengths = np.ndarray((count,), ">u4", data, 0, (1,))
        tags = np.frombuffer(data, np.uint8, count, LENGTH_PREFIX_BYTES)
        places = np.flatnonzero((lengths >= _LEAST[tags]) & (lengths <= _MOST[tags]))
        columns = (each.tolist() for each in (places, lengths[places], tags[places]))
        chains, new = self._chains, _Chain(0, 0, self._buffers, False)
        for place, length, tag in zip(*columns, strict=True):
            chain = chains.pop(start + place, new)
            target = start + place + LENGTH_PREFIX_BYTES + length
            known = chains.get(target)
            if known is None and len(chains) >= CHAINS_MAX:
                continue
            if known is None or known.elements <= chain.elements:
                is_record = tag <= TAG_REC_WITHOUT_TIMESTAMP
                chains[target] = chain._replace(elements=chain.elements + 1, is_record=is_record)
        self._chains = {at: each for at, each in chains.items() if at >= start + count}

    def end_buffer(self) -> Boundary | None:
        """A buffer has ended. Returns: the boundary, once it is certain."""
        self._buffers += 1
        chain = self._chains.get(self._at)
        if chain is not None:
            chain = self._chains[self._at] = chain._replace(ends=chain.ends + 1)
            if chain.ends >= ENDS_MIN and chain.elements >= ELEMENTS_MIN:
                return Boundary(0, b"", chain.is_record)
        ranks = sorted(((each.elements, at) for at, each in self._chains.items()), reverse=True)[:2]
        if not ranks:
            return None
        elements, at = ranks[0]
        others = ranks[1][0] if len(ranks) > 1 else 0
        chain = self._chains[at]
        if (
            elements < max(MANY_ELEMENTS, TIMES_OTHERS * others)
            or self._buffers - chain.since < BUFFERS_MIN
        ):
            return None
        cut = max(self._at - at, 0)
        return Boundary(max(at - self._at, 0), self._tail[len(self._tail) - cut :], chain.is_record)


RUN_MIN: Final = 12
"""Elements from which on numpy (3 µs per call) is cheaper than a loop."""

RUN_TRIES: Final = 2
"""Numpy calls per payload that may find no such run."""

_PREFIX_AND_TAG = LENGTH_PREFIX_BYTES + 1
_RECORD_TAG_MAX = TAG_REC_WITHOUT_TIMESTAMP
_OTHER_TAG = TAG_RECORD_ATTRIBUTES  # an element without a time
_NO_TAG = 256  # above all tags
_HEADS: Final = np.frombuffer(b"\xff" * _PREFIX_AND_TAG + bytes(3), np.uint64)[0]  # bits of a head

_read = struct.Struct(">IB").unpack_from


class RecordCounter:
    """Counts records (Flink's numRecords) and other elements: watermarks, markers, statuses.

    An element without bytes counts as a record.

    Attributes:
        is_lost: whether the start of records is unknown, after an impossible length or missing
            bytes. Nothing is counted until `restart`, or until `end_buffer` has found a boundary.
        others: number of ended elements other than records.
        times: takes the times of elements that end; None: they are not read.
    """

    __slots__ = (
        *("_body", "_left", "_length", "_prefix", "_search", "_tag"),
        *("is_lost", "others", "times"),
    )

    def __init__(self, *, is_lost: bool = False) -> None:
        self.is_lost = is_lost
        self.others = 0
        self.times: RecordTimes | None = None
        self._prefix = b""  # part of a split length and tag
        self._left = 0  # missing bytes of the current element
        self._tag, self._length = _RECORD_TAG_MAX, 0  # its tag and its length
        self._body = b""  # its first bytes after the tag, as far as they are known
        self._search = RecordSearch() if is_lost else None

    @property
    def is_inside_record(self) -> bool:
        """Whether the bytes so far end inside an element."""
        return bool(self._left or self._prefix)

    def restart(self) -> None:
        self.is_lost, self._search = False, None
        self._prefix, self._left = b"", 0

    def lose(self) -> None:
        """Stop counting: bytes are missing."""
        self.is_lost, self._search = True, RecordSearch()
        self._prefix, self._left = b"", 0
        if self.times is not None:
            self.times.begin()

    def skip(self, missing_bytes: int) -> None:
        """Bytes are missing, in one element if they are fewer than it has left."""
        if missing_bytes < self._left:
            self._left -= missing_bytes
            if len(self._body) < TIME_BYTES:
                self._tag = _RECORD_TAG_MAX if self._tag <= _RECORD_TAG_MAX else _OTHER_TAG
        else:
            self.lose()

    def end_buffer(self) -> None:
        """A buffer has ended: where records start may be certain again."""
        found = self._search.end_buffer() if self._search is not None else None
        if found is not None:
            self.restart()
            self._left, self._prefix, is_record = found
            self._tag = _RECORD_TAG_MAX if is_record else _OTHER_TAG

    def feed(self, payload: memoryview) -> int:
        """Take the next bytes. Returns: number of records that end in them, 0 if unknown."""
        if self._search is not None:
            self._search.feed(payload)
            return 0
        position, end, times = self._left, len(payload), self.times
        timed = _NO_TAG if times is None else TAG_WATERMARK if times.passes else 0  # the lowest tag
        if position and times is not None and len(self._body) < TIME_BYTES:
            self._body += bytes(payload[: min(position, TIME_BYTES - len(self._body))])
        if position > end:
            self._left -= end
            return 0
        records = 0
        if position:
            self._left = 0
            records = self._ended()
        if self._prefix:
            position, more = self._finish_prefix(payload, position)
            records += more
        tries, last = RUN_TRIES, end - _PREFIX_AND_TAG
        while position <= last:
            length, tag = _read(payload, position)
            step = LENGTH_PREFIX_BYTES + length
            if tries and length and step * RUN_MIN <= end - position:
                count = _equal_elements(payload, position, end, step)
                tries = tries if count >= RUN_MIN else tries - 1
                if tag >= timed and tag != _RECORD_TAG_MAX and times is not None:
                    times.add_run(payload, position, step, count, tag)
                position += count * step
            elif position + step > end or not length:
                if length > RECORD_BYTES_MAX:
                    self.lose()
                    return records
                if length:
                    self._left, self._tag, self._length = position + step - end, tag, length
                    if times is not None and (tag >= timed or times.passes == 1):
                        self._body = _start_of(payload, position + _PREFIX_AND_TAG, end)
                    elif not tag:  # a record whose time is not read
                        self._tag = _RECORD_TAG_MAX
                    return records
                count, tag = 1, _RECORD_TAG_MAX
                position += step
            elif tag <= _RECORD_TAG_MAX and (not tries or step * RUN_MIN > end - position):
                least = (end - position) // (2 * RUN_MIN) - LENGTH_PREFIX_BYTES if tries else 1
                position, count = self._walk(payload, position, end, tag, max(least, 1))
            else:
                count = 1
                if tag >= timed and tag != _RECORD_TAG_MAX and times is not None:
                    body = payload[position + _PREFIX_AND_TAG : position + step]
                    times.take(tag, length, body)
                position += step
            if tag <= _RECORD_TAG_MAX:
                records += count
            else:
                self.others += count
        return records + self._cut(payload, position, end)

    def _walk(
        self, payload: memoryview, position: int, end: int, tag: int, least: int
    ) -> tuple[int, int]:
        """Pass over records with the same tag and at least `least` bytes, one by one. Returns: the
        position after the last whole one, and their number.
        """
        times = self.times if not tag and self.times is not None and not self.times.passes else None
        read, last, count, due = _read, end - _PREFIX_AND_TAG, 0, -1
        if times is not None:
            due = times.until
        while position <= last:
            length, other = read(payload, position)
            stop = position + LENGTH_PREFIX_BYTES + length
            if other != tag or stop > end or length < least:
                break
            if count == due and times is not None:
                times.until = 0
                times.take(tag, length, payload[position + _PREFIX_AND_TAG : stop])
                due += 1 + times.until
            count += 1
            position = stop
        if times is not None:
            times.until = due - count
        return position, count

    def _ended(self) -> int:
        """End the current element. Returns: the number of records that ended."""
        tag, times = self._tag, self.times
        if times is not None and tag != _RECORD_TAG_MAX and (tag or not times.passes):
            times.take(tag, self._length, self._body)
        if tag <= _RECORD_TAG_MAX:
            return 1
        self.others += 1
        return 0

    def _finish_prefix(self, payload: memoryview, position: int) -> tuple[int, int]:
        """Complete a split length and tag. Returns: the start of the next element (the end if this
        one is incomplete), and the number of ended records.
        """
        wanted = _PREFIX_AND_TAG - len(self._prefix)
        taken = min(wanted, len(payload) - position)
        prefix = self._prefix + bytes(payload[position : position + taken])
        length = int.from_bytes(prefix[:4])
        self._prefix = b""
        if len(prefix) >= LENGTH_PREFIX_BYTES and not 0 < length <= RECORD_BYTES_MAX:
            if length:
                self.lose()
                return len(payload), 0
            return position + taken - (len(prefix) - LENGTH_PREFIX_BYTES), 1
        if len(prefix) < _PREFIX_AND_TAG:
            self._prefix = prefix
            return len(payload), 0
        start = position + taken
        stop = start + length - 1
        self._tag, self._length = prefix[4], length
        self._body = _start_of(payload, start, stop)
        if stop > len(payload):
            self._left = stop - len(payload)
            return len(payload), 0
        return stop, self._ended()

    def _cut(self, payload: memoryview, position: int, end: int) -> int:
        """Keep the start of an element whose tag is missing. Returns: number of ended records."""
        if position == end:
            return 0
        rest = bytes(payload[position:end])
        if len(rest) == LENGTH_PREFIX_BYTES and not any(rest):
            return 1
        self._prefix = rest
        return 0


def _start_of(payload: memoryview, start: int, end: int) -> bytes:
    return bytes(payload[start : min(end, start + TIME_BYTES)])


def _equal_elements(payload: memoryview, position: int, end: int, step: int) -> int:
    """Number of complete elements from `position` on with the same length and tag; short ones at
    the end are left out."""
    count = min(end - position, end - position - _HEADS.itemsize + step) // step
    heads = np.ndarray((count,), np.uint64, payload, position, (step,)) & _HEADS
    is_same = heads == heads[0]
    first_other = int(is_same.argmin())
    return count if is_same[first_other] else first_other
