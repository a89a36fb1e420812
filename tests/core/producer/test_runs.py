"""Runs of buffers: what is laid, queued, sent or recycled several at a time is as one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flinknet.core.buffers import BufferSlice, NetworkBuffer, NetworkBufferPool
from flinknet.core.producer import PipelinedResultPartition, RecordWriter
from flinknet.core.producer.channel_selector import ForwardSelector
from flinknet.core.wire.events import CancelCheckpointMarker
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.messages import AddCredit, NewBufferSize, PartitionRequest
from tests.core.producer.test_subpartition import UNALIGNED_BARRIER
from tests.pair import RECEIVER, partition_id, partition_of, producer_of, records_of
from tests.probes import ListProbe

POOL = slice(14, 16)
"""Where a trace row tells of the pool."""


class Producer:
    """A partition of one subpartition behind a connection.

    Args:
        is_by_the_record: emit every record by itself, and frame every buffer by itself.
    """

    def __init__(self, *, is_by_the_record: bool, pool_buffers: int, quota: int) -> None:
        self.is_by_the_record = is_by_the_record
        self.probe = ListProbe()
        self.partition, self.memory = partition_of(
            segment_size_bytes=32,
            buffers=30,
            pool_buffers=pool_buffers,
            max_buffers_per_channel=quota,
            max_overdraft_buffers=3,
        )
        self.connection, _ = producer_of(self.partition, probe=self.probe)
        if is_by_the_record:
            self.connection.batch_bytes = 1
        self.writer = RecordWriter(self.partition, ForwardSelector(), buffer_timeout_ns=-1)
        self.made_records = 0
        indices = ResultSubpartitionIndexSet(0, 0)
        self.receive(PartitionRequest(partition_id(), indices, RECEIVER, 2))

    def receive(self, message: PartitionRequest | AddCredit | NewBufferSize) -> None:
        self.connection.receive_data(memoryview(message.encode()), now_ns=0)

    def emit(self, lengths: Sequence[int]) -> None:
        first = self.made_records
        self.made_records += len(lengths)
        if self.is_by_the_record:
            for index, length in enumerate(lengths):
                self.writer.emit(0, records_of([length], first + index))
        else:
            self.writer.emit(0, records_of(lengths, first))

    def send(self) -> list[bytes]:
        """What leaves until there is no more, header or payload each."""
        left = []
        while out := self.connection.data_to_send(now_ns=7):
            left += [bytes(piece) for piece in out]
        return left

    def state(self) -> tuple[object, ...]:
        """What anybody could see of it between two turns."""
        subpartition, pool = self.partition.subpartitions[0], self.partition.pool
        (reader,) = self.connection.queue.readers.values()
        return (
            pool.available_buffers,
            pool.used_buffers,
            pool.is_available,
            self.memory.available_buffers,
            subpartition.queued_elements,
            subpartition.queued_bytes,
            subpartition.buffers_in_backlog,
            subpartition.buffers_out,
            reader.subpartition.backlog() if reader.subpartition is not None else -1,
            reader.credits_available,
            reader.is_enqueued,
            self.writer.written_bytes,
            self.writer.is_available,
            self.writer.is_inside_record,
            [row[:14] + row[16:] for row in self.probe.events],
        )


def lengths() -> st.SearchStrategy[list[int]]:
    """Records of one length, or of many, for segments of 32 bytes."""
    same = st.integers(1, 70).flatmap(lambda size: st.integers(1, 40).map(lambda n: [size] * n))
    return same | st.lists(st.integers(1, 90), min_size=1, max_size=40)


ACTIONS = st.one_of(
    st.tuples(st.just("emit"), lengths()),
    st.tuples(st.just("credit"), st.integers(1, 9)),
    st.tuples(st.sampled_from(["send", "go on", "flush", "event", "barrier"]), st.none()),
    st.tuples(st.just("size"), st.sampled_from([8, 20, 1000])),
)


PARTLY_READ: list[tuple[str, object]] = [
    ("emit", [10] * 40),
    ("credit", 9),
    ("flush", None),
    ("send", None),
    ("go on", None),
    ("send", None),
]
"""The pool ends to be available in the middle of a segment, whose first record is then read."""


def act(producer: Producer, what: str, value: object) -> list[bytes]:
    """Do one thing. Returns: what has left."""
    writer, partition = producer.writer, producer.partition
    if what == "emit" and writer.is_available:
        assert isinstance(value, list)
        producer.emit(value)
    elif what == "credit":
        assert isinstance(value, int)
        producer.receive(AddCredit(value, RECEIVER))
    elif what == "size":
        assert isinstance(value, int)
        producer.receive(NewBufferSize(value, RECEIVER))
    elif what == "flush":
        partition.flush_all()
    elif what == "event" and not writer.is_inside_record:
        partition.broadcast_event(CancelCheckpointMarker(7))
    elif what == "barrier" and not writer.is_inside_record:
        partition.broadcast_event(UNALIGNED_BARRIER, is_priority=True)
    elif what == "go on":
        writer.resume()
    elif what == "send":
        return producer.send()
    return []


@settings(max_examples=300)
@given(
    st.lists(ACTIONS, min_size=5, max_size=40),
    st.sampled_from([2, 3, 5, 30]),
    st.sampled_from([4, 1000]),
)
@example(PARTLY_READ, 3, 1000)
@example([*PARTLY_READ[:-1], ("event", None), *PARTLY_READ[-1:]], 3, 1000)
@example([PARTLY_READ[0], ("event", None), ("credit", 9), ("send", None)], 3, 1000)
def test_runs_are_as_buffers_one_by_one(
    actions: list[tuple[str, object]], pool_buffers: int, quota: int
) -> None:
    both = [
        Producer(is_by_the_record=flag, pool_buffers=pool_buffers, quota=quota)
        for flag in (False, True)
    ]
    for what, value in actions:
        in_runs, one_by_one = (act(producer, what, value) for producer in both)
        assert in_runs == one_by_one
        assert both[0].state() == both[1].state()
    for producer in both:
        producer.connection.receive_eof(now_ns=9)
        producer.partition.release()
        assert producer.memory.available_buffers == 30


def pool_with_slices(
    channels: Sequence[int], *, quota: int, extra: Sequence[bool]
) -> tuple[PipelinedResultPartition, NetworkBufferPool, list[BufferSlice]]:
    """A pool that has given a buffer to each of these channels; `extra` ones have two owners."""
    partition, memory = partition_of(
        2, segment_size_bytes=8, buffers=12, max_buffers_per_channel=quota, max_overdraft_buffers=9
    )
    slices = []
    for channel, has_other_owner in zip(channels, extra, strict=True):
        buffer = partition.pool.try_request(channel)
        assert isinstance(buffer, NetworkBuffer)
        if has_other_owner:
            buffer.retain()
        slices.append(BufferSlice(buffer, buffer.view, 8))
    return partition, memory, slices


@given(
    st.lists(st.tuples(st.integers(0, 1), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 6),
    st.sampled_from(["", "smaller", "destroyed"]),
)
def test_recycling_a_run_is_recycling_each(
    given_out: list[tuple[int, bool]], quota: int, change: str
) -> None:
    channels, extra = [each[0] for each in given_out], [each[1] for each in given_out]
    found = []
    for at_once in (True, False):
        partition, memory, slices = pool_with_slices(channels, quota=quota, extra=extra)
        pool = partition.pool
        if change == "smaller":
            pool.resize(4)
        elif change == "destroyed":
            pool.destroy()
        if at_once:
            pool.recycle_slices(0, slices)
        else:
            for piece in slices:
                piece.recycle()
        references = [piece.buffer.references for piece in slices]
        state = (pool.available_buffers, pool.requested_buffers, memory.available_buffers)
        found.append((references, state, pool.is_available))
        for piece, has_other_owner in zip(slices, extra, strict=True):
            if has_other_owner:
                piece.recycle()
            else:
                with pytest.raises(RuntimeError, match="recycled more often"):
                    piece.recycle()
        partition.release()
        assert memory.available_buffers == 12
    assert found[0] == found[1]
