"""Who gets which record, what waits, and what timeout 0 flushes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.producer import (
    BROADCAST,
    BroadcastSelector,
    ForwardSelector,
    KeyGroupSelector,
    OutputFlusher,
    RebalanceSelector,
    RecordWriter,
    SerializedRecords,
)
from flinknet.core.producer.record_writer import Indices, key_groups, murmur_hash
from tests.pair import partition_of, record_bytes, records_of


def java_string_hash(text: str) -> int:
    """String.hashCode: over UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-be")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


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


@pytest.mark.parametrize(("key", "key_group"), KEY_GROUPS.items())
def test_the_key_group_of_a_string_is_flinks(key: str, key_group: int) -> None:
    assert key_groups(np.array([java_string_hash(key)]), 128).tolist() == [key_group]


def test_keys_go_to_the_channel_that_owns_their_key_group() -> None:
    keys = np.array([java_string_hash(key) for key in CHANNEL_OF_FOUR])
    split = KeyGroupSelector(4).split(len(keys), keys)
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
    assert channels_of(KeyGroupSelector(channels).split(128, keys), 128) == channel_of
    assert [max(g for g in range(128) if channel_of[g] == c) for c in range(channels)] == (
        last_of_each
    )


def test_hash_partitioning_needs_keys() -> None:
    with pytest.raises(ValueError, match="keys"):
        KeyGroupSelector(2).split(1, None)


@given(
    st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    st.lists(st.integers(0, 12), max_size=8),
)
def test_rebalance_is_cyclic_over_any_batches(start: tuple[int, int], batches: list[int]) -> None:
    channels, last = start
    selector = RebalanceSelector(channels, last)
    found = [
        channel for count in batches for channel in channels_of(selector.split(count, None), count)
    ]
    assert found == [(last + 1 + index) % channels for index in range(sum(batches))]


def test_forward_is_always_channel_0_and_broadcast_all() -> None:
    assert channels_of(ForwardSelector().split(3, None), 3) == [0, 0, 0]
    assert channels_of(BroadcastSelector().split(3, None), 3) == [BROADCAST] * 3


@given(
    st.one_of(
        st.integers(1, 9).flatmap(lambda size: st.integers(1, 9).map(lambda n: [size] * n)),
        st.lists(st.integers(1, 9), min_size=1, max_size=9),
    )
)
def test_a_batch_knows_where_its_records_begin_and_end(lengths: list[int]) -> None:
    batches = [records_of(lengths, 100)]
    if len(set(lengths)) == 1:
        # the same batch told by its ends
        ends = np.cumsum(lengths)
        batches.append(SerializedRecords(batches[0].data, batches[0]._instants, ends=ends))
    record_of = [index for index, length in enumerate(lengths) for _ in range(length)]
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    for batch in batches:
        for position, record in enumerate(record_of):
            end = starts[record] + lengths[record]
            assert batch.locate(position) == (position - starts[record], end)
        for start in range(len(record_of) + 1):
            for stop in range(start, len(record_of) + 1):
                ended = [100 + r for r, at in enumerate(starts) if start < at + lengths[r] <= stop]
                expected = (len(ended), ended[0], ended[-1]) if ended else None
                assert batch.ended_between(start, stop) == expected


def test_one_instant_may_stand_for_all_records() -> None:
    batch = SerializedRecords(memoryview(bytes(20)), 77, record_bytes=5)
    assert batch.ended_between(0, 12) == (2, 77, 77)


def read(subpartition_index: int, writer: RecordWriter) -> bytes:
    data = bytearray()
    while (piece := writer.partition.subpartitions[subpartition_index].poll()) is not None:
        data += piece.view
        piece.recycle()
    return bytes(data)


@pytest.mark.row("S028")
@pytest.mark.parametrize(("timeout_ns", "is_visible"), [(0, True), (1, False), (-1, False)])
def test_timeout_0_makes_what_was_written_readable_at_once(
    timeout_ns: int, is_visible: bool
) -> None:
    partition, _ = partition_of(2)
    writer = RecordWriter(partition, RebalanceSelector(2, 1), buffer_timeout_ns=timeout_ns)
    writer.emit(1, records_of([10]))
    touched, untouched = partition.subpartitions[1], partition.subpartitions[0]
    assert touched.is_data_available == is_visible
    assert not untouched.is_data_available
    writer.emit(BROADCAST, records_of([10]))
    assert untouched.is_data_available == is_visible


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60)), max_size=40))
def test_each_channel_gets_the_bytes_written_to_it_in_order(
    written: list[tuple[int, int]],
) -> None:
    partition, memory = partition_of(3)
    writer = RecordWriter(partition, RebalanceSelector(3, 0), buffer_timeout_ns=0)
    expected = [bytearray() for _ in range(3)]
    for number, (channel, length) in enumerate(written):
        batch = records_of([length], number)
        writer.emit(channel, batch)
        expected[channel] += batch.data
    assert [read(index, writer) for index in range(3)] == expected
    partition.release()
    assert memory.available_buffers == memory.total_buffers


def test_records_wait_in_order_while_the_pool_is_exhausted() -> None:
    partition, _ = partition_of(2, buffers=3, pool_buffers=3)
    writer = RecordWriter(partition, RebalanceSelector(2, 0), buffer_timeout_ns=0)
    assert writer.is_available
    writer.emit(0, records_of([100] * 5))
    assert writer.is_waiting
    assert not writer.is_available
    writer.emit(1, records_of([100] * 4, 50))
    writer.emit(0, records_of([10], 90))
    assert not writer.resume()
    found = [bytearray(), bytearray()]
    turns = 0
    while writer.is_waiting:
        for index in range(2):
            found[index] += read(index, writer)
        writer.resume()
        turns += 1
        assert turns < 20
    for index in range(2):
        found[index] += read(index, writer)
    assert bytes(found[0]) == record_bytes([100] * 5) + record_bytes([10], 90)
    assert bytes(found[1]) == record_bytes([100] * 4, 50)
    assert writer.is_available


@pytest.mark.row("S028")
def test_the_flusher_beats_once_a_timeout_from_when_it_was_served() -> None:
    flusher = OutputFlusher(100, start_ns=1000)
    assert flusher.next_deadline_ns() == 1100
    assert not flusher.is_due(now_ns=1099)
    assert flusher.is_due(now_ns=1100)
    assert not flusher.is_due(now_ns=1100)
    assert flusher.next_deadline_ns() == 1200
    assert flusher.is_due(now_ns=1270)
    assert flusher.next_deadline_ns() == 1370
    flusher.stop()
    assert flusher.next_deadline_ns() is None
    assert not flusher.is_due(now_ns=10_000)


@pytest.mark.parametrize("timeout_ns", [0, -1])
def test_timeouts_0_and_minus_1_have_no_beat(timeout_ns: int) -> None:
    flusher = OutputFlusher(timeout_ns, start_ns=0)
    assert flusher.next_deadline_ns() is None
    assert not flusher.is_due(now_ns=2**60)
