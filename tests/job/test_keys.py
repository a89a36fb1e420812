"""Hashes of keys: Java's, so that keys go where Flink sends them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flinknet.core.producer import KeyGroupSelector
from flinknet.job.selectors import java_hash, java_hashes


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, 0),
        (True, 1231),
        (False, 1237),
        (42, 42),
        (-1, -1),
        (2**31, -(2**31)),
        (2**32, 1),
        (-(2**40), -256),
        (1.5, 1073217536),
        (0.0, 0),
        ("hello", 99162322),
        (b"\x01\xff", 31 * (31 + 1) - 1),
        (("hello", 1), 31 * 99162322 + 1 - (1 << 32)),
        ([1, 2], 31 * (31 + 1) + 2),
        (np.int64(5), 5),
    ],
)
def test_hashes_are_those_of_java(key: Any, expected: int) -> None:
    expected = (expected + (1 << 31)) % (1 << 32) - (1 << 31)
    assert java_hash(key) == expected


def test_equal_keys_of_other_kinds_have_equal_hashes() -> None:
    assert java_hash({"a": 1}) == java_hash({"a": 1}) != java_hash({"a": 2})
    with pytest.raises(TypeError, match="cannot be sent"):
        java_hash(object())


@pytest.mark.row("S023")
def test_words_go_to_the_operators_that_flink_sends_them_to() -> None:
    words = ["a", "b", "hello", "world", "flink", "to", "be", "or", "not"]
    split = KeyGroupSelector(4, 128).split(len(words), java_hashes(words))
    found = {words[index]: channel for channel, picked in split for index in picked.tolist()}
    assert found == {
        **{"a": 2, "b": 0, "hello": 1, "world": 2, "flink": 3},
        **{"to": 2, "be": 2, "or": 2, "not": 1},
    }
