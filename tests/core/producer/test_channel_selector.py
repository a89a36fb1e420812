"""Which channel a record goes to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core import producer
from flinknet.core.producer.channel_selector import (
    Indices,
    default_max_parallelism,
    java_string_hash,
    key_groups,
    murmur_hash,
)
from flinknet.errors import ConfigError


def channels_of(split: list[tuple[int, Indices]], records: int) -> list[int]:
    """The channel of each record; every record must have exactly one."""
    nobody = -2
    found = [nobody] * records
    for channel, indices in split:
        for index in np.arange(records)[indices].tolist():
            assert found[index] == nobody
            found[index] = channel
    assert nobody not in found
    return found


@pytest.mark.parametrize(
    ("key_hash", "murmur"),
    [
        (0, 593689054),
        (1, 68075478),
        (2, 1085422463),
        (3, 847579505),
        (7, 1343918321),
        (42, 1134849565),
        (-1, 1982413648),
        (100, 616682048),
    ],
)
def test_murmur_is_flinks(key_hash: int, murmur: int) -> None:
    assert murmur_hash(np.array([key_hash])).tolist() == [murmur]


KEY_GROUPS = {
    "": 94,
    "a": 81,
    "b": 22,
    "hello": 35,
    "world": 66,
    "flink": 98,
    "to": 91,
    "be": 84,
    "or": 81,
    "not": 58,
}
CHANNEL_OF_FOUR = {
    "a": 2,
    "b": 0,
    "hello": 1,
    "world": 2,
    "flink": 3,
    "to": 2,
    "be": 2,
    "or": 2,
    "not": 1,
}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Flink's network stack", -1),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_strings_hash_as_in_java(text: str, code: int) -> None:
    if code == -1:  # by the definition: sum of unit * 31^(units behind it), in 32 bits
        code = sum(ord(c) * 31 ** (len(text) - 1 - i) for i, c in enumerate(text)) % 2**32
        code -= 2**32 if code >= 2**31 else 0
    assert java_string_hash(text) == code


@pytest.mark.row("S023")
@pytest.mark.parametrize(("key", "key_group"), KEY_GROUPS.items())
def test_the_key_group_of_a_string_is_flinks(key: str, key_group: int) -> None:
    assert key_groups(np.array([java_string_hash(key)]), 128).tolist() == [key_group]


@pytest.mark.row("S023")
def test_keys_go_to_the_channel_that_owns_their_key_group() -> None:
    keys = np.array([java_string_hash(key) for key in CHANNEL_OF_FOUR])
    split = producer.KeyGroupSelector(4).split(len(keys), keys)
    assert channels_of(split, len(keys)) == list(CHANNEL_OF_FOUR.values())


@pytest.mark.parametrize(
    ("channels", "last_of_each"), [(3, [42, 85, 127]), (5, [25, 51, 76, 102, 127])]
)
def test_key_groups_are_cut_in_the_ranges_of_flink(channels: int, last_of_each: list[int]) -> None:
    channel_of = [key_group * channels // 128 for key_group in range(128)]
    hash_of = {
        int(group): key for key, group in enumerate(key_groups(np.arange(4000), 128).tolist())
    }
    keys = np.array([hash_of[group] for group in range(128)])
    assert channels_of(producer.KeyGroupSelector(channels).split(128, keys), 128) == channel_of
    assert [max(g for g in range(128) if channel_of[g] == c) for c in range(channels)] == (
        last_of_each
    )


def test_hash_partitioning_needs_keys() -> None:
    with pytest.raises(ValueError, match="keys"):
        producer.KeyGroupSelector(2).split(1, None)


@pytest.mark.row("S023")
@given(
    st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    st.lists(st.integers(0, 12), max_size=8),
)
def test_rebalance_is_cyclic_over_any_batches(start: tuple[int, int], batches: list[int]) -> None:
    channels, last = start
    selector = producer.RebalanceSelector(channels, last)
    found = [
        channel for count in batches for channel in channels_of(selector.split(count, None), count)
    ]
    assert found == [(last + 1 + index) % channels for index in range(sum(batches))]


@pytest.mark.row("S023")
def test_forward_and_global_are_always_channel_0_and_broadcast_all() -> None:
    assert channels_of(producer.ForwardSelector().split(3, None), 3) == [0, 0, 0]
    assert channels_of(producer.GlobalSelector().split(3, None), 3) == [0, 0, 0]
    assert channels_of(producer.BroadcastSelector().split(3, None), 3) == [producer.BROADCAST] * 3


def test_rescale_is_cyclic_from_channel_0_on() -> None:
    selector = producer.RescaleSelector(3)
    found = [c for count in (4, 1, 2) for c in channels_of(selector.split(count, None), count)]
    assert found == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.row("S023")
def test_shuffle_goes_where_it_is_drawn() -> None:
    drawn = iter([np.array([2, 0, 2]), np.array([1])])
    selector = producer.ShuffleSelector(3, lambda records: next(drawn))
    assert channels_of(selector.split(3, None), 3) == [2, 0, 2]
    assert channels_of(selector.split(1, None), 1) == [1]


def test_a_custom_partitioner_chooses_by_key_and_number_of_channels() -> None:
    asked = []

    def partition(key: int, channels: int) -> int:
        asked.append((key, channels))
        return key % 2

    keys = np.array([7, 4, 9])
    assert channels_of(producer.CustomSelector(3, partition).split(3, keys), 3) == [1, 0, 1]
    assert asked == [(7, 3), (4, 3), (9, 3)]


@pytest.mark.parametrize("chosen", [-1, 3, None, 1.0])
def test_a_custom_partitioner_must_choose_a_channel_that_exists(chosen: object) -> None:
    selector = producer.CustomSelector(3, lambda key, channels: chosen)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"chose channel .*; it must return one of 0 to 2"):
        selector.split(1, np.array([5]))


@pytest.mark.parametrize(
    ("parallelism", "groups"),
    [(1, 128), (85, 128), (86, 256), (171, 256), (200, 512), (1000, 2048), (10924, 32768)],
)
def test_the_default_number_of_key_groups_is_flinks(parallelism: int, groups: int) -> None:
    assert default_max_parallelism(parallelism) == groups
