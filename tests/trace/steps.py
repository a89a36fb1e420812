"""What is done in steps, done."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def outcome(steps: Generator[None, None, T]) -> T:
    """Do all steps. Returns: what they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
