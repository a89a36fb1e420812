"""Pool sizes by Flink's formulas, and the memory that blocking partitions are read into."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import UNLIMITED_BUFFERS, NetworkBufferPool
from flinknet.core.buffers.pool_sizes import (
    GateBuffers,
    PoolSize,
    creditless_gate_buffers,
    gate_buffers,
    output_pool_size,
    partition_pool_size,
    sort_shuffle_pool_size,
)
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.errors import ConfigError

E, F = 2, 8


@pytest.mark.row("S005")
@pytest.mark.parametrize("channels", [1, 2, 4, 100])
def test_a_gate_has_exclusive_buffers_and_a_pool_of_one_to_the_floating_ones(
    channels: int,
) -> None:
    assert gate_buffers(channels, E, F) == GateBuffers(2, PoolSize(1, 8))


@pytest.mark.row("S005")
@pytest.mark.parametrize(
    ("subpartitions", "sizes"), [(1, (2, 10)), (2, (3, 12)), (4, (5, 16)), (100, (101, 208))]
)
def test_a_bounded_partition_may_have_channels_times_exclusive_plus_floating(
    subpartitions: int, sizes: tuple[int, int]
) -> None:
    assert output_pool_size(subpartitions, E, F) == PoolSize(*sizes)


def test_an_unbounded_partition_has_no_maximum() -> None:
    assert output_pool_size(4, E, F, is_bounded=False) == PoolSize(5, UNLIMITED_BUFFERS)


def test_a_pool_may_grow_to_what_it_requires_at_least() -> None:
    assert output_pool_size(4, 0, 1) == PoolSize(5, 5)
    assert gate_buffers(4, 2, 0) == GateBuffers(2, PoolSize(1, 1))


@pytest.mark.parametrize(
    ("required_max", "channels", "expected"),
    [
        (1, 100, GateBuffers(0, PoolSize(1, 208))),
        (10, 10, GateBuffers(0, PoolSize(10, 28))),
        (11, 10, GateBuffers(1, PoolSize(1, 18))),
        (21, 10, GateBuffers(2, PoolSize(1, 8))),
        (1000, 10, GateBuffers(2, PoolSize(1, 8))),
    ],
)
def test_a_limit_moves_exclusive_buffers_to_the_pool(
    required_max: int, channels: int, expected: GateBuffers
) -> None:
    assert gate_buffers(channels, E, F, required_max=required_max) == expected


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (499, GateBuffers(2, PoolSize(1, 8))),
        (500, GateBuffers(1, PoolSize(500, 508))),
        (501, GateBuffers(1, PoolSize(499, 509))),
        (1000, GateBuffers(0, PoolSize(1000, 2008))),
    ],
)
def test_a_gate_that_reads_a_blocking_partition_requires_a_thousand_at_most(
    channels: int, expected: GateBuffers
) -> None:
    assert gate_buffers(channels, E, F, must_be_pipelined=False) == expected


@pytest.mark.parametrize(
    ("subpartitions", "sizes"), [(1, (512, 512)), (128, (512, 512)), (129, (512, 516))]
)
def test_a_sorting_partition_has_its_minimum_or_four_for_each_subpartition(
    subpartitions: int, sizes: tuple[int, int]
) -> None:
    assert sort_shuffle_pool_size(subpartitions, 512) == PoolSize(*sizes)


@pytest.mark.row("S016")
@pytest.mark.parametrize(
    ("subpartitions", "is_blocking", "sizes"),
    [
        (8, True, (32, 32)),
        (9, True, (32, 36)),
        (8, False, (9, UNLIMITED_BUFFERS)),
    ],
)
def test_a_blocking_partition_has_the_pool_of_one_that_sorts(
    subpartitions: int, is_blocking: bool, sizes: tuple[int, int]
) -> None:
    size = partition_pool_size(subpartitions, E, F, 32, is_bounded=False, is_blocking=is_blocking)
    assert size == PoolSize(*sizes)


def test_a_partition_that_sorts_requires_two_buffers() -> None:
    assert sort_shuffle_pool_size(1, 2) == PoolSize(2, 4)
    with pytest.raises(ConfigError, match=r"sort-shuffle\.min-buffers: 1 is too little"):
        sort_shuffle_pool_size(1, 1)


@pytest.mark.row("S012")
@pytest.mark.parametrize(("is_bounded", "most"), [(True, 16), (False, UNLIMITED_BUFFERS)])
def test_a_gate_of_four_channels_without_credit(is_bounded: bool, most: int) -> None:
    buffers = creditless_gate_buffers(4, E, F, is_bounded=is_bounded)
    assert buffers == GateBuffers(0, PoolSize(4, most))


@pytest.mark.row("S012")
@pytest.mark.parametrize("must_be_pipelined", [True, False])
def test_a_gate_of_four_channels_has_its_exclusive_buffers_outside_the_pool(
    must_be_pipelined: bool,
) -> None:
    buffers = gate_buffers(4, E, F, must_be_pipelined=must_be_pipelined)
    assert buffers == GateBuffers(2, PoolSize(1, 8))
    memory = NetworkBufferPool(100, 1)
    pool = memory.create_buffer_pool(buffers.pool.required_buffers, buffers.pool.max_buffers)
    memory.request_exclusive_segments(4 * buffers.exclusive_per_channel)
    assert (pool.size_buffers, pool.requested_buffers, memory.available_buffers) == (8, 0, 92)


MIB = 1024 * 1024


class Requester:
    """Notes that it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        """Buffers have come back."""
        self.calls += 1


@pytest.mark.parametrize(
    ("total_bytes", "buffer_bytes", "buffers", "per_request"),
    [
        (64 * MIB, 32 * 1024, 2048, 128),
        (64 * MIB, 4096, 16384, 1024),
        (64 * MIB, 8 * MIB, 8, 1),
        (100_000, 32 * 1024, 3, 3),
    ],
)
def test_a_request_gets_four_mebibytes_if_there_are_so_many(
    total_bytes: int, buffer_bytes: int, buffers: int, per_request: int
) -> None:
    pool = BatchShuffleReadBufferPool(total_bytes, buffer_bytes)
    assert (pool.total_buffers, pool.buffers_per_request) == (buffers, per_request)


def test_a_request_gets_all_its_buffers_or_none_and_is_called_when_they_are_there() -> None:
    pool = BatchShuffleReadBufferPool(6 * MIB, MIB)
    first, second = Requester(), Requester()
    segments = pool.try_request(first)
    assert [len(segment.view) for segment in segments] == [MIB] * 4
    assert pool.try_request(second) == []
    pool.recycle(segments[:1])
    assert (pool.available_buffers, second.calls) == (3, 0)
    pool.recycle(segments[1:])
    assert (pool.available_buffers, first.calls, second.calls) == (6, 0, 1)


def test_who_has_nothing_left_to_read_is_not_called() -> None:
    pool = BatchShuffleReadBufferPool(4 * MIB, MIB)
    first, second = Requester(), Requester()
    segments = pool.try_request(first)
    pool.try_request(second)
    pool.unregister(second)
    pool.recycle(segments)
    assert second.calls == 0


def test_requesters_share_evenly() -> None:
    pool = BatchShuffleReadBufferPool(10 * MIB, MIB)
    requesters = [Requester() for _ in range(3)]
    assert pool.average_buffers_per_requester == 10
    for each in requesters:
        pool.register(each)
        pool.register(each)
    assert pool.average_buffers_per_requester == 3
    for each in requesters:
        pool.unregister(each)
    assert pool.average_buffers_per_requester == 10
