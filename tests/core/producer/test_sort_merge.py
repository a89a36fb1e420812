"""Sort-merge partitions: collected in memory, written region by region, read in file order."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.core.producer import (
    BROADCAST,
    BlockingStorage,
    MemoryBoundedData,
    RecordWriter,
    ResultPartition,
    ResultPartitionFactory,
    ResultPartitionManager,
    ResultPartitionType,
    SortMergeResultPartition,
)
from flinknet.core.producer.channel_selector import GlobalSelector
from flinknet.core.wire.buffer_response import (
    INDEX_ENTRY,
    STORED_HEADER,
)
from flinknet.core.wire.compression import CompressionCodec, decompress
from flinknet.core.wire.events import EndOfData, EndOfPartitionEvent, encode_pipelined
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    AddCredit,
    BufferResponse,
    CancelPartitionRequest,
    ErrorResponse,
    PartitionRequest,
)
from flinknet.errors import LocalTransportError
from tests.pair import (
    OTHER_RECEIVER,
    RECEIVER,
    partition_id,
    producer_of,
    record_bytes,
    records_of,
    sent_bytes,
)
from tests.probes import polled_by_hand

SEGMENT_BYTES = 100
END_OF_DATA = encode_pipelined(EndOfData())
END_OF_PARTITION = encode_pipelined(EndOfPartitionEvent())
ENDS_BYTES = 2 * STORED_HEADER.size + len(END_OF_DATA) + len(END_OF_PARTITION)


@dataclass
class Data(MemoryBoundedData):
    """Bytes in memory that notes where it is read, and breaks when it shall."""

    offsets: list[int] = field(default_factory=list)
    broken_from: int | None = None
    takes_bytes: int | None = None

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def content(self) -> bytes:
        """What was written."""
        return bytes(self._bytes)

    def damage(self, position: int) -> None:
        """Change a byte."""
        self._bytes[position] ^= 255

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append, as far as there is room."""
        super().write(pieces)
        if self.takes_bytes is not None and len(self._bytes) > self.takes_bytes:
            raise LocalTransportError("no space left on device")

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill the pieces."""
        self.offsets.append(offset)
        if self.broken_from is not None and offset >= self.broken_from:
            raise LocalTransportError("input/output error")
        return super().read(offset, into)


class SortMerge:
    """A partition that sorts, its memory and its files.

    Args:
        buffers: of its pool, no more and no fewer.
        read_buffers: of the read pool.
        request_buffers: that a request gets.
    """

    def __init__(
        self,
        subpartitions: int = 2,
        buffers: int = 16,
        *,
        read_buffers: int = 200,
        request_buffers: int = 10,
        codec: CompressionCodec = CompressionCodec.NONE,
        producer: int = 0,
        memory: NetworkBufferPool | None = None,
    ) -> None:
        self.memory = memory or NetworkBufferPool(buffers, SEGMENT_BYTES)
        self.files: dict[str, Data] = {}
        self.read_pool = BatchShuffleReadBufferPool(
            read_buffers * SEGMENT_BYTES,
            SEGMENT_BYTES,
            request_bytes=request_buffers * SEGMENT_BYTES,
        )
        partition = ResultPartitionFactory(
            self.memory,
            ResultPartitionManager(),
            exclusive_buffers=2,
            floating_buffers=8,
            max_buffers_per_channel=10,
            max_overdraft_buffers=0,
            storage=BlockingStorage(
                self.read_pool, lambda _, name: self.files.setdefault(name, Data())
            ),
            codec=codec,
            sort_shuffle_min_buffers=buffers,
        ).create(partition_id(producer), ResultPartitionType.BLOCKING, subpartitions)
        partition.setup()
        self.partition = partition

    @property
    def sorting(self) -> SortMergeResultPartition:
        """The partition, which is one that sorts."""
        assert isinstance(self.partition, SortMergeResultPartition)
        return self.partition

    def finish(self) -> None:
        """Write the end."""
        self.partition.broadcast_event(EndOfData())
        self.partition.finish()

    def regions(self) -> list[list[tuple[int, list[int]]]]:
        """Of each region and subpartition: the offset, and lengths of the stored buffers."""
        data, index = self.files["data"].content, self.files["index"].content
        count = len(self.partition.subpartitions)
        entries = list(INDEX_ENTRY.iter_unpack(index))
        found = []
        for offset, size in entries:
            lengths, at = [], offset
            while at < offset + size:
                lengths.append(STORED_HEADER.unpack_from(data, at)[2])
                at += STORED_HEADER.size + lengths[-1]
            assert at == offset + size
            found.append((offset, lengths))
        return [found[at : at + count] for at in range(0, len(found), count)]


def read(view, codec: CompressionCodec = CompressionCodec.NONE):  # type: ignore[no-untyped-def]
    """Everything that can be polled, as (data bytes, events, records)."""
    data, events, records, number = bytearray(), [], 0, 0
    while (piece := view.poll()) is not None:
        assert piece.sequence_number == number
        number += 1
        records += piece.records
        if piece.data_type == 1:
            payload = bytes(piece.view)
            compressed = piece.buffer.is_compressed
            data += decompress(codec, payload, SEGMENT_BYTES) if compressed else payload
        else:
            events.append((len(data), bytes(piece.view)))
        assert piece.next_data_type or not view.is_data_available
        piece.recycle()
    return bytes(data), events, records


def view_of(partition: ResultPartition, index: int):  # type: ignore[no-untyped-def]
    return partition.subpartitions[index].create_read_view(polled_by_hand)


@pytest.mark.row("S016")
def test_a_region_lies_in_the_file_subpartition_by_subpartition() -> None:
    made = SortMerge(subpartitions=2, buffers=4)
    partition = made.partition
    partition.emit(1, records_of([70] * 2))
    partition.emit(0, records_of([30]))
    assert made.files["data"].content == b""  # nothing is written before the pool is full
    assert [each.buffers_in_backlog for each in partition.subpartitions] == [1, 1]
    partition.emit(0, records_of([200]))  # 170 bytes are left
    partition.emit(1, records_of([10]))
    made.finish()
    first = 3 * STORED_HEADER.size + 170
    second = first + 3 * STORED_HEADER.size + 210
    assert made.regions() == [
        [(0, [30]), (STORED_HEADER.size + 30, [100, 40])],
        [(first, [100, 100]), (first + 2 * STORED_HEADER.size + 200, [10])],
        [(second, [5, 4]), (second, [5, 4])],
    ]
    assert len(made.files["data"].content) == second + ENDS_BYTES


@pytest.mark.row("S016")
def test_partitions_of_a_task_begin_their_regions_with_different_subpartitions() -> None:
    for producer, order in ((0, [0, 1, 2]), (1, [1, 2, 0]), (2, [2, 0, 1]), (3, [0, 1, 2])):
        made = SortMerge(subpartitions=3, producer=producer)
        for channel in range(3):
            made.partition.emit(channel, records_of([10]))
        made.finish()
        parts = made.regions()[0]
        assert sorted(range(3), key=lambda each: parts[each][0]) == order


@pytest.mark.row("S016")
@pytest.mark.row("S024")
def test_what_is_broadcast_lies_in_the_file_once() -> None:
    made = SortMerge(subpartitions=3)
    made.partition.emit(BROADCAST, records_of([70] * 3))
    made.partition.emit(1, records_of([20]))
    made.partition.emit(BROADCAST, records_of([40]))
    made.finish()
    header = STORED_HEADER.size
    last = 4 * header + 230
    assert made.regions() == [
        [(0, [100, 100, 10])] * 3,
        [(0, []), (3 * header + 210, [20]), (0, [])],
        [(last, [40, 5, 4])] * 3,
    ]
    both = record_bytes([70] * 3) + record_bytes([40])
    ends = [(250, END_OF_DATA), (250, END_OF_PARTITION)]
    for index in (0, 2):
        assert read(view_of(made.partition, index)) == (both, ends, 4)
    data, _, records = read(view_of(made.partition, 1))
    assert (data, records) == (both[:210] + record_bytes([20]) + both[210:], 5)
    assert made.sorting.data_bytes == 270


@pytest.mark.row("S016")
def test_a_record_that_no_pool_holds_is_a_region_of_its_own() -> None:
    made = SortMerge(subpartitions=1, buffers=4)
    for length in (10, 401, 400):
        made.partition.emit(0, records_of([length]))
    made.finish()
    lengths = [[parts for _, parts in region] for region in made.regions()]
    assert lengths == [[[10]], [[100] * 4 + [1]], [[100] * 4], [[5, 4]]]


@pytest.mark.row("S016")
def test_records_are_sorted_in_half_of_a_pool_without_two_buffers_for_each_subpartition() -> None:
    made = SortMerge(subpartitions=3, buffers=4)
    for channel in (2, 0, 2, 1):
        made.partition.emit(channel, records_of([34]))  # four times 50 bytes are two segments
    assert made.files["data"].content == b""
    made.partition.emit(0, records_of([1]))
    made.finish()
    lengths = [[parts for _, parts in region] for region in made.regions()]
    assert lengths == [[[34], [34], [68]], [[1], [], []], [[5, 4]] * 3]


def exchanges() -> st.SearchStrategy[list[tuple[int, list[int]]]]:
    """Batches of records with their channel, all together more than a pool holds."""
    lengths = st.lists(st.integers(1, 330), min_size=1, max_size=8)
    return st.lists(st.tuples(st.integers(BROADCAST, 2), lengths), max_size=12)


@pytest.mark.row("S016")
@given(
    exchanges(),
    st.integers(2, 12),
    st.integers(1, 9),
    st.sampled_from([CompressionCodec.NONE, CompressionCodec.LZ4]),
)
def test_readers_get_what_was_written_for_their_subpartition(
    batches: list[tuple[int, list[int]]], buffers: int, read_buffers: int, codec: CompressionCodec
) -> None:
    made = SortMerge(3, buffers, read_buffers=read_buffers, codec=codec)
    for number, (channel, lengths) in enumerate(batches):
        batch = records_of(lengths, number)
        assert made.partition.emit(channel, batch) == len(batch.data)
    made.finish()
    assert made.memory.available_buffers == made.memory.total_buffers
    for index in range(3):  # one after the other: all of the read pool may wait for one reader
        own = [
            (lengths, number)
            for number, (channel, lengths) in enumerate(batches)
            if channel in (BROADCAST, index)
        ]
        data = b"".join(record_bytes(*each) for each in own)
        view = view_of(made.partition, index)
        ends = [(len(data), END_OF_DATA), (len(data), END_OF_PARTITION)]
        assert read(view, codec) == (data, ends, sum(len(lengths) for lengths, _ in own))
        assert view.backlog() == 0
        view.release()
    assert made.partition.is_consumed
    assert made.read_pool.available_buffers == read_buffers
    if codec is not CompressionCodec.NONE:
        assert made.sorting.stored_data_bytes <= made.sorting.data_bytes


@pytest.mark.parametrize("codec", [CompressionCodec.LZ4, CompressionCodec.ZSTD])
def test_a_buffer_is_stored_compressed_only_if_that_makes_it_smaller(
    codec: CompressionCodec,
) -> None:
    noise = bytes((i * 167 + i * i * 59 + (i >> 3) * 31) % 251 for i in range(100))
    made = SortMerge(1, codec=codec)
    made.partition.emit(0, records_of([100]))
    made.partition.emit(0, records_of([100], data=noise))
    made.finish()
    view = view_of(made.partition, 0)
    small, same, event = view.poll(), view.poll(), view.poll()
    assert small.buffer.is_compressed
    assert decompress(codec, small.view, 100) == b"\0" * 100
    assert (same.buffer.is_compressed, bytes(same.view)) == (0, noise)
    assert event.buffer.is_compressed == 0
    assert made.partition.data_bytes == 200
    assert made.partition.stored_data_bytes == small.size_bytes + 100


@pytest.mark.row("S016")
def test_readers_are_served_in_the_order_of_the_file() -> None:
    made = SortMerge(2, buffers=4, read_buffers=4)
    for _ in range(2):  # a region each time: two full buffers for each subpartition
        for channel in (1, 0):
            made.partition.emit(channel, records_of([100] * 2))
    made.finish()
    offsets = made.files["data"].offsets
    second, first = view_of(made.partition, 1), view_of(made.partition, 0)
    size = STORED_HEADER.size + 100
    # the one that came first had the file for itself, up to the end of the pool
    assert offsets == [2 * size, 6 * size]
    assert [each.queued_elements for each in (first, second)] == [0, 4]
    for _ in range(4):
        piece = second.poll()
        piece.recycle()
    # then the other is behind in the file, and comes first
    assert offsets[2:] == [0, 4 * size]
    assert [each.queued_elements for each in (first, second)] == [4, 0]
    for _ in range(4):
        piece = first.poll()
        piece.recycle()
    assert offsets[4:] == [8 * size] * 2  # both are at the events that they share
    assert [each.queued_elements for each in (first, second)] == [2, 2]


def test_a_partition_takes_four_requests_of_the_read_pool_at_most() -> None:
    made = SortMerge(1, read_buffers=64, request_buffers=4)
    made.partition.emit(0, records_of([100] * 20))
    made.finish()
    view, pool = view_of(made.partition, 0), made.read_pool
    assert (view.queued_elements, view.backlog(), pool.available_buffers) == (16, 16, 48)
    view.poll().recycle()
    assert (view.queued_elements, pool.available_buffers) == (15, 49)
    for _ in range(3):
        view.poll().recycle()
    assert (view.queued_elements, pool.available_buffers) == (16, 48)


def test_two_partitions_share_the_read_pool() -> None:
    """The second one reads when the first has given a whole request back."""
    first, second = SortMerge(1, read_buffers=6), SortMerge(1)
    second.sorting.scheduler._pool = first.read_pool
    for made in (first, second):
        made.partition.emit(0, records_of([100] * 5))
        made.finish()
    views = [view_of(made.partition, 0) for made in (first, second)]
    assert [view.queued_elements for view in views] == [6, 0]
    for _ in range(6):
        assert views[1].poll() is None
        views[0].poll().recycle()
    assert [view.queued_elements for view in views] == [0, 6]
    for _ in range(6):
        views[1].poll().recycle()
    assert [view.queued_elements for view in views] == [1, 0]
    views[0].poll().recycle()
    assert [view.queued_elements for view in views] == [0, 1]


def test_a_connection_is_ready_when_another_one_gave_back_what_its_reader_waited_for() -> None:
    read_pool = SortMerge(1, read_buffers=6).read_pool
    connections = []
    for _ in range(2):
        made = SortMerge(1)
        made.sorting.scheduler._pool = read_pool
        made.partition.emit(0, records_of([100] * 4))
        made.finish()
        connection, _ = producer_of(made.partition)
        request = PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, 0), RECEIVER, 4)
        connection.receive_data(memoryview(request.encode()), now_ns=0)
        connections.append(connection)
    last, first = connections  # the one that has the buffers is asked after the other
    assert sent_bytes(first) == b""
    assert not first.is_ready
    assert sent_bytes(last)
    assert first.is_ready
    assert sent_bytes(first)
    assert not first.is_ready


@pytest.mark.row("S017")
def test_readers_are_independent_and_may_come_again() -> None:
    made = SortMerge()
    with pytest.raises(RuntimeError, match="not finished"):
        view_of(made.partition, 0)
    made.partition.emit(0, records_of([100] * 3))
    made.finish()
    first, other = view_of(made.partition, 0), view_of(made.partition, 0)
    assert [first.poll().sequence_number, other.poll().sequence_number] == [0, 0]
    assert (first.backlog(), first.queued_elements) == (2, 4)
    assert len(read(view_of(made.partition, 0))[0]) == 300
    assert made.partition.subpartitions[0].has_view
    with pytest.raises(RuntimeError, match="blocked"):
        first.resume_consumption()


@pytest.mark.row("S016")
def test_credit_is_as_for_others() -> None:
    made = SortMerge(1)
    made.partition.emit(0, records_of([100] * 3))
    made.finish()
    connection, manager = producer_of(made.partition)
    request = PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, 0), RECEIVER, 2)
    connection.receive_data(memoryview(request.encode()), now_ns=0)
    decoder = FrameDecoder(Direction.PRODUCER_TO_CONSUMER)
    messages = decoder.feed(sent_bytes(connection))
    assert [m.backlog for m in messages if isinstance(m, BufferResponse)] == [2, 1]
    connection.receive_data(memoryview(AddCredit(1, RECEIVER).encode()), now_ns=0)
    messages = decoder.feed(sent_bytes(connection))
    assert [m.data_type for m in messages if isinstance(m, BufferResponse)] == [1, 2, 2]
    assert not made.partition.is_consumed
    cancel = CancelPartitionRequest(RECEIVER)
    connection.receive_data(memoryview(cancel.encode()), now_ns=0)
    assert made.partition.is_consumed
    assert made.read_pool.available_buffers == 200
    assert manager.find(made.partition.partition_id) is made.partition
    assert not made.files["data"].is_released
    manager.release(made.partition)
    assert made.files["data"].is_released
    assert made.files["index"].is_released


@pytest.mark.row("S016")
def test_a_release_fails_who_has_something_left_to_read_and_gives_everything_back() -> None:
    made = SortMerge(2, read_buffers=4)
    made.partition.emit(0, records_of([100] * 2))
    made.partition.emit(1, records_of([100] * 9))
    made.finish()
    whole, part = view_of(made.partition, 0), view_of(made.partition, 1)
    assert whole.queued_elements == 4
    made.partition.release()
    assert (whole.failure_cause, whole.queued_elements) == (None, 4)
    assert part.failure_cause == "Result partition has been already released."
    assert made.files["data"].is_released
    assert read(whole)[0] == record_bytes([100] * 2)
    assert made.read_pool.available_buffers == 4
    with pytest.raises(RuntimeError, match="released"):
        view_of(made.partition, 0)


def test_giving_it_up_in_the_middle_gives_all_memory_back() -> None:
    made = SortMerge()
    made.partition.emit(0, records_of([130]))
    assert made.memory.available_buffers == 0
    made.partition.release()
    assert made.memory.available_buffers == 16
    assert made.files["data"].is_released


@pytest.mark.row("S016")
@pytest.mark.row("S091")
def test_a_disk_that_cannot_be_read_fails_the_channel_it_was_read_for_and_no_other() -> None:
    made = SortMerge(2, buffers=4, read_buffers=2)
    made.partition.emit(0, records_of([100] * 2))
    made.partition.emit(1, records_of([100] * 2))
    made.finish()
    made.files["data"].broken_from = 2 * (STORED_HEADER.size + 100)
    connection, _ = producer_of(made.partition)
    decoder = FrameDecoder(Direction.PRODUCER_TO_CONSUMER)
    for index, receiver in enumerate((RECEIVER, OTHER_RECEIVER)):
        indices = ResultSubpartitionIndexSet(index, index)
        request = PartitionRequest(partition_id(), indices, receiver, 2)
        connection.receive_data(memoryview(request.encode()), now_ns=0)
    messages = decoder.feed(sent_bytes(connection))
    received = [m.receiver_id for m in messages if isinstance(m, BufferResponse)]
    errors = [m for m in messages if isinstance(m, ErrorResponse)]
    assert received == [RECEIVER] * 2
    # the events behind the damage are for both
    assert {error.receiver_id for error in errors} == {RECEIVER, OTHER_RECEIVER}
    assert "input/output error" in (errors[0].cause.message or "")
    made.files["data"].broken_from = None
    assert read(view_of(made.partition, 1))[0] == record_bytes([100] * 2)


@pytest.mark.row("S075")
def test_a_range_of_a_blocking_partition_is_read_to_the_end_of_each() -> None:
    made = SortMerge(3)
    made.partition.emit(0, records_of([100]))
    made.partition.emit(1, records_of([100] * 2))
    made.partition.emit(2, records_of([100]))
    made.finish()
    connection, _ = producer_of(made.partition)
    request = PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, 1), RECEIVER, 9)
    connection.receive_data(memoryview(request.encode()), now_ns=0)
    messages = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(sent_bytes(connection))
    buffers = [each for each in messages if isinstance(each, BufferResponse)]
    assert [each.sequence_number for each in buffers] == list(range(7))
    payloads = [piece for each in buffers for piece in each.pieces()]
    assert payloads.count(encode_pipelined(EndOfPartitionEvent())) == 2
    assert sum(each.data_type.is_buffer for each in buffers) == 3
    assert {each.subpartition_id for each in buffers} == {-1}


def test_a_disk_that_is_full_ends_the_task_that_writes() -> None:
    made = SortMerge(2, buffers=4)
    made.files["data"].takes_bytes = 500
    made.partition.emit(0, records_of([100] * 4))
    made.partition.emit(0, records_of([100]))
    with pytest.raises(LocalTransportError, match="no space left"):
        made.partition.emit(0, records_of([100] * 9))
    made.partition.fail("no space left")
    assert made.memory.available_buffers == 4
    assert made.files["data"].is_released


@pytest.mark.parametrize(
    ("name", "place", "words"),
    [("data", 4, ""), ("index", 12, ""), ("index", 7, "from offset -")],
)
def test_a_file_that_was_changed_is_noticed(name: str, place: int, words: str) -> None:
    made = SortMerge(1)
    made.partition.emit(0, records_of([100]))
    made.finish()
    made.files[name].damage(place)
    notifications: list[int] = []
    view = made.partition.subpartitions[0].create_read_view(lambda: notifications.append(1))
    assert words in view.failure_cause
    assert "was it changed?" in view.failure_cause
    assert (view.is_data_available, view.is_event_available, view.poll()) == (False, False, None)
    assert notifications == [1]
    assert made.read_pool.available_buffers == 200


def test_a_writer_waits_for_the_buffers_that_its_partition_requires() -> None:
    memory = NetworkBufferPool(8, SEGMENT_BYTES)
    greedy = memory.create_buffer_pool(1, 8)
    taken = [greedy.try_request() for _ in range(6)]
    made = SortMerge(1, buffers=4, memory=memory)
    writer = RecordWriter(made.partition, GlobalSelector(), buffer_timeout_ns=-1)
    assert not writer.is_available
    writer.emit(0, records_of([10]))
    assert writer.is_waiting
    for buffer in taken[:2]:
        assert not writer.resume()
        buffer.recycle()
    assert writer.resume()
    assert writer.is_available
    made.partition.broadcast_event(EndOfData())


@pytest.mark.row("S017")
def test_a_request_before_the_end_is_answered_with_an_error() -> None:
    connection, _ = producer_of(SortMerge().partition)
    request = PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, 0), RECEIVER, 2)
    connection.receive_data(memoryview(request.encode()), now_ns=0)
    (error,) = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(sent_bytes(connection))
    assert isinstance(error, ErrorResponse)
    assert "not finished" in (error.cause.message or "")


def test_stored_headers_are_two_shorts_and_a_length_in_native_order() -> None:
    order = sys.byteorder
    header = (1).to_bytes(2, order) + bytes(2) + (70_000).to_bytes(4, order)
    assert STORED_HEADER.pack(True, False, 70_000) == header
