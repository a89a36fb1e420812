"""The mutator of JSON texts."""

from __future__ import annotations

from tests.fuzz.json_mutator import STRANGE, json_mutator

MAX_BYTES = 300


def test_what_was_put_in_changes_without_what_it_was_taken_from() -> None:
    changed, before = json_mutator(1), repr(STRANGE)
    for seed in range(3_000):
        assert len(changed(b"x[]", MAX_BYTES, seed)) <= MAX_BYTES
    assert repr(STRANGE) == before
