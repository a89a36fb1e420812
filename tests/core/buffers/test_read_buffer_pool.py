"""Memory that blocking partitions are read into: whole requests, shared evenly."""

from __future__ import annotations

import pytest

from flinknet.core.buffers.network_buffer_pool import BatchShuffleReadBufferPool

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
    assert [segment.size_bytes for segment in segments] == [MIB] * 4
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
