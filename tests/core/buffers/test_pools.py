"""Global and local pools: who may have how many buffers, and none gets lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st

from flinknet.core.buffers import (
    UNLIMITED_BUFFERS,
    ExclusiveReservation,
    LocalBufferPool,
    MemorySegment,
    NetworkBuffer,
    NetworkBufferPool,
)
from flinknet.errors import BufferPoolDestroyedError, BufferPoolError, InsufficientBuffersError
from tests.invariants import check_invariants


class Waiting:
    """Waits for `wants` buffers of a pool, registering again for each as a channel does."""

    def __init__(self, pool: LocalBufferPool, wants: int) -> None:
        self.pool = pool
        self.wants = wants
        self.buffers: list[NetworkBuffer] = []
        self.was_told_destroyed = False

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        if len(self.buffers) >= self.wants:
            return False
        self.buffers.append(buffer)
        if len(self.buffers) < self.wants:
            self.pool.add_listener(self)
        return True

    def handle_pool_destroyed(self) -> None:
        self.was_told_destroyed = True


def take(pool: LocalBufferPool, count: int, channel: int = -1) -> list[NetworkBuffer]:
    buffers = [pool.try_request(channel) for _ in range(count)]
    taken = [buffer for buffer in buffers if buffer is not None]
    assert len(taken) == count
    return taken


def sizes(pools: Sequence[LocalBufferPool]) -> list[int]:
    return [pool.size_buffers for pool in pools]


@pytest.mark.row("S003")
def test_spare_buffers_are_shared_out_as_flink_does() -> None:
    network = NetworkBufferPool(100, 1)
    pools = [network.create_buffer_pool(5, 16)]
    assert sizes(pools) == [16]
    pools.append(network.create_buffer_pool(1, 8))
    assert sizes(pools) == [16, 8]
    pools.append(network.create_buffer_pool(5, UNLIMITED_BUFFERS))
    assert sizes(pools) == [14, 7, 79]
    segments = network.request_exclusive_segments(50)
    assert sizes(pools) == [13, 6, 31]
    assert sum(sizes(pools)) + len(segments) == 100
    network.recycle_exclusive_segments(segments)
    assert sizes(pools) == [14, 7, 79]
    pools.pop().destroy()
    assert sizes(pools) == [16, 8]
    assert tuple(network.pools) == tuple(pools)


def test_a_maximum_below_what_is_required_is_raised_to_it() -> None:
    pool = NetworkBufferPool(10, 1).create_buffer_pool(5, 2)
    assert (pool.required_buffers, pool.max_buffers) == (5, 5)


@pytest.mark.row("S001")
def test_too_little_memory_is_told_with_three_numbers_and_the_keys() -> None:
    network = NetworkBufferPool(64, 32)
    assert network.available_buffers == 64
    pools = [network.create_buffer_pool(20, 20) for _ in range(3)]
    for ask in (
        lambda: network.create_buffer_pool(5, 5),
        lambda: network.request_exclusive_segments(5),
    ):
        with pytest.raises(InsufficientBuffersError) as raised:
            ask()
        keys = [f"taskmanager.memory.network.{end}" for end in ("fraction", "min", "max")]
        for words in ("required 5", "only 4 of 64 buffers of 32 bytes", *keys):
            assert words in str(raised.value)
    pools.append(network.create_buffer_pool(4, 4))
    buffers = [buffer for pool in pools for buffer in take(pool, pool.required_buffers)]
    assert network.available_buffers == 0
    for pool in pools:
        pool.destroy()
    for buffer in buffers:
        buffer.recycle()
    assert (network.available_buffers, network.total_buffers) == (64, 64)


def test_exclusive_segments_that_others_still_hold_are_not_promised() -> None:
    network = NetworkBufferPool(4, 1)
    pool = network.create_buffer_pool(1, 4)
    held = take(pool, 4)
    with pytest.raises(InsufficientBuffersError):
        network.request_exclusive_segments(2)
    assert pool.size_buffers == 4
    held[0].recycle()
    held[1].recycle()
    pool.resize(2)
    assert len(network.request_exclusive_segments(2)) == 2


@pytest.mark.row("S006")
def test_reserved_exclusive_segments_are_collected_as_pools_give_them_back() -> None:
    network = NetworkBufferPool(4, 1)
    pool = network.create_buffer_pool(1, 4)
    held = take(pool, 4)
    promised = network.reserve_exclusive_segments(2)
    assert pool.size_buffers == 2
    assert not promised.collect()
    held.pop().recycle()
    assert not promised.collect()
    assert len(promised.segments) == 1
    held.pop().recycle()
    assert promised.collect()
    assert len(promised.segments) == 2
    with pytest.raises(InsufficientBuffersError):
        network.reserve_exclusive_segments(2)
    promised.cancel()
    assert (network.available_buffers, pool.size_buffers) == (2, 4)
    promised.cancel()
    assert network.available_buffers == 2


@pytest.mark.row("S002")
def test_a_pool_gives_its_size_and_its_overdraft_and_takes_all_back() -> None:
    network = NetworkBufferPool(15, 1)
    others = [network.create_buffer_pool(1, 1) for _ in range(4)]
    held = [take(each, 1)[0] for each in others]
    pool = network.create_buffer_pool(3, 3, max_overdraft_buffers=4)
    assert tuple(network.pools) == (*others, pool)
    buffers = take(pool, 3)
    assert not pool.is_available
    buffers += take(pool, 4)
    assert pool.try_request() is None
    assert (network.available_buffers, pool.used_buffers, pool.available_buffers) == (4, 7, 0)
    for index, buffer in enumerate(buffers, start=1):
        buffer.recycle()
        assert pool.is_available == (index >= 5)
        if index == 4:
            assert pool.requested_buffers == 3
    assert network.available_buffers == 8
    for buffer in held:
        buffer.recycle()
    for each in (*others, pool):
        each.destroy()
    assert network.available_buffers == 15


def test_the_quota_of_a_channel_is_soft() -> None:
    network = NetworkBufferPool(20, 1)
    pool = network.create_buffer_pool(3, 20, channels=2, max_buffers_per_channel=3)
    buffers = take(pool, 2, channel=1)
    assert pool.is_available
    buffers += take(pool, 1, channel=1)
    assert not pool.is_available
    buffers += take(pool, 2, channel=1)
    other = take(pool, 1, channel=0)
    assert not pool.is_available
    for count_left, buffer in zip((4, 3, 2, 1, 0), buffers, strict=True):
        buffer.recycle()
        assert pool.is_available == (count_left < 3)
    other[0].recycle()


def test_an_available_pool_holds_the_segment_it_promises() -> None:
    network = NetworkBufferPool(2, 1)
    first = network.create_buffer_pool(1, 2)
    second = network.create_buffer_pool(1, 2)
    assert first.is_available
    assert (first.requested_buffers, first.used_buffers) == (1, 0)
    held = take(second, 1)
    assert not second.is_available
    assert second.try_request() is None
    assert take(first, 1)
    held[0].recycle()
    assert second.is_available


def test_two_pools_compete_for_the_last_global_segment() -> None:
    network = NetworkBufferPool(3, 1)
    first = network.create_buffer_pool(1, 3)
    second = network.create_buffer_pool(1, 3)
    first.resize(2)
    second.resize(2)
    held = [*take(first, 2), *take(second, 1)]
    assert not second.is_available
    first.resize(1)
    held[0].recycle()
    assert second.is_available
    assert network.available_buffers == 0


def test_who_waits_gets_what_comes_back_to_the_global_pool_in_the_order_of_waiting() -> None:
    network = NetworkBufferPool(4, 1)
    first, second = network.create_buffer_pool(1, 3), network.create_buffer_pool(1, 3)
    held = network.request_exclusive_segments(1)
    held += [segment for _ in range(3) if (segment := network.try_request_segment())]
    satisfied, x, y = Waiting(first, 0), Waiting(first, 1), Waiting(second, 1)
    for pool, listener in ((first, satisfied), (first, x), (second, y)):
        assert pool.add_listener(listener)
    network.recycle_segment(held.pop())
    assert (len(satisfied.buffers), len(x.buffers), len(y.buffers)) == (0, 1, 0)
    network.recycle_exclusive_segments([held.pop(0)])
    assert (len(x.buffers), len(y.buffers)) == (1, 1)
    network.recycle_segment(held.pop())
    assert network.available_buffers == 1  # nobody waits any more
    assert (first.requested_buffers, second.requested_buffers) == (1, 1)


def test_a_pool_takes_no_more_than_its_size_for_those_who_wait() -> None:
    network = NetworkBufferPool(3, 1)
    pool = network.create_buffer_pool(1, 2)
    held = [network.try_request_segment() for _ in range(3)]
    waiting = Waiting(pool, 3)
    assert pool.add_listener(waiting)
    for segment in held:
        assert segment is not None
        network.recycle_segment(segment)
    assert (len(waiting.buffers), pool.requested_buffers, network.available_buffers) == (2, 2, 1)


def test_what_nobody_wants_any_more_stays_in_the_pool_that_waited() -> None:
    network = NetworkBufferPool(1, 1)
    pool = network.create_buffer_pool(1, 1)
    held = network.try_request_segment()
    assert pool.add_listener(Waiting(pool, 0))
    assert held is not None
    network.recycle_segment(held)
    assert pool.is_available
    assert (pool.requested_buffers, network.available_buffers) == (1, 0)


def test_a_destroyed_pool_waits_for_nothing() -> None:
    network = NetworkBufferPool(1, 1)
    pool = network.create_buffer_pool(1, 1)
    held = network.try_request_segment()
    waiting = Waiting(pool, 1)
    pool.add_listener(waiting)
    pool.destroy()
    assert held is not None
    network.recycle_segment(held)
    assert (waiting.buffers, network.available_buffers) == ([], 1)


def test_a_pool_that_shrinks_gives_free_segments_at_once_and_others_when_they_return() -> None:
    network = NetworkBufferPool(6, 1)
    pool = network.create_buffer_pool(2, 6)
    buffers = take(pool, 5)
    for buffer in buffers[:2]:
        buffer.recycle()
    assert (pool.requested_buffers, network.available_buffers) == (5, 1)
    pool.resize(2)
    assert (pool.requested_buffers, network.available_buffers) == (3, 3)
    buffers[2].recycle()
    assert (pool.requested_buffers, network.available_buffers) == (2, 4)
    buffers[3].recycle()
    assert (pool.requested_buffers, pool.available_buffers) == (2, 1)


def test_a_pool_never_grows_beyond_its_maximum() -> None:
    pool = NetworkBufferPool(6, 1).create_buffer_pool(2, 3)
    pool.resize(6)
    assert pool.size_buffers == 3


@pytest.mark.row("S010")
def test_listeners_are_served_in_the_order_they_came() -> None:
    pool = NetworkBufferPool(2, 1).create_buffer_pool(2, 2)
    x, y = Waiting(pool, 1), Waiting(pool, 1)
    assert not pool.add_listener(x)
    buffers = take(pool, 2)
    assert pool.add_listener(x)
    assert pool.add_listener(y)
    buffers[0].recycle()
    assert (len(x.buffers), len(y.buffers)) == (1, 0)
    buffers[1].recycle()
    assert (len(x.buffers), len(y.buffers)) == (1, 1)
    x.buffers[0].recycle()
    assert pool.available_buffers == 1


@pytest.mark.row("S010")
def test_listeners_are_served_in_their_order_by_what_comes_back_to_the_global_pool() -> None:
    network = NetworkBufferPool(2, 1)
    pool = network.create_buffer_pool(2, 2)
    elsewhere = [network.try_request_segment() for _ in range(2)]
    waiting = [Waiting(pool, 1), Waiting(pool, 1)]
    assert all(map(pool.add_listener, waiting))
    for segment, served in zip(elsewhere, ([1, 0], [1, 1]), strict=True):
        assert segment is not None
        network.recycle_segment(segment)
        assert [len(each.buffers) for each in waiting] == served


@pytest.mark.row("S011")
def test_a_listener_of_a_pool_that_grows_is_served_by_the_global_pool() -> None:
    memory = NetworkBufferPool(2, 64)
    pool = memory.create_buffer_pool(1, 2)
    rival = memory.create_buffer_pool(1, 1)
    taken = take(pool, 1)
    waiting = Waiting(pool, 1)
    assert pool.add_listener(waiting)
    rival.destroy()
    assert len(waiting.buffers) == 1
    check_invariants(memory)
    for buffer in (*taken, *waiting.buffers):
        buffer.recycle()


@pytest.mark.row("S011")
def test_a_listener_that_has_enough_refuses_and_the_next_gets_that_buffer() -> None:
    pool = NetworkBufferPool(3, 1).create_buffer_pool(3, 3)
    buffers = take(pool, 3)
    satisfied, needy = Waiting(pool, 0), Waiting(pool, 3)
    assert pool.add_listener(satisfied)
    assert pool.add_listener(needy)
    for count, buffer in enumerate(buffers, start=1):
        buffer.recycle()
        assert len(needy.buffers) == count
    assert [each.segment for each in needy.buffers] == [each.segment for each in buffers]
    assert satisfied.buffers == []
    assert pool.available_buffers == 0


@pytest.mark.row("S011")
def test_a_buffer_that_every_listener_refuses_is_free() -> None:
    pool = NetworkBufferPool(1, 1).create_buffer_pool(1, 1)
    buffer = take(pool, 1)[0]
    assert pool.add_listener(Waiting(pool, 0))
    buffer.recycle()
    assert pool.is_available


@pytest.mark.row("S010")
def test_a_destroyed_pool_tells_who_waits_and_refuses_what_comes_later() -> None:
    network = NetworkBufferPool(3, 1)
    pool = network.create_buffer_pool(2, 2)
    buffers = take(pool, 2)
    waiting = Waiting(pool, 1)
    pool.add_listener(waiting)
    pool.destroy()
    pool.destroy()
    network.destroy_buffer_pool(pool)
    assert waiting.was_told_destroyed
    assert not pool.add_listener(waiting)
    assert not pool.is_available
    with pytest.raises(BufferPoolDestroyedError):
        pool.try_request()
    assert network.available_buffers == 1
    network.create_buffer_pool(3, 3)
    for buffer in buffers:
        buffer.recycle()
    assert network.available_buffers == 3


def test_memory_is_one_block_cut_into_disjoint_segments() -> None:
    network = NetworkBufferPool(3, 4)
    segments = network.request_exclusive_segments(3)
    for index, segment in enumerate(segments):
        segment.view[:] = bytes([index]) * 4
    assert [bytes(segment.view) for segment in segments] == [bytes([i]) * 4 for i in range(3)]
    assert [segment.index for segment in segments] == [0, 1, 2]
    assert network.try_request_segment() is None


@pytest.mark.parametrize(("buffers", "size_bytes"), [(2**31, 1), (1 << 30, 1 << 30)])
def test_memory_that_cannot_be_had_is_told_with_what_is_missing(
    buffers: int, size_bytes: int
) -> None:
    with pytest.raises(BufferPoolError) as raised:
        NetworkBufferPool(buffers, size_bytes)
    missing = buffers * size_bytes >> 20
    for words in (f"required {missing} MB", "allocated 0 MB", f"missing {missing} MB"):
        assert words in str(raised.value)


TOTAL = 12
CHANNELS = 2


class PoolsMachine(stateful.RuleBasedStateMachine):
    """Pools against counters: created, destroyed, asked and paid back in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.network = NetworkBufferPool(TOTAL, 1)
        self.alive: list[LocalBufferPool] = []
        self.all: list[LocalBufferPool] = []
        self.out: dict[LocalBufferPool, list[int]] = {}
        self.exclusive: list[MemorySegment] = []
        self.promised: dict[ExclusiveReservation, int] = {}
        self.required = 0

    buffers = stateful.Bundle("buffers")

    @stateful.initialize()
    def start(self) -> None:
        """Hypothesis wants the bundle to exist."""

    @stateful.rule(
        required=st.integers(1, 4),
        extra=st.integers(0, 8),
        quota=st.integers(1, 4),
        overdraft=st.integers(0, 3),
    )
    def create(self, required: int, extra: int, quota: int, overdraft: int) -> None:
        available = TOTAL - self.required
        if required > available:
            with pytest.raises(InsufficientBuffersError):
                self.network.create_buffer_pool(required, required + extra)
            return
        pool = self.network.create_buffer_pool(
            required,
            required + extra,
            channels=CHANNELS,
            max_buffers_per_channel=quota,
            max_overdraft_buffers=overdraft,
        )
        self.required += required
        self.alive.append(pool)
        self.all.append(pool)
        self.out[pool] = [0] * CHANNELS

    @stateful.rule(target=buffers, data=st.data(), channel=st.integers(0, CHANNELS - 1))
    def request(self, data: st.DataObject, channel: int):  # type: ignore[no-untyped-def]
        if not self.alive:
            return stateful.multiple()
        pool = data.draw(st.sampled_from(self.alive))
        was_available = pool.is_available
        buffer = pool.try_request(channel)
        assert buffer is not None or not was_available
        if buffer is None:
            return stateful.multiple()
        self.out[pool][channel] += 1
        return pool, channel, buffer

    @stateful.rule(taken=stateful.consumes(buffers))
    def recycle(self, taken: tuple[LocalBufferPool, int, NetworkBuffer]) -> None:
        pool, channel, buffer = taken
        self.out[pool][channel] -= 1
        buffer.recycle()

    @stateful.rule(count=st.integers(1, 4))
    def take_exclusive(self, count: int) -> None:
        if count > TOTAL - self.required:
            with pytest.raises(InsufficientBuffersError):
                self.network.request_exclusive_segments(count)
            return
        try:
            self.exclusive += self.network.request_exclusive_segments(count)
        except InsufficientBuffersError:
            return  # promised, but still out at a pool that must shrink
        self.required += count

    @stateful.rule(count=st.integers(1, 4))
    def reserve_exclusive(self, count: int) -> None:
        if count <= TOTAL - self.required:
            self.promised[self.network.reserve_exclusive_segments(count)] = count
            self.required += count

    @stateful.rule(is_cancelled=st.booleans())
    def collect_exclusive(self, is_cancelled: bool) -> None:
        for each, count in list(self.promised.items()):
            if each.collect():
                self.exclusive += each.segments
                del self.promised[each]
            elif is_cancelled:
                each.cancel()
                self.required -= count
                del self.promised[each]

    @stateful.rule()
    def return_exclusive(self) -> None:
        self.network.recycle_exclusive_segments(self.exclusive)
        self.required -= len(self.exclusive)
        self.exclusive = []

    @stateful.rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        if self.alive:
            pool = data.draw(st.sampled_from(self.alive))
            pool.destroy()
            self.alive.remove(pool)
            self.required -= pool.required_buffers

    @stateful.invariant()
    def no_segment_is_lost_or_doubled(self) -> None:
        held = sum(pool.requested_buffers for pool in self.all)
        collected = sum(len(each.segments) for each in self.promised)
        assert self.network.available_buffers + held + len(self.exclusive) + collected == TOTAL
        for pool in self.all:
            assert pool.used_buffers == sum(self.out[pool])
            assert pool.requested_buffers >= pool.used_buffers

    @stateful.invariant()
    def sizes_and_exclusive_buffers_fit_the_total(self) -> None:
        exclusive = len(self.exclusive) + sum(self.promised.values())
        assert sum(sizes(self.alive)) + exclusive <= TOTAL
        for pool in self.alive:
            assert pool.required_buffers <= pool.size_buffers <= pool.max_buffers

    @stateful.invariant()
    def availability_is_what_it_is_defined_to_be(self) -> None:
        for pool in self.alive:
            is_below_quota = all(count < pool.max_buffers_per_channel for count in self.out[pool])
            has_free = pool.requested_buffers > pool.used_buffers
            may_take = (
                pool.requested_buffers < pool.size_buffers and self.network.available_buffers > 0
            )
            assert pool.is_available == (is_below_quota and (has_free or may_take))

    @stateful.invariant()
    def no_pool_keeps_more_than_its_size(self) -> None:
        for pool in self.alive:
            free = pool.requested_buffers - pool.used_buffers
            assert free == 0 or pool.requested_buffers <= pool.size_buffers

    def teardown(self) -> None:
        for pool in self.alive:
            pool.destroy()
        for each in self.promised:
            each.cancel()
        self.return_exclusive()
        outstanding = sum(map(sum, self.out.values()))
        assert self.network.available_buffers == TOTAL - outstanding
        assert self.network.pools == ()


TestPools = PoolsMachine.TestCase
TestPools.settings = settings(max_examples=60, stateful_step_count=40)


def test_who_alone_waits_for_a_pool_that_has_all_it_may_gets_what_is_recycled() -> None:
    pool = NetworkBufferPool(10, 1).create_buffer_pool(2, 2)
    first, second = Waiting(pool, 1), Waiting(pool, 1)
    held = take(pool, 2)
    assert not pool.is_awaited_only_by(first)
    pool.add_listener(first)
    assert pool.is_awaited_only_by(first)
    assert not pool.is_awaited_only_by(second)
    pool.resize(1)  # what comes back goes to the global pool
    assert not pool.is_awaited_only_by(first)
    pool.resize(2)
    pool.add_listener(second)
    assert not pool.is_awaited_only_by(first)
    held[0].recycle()
    assert first.buffers
    assert pool.is_awaited_only_by(second)
    pool.destroy()
    assert not pool.is_awaited_only_by(second)
