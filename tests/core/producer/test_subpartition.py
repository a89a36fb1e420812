"""PipelinedSubpartition: who is told when, what leaves, and the backlog that leaves with it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinknet.core.buffers import BufferConsumer, BufferSlice, DataType, NetworkBufferPool
from flinknet.core.probe import FlushReason
from flinknet.core.producer import PipelinedResultPartition, PipelinedSubpartition
from flinknet.core.wire import events
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier, SnapshotType
from tests.pair import partition_of, records_of

NEVER_MS = 2**63 - 1
ALIGNED_BARRIER = CheckpointBarrier(
    1, 1_700_000_000_000, SnapshotType.CHECKPOINT, AlignmentType.ALIGNED, NEVER_MS, None, None
)
UNALIGNED_BARRIER = CheckpointBarrier(
    1, 1_700_000_000_000, SnapshotType.CHECKPOINT, AlignmentType.UNALIGNED, NEVER_MS, None, None
)
EVENT = events.CancelCheckpointMarker(7)


class Reader:
    """A partition of one subpartition, 100 bytes a segment, and a reader that polls by hand."""

    def __init__(self, exclusive_buffers: int = 2) -> None:
        self.partition, self.memory = partition_of(exclusive_buffers=exclusive_buffers)
        self.subpartition: PipelinedSubpartition = self.partition.subpartitions[0]
        self.notifications = 0
        self.subpartition.create_read_view(self.notify_data_available)

    def notify_data_available(self) -> None:
        self.notifications += 1

    def emit(self, *lengths: int) -> None:
        for length in lengths:
            assert self.partition.emit(0, records_of([length])) == length

    def flush(self) -> None:
        self.partition.flush_all()

    def event(self, event: events.Event = EVENT) -> None:
        self.partition.broadcast_event(event)

    def priority_event(self, event: events.Event) -> None:
        self.subpartition.add(
            BufferConsumer.of_event(
                events.encode_pipelined(event), DataType.PRIORITIZED_EVENT_BUFFER
            )
        )

    def poll(self) -> tuple[int, int, int, DataType] | None:
        """Size, sequence number, backlog, next data type."""
        piece = self.subpartition.poll()
        if piece is None:
            return None
        assert len(piece.view) == piece.size_bytes
        told = (
            piece.size_bytes,
            piece.sequence_number,
            piece.backlog_buffers,
            DataType(piece.next_data_type),
        )
        piece.recycle()
        return told

    @property
    def state(self) -> str:
        """N, Q, BL, AV as the golden traces write them."""
        part = self.subpartition
        words = {True: "yes", False: "no"}
        available = f"{words[part.is_data_available]}/{words[part.is_event_available]}"
        return f"{self.notifications} {part.queued_elements} {part.backlog()} {available}"


NONE, DATA, EVENT_TYPE = DataType.NONE, DataType.DATA_BUFFER, DataType.EVENT_BUFFER


@pytest.mark.row("S032")
def test_trace_of_an_unfinished_buffer_and_flushes() -> None:
    reader = Reader()
    reader.emit(10)
    assert reader.state == "0 1 0 no/no"
    assert reader.poll() == (10, 0, 0, NONE)
    assert reader.state == "0 1 0 no/no"
    reader.flush()
    reader.flush()
    assert reader.state == "0 1 0 no/no"
    reader.emit(10)
    assert reader.state == "0 1 0 no/no"
    reader.flush()
    assert reader.state == "1 1 1 yes/no"
    reader.flush()
    assert reader.state == "1 1 1 yes/no"
    assert reader.poll() == (10, 1, 0, NONE)
    assert reader.state == "1 1 0 no/no"
    assert reader.poll() is None
    assert reader.state == "1 1 0 no/no"


@pytest.mark.row("S031")
@pytest.mark.row("S032")
@pytest.mark.row("S033")
def test_trace_of_buffers_that_fill_up() -> None:
    reader = Reader()
    reader.emit(60)
    assert reader.state == "0 1 0 no/no"
    reader.emit(60)
    assert reader.state == "1 2 1 yes/no"
    assert reader.poll() == (100, 0, 0, NONE)
    assert reader.state == "1 1 0 no/no"
    assert reader.poll() == (20, 1, 0, NONE)
    assert reader.state == "1 1 0 no/no"
    reader.emit(80)
    assert reader.state == "1 1 0 no/no"
    assert reader.poll() == (80, 2, 0, NONE)
    assert reader.state == "1 0 0 no/no"
    reader.emit(250)
    assert reader.state == "2 3 2 yes/no"
    reader.flush()
    assert reader.state == "2 3 3 yes/no"
    for returned, state in (
        ((100, 3, 2, DATA), "2 2 2 yes/no"),
        ((100, 4, 1, DATA), "2 1 1 yes/no"),
        ((50, 5, 0, NONE), "2 1 0 no/no"),
        (None, "2 1 0 no/no"),
    ):
        assert reader.poll() == returned
        assert reader.state == state


@pytest.mark.row("S033")
@pytest.mark.row("S034")
def test_trace_of_an_event_behind_data() -> None:
    reader = Reader()
    reader.emit(10)
    reader.event()
    assert reader.state == "1 2 1 yes/no"
    assert reader.poll() == (10, 0, 0, EVENT_TYPE)
    assert reader.state == "1 1 0 yes/yes"
    assert reader.poll() == (12, 1, 0, NONE)
    assert reader.poll() is None


@pytest.mark.row("S033")
def test_trace_of_an_aligned_barrier_that_blocks() -> None:
    reader = Reader()
    reader.emit(10)
    reader.event(ALIGNED_BARRIER)
    reader.emit(100)
    assert reader.state.startswith("1 3 1 ")
    assert reader.poll() == (10, 0, 0, DataType.ALIGNED_CHECKPOINT_BARRIER)
    assert reader.poll() == (38, 1, 0, NONE)
    assert reader.poll() is None
    assert reader.state == "1 1 0 no/no"
    reader.emit(100)
    reader.flush()
    assert reader.state == "1 2 0 no/no"
    reader.subpartition.resume_consumption()
    assert reader.state == "1 2 2 yes/no"
    assert reader.poll() == (100, 2, 1, DATA)
    assert reader.poll() == (100, 3, 0, NONE)
    assert reader.poll() is None


def test_trace_of_an_unaligned_barrier_that_overtakes() -> None:
    reader = Reader()
    reader.emit(100, 30)
    notified = reader.notifications
    reader.priority_event(UNALIGNED_BARRIER)
    assert reader.notifications == notified + 1
    assert reader.state.endswith(" 3 1 yes/yes")
    assert reader.poll() == (38, 0, 1, DATA)
    assert reader.poll() == (100, 1, 0, NONE)
    assert reader.poll() == (30, 2, 0, NONE)
    assert reader.poll() is None


def test_a_priority_event_goes_behind_those_that_are_there() -> None:
    reader = Reader()
    reader.emit(10)
    for number in range(3):
        reader.priority_event(replace(UNALIGNED_BARRIER, checkpoint_id=number))
    numbers = []
    for _ in range(3):
        piece = reader.subpartition.poll()
        barrier = events.decode_event(piece.view)
        assert isinstance(barrier, CheckpointBarrier)
        numbers.append(barrier.checkpoint_id)
        piece.recycle()
    assert numbers == [0, 1, 2]
    assert reader.poll() == (10, 3, 0, NONE)


@pytest.mark.row("S033")
def test_trace_of_the_end() -> None:
    reader = Reader()
    reader.emit(10)
    reader.event(events.EndOfData())
    assert reader.state == "1 2 1 yes/no"
    reader.partition.finish()
    assert reader.state == "2 3 1 yes/no"
    assert reader.poll() == (10, 0, 0, DataType.END_OF_DATA)
    assert reader.poll() == (5, 1, 0, DataType.END_OF_PARTITION)
    assert reader.poll() == (4, 2, 0, NONE)
    assert reader.poll() is None
    assert reader.subpartition.add(BufferConsumer.of_event(b"x", EVENT_TYPE)) == -1
    assert reader.subpartition.queued_elements == 0


def test_trace_without_exclusive_buffers_sends_the_empty_rest() -> None:
    reader = Reader(exclusive_buffers=0)
    reader.emit(10)
    reader.flush()
    assert reader.poll() == (10, 0, 0, NONE)
    assert reader.notifications == 1
    reader.event()
    assert reader.notifications == 2
    assert reader.poll() == (0, 1, 0, EVENT_TYPE)
    assert reader.poll() == (12, 2, 0, NONE)


def test_with_exclusive_buffers_the_empty_rest_is_dropped() -> None:
    reader = Reader()
    reader.emit(10)
    reader.flush()
    assert reader.poll() == (10, 0, 0, NONE)
    reader.event()
    assert reader.state == "2 2 1 yes/no"
    assert reader.poll() == (12, 1, 0, NONE)
    assert reader.state == "2 0 0 no/no"


@pytest.mark.row("S027")
def test_trace_of_a_desired_buffer_size() -> None:
    reader = Reader()
    reader.subpartition.notify_new_buffer_size(40)
    reader.emit(10, 10, 10, 10)
    reader.emit(70)
    reader.emit(130)
    assert reader.state == "1 4 3 yes/no"
    reader.flush()
    sizes = [told[0] for _ in range(4) if (told := reader.poll())]
    assert sizes == [40, 70, 100, 30]
    assert reader.poll() is None


@pytest.mark.row("S031")
def test_only_the_first_finished_buffer_is_announced_until_the_queue_was_drained() -> None:
    reader = Reader()
    told = []
    for _ in range(3):
        reader.emit(100)
        told.append(reader.notifications)
    assert told == [0, 1, 1]
    while reader.poll():
        pass
    reader.emit(100, 100)
    assert reader.notifications == 2


@pytest.mark.row("S034")
def test_the_backlog_counts_data_and_no_events() -> None:
    reader = Reader()
    reader.emit(10)
    reader.event()
    reader.emit(10)
    assert reader.subpartition.backlog() == 1
    reader.event()
    assert reader.subpartition.backlog() == 2
    seen = []
    while reader.poll():
        seen.append(reader.subpartition.backlog())
    assert seen == [1, 1, 0, 0]


@pytest.mark.row("S060")
def test_events_pass_when_the_pool_is_exhausted() -> None:
    partition, memory = partition_of(buffers=2, pool_buffers=2)
    assert partition.emit(0, records_of([100] * 3)) == 200
    partition.broadcast_event(EVENT)
    assert memory.available_buffers == 0
    subpartition = partition.subpartitions[0]
    types = []
    while (piece := subpartition.poll()) is not None:
        types.append(piece.data_type)
        piece.recycle()
    assert types == [DATA, DATA, EVENT_TYPE]
    partition.release()
    assert memory.available_buffers == 2


def test_each_slice_tells_why_it_left() -> None:
    reader = Reader()
    reader.emit(100, 10)
    reader.flush()
    reasons = []

    def poll() -> None:
        piece = reader.subpartition.poll()
        reasons.append(piece.reason)
        piece.recycle()

    poll()
    poll()
    reader.emit(10)
    reader.event()
    poll()
    poll()
    reader.emit(10)
    reader.event(events.EndOfData())
    poll()
    assert reasons == [
        FlushReason.FULL,
        FlushReason.FLUSH,
        FlushReason.EVENT,
        FlushReason.EVENT,
        FlushReason.END,
    ]


@pytest.mark.row("S021")
def test_a_second_reader_is_refused() -> None:
    reader = Reader()
    with pytest.raises(RuntimeError, match="consumed once"):
        reader.subpartition.create_read_view(reader.notify_data_available)


def test_a_released_subpartition_takes_no_reader_and_no_data_and_keeps_no_buffer() -> None:
    reader = Reader()
    reader.emit(100, 50)
    reader.subpartition.release()
    assert reader.state.split()[1:3] == ["0", "0"]
    with pytest.raises(RuntimeError, match="released"):
        reader.subpartition.create_read_view(reader.notify_data_available)
    assert reader.subpartition.add(BufferConsumer.of_event(b"x", DataType.EVENT_BUFFER)) == -1
    reader.partition.release()
    assert reader.memory.available_buffers == reader.memory.total_buffers


def test_resuming_a_subpartition_that_is_not_blocked_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="blocked"):
        Reader().subpartition.resume_consumption()


def test_an_open_buffer_in_front_of_others_is_an_error() -> None:
    reader = Reader()
    reader.emit(10)
    reader.subpartition.add(BufferConsumer.of_event(b"x", DataType.EVENT_BUFFER))
    with pytest.raises(RuntimeError, match="last of its queue"):
        reader.subpartition.poll()


def test_a_priority_event_passes_a_blocked_subpartition_for_readers_without_credit() -> None:
    reader = Reader()
    reader.event(ALIGNED_BARRIER)
    assert reader.poll() == (38, 0, 0, NONE)
    reader.emit(100, 100)
    assert reader.poll() is None
    reader.priority_event(UNALIGNED_BARRIER)
    assert reader.state.endswith("no/yes")
    assert reader.poll() == (38, 1, 0, NONE)
    assert reader.state.endswith("no/no")
    assert reader.poll() is None


def test_sequence_numbers_wrap_as_javas_ints_do() -> None:
    reader = Reader()
    reader.subpartition._sequence_number = 2**31 - 1
    reader.event()
    reader.event()
    numbers = [told[1] for _ in range(2) if (told := reader.poll())]
    assert numbers == [2**31 - 1, -(2**31)]


@given(st.lists(st.one_of(st.integers(1, 250), st.sampled_from(["flush", "poll", "event"]))))
def test_an_announced_reader_that_reads_on_misses_nothing(actions: list[int | str]) -> None:
    """Told once, it polls until nothing is next; then everything finished or flushed has left."""
    reader = Reader()
    read = expected = 0
    is_reading = False
    for action in actions:
        before = reader.notifications
        if isinstance(action, int):
            reader.emit(action)
            expected += action
        elif action == "flush":
            reader.flush()
        elif action == "event":
            reader.event()
            expected += 12
        elif is_reading:
            told = reader.poll()
            is_reading = told is not None and told[3] != NONE
            read += told[0] if told else 0
        is_reading = is_reading or reader.notifications > before
        if not is_reading:
            # What was never announced is at most one buffer, open or full but alone.
            assert not reader.subpartition.is_data_available
            assert expected - read <= 100
    reader.event()
    while told := reader.poll():
        read += told[0]
    assert read == expected + 12


class SubpartitionMachine(RuleBasedStateMachine):
    """A subpartition against a list of bytes and events."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = NetworkBufferPool(1000, 20)
        pool = self.memory.create_buffer_pool(1000, 1000, channels=1)
        self.partition = PipelinedResultPartition(
            partition_of()[0].partition_id, 1, lambda: pool, exclusive_buffers=2
        )
        self.partition.setup()
        self.subpartition = self.partition.subpartitions[0]
        self.notifications = 0
        self.subpartition.create_read_view(self.notify_data_available)
        self.written: deque[bytes | events.Event] = deque()
        self.data = bytearray()
        self.sequence_number = 0
        self.number = 0
        self.held: list[BufferSlice] = []

    def notify_data_available(self) -> None:
        self.notifications += 1

    @rule(length=st.integers(1, 70))
    def emit(self, length: int) -> None:
        batch = records_of([length], self.number)
        self.number += 1
        assert self.partition.emit(0, batch) == length
        last = self.written.pop() if self.written else b""
        if not isinstance(last, bytes):
            self.written.append(last)
            last = b""
        self.written.append(last + bytes(batch.data))

    @rule()
    def flush(self) -> None:
        self.partition.flush(0)

    @rule(event=st.sampled_from([EVENT, ALIGNED_BARRIER]))
    def event(self, event: events.Event) -> None:
        self.partition.broadcast_event(event)
        self.written.append(event)

    @rule()
    def poll(self) -> None:
        piece = self.subpartition.poll()
        if piece is None:
            return
        assert piece.sequence_number == self.sequence_number
        self.sequence_number += 1
        self.held.append(piece)
        if self.written and self.written[0] == b"":
            self.written.popleft()
        head = self.written[0]
        if isinstance(head, bytes):
            assert piece.data_type == DATA
            assert bytes(piece.view) == head[: piece.size_bytes]
            self.written[0] = head[piece.size_bytes :]
        else:
            assert piece.data_type == events.data_type_of(head)
            self.written.popleft()

    @rule()
    def resume(self) -> None:
        if self.subpartition.is_blocked:
            self.subpartition.resume_consumption()

    @rule()
    def recycle(self) -> None:
        while self.held:
            self.held.pop().recycle()

    @invariant()
    def backlog_is_bounded_by_what_is_queued(self) -> None:
        part = self.subpartition
        assert 0 <= part.backlog() <= part.buffers_in_backlog <= part.queued_elements
        if part.is_blocked:
            assert part.backlog() == 0

    def teardown(self) -> None:
        self.partition.finish()
        while True:
            if self.subpartition.is_blocked:
                self.subpartition.resume_consumption()
            if not self.subpartition.queued_elements:
                break
            piece = self.subpartition.poll()
            if piece is not None:
                self.held.append(piece)
        self.recycle()
        self.partition.release()
        assert self.memory.available_buffers == 1000


TestSubpartition = SubpartitionMachine.TestCase
TestSubpartition.settings = settings(max_examples=60, stateful_step_count=40)


TIMEOUTABLE_BARRIER = CheckpointBarrier(
    1, 1_700_000_000_000, SnapshotType.CHECKPOINT, AlignmentType.ALIGNED, 50, None, None
)


@pytest.mark.row("S033")
def test_trace_of_a_barrier_that_times_out_behind_data() -> None:
    reader = Reader()
    reader.emit(100)
    reader.event(TIMEOUTABLE_BARRIER)
    assert reader.notifications == 1
    part = reader.subpartition
    assert reader.partition.holds_barrier(1)
    assert reader.partition.alignment_timeout(1) == 100
    assert not reader.partition.holds_barrier(1)
    assert part.has_priority_events
    assert part.backlog() == 0
    assert reader.poll() == (38, 0, 0, NONE)
    assert not part.is_blocked
    assert reader.poll() == (100, 1, 0, NONE)
    assert reader.poll() is None


def test_a_barrier_that_times_out_carries_no_timeout_any_more() -> None:
    reader = Reader()
    reader.emit(10)
    reader.event(TIMEOUTABLE_BARRIER)
    reader.partition.alignment_timeout(1)
    piece = reader.subpartition.poll()
    assert piece.data_type == DataType.PRIORITIZED_EVENT_BUFFER
    barrier = events.decode_event(piece.view)
    assert isinstance(barrier, CheckpointBarrier)
    assert barrier == replace(
        TIMEOUTABLE_BARRIER, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=NEVER_MS
    )


def test_a_barrier_that_has_left_times_out_no_more() -> None:
    reader = Reader()
    reader.emit(10)
    reader.event(TIMEOUTABLE_BARRIER)
    assert reader.partition.alignment_timeout(2) == 0
    assert reader.poll() == (10, 0, 0, DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER)
    assert reader.poll() == (38, 1, 0, NONE)
    reader.emit(30)
    assert reader.partition.alignment_timeout(1) == 0
    assert reader.subpartition.is_blocked
    assert not reader.subpartition.has_priority_events


def test_a_priority_event_tells_how_much_data_it_has_overtaken() -> None:
    partition, _ = partition_of(2)
    partition.emit(0, records_of([100, 30]))
    partition.emit(1, records_of([60]))
    partition.broadcast_event(EVENT)
    assert partition.broadcast_event(UNALIGNED_BARRIER, is_priority=True) == 190
    assert partition.broadcast_event(ALIGNED_BARRIER) == 0
    for subpartition in partition.subpartitions:
        piece = subpartition.poll()
        assert piece.data_type == DataType.PRIORITIZED_EVENT_BUFFER


def test_a_barrier_may_still_time_out_when_the_partition_is_finished() -> None:
    reader = Reader()
    reader.event(events.EndOfData())
    reader.emit(10)
    reader.event(TIMEOUTABLE_BARRIER)
    reader.partition.finish()
    assert reader.partition.alignment_timeout(1) == 10
    assert reader.poll() == (38, 0, 1, DataType.END_OF_DATA)
