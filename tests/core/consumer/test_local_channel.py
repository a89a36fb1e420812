"""LocalInputChannel: reads the subpartition of a producer in the same TaskManager."""

from __future__ import annotations

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.buffers import BufferSlice, DataType
from flinknet.core.consumer import LocalInputChannel, SingleInputGate
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.probe import NullProbe, Probe, TracePoint
from flinknet.core.producer import PipelinedResultPartition, ResultPartitionManager
from flinknet.core.wire.events import EndOfData, EndOfOutputChannelStateEvent, OtherEvent
from flinknet.errors import PartitionError, PartitionNotFoundError, ProducerFailedError
from tests.pair import Pair, partition_id, partition_of, receiver_ids, records_of
from tests.simulation import MS, Rows


class LocalPair:
    """A partition and a gate whose channel i reads subpartition i, in one TaskManager."""

    def __init__(
        self,
        *,
        channels: int = 1,
        probe: Probe | None = None,
        is_registered: bool = True,
        exclusive_buffers: int = 2,
    ) -> None:
        self.partition, self.memory = partition_of(
            channels, pool_buffers=20, exclusive_buffers=exclusive_buffers
        )
        self.manager = ResultPartitionManager()
        self.gate = SingleInputGate(channels=channels)
        self.channels = [
            LocalInputChannel(
                index,
                receiver_id,
                partition_id(),
                index,
                self.gate.queue_channel,
                index,
                self.manager.create_subpartition_view,
                probe or NullProbe(),
            )
            for index, receiver_id in enumerate(receiver_ids(channels))
        ]
        self.gate.set_channels(self.channels)
        if is_registered:
            self.manager.register(self.partition)
            self.gate.request_partitions(now_ns=0)

    def consume(self) -> list[tuple[int, int, bytes]]:
        taken = []
        while (polled := self.gate.poll()) is not None:
            channel, buffer, _ = polled
            taken.append((channel.index, int(buffer.data_type), bytes(buffer.payload)))
            buffer.recycle()
        return taken


def fill(partition: PipelinedResultPartition, count: int, channel: int = 0, first: int = 0) -> None:
    """So many records of 100 bytes, one for each buffer, to be read at once."""
    batch = records_of([100] * count, first)
    assert partition.emit(channel, batch) == len(batch.data)
    partition.flush(channel)


@pytest.mark.row("S043")
def test_what_is_read_is_the_producers_segment_and_recycling_gives_it_back_to_its_pool() -> None:
    pair = LocalPair()
    fill(pair.partition, 3)
    queued = [each.buffer.segment for each in pair.partition.subpartitions[0]._queue]
    used = pair.partition.pool.used_buffers
    read = []
    while (polled := pair.gate.poll()) is not None:
        channel, buffer, number = polled
        assert channel is pair.channels[0]
        assert isinstance(buffer, BufferSlice)
        assert buffer.buffer.segment is queued[number]
        assert buffer.view.obj is buffer.buffer.segment.view.obj
        assert buffer.size_bytes == 100
        read.append(buffer)
    assert len(read) == len(queued)
    assert pair.partition.pool.used_buffers == used
    for count, buffer in enumerate(read):
        assert pair.partition.pool.used_buffers == used - count
        buffer.recycle()
    assert pair.partition.pool.used_buffers == used - len(read)
    assert pair.channels[0].buffers_handed_out == 3


@pytest.mark.row("S036")
@pytest.mark.row("S044")
def test_local_and_remote_channels_bring_the_same_records_and_events_in_the_same_order() -> None:
    """One script of writing and reading, over a connection and without one."""

    def script(emit: Pair | LocalPair) -> list[tuple[int, int, bytes]]:
        partition = emit.partition
        found = []
        for turn in range(4):
            fill(partition, 2, turn % 2, first=10 * turn)
            partition.emit(1, records_of([30], 100 + turn))
            partition.flush_all()
            if isinstance(emit, Pair):
                emit.drive()
                found += emit.input.consume()
                emit.drive()
                found += emit.input.consume()
            else:
                found += emit.consume()
        partition.broadcast_event(EndOfData())
        if isinstance(emit, Pair):
            emit.drive()
            found += emit.input.consume()
        else:
            found += emit.consume()
        return found

    remote = Pair(NetworkConfig(segment_size_bytes=100), channels=2)
    remote.drive()
    by_network, direct = script(remote), script(LocalPair(channels=2))
    for channel in (0, 1):
        own = [each for each in by_network if each[0] == channel]
        data = b"".join(payload for _, kind, payload in own if kind == DataType.DATA_BUFFER)
        found = [each for each in direct if each[0] == channel]
        assert b"".join(p for _, kind, p in found if kind == DataType.DATA_BUFFER) == data
        assert found[-1] == own[-1]
        assert len(data) == 400 + 120 * channel


def test_a_channel_tells_the_gate_by_itself_when_there_is_something_to_read() -> None:
    pair = LocalPair()
    assert pair.consume() == []
    pair.partition.emit(0, records_of([10]))
    assert not pair.gate.is_available
    pair.partition.flush_all()
    assert pair.gate.is_available
    assert [len(payload) for _, _, payload in pair.consume()] == [10]
    assert not pair.gate.is_available


def test_written_before_it_was_requested_is_read() -> None:
    pair = LocalPair(is_registered=False)
    fill(pair.partition, 2)
    pair.manager.register(pair.partition)
    pair.gate.request_partitions(now_ns=0)
    assert len(pair.consume()) == 2


def test_empty_buffers_are_passed_over() -> None:
    """Without exclusive buffers a subpartition sends an empty rest, for its backlog alone."""
    pair = LocalPair(exclusive_buffers=0)
    pair.partition.emit(0, records_of([10]))
    pair.partition.flush_all()
    assert len(pair.consume()) == 1
    pair.partition.broadcast_event(EndOfData())
    assert [kind for _, kind, _ in pair.consume()] == [DataType.END_OF_DATA]


def test_a_blocking_event_stops_the_channel_until_it_is_resumed() -> None:
    pair = LocalPair()
    pair.partition.broadcast_event(EndOfOutputChannelStateEvent())
    fill(pair.partition, 2)
    assert [kind for _, kind, _ in pair.consume()] == [DataType.RECOVERY_COMPLETION]
    assert not pair.gate.is_available
    pair.channels[0].resume_consumption()
    assert len(pair.consume()) == 2


def test_the_producer_hears_that_its_end_was_read_and_the_last_release_frees_everything() -> None:
    pair = LocalPair(channels=2)
    fill(pair.partition, 2)
    pair.partition.broadcast_event(EndOfData())
    pair.consume()
    assert not pair.partition.is_all_acknowledged
    for channel in pair.channels:
        channel.acknowledge_all_records_processed()
    assert pair.partition.is_all_acknowledged
    pair.partition.finish()
    for channel, _, _ in pair.consume():
        pair.gate.end_channel(pair.channels[channel])
    assert pair.gate.is_finished
    assert pair.partition.is_released
    assert pair.memory.available_buffers == pair.memory.total_buffers


def test_requests_for_a_partition_that_is_not_there_are_repeated_with_flinks_delays() -> None:
    pair = LocalPair(is_registered=False)
    pair.gate.request_partitions(now_ns=0)
    delays, now_ns = [], 0
    while (due_ns := pair.gate.next_deadline_ns()) is not None:
        pair.gate.handle_deadline(now_ns=due_ns - 1)
        assert pair.gate.next_deadline_ns() == due_ns
        delays.append(due_ns - now_ns)
        now_ns = due_ns
        pair.gate.handle_deadline(now_ns=now_ns)
    assert [delay // MS for delay in delays] == [100, 200, 400, 800, 1600, 3200, 6400, 10000]
    with pytest.raises(PartitionNotFoundError, match="not found"):
        pair.gate.poll()


def test_a_partition_that_comes_late_is_found_by_the_next_request() -> None:
    pair = LocalPair(is_registered=False)
    pair.gate.request_partitions(now_ns=0)
    fill(pair.partition, 2)
    pair.manager.register(pair.partition)
    assert pair.consume() == []
    pair.gate.handle_deadline(now_ns=100 * MS)
    assert len(pair.consume()) == 2
    assert pair.gate.next_deadline_ns() is None


def test_a_partition_that_somebody_else_took_first_fails_the_channel() -> None:
    pair = LocalPair(is_registered=False)
    pair.gate.request_partitions(now_ns=0)
    pair.manager.register(pair.partition)
    pair.manager.create_subpartition_view(pair.partition.partition_id, 0, lambda: None)
    pair.partition.subpartitions[0].release()
    pair.gate.handle_deadline(now_ns=100 * MS)
    with pytest.raises(PartitionError, match="is released"):
        pair.gate.poll()


def test_without_backoff_the_first_refusal_is_the_last() -> None:
    pair = LocalPair(is_registered=False)
    find = pair.manager.create_subpartition_view
    channel = LocalInputChannel(
        *(0, receiver_ids(1)[0], partition_id(), 0, pair.gate.queue_channel, 0, find, NullProbe()),
        backoff=RequestBackoffPolicy(initial_ns=0),
    )
    with pytest.raises(PartitionNotFoundError):
        channel.request_subpartition(now_ns=0)


def test_a_released_channel_asks_no_more() -> None:
    pair = LocalPair(is_registered=False)
    pair.gate.request_partitions(now_ns=0)
    pair.gate.close()
    assert pair.gate.next_deadline_ns() is None


def test_a_partition_that_is_dropped_under_its_reader_is_an_error() -> None:
    pair = LocalPair()
    fill(pair.partition, 2)
    pair.partition.release()
    with pytest.raises(PartitionError, match="has been released"):
        pair.gate.poll()


@pytest.mark.row("S091")
def test_the_cause_of_a_producers_failure_is_told() -> None:
    pair = LocalPair()
    fill(pair.partition, 2)
    pair.partition.fail("disk full")
    with pytest.raises(ProducerFailedError, match="disk full"):
        pair.gate.poll()


@pytest.mark.row("S081")
def test_a_task_event_reaches_the_producer_in_the_same_task_manager_once_it_is_there() -> None:
    pair = LocalPair(is_registered=False)
    event = OtherEvent("org.example.Terminate")
    heard: list[OtherEvent] = []
    pair.partition.task_events.subscribe(event.class_name, heard.append)
    pair.gate.send_task_event(event)
    assert heard == []
    pair.manager.register(pair.partition)
    pair.gate.request_partitions(now_ns=0)
    assert pair.gate.send_pending_events()
    assert heard == []
    pair.partition.task_events.register()
    assert not pair.gate.send_pending_events()
    assert heard == [event]
    pair.gate.end_channel(pair.channels[0])
    pair.gate.send_task_event(event)
    assert heard == [event]


def test_buffers_in_use_are_those_that_wait_in_the_view() -> None:
    pair = LocalPair()
    channel = pair.channels[0]
    assert (channel.buffers_in_use, channel.queued_elements) == (0, 0)
    fill(pair.partition, 3)
    pair.partition.broadcast_event(EndOfData())
    assert (channel.buffers_in_use, channel.queued_elements) == (3, 4)
    channel.set_buffer_size(40)
    assert pair.partition.subpartitions[0].buffer_size_bytes == 40


def test_a_buffer_is_told_as_sent_and_received_at_the_instant_it_is_read() -> None:
    rows = Rows()
    pair = LocalPair(probe=rows)
    fill(pair.partition, 3)
    while (polled := pair.gate.poll(now_ns := 77 * MS)) is not None:
        polled[1].recycle()
    sent, received = rows.buffers(TracePoint.SENT), rows.buffers(TracePoint.RECEIVED)
    assert [row.sequence_number for row in sent] == [row.sequence_number for row in received]
    assert {row.at_ns for row in (*sent, *received)} == {now_ns}
    assert [row.records for row in sent] == [1, 1, 1]
    assert {row.records for row in received} == {-1}
    assert {row.credit_before for row in (*sent, *received)} == {-1}


def test_an_empty_buffer_is_traced_so_that_sequence_numbers_are_contiguous() -> None:
    rows = Rows()
    pair = LocalPair(exclusive_buffers=0, probe=rows)
    assert pair.partition.emit(0, records_of([60])) == 60
    pair.partition.flush_all()
    assert len(pair.consume()) == 1
    pair.partition.broadcast_event(EndOfData())  # ends the buffer, of which all was read
    fill(pair.partition, 1)
    assert len(pair.consume()) == 2
    for point in (TracePoint.SENT, TracePoint.RECEIVED):
        seen = [(row.sequence_number, row.payload_bytes) for row in rows.rows if row.point == point]
        assert [number for number, _ in seen] == [0, 1, 2, 3]
        assert seen[1] == (1, 0)
