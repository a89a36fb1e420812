"""Draw: every choice of a trial, by name, from a seed.

Each name has a stream of its own: a choice that is made otherwise changes no other. The first
option of a choice is the simplest, so that a failing trial is made smaller by making choices 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

Choices = Mapping[str, int]
"""Which option was taken, or how many, by the name of the choice."""


NOTHING: Choices = {}


class Draw:
    """Draws the choices of one trial.

    Args:
        choices: instead of those of the seed; what is not among them is 0. None: those of the seed.
        pinned: that are made in any case.

    Attributes:
        drawn: all choices so far.
    """

    def __init__(
        self,
        seed: int,
        choices: Choices | None = None,
        *,
        pinned: Choices = NOTHING,
    ) -> None:
        self.seed = seed
        self._source = str(seed)
        self.drawn: dict[str, int] = {}
        self._choices = choices
        self._pinned = pinned

    def of_group(self, size: int) -> Draw:
        """Draws choices that so many successive seeds have in common."""
        group = Draw(self.seed - self.seed % size, self._choices, pinned=self._pinned)
        group._source = f"{group.seed} of {size}"
        group.drawn = self.drawn
        return group

    @property
    def is_free(self) -> bool:
        """Whether all choices are those of the seed."""
        return self._choices is None and not self._pinned

    def below(self, name: str, count: int) -> int:
        """A number from 0 to `count` - 1."""
        assert name not in self.drawn, f"{name} is drawn twice"
        if name in self._pinned:
            number = min(self._pinned[name], count - 1)
        elif self._choices is not None:
            number = min(self._choices.get(name, 0), count - 1)
        else:
            digest = blake2b(f"{self._source}/{name}".encode(), digest_size=8).digest()
            number = int.from_bytes(digest) % count
        self.drawn[name] = number
        return number

    def one_of(self, name: str, options: Sequence[T]) -> T:
        """One of the options, the simplest of which comes first; one that stands twice comes twice
        as often.
        """
        return options[self.below(name, len(options))]

    def chance(self, name: str, one_in: int) -> bool:
        """True once in so many trials, False when made smaller."""
        return self.below(name, one_in) == one_in - 1

    def between(self, name: str, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(name, high - low + 1)
