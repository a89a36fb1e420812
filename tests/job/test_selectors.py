"""From the name of a partitioner to records in channels, by Java's hashes of keys."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from flinknet.config import RecordSize, WorkloadConfig
from flinknet.core.producer import (
    BROADCAST,
    BroadcastSelector,
    ForwardSelector,
    GlobalSelector,
    KeyGroupSelector,
    RebalanceSelector,
    RecordWriter,
    RescaleSelector,
)
from flinknet.errors import ConfigError
from flinknet.job.load.outputs import RecordBatcher
from flinknet.job.selectors import create_selector, java_hash, java_hashes
from tests.pair import partition_of


def test_each_name_has_its_selector() -> None:
    assert isinstance(create_selector("forward", 1, 0), ForwardSelector)
    assert isinstance(create_selector("global", 3, 0), GlobalSelector)
    assert isinstance(create_selector("broadcast", 3, 0), BroadcastSelector)
    assert create_selector("hash", 3, 0) == KeyGroupSelector(3)
    assert create_selector("rebalance", 3, 5) == RebalanceSelector(3, 2)
    assert create_selector("rescale", 3, 5) == RescaleSelector(3)


def test_another_name_names_nothing_that_is_run() -> None:
    with pytest.raises(ConfigError, match="is not known"):
        create_selector("custom:os:getcwd", 1, 0)


def shares(seed: int) -> Counter[int]:
    """How many of 40 000 shuffled records each of four channels gets."""
    split = create_selector("shuffle", 4, seed).split(40_000, None)
    return Counter({channel: len(indices) for channel, indices in split})  # type: ignore[arg-type]


@pytest.mark.row("S023")
def test_shuffle_is_roughly_uniform_and_follows_from_the_seed() -> None:
    assert sorted(shares(1)) == [0, 1, 2, 3]
    assert all(abs(share - 10_000) < 500 for share in shares(1).values())
    assert shares(1) == shares(1) != shares(2)


@pytest.mark.row("S022")
@pytest.mark.parametrize("partitioner", ["rebalance", "hash", "shuffle", "broadcast"])
def test_each_record_is_serialised_once_and_lies_in_order_behind_its_length(
    partitioner: str,
) -> None:
    selector = create_selector(partitioner, 4, 1)
    channels = (BROADCAST,) if partitioner == "broadcast" else tuple(range(4))
    workload = WorkloadConfig(record_size=RecordSize(16, 16))
    batcher = RecordBatcher(workload, channels, epoch_ns=0, seed=1)
    partition, _ = partition_of(4, segment_size_bytes=100, buffers=1000)
    writer = RecordWriter(partition, selector, buffer_timeout_ns=-1)
    for start in range(0, 1000, 100):
        keys = np.arange(start, start + 100)
        for channel, indices in selector.split(100, keys):
            count = len(np.arange(100)[indices])
            writer.emit(channel, batcher.make(channel, 5, count, now_ns=5))
    partition.finish()
    assert sum(batcher.numbers.values()) == 1000
    total = 0
    for subpartition in partition.subpartitions:
        data = bytearray()
        while (piece := subpartition.poll()) is not None:
            if piece.data_type == 1:
                data += piece.view
            piece.recycle()
        records = [bytes(data[at : at + 21]) for at in range(0, len(data), 21)]
        total += len(records)
        for number, record in enumerate(records):
            stamp = int.from_bytes(record[5:13], "big")
            assert record[:5] == b"\0\0\0\x11\x01"
            assert (stamp >> 44, stamp & (1 << 44) - 1) == (number, 5)
    assert total == (4000 if partitioner == "broadcast" else 1000)


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
