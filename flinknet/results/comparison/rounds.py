"""The order of runs."""

from __future__ import annotations

import random


def interleaved_orders(count: int, rounds: int, seed: int) -> list[list[int]]:
    """The order of `count` configurations in each round.

    A seeded order, rotated by one each round: over `count` rounds each configuration stands once
    in each place.
    """
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return [order[turn % count :] + order[: turn % count] for turn in range(rounds)]
