"""Hashes that are the ids of operators and vertices, and the inputs of vertices derived from them.

Without a uid, an id is computed from the rank of its operator, the number of operators chained to
it, and the id of its input (`graph.stream_graph.node_hashes`). 128 bits do not match by chance: an
id computed from numbers alone is a source, and a vertex with one input follows the known vertex
from which its id can be computed. An id without a match may be anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def murmur3_128(data: bytes) -> bytes:
    """MurmurHash3 of 128 bits for x64 with seed 0, with the bytes in Guava's order."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        h1 ^= _mix(int.from_bytes(data[at : at + 8], "little"), _C1, 31, _C2)
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix(int.from_bytes(data[at + 8 : at + 16], "little"), _C2, 33, _C1)
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    h2 ^= _mix(int.from_bytes(tail[8:], "little"), _C2, 33, _C1)
    h1 ^= _mix(int.from_bytes(tail[:8], "little"), _C1, 31, _C2)
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finished(h1), _finished(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")


@cache
def local_hash(rank: int, chained: int) -> bytes:
    """The hash of an operator before its inputs are mixed in.

    Args:
        rank: number of operators hashed before it.
        chained: number of operators chained to it.
    """
    return murmur3_128(rank.to_bytes(4, "little") * (1 + chained))


def mixed(hashed: bytes, other: bytes) -> bytes:
    """A hash with the hash of one more input mixed in."""
    return bytes((a * 37 & 0xFF) ^ b for a, b in zip(hashed, other, strict=True))


def _mix(k: int, first: int, turn: int, second: int) -> int:
    return _rotated(k * first & _MASK, turn) * second & _MASK


def _rotated(k: int, turn: int) -> int:
    return (k << turn | k >> (64 - turn)) & _MASK


def _finished(k: int) -> int:
    k ^= k >> 33
    k = k * 0xFF51AFD7ED558CCD & _MASK
    k ^= k >> 33
    k = k * 0xC4CEB9FE1A85EC53 & _MASK
    return k ^ k >> 33


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
    return bytes((a ^ b) * _INVERSE_OF_37 & 0xFF for a, b in zip(hashed, other, strict=True))


@cache
def _ranks() -> dict[bytes, int]:
    """The rank of each hash without inputs."""
    return {
        local_hash(rank, chained): rank
        for rank in range(RANKS_MAX)
        for chained in range(CHAINED_MAX + 1)
    }
