"""When each of some things is due, and which is next: a tree whose nodes know the earliest instant
below them. A change takes as many steps as the tree is high; what is not due costs nothing, however
many there are.

Word 0 is how many leaves there are, a power of two; the nodes stand behind it, the root as 1, those
below node n as 2n and 2n + 1, so that the leaves come last.
"""

from __future__ import annotations

from .compiling import compiled
from .words import Words


@compiled
def set_due(m: Words, table: int, place: int, at_ns: int) -> None:
    """Something is due at an instant now."""
    node = m[table] + place
    m[table + node] = at_ns
    while node > 1:
        node >>= 1
        earliest_ns = min(m[table + 2 * node], m[table + 2 * node + 1])
        if m[table + node] == earliest_ns:
            return
        m[table + node] = earliest_ns


@compiled
def due_ns(m: Words, table: int, place: int) -> int:
    """When something is due."""
    return m[table + m[table] + place]


@compiled
def earliest_ns(m: Words, table: int) -> int:
    """When the first thing is due; NEVER if nothing is."""
    return m[table + 1]


@compiled
def next_due(m: Words, table: int, place: int, until_ns: int) -> int:
    """The first place from one on that is due by an instant; -1 if there is none."""
    leaves = m[table]
    if place >= leaves or m[table + 1] > until_ns:
        return -1
    node = leaves + place
    while m[table + node] > until_ns:
        while node & 1:  # the last one below its parent: go on behind that
            node >>= 1
        if node == 0:
            return -1
        node += 1
    while node < leaves:
        node *= 2
        if m[table + node] > until_ns:
            node += 1
    return node - leaves
