"""Property tests that compare in only some of their examples say in how many at least."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

_comparisons: list[bool] = []


def compares(condition: bool) -> bool:
    """Whether this example is compared; counted for `compares_in`."""
    _comparisons.append(condition)
    return condition


def compares_in(share: float) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A property test fails if less than this share of its calls of `compares` were true."""

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @wraps(test)
        def counted(*args: P.args, **kwargs: P.kwargs) -> None:
            _comparisons.clear()
            test(*args, **kwargs)
            count = sum(_comparisons)
            print(f"{count} of {len(_comparisons)} examples were compared")
            assert count > 0, "no example was compared"
            assert count >= share * len(_comparisons), (
                f"{count} of {len(_comparisons)} examples were compared, less than {share:.0%}"
            )

        return counted

    return decorate
