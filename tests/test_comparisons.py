"""A property test that hardly ever compares fails."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.comparisons import compares, compares_in


@pytest.mark.parametrize(
    ("share", "limit", "reason"),
    [(0.2, 50, None), (0.9, 50, "less than 90%"), (0.0, -1, "no example was compared")],
)
def test_a_property_test_that_compares_in_too_few_examples_fails(
    share: float, limit: int, reason: str | None
) -> None:
    @compares_in(share)
    @given(st.integers(0, 100))
    def compare(number: int) -> None:
        if compares(number < limit):
            assert number < limit

    if reason is None:
        compare()
    else:
        with pytest.raises(AssertionError, match=reason):
            compare()


@compares_in(0.3)
@given(number=st.integers(0, 100))
@pytest.mark.parametrize("low", [1, 20])
def test_examples_that_are_rejected_count_too(low: int, number: int) -> None:
    assume(compares(number >= low))
    assert number >= low
