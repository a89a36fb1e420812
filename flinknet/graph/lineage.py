"""What the ids of job vertices show of who feeds whom.

Where nobody chose a uid, an id is made of the rank of its operator, of how many operators are
chained behind it, and of the id of its input (`node_hashes`). 128 bits do not agree by chance: an
id made of numbers alone is a source, and a vertex with one input is behind the known one that its
id can be made from. An id that fits nothing may stand anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from .node_hashes import local_hash, mixed

RANKS_MAX = 256
"""Operators of a job that are hashed before one, at most, for it to be recognized."""

CHAINED_MAX = 3
"""Operators chained directly behind one, at most."""

BETWEEN_MAX = 12
"""Operators between the heads of two vertices, at most; they have consecutive ranks."""

_INVERSE_OF_37 = pow(37, -1, 256)


def ancestors(vertices: Iterable[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    """Of each vertex whose id goes back to a source: those of the vertices before it, the nearest
    first; none of a source. Vertices whose id shows no origin are left out."""
    unknown = list(dict.fromkeys(vertices))
    found: dict[bytes, tuple[bytes, ...]] = {}
    ranks: dict[bytes, int] = {}
    for vertex in list(unknown):
        rank = _ranks().get(vertex)
        if rank is not None:
            found[vertex], ranks[vertex] = (), rank
            unknown.remove(vertex)
    between = 0
    while unknown and between <= BETWEEN_MAX:
        step = _next(unknown, ranks, between)
        if step is None:
            between += 1
            continue
        vertex, parent, rank = step
        found[vertex], ranks[vertex] = (parent, *found[parent]), rank
        unknown.remove(vertex)
        between = 0
    return found


def _next(
    unknown: Iterable[bytes], ranks: Mapping[bytes, int], between: int
) -> tuple[bytes, bytes, int] | None:
    """A vertex made from one that is known, that one, and its rank.

    Mixing in is symmetric: either of two ids can be made from the other one. That the parent is
    known by way of a lower rank shows which came first.
    """
    for parent, parent_rank in ranks.items():
        for ahead, at in _heads(parent, parent_rank, between):
            for vertex in unknown:
                rank = _ranks().get(_unmixed(vertex, at))
                if rank is not None and rank > ahead:
                    return vertex, parent, rank
    return None


def _heads(parent: bytes, parent_rank: int, between: int) -> Iterable[tuple[int, bytes]]:
    """What the input of a vertex behind `parent` may be, with its rank: the last of the operators
    chained behind the head, each of which has the next one chained behind it."""
    if not between:
        yield parent_rank, parent
        return
    for first in range(parent_rank + 1, RANKS_MAX - between):
        at = parent
        for number in range(between):
            at = mixed(local_hash(first + number, int(number < between - 1)), at)
        yield first + between - 1, at


def _unmixed(hashed: bytes, other: bytes) -> bytes:
    """The hash that `mixed` made this one of."""
    return bytes((a ^ b) * _INVERSE_OF_37 & 0xFF for a, b in zip(hashed, other, strict=True))


@cache
def _ranks() -> dict[bytes, int]:
    """The rank of each hash without inputs."""
    return {
        local_hash(rank, chained): rank
        for rank in range(RANKS_MAX)
        for chained in range(CHAINED_MAX + 1)
    }
