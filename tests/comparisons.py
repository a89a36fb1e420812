"""Property tests that compare in only some of their examples say in how many at least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

_comparisons: list[bool] = []
_features: Counter[str] = Counter()


def compares(condition: bool, *features: str) -> bool:
    """Whether this example is compared; counted for `compares_in`, and of those that are, what
    they have."""
    _comparisons.append(condition)
    if condition:
        _features.update(features)
    return condition


def compares_in(share: float) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A property test fails if less than this share of its calls of `compares` were true."""

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @wraps(test)
        def counted(*args: P.args, **kwargs: P.kwargs) -> None:
            _comparisons.clear()
            _features.clear()
            test(*args, **kwargs)
            count = sum(_comparisons)
            having = "".join(f", {number} with {name}" for name, number in _features.items())
            print(f"{count} of {len(_comparisons)} examples were compared{having}")
            assert count > 0, "no example was compared"
            assert count >= share * len(_comparisons), (
                f"{count} of {len(_comparisons)} examples were compared, less than {share:.0%}"
            )

        return counted

    return decorate
