"""Changes one value of a JSON text: bytes changed at random are seldom JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 0.5, 2**31, 2**63, -(2**63), 10**400, 1e308, float("inf")),
    *("", "x", "0", "-1", "\ud800", "../x", "100 ms", "a" * 300, [], {}, [None], {"x": 1}),
)
"""What a value is replaced with."""


def json_mutator(prefix_bytes: int) -> Callable[[bytes, int, int], bytes]:
    """A mutator for inputs that are JSON behind some bytes of other meaning. Every fourth time, and
    where they are no JSON, it changes bytes. Only the first seed counts: each takes 20 us to sow.
    """
    dice = random.Random()
    is_seeded = False

    def changed(data: bytes, max_size: int, seed: int) -> bytes:
        nonlocal is_seeded
        if not is_seeded:
            dice.seed(seed)
            is_seeded = True
        if dice.random() < 0.25:
            return _with_other_bytes(data, dice)[:max_size]
        try:
            document = json.loads(data[prefix_bytes:])
            for _ in range(dice.randint(1, 3)):
                document = _with_change(document, dice)
            text = json.dumps(document, separators=(",", ":"))
        except (ValueError, RecursionError):
            return _with_other_bytes(data, dice)[:max_size]
        return (data[:prefix_bytes] + text.encode())[:max_size]

    return changed


def _with_change(document: Any, dice: random.Random) -> Any:
    places = list(_places(document))
    if not places:
        return _copy_of(dice.choice(STRANGE))
    parent, key = dice.choice(places)
    match dice.randrange(5):
        case 0 if isinstance(parent, dict):
            del parent[key]
        case 1:
            other, at = dice.choice(places)
            if (other, at) != (parent, key):
                parent[key] = _copy_of(other[at])
        case 2 if isinstance(parent, list):
            parent.append(_copy_of(parent[key]))
        case _:
            parent[key] = _copy_of(dice.choice(STRANGE))
    return document


def _copy_of(value: Any) -> Any:
    """A value of its own: what is in a document is changed again later."""
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def _with_other_bytes(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at, length = dice.randint(0, len(changed)), dice.randint(0, 8)
        match dice.randrange(3):
            case 0:
                changed[at : at + length] = dice.randbytes(dice.randint(0, 8))
            case 1:
                changed[at:at] = changed[at : at + 4 * length]
            case _:
                changed[at : at + 1] = dice.choice(b'{}[]",:0-9eE.u\\\n').to_bytes()
    return bytes(changed)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every value in a document, by what holds it."""
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict | list):
            for key in node if isinstance(node, dict) else range(len(node)):
                yield node, key
                waiting.append(node[key])
