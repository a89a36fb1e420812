"""RecordSearch: finds where a record begins in a stream of which earlier bytes are missing.

Every offset may be the start of an element. From each that has a possible length and tag a chain of
lengths leads on; chains that lead to no element end, and chains that meet go on as one. A chain is
believed once it has ended with two buffers, as only whole elements are flushed, or has gone through
several buffers with far more elements than any other chain.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from .records import LENGTH_PREFIX_BYTES, TAG_REC_WITHOUT_TIMESTAMP

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
    """A chain up to where its next element is to start.

    Attributes:
        elements: number of them.
        ends: buffers that ended with one.
        since: the number of the buffer with the first of them.
        is_record: whether the last one is a record.
    """

    elements: int
    ends: int
    since: int
    is_record: bool


class Boundary(NamedTuple):
    """Where the next element starts, at the end of a buffer.

    Attributes:
        left: bytes of the current element that are to come.
        prefix: bytes of the next element that have come.
        is_record: whether the current element is a record.
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
