"""Hashes of nodes: operator ids that are the same in every submission of a program.

Ids of transformations are numbered per process, so they identify nothing. A hash depends on the
source's rank, on the nodes hashed before it, on chaining and on its inputs; not on names or
functions, and on parallelism only where that changes chaining. It does depend on the order in which
sources are declared; setting a uid avoids that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache

from flinknet.errors import ConfigError

from .stream_graph import StreamEdge, StreamGraph, StreamNode

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


def node_hashes(graph: StreamGraph, is_chainable: Callable[[StreamEdge], bool]) -> dict[int, bytes]:
    """The hash of each node, breadth first from the sources (Flink: StreamGraphHasherV2).

    Raises: ConfigError if two nodes have the same uid.
    """
    hashes: dict[int, bytes] = {}
    visited = set(graph.source_ids)
    remaining = deque(sorted(graph.source_ids))
    while remaining:
        node = graph.nodes[remaining.popleft()]
        if not all(edge.source_id in hashes for edge in node.in_edges):
            visited.discard(node.id)  # again later, from another input
            continue
        hashes[node.id] = _hash_of(node, hashes, is_chainable)
        for edge in node.out_edges:
            if edge.target_id not in visited:
                remaining.append(edge.target_id)
                visited.add(edge.target_id)
    return hashes


def user_hashes(graph: StreamGraph) -> dict[int, bytes]:
    """Hashes of older programs that the user set (Flink: StreamGraphUserHashHasher)."""
    return {node.id: bytes.fromhex(node.uid_hash) for node in graph.nodes.values() if node.uid_hash}


def _hash_of(
    node: StreamNode, hashes: dict[int, bytes], is_chainable: Callable[[StreamEdge], bool]
) -> bytes:
    if node.uid is not None:
        chosen = murmur3_128(node.uid.encode())
        if chosen in hashes.values():
            raise ConfigError(
                f"uid {node.uid!r} of {node.operator_name} is that of another operator too; give"
                " each one of its own"
            )
        return chosen
    hashed = local_hash(len(hashes), sum(is_chainable(edge) for edge in node.out_edges))
    for edge in node.in_edges:
        hashed = mixed(hashed, hashes[edge.source_id])
    return hashed


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
