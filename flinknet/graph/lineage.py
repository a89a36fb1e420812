"""Inputs of vertices, derived from the ids of job vertices.

Without a uid, an id is computed from the rank of its operator, the number of operators chained to
it, and the id of its input (`node_hashes`). 128 bits do not match by chance: an id computed from
numbers alone is a source, and a vertex with one input follows the known vertex from which its id
can be computed. An id without a match may be anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from .node_hashes import local_hash, mixed

RANKS_MAX = 256
"""Most operators of a job hashed before one that is recognized."""

CHAINED_MAX = 3
"""Most operators chained directly to one."""

BETWEEN_MAX = 12
"""Most operators between the heads of two vertices; they have consecutive ranks."""

_INVERSE_OF_37 = pow(37, -1, 256)


def ancestors(vertices: Iterable[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    """The ancestors of each vertex whose id leads back to a source, the nearest first; none for a
    source. Vertices of unknown origin are left out."""
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
    """A vertex computed from a known one, that one, and its rank.

    Mixing is symmetric: either of two ids can be computed from the other. The known vertex's lower
    rank shows that it is the parent.
    """
    for parent, parent_rank in ranks.items():
        for ahead, at in _heads(parent, parent_rank, between):
            for vertex in unknown:
                rank = _ranks().get(_unmixed(vertex, at))
                if rank is not None and rank > ahead:
                    return vertex, parent, rank
    return None


def _heads(parent: bytes, parent_rank: int, between: int) -> Iterable[tuple[int, bytes]]:
    """Possible inputs of a vertex after `parent`, with their ranks: the last of the operators
    chained to the head, each chained to the previous one."""
    if not between:
        yield parent_rank, parent
        return
    for first in range(parent_rank + 1, RANKS_MAX - between):
        at = parent
        for number in range(between):
            at = mixed(local_hash(first + number, int(number < between - 1)), at)
        yield first + between - 1, at


def _unmixed(hashed: bytes, other: bytes) -> bytes:
    """The inverse of `mixed`."""
    return bytes((a ^ b) * _INVERSE_OF_37 & 0xFF for a, b in zip(hashed, other, strict=True))


@cache
def _ranks() -> dict[bytes, int]:
    """The rank of each hash without inputs."""
    return {
        local_hash(rank, chained): rank
        for rank in range(RANKS_MAX)
        for chained in range(CHAINED_MAX + 1)
    }
