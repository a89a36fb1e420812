"""Checkpoints over a pair: barriers through the whole stack, and what they overtake."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.config import AT_LEAST_ONCE, NetworkConfig
from flinknet.core.buffers import DataType
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.producer import ForwardSelector, RecordWriter
from flinknet.core.wire.checkpoint_barrier import (
    NO_ALIGNMENT_TIMEOUT_MS,
    AlignmentType,
    CheckpointBarrier,
)
from flinknet.core.wire.events import (
    CancelCheckpointMarker,
    EndOfData,
    EndOfOutputChannelStateEvent,
    EndOfPartitionEvent,
    Event,
    WatermarkEvent,
    decode_event,
)
from flinknet.errors import FrameCorruptedError
from flinknet.job.barriers import InputCheckpoints, OutputCheckpoints, barrier_of
from flinknet.job.checkpoint_coordinator import AcknowledgeCheckpoint, Answer, DeclineCheckpoint
from flinknet.options import effective_keys, network_config
from tests.comparisons import compares, compares_in
from tests.pair import Pair, partition_of, records_of

MS = 1_000_000
TIMEOUT_MS = 10

ALIGNED = NetworkConfig(segment_size_bytes=100, max_overdraft_buffers=0)
UNALIGNED = replace(ALIGNED, unaligned_checkpoints=True)
TIMEOUTABLE = replace(UNALIGNED, aligned_checkpoint_timeout_ns=TIMEOUT_MS * MS)
COUNTED = replace(ALIGNED, checkpoint_mode=AT_LEAST_ONCE)
MODES = [ALIGNED, UNALIGNED, TIMEOUTABLE, COUNTED]
NAMES = ["aligned", "unaligned", "timeout", "at least once"]


class Inputs(InputCheckpoints):
    """Keeps what had been read when a checkpoint was taken."""

    def trigger_checkpoint(self, barrier: CheckpointBarrier, *, now_ns: int) -> None:
        if not hasattr(self, "taken"):
            self.taken: dict[int, list[int]] = {}
        assert barrier.checkpoint_id not in self.taken
        self.taken[barrier.checkpoint_id] = list(self.read_bytes)
        super().trigger_checkpoint(barrier, now_ns=now_ns)


class CheckpointedPair(Pair):
    """A partition and a gate whose tasks know of checkpoints; every step is the test's."""

    def __init__(self, network: NetworkConfig, *, channels: int = 2) -> None:
        super().__init__(network, channels=channels)
        self.network = network
        self.drive()
        self.writer = RecordWriter(self.partition, ForwardSelector(), buffer_timeout_ns=-1)
        self.answers: list[Answer] = []
        self.outputs = OutputCheckpoints(
            *("source", self.writer, range(channels), self.answers.append),
            partial(barrier_of, network, "rebalance"),
        )
        self.inputs = Inputs("sink", self.gate, (), network, self.answers.append)
        self.emitted = [0] * channels
        self.cuts: dict[int, list[int]] = {}
        self.checkpoint_id = 0
        self.read_types: list[tuple[int, int]] = []

    def emit(self, channel: int, length: int) -> None:
        if self.writer.is_available:
            self.writer.emit(channel, records_of([length]))
            self.emitted[channel] += length

    def trigger(self) -> None:
        self.checkpoint_id += 1
        barrier = barrier_of(self.network, "rebalance", self.checkpoint_id, self.now_ns // MS)
        self.cuts[self.checkpoint_id] = list(self.emitted)
        self.outputs.write(barrier, now_ns=self.now_ns)

    def tick(self) -> None:
        """The producer has a turn: what waits goes on, barriers time out."""
        if self.writer.is_waiting:
            self.writer.resume()
        if self.outputs.is_pending:
            self.outputs.advance(now_ns=self.now_ns)
        self.partition.flush_all()

    def read(self, channel: int | None = None) -> bool:
        """The consumer has a turn: one element, as the gate gives them."""
        due_ns = self.inputs.next_deadline_ns()
        if due_ns is not None and self.now_ns >= due_ns:
            self.inputs.handle_deadline(now_ns=self.now_ns)
        polled = self.gate.poll()
        if polled is None:
            return False
        source, buffer, number = polled
        self.read_types.append((source.index, buffer.data_type))
        if buffer.data_type in IS_BUFFER:
            self.inputs.read_bytes[source.index_in_input] += buffer.size_bytes
            buffer.recycle()
        else:
            event, data_type = decode_event(buffer.payload), buffer.data_type
            buffer.recycle()
            self.inputs.handle(event, data_type, source, number, now_ns=self.now_ns)
        return True

    def settle(self) -> None:
        """Everybody has turns, and time passes, until nothing happens any more."""
        for _ in range(400):
            self.tick()
            self.drive()
            while self.read():
                pass
            self.drive()
            self.now_ns += MS

    def acknowledged(self, task: str) -> dict[int, AcknowledgeCheckpoint]:
        found = {}
        for each in self.answers:
            if isinstance(each, AcknowledgeCheckpoint) and each.task == task:
                assert each.checkpoint_id not in found, "acknowledged twice"
                found[each.checkpoint_id] = each
        return found

    def declined(self) -> set[int]:
        return {e.checkpoint_id for e in self.answers if isinstance(e, DeclineCheckpoint)}


def test_recovery_and_aligned_watermarks_let_all_channels_go_on_when_they_have_come_on_each() -> (
    None
):
    pair = CheckpointedPair(ALIGNED)
    for event, is_recovered in (
        (WatermarkEvent("progress", 7, is_aligned=True), False),
        (EndOfOutputChannelStateEvent(), True),
    ):
        pair.partition.broadcast_event(event)
        pair.drive()
        assert pair.read()
        pair.drive()
        assert [each.is_blocked for each in pair.partition.subpartitions] == [True, True]
        assert pair.read()
        pair.drive()
        assert [each.is_blocked for each in pair.partition.subpartitions] == [False, False]
        assert pair.inputs.is_recovered == is_recovered


@pytest.mark.parametrize("end_first", [False, True])
@pytest.mark.parametrize(
    "event", [WatermarkEvent("progress", 7, is_aligned=True), EndOfOutputChannelStateEvent()]
)
def test_a_channel_that_has_ended_is_not_waited_for(event: Event, end_first: bool) -> None:
    pair = CheckpointedPair(ALIGNED, channels=3)
    data_type = DataType.ALIGNED_WATERMARK_EVENT
    if isinstance(event, EndOfOutputChannelStateEvent):
        data_type = DataType.RECOVERY_COMPLETION
    steps: list[tuple[Event, int, int]] = [
        (event, data_type, 0),
        (EndOfPartitionEvent(), DataType.EVENT_BUFFER, 1),
    ]
    if end_first:
        steps.reverse()
    steps.append((event, data_type, 2))
    pair.partition.broadcast_event(event)
    pair.drive()
    pair.inputs.handle(EndOfData(), DataType.END_OF_DATA, pair.gate.channels[1], 1, now_ns=0)
    resumed = []
    for told, told_type, index in steps:
        pair.inputs.handle(told, told_type, pair.gate.channels[index], 1, now_ns=0)
        pair.drive()
        resumed.append([not each.is_blocked for each in pair.partition.subpartitions])
    assert resumed == [[False] * 3, [False] * 3, [True, False, True]]
    assert pair.inputs.is_recovered == isinstance(event, EndOfOutputChannelStateEvent)


def test_the_end_of_the_last_channel_that_is_waited_for_lets_the_others_go_on() -> None:
    pair = CheckpointedPair(ALIGNED, channels=3)
    event = WatermarkEvent("progress", 7, is_aligned=True)
    pair.partition.broadcast_event(event)
    pair.drive()
    for index in (0, 2):
        channel = pair.gate.channels[index]
        pair.inputs.handle(event, DataType.ALIGNED_WATERMARK_EVENT, channel, 1, now_ns=0)
    pair.drive()
    assert all(each.is_blocked for each in pair.partition.subpartitions)
    for end in (EndOfData(), EndOfPartitionEvent()):
        pair.inputs.handle(end, DataType.EVENT_BUFFER, pair.gate.channels[1], 1, now_ns=0)
    pair.drive()
    assert [each.is_blocked for each in pair.partition.subpartitions] == [False, True, False]


def test_a_channel_that_ends_before_its_data_or_ends_it_twice_fails_the_task() -> None:
    pair = CheckpointedPair(ALIGNED, channels=2)
    channel, end = pair.gate.channels[1], DataType.END_OF_DATA
    with pytest.raises(FrameCorruptedError, match="channel 1 ended before its data did"):
        pair.inputs.handle(EndOfPartitionEvent(), 10, channel, 1, now_ns=0)
    pair.inputs.handle(EndOfData(), end, channel, 1, now_ns=0)
    with pytest.raises(FrameCorruptedError, match="channel 1 has ended its data twice"):
        pair.inputs.handle(EndOfData(), end, channel, 2, now_ns=0)
    assert pair.inputs.ended_data_channels == 1


def sent_barrier(network: NetworkConfig, partitioner: str) -> tuple[str, int]:
    barrier = barrier_of(network, partitioner, 1, 5)
    assert (barrier.checkpoint_id, barrier.timestamp_ms) == (1, 5)
    return barrier.alignment.name, barrier.aligned_timeout_ms


def test_a_barrier_says_how_it_is_aligned() -> None:
    never = NO_ALIGNMENT_TIMEOUT_MS
    assert sent_barrier(ALIGNED, "rebalance") == ("ALIGNED", never)
    assert sent_barrier(COUNTED, "rebalance") == ("AT_LEAST_ONCE", never)
    assert sent_barrier(UNALIGNED, "hash") == ("UNALIGNED", never)
    assert sent_barrier(TIMEOUTABLE, "hash") == ("ALIGNED", TIMEOUT_MS)
    for partitioner in ("forward", "rescale", "broadcast"):
        assert sent_barrier(UNALIGNED, partitioner) == ("FORCED_ALIGNED", never)
        assert sent_barrier(TIMEOUTABLE, partitioner) == ("FORCED_ALIGNED", never)


def test_checkpoints_at_least_once_are_aligned_whatever_the_settings_say() -> None:
    mode, unaligned = "execution.checkpointing.mode", "execution.checkpointing.unaligned.enabled"
    settings = {mode: "at_least_once", unaligned: "true"}
    network, (warning,) = network_config(settings)
    assert not network.unaligned_checkpoints
    assert warning.text == f"{unaligned}: ignored by Flink, as {mode} is AT_LEAST_ONCE"
    keys = {each.key: each for each in effective_keys(settings, dict.fromkeys(settings, "-D"))}
    assert (keys[unaligned].value, keys[unaligned].how) == ("false", f"{mode} is AT_LEAST_ONCE")


@pytest.mark.row("S111")
def test_an_aligned_barrier_overtakes_no_data_of_its_channel() -> None:
    pair = CheckpointedPair(ALIGNED)
    for _ in range(6):
        pair.emit(0, 90)
        pair.emit(1, 30)
    pair.trigger()
    pair.emit(0, 50)
    pair.settle()
    assert pair.inputs.taken[1] == pair.cuts[1] == [540, 180]
    types = [data_type for index, data_type in pair.read_types if index == 0]
    barrier = types.index(DataType.ALIGNED_CHECKPOINT_BARRIER)
    assert types[:barrier] == [DataType.DATA_BUFFER] * barrier
    assert types[barrier + 1 :] == [DataType.DATA_BUFFER]
    assert pair.acknowledged("sink")[1].overtaken_bytes == 0
    assert pair.acknowledged("source")[1].overtaken_bytes == 0


def test_a_channel_whose_barrier_has_come_brings_nothing_until_all_have() -> None:
    pair = CheckpointedPair(ALIGNED)
    pair.trigger()
    pair.emit(0, 100)
    pair.emit(0, 100)
    pair.partition.flush_all()
    pair.drive()
    assert pair.read()
    pair.drive()
    assert [each.is_blocked for each in pair.partition.subpartitions] == [True, True]
    assert pair.inputs.read_bytes == [0, 0]
    assert pair.read()
    pair.drive()
    assert [each.is_blocked for each in pair.partition.subpartitions] == [False, False]
    pair.settle()
    assert pair.inputs.read_bytes == [200, 0]


def test_an_unaligned_barrier_overtakes_what_waits_on_both_sides() -> None:
    pair = CheckpointedPair(UNALIGNED)
    for _ in range(6):
        pair.emit(0, 100)
    pair.drive()
    at_consumer = sum(buffer.size_bytes for buffer, _ in pair.channels[0].received)
    assert 0 < at_consumer < 600
    pair.trigger()
    pair.drive()
    assert pair.read()
    assert pair.read_types == [(0, DataType.PRIORITIZED_EVENT_BUFFER)]
    assert pair.inputs.taken[1] == [0, 0]
    pair.settle()
    assert pair.acknowledged("source")[1].overtaken_bytes == 600 - at_consumer
    sink = pair.acknowledged("sink")[1]
    assert sink.overtaken_bytes == at_consumer
    assert sink.is_unaligned
    assert pair.inputs.read_bytes == [600, 0]


def test_what_is_read_before_its_channels_barrier_belongs_to_the_checkpoint() -> None:
    pair = CheckpointedPair(UNALIGNED)
    for _ in range(3):
        pair.emit(1, 100)
    pair.drive()
    pair.trigger()
    pair.send()
    pair.deliver(to_consumer=47 + 38)  # the barrier of channel 0, not yet that of channel 1
    assert pair.read()
    assert pair.inputs.taken[1] == [0, 0]
    assert pair.read()
    assert pair.inputs.read_bytes == [0, 100]
    pair.settle()
    overtaken_bytes = pair.acknowledged("source")[1].overtaken_bytes
    assert pair.acknowledged("sink")[1].overtaken_bytes + overtaken_bytes == 300
    assert pair.acknowledged("sink")[1].processed_bytes == 100


def test_when_its_time_is_up_a_barrier_overtakes_what_waits_on_both_sides() -> None:
    pair = CheckpointedPair(TIMEOUTABLE)
    for _ in range(4):
        pair.emit(0, 100)
    pair.trigger()
    pair.partition.flush_all()
    pair.drive()  # channel 0: data and the barrier at the consumer, announced
    assert pair.read()
    assert pair.read()
    assert {each for _, each in pair.read_types} == {DataType.PRIORITIZED_EVENT_BUFFER}
    assert pair.read()  # the first data of channel 0, or the barrier of channel 1
    assert 1 not in pair.acknowledged("sink")
    assert pair.inputs.next_deadline_ns() == TIMEOUT_MS * MS
    pair.now_ns = TIMEOUT_MS * MS
    assert pair.read()
    while pair.read() and 1 not in pair.acknowledged("sink"):
        pass
    sink = pair.acknowledged("sink")[1]
    assert sink.is_unaligned
    assert sink.overtaken_bytes == sum(pair.cuts[1]) - sum(pair.inputs.taken[1]) > 0
    pair.settle()
    assert pair.inputs.read_bytes == [400, 0]
    assert not any(each.is_blocked for each in pair.partition.subpartitions)


def test_at_the_producer_a_barrier_times_out_too() -> None:
    pair = CheckpointedPair(TIMEOUTABLE)
    for _ in range(20):
        pair.emit(0, 100)
        pair.drive()
    pair.trigger()
    pair.tick()
    pair.drive()
    assert pair.outputs.next_deadline_ns() == TIMEOUT_MS * MS
    assert pair.acknowledged("source") == {}
    pair.now_ns = TIMEOUT_MS * MS
    pair.tick()
    overtaken_bytes = pair.acknowledged("source")[1].overtaken_bytes
    assert overtaken_bytes > 0
    pair.drive()
    assert pair.read()
    pair.settle()
    sink = pair.acknowledged("sink")[1]
    total = sum(pair.inputs.taken[1]) + sink.overtaken_bytes + overtaken_bytes
    assert total == sum(pair.cuts[1])


def fill(pair: CheckpointedPair) -> None:
    """A record on channel 0 that finds no buffers for its rest, since nobody reads."""
    pair.emit(0, 5000)
    pair.drive()
    assert pair.writer.is_inside_record


def test_a_barrier_waits_for_the_end_of_a_record_that_found_no_buffer() -> None:
    pair = CheckpointedPair(UNALIGNED)
    fill(pair)
    pair.trigger()
    assert pair.outputs.is_pending
    assert pair.acknowledged("source") == {}
    pair.settle()
    assert pair.acknowledged("source")[1].written_ns.keys() == {0, 1}
    assert pair.inputs.taken[1] <= pair.cuts[1]


def test_a_barrier_that_waits_when_its_checkpoint_is_aborted_becomes_a_cancellation() -> None:
    pair = CheckpointedPair(ALIGNED)
    fill(pair)
    pair.trigger()
    pair.outputs.abort(1)
    pair.settle()
    assert pair.declined() == {1}
    assert pair.acknowledged("sink") == {}
    pair.trigger()
    pair.settle()
    assert pair.acknowledged("sink").keys() == {2}


def test_a_barrier_of_an_aborted_checkpoint_times_out_no_more() -> None:
    pair = CheckpointedPair(TIMEOUTABLE)
    for _ in range(4):
        pair.emit(0, 30)
    pair.trigger()
    pair.outputs.abort(1)
    pair.now_ns += 2 * TIMEOUT_MS * MS
    assert pair.outputs.next_deadline_ns() is None
    pair.outputs.advance(now_ns=pair.now_ns)
    assert not pair.outputs.is_pending
    assert not pair.partition.subpartitions[0].has_priority_events
    assert pair.acknowledged("source") == {}


def test_an_end_of_data_behind_a_barrier_is_acknowledged_after_it() -> None:
    pair = CheckpointedPair(ALIGNED)
    pair.trigger()
    pair.partition.broadcast_event(EndOfData())
    pair.settle()
    assert pair.inputs.ended_data_channels == 2
    assert 1 in pair.acknowledged("sink")
    pair.trigger()  # after the data, before the end of the partition
    pair.partition.finish()
    pair.settle()
    assert 2 in pair.acknowledged("sink")
    assert pair.gate.is_finished


verbs = st.lists(
    st.tuples(
        st.sampled_from(["emit", "emit", "emit", "read", "read", "send", "deliver", "tick"]),
        st.integers(0, 1),
        st.sampled_from([7, 30, 100, 170, 250]),
    ),
    max_size=60,
)


class Forwarding(CheckpointedPair):
    """A pair whose consumer writes to a partition of its own."""

    def __init__(self, network: NetworkConfig, partitioner: str) -> None:
        super().__init__(network)
        self.output, _ = partition_of(1)
        self.written = OutputCheckpoints(
            "relay output",
            RecordWriter(self.output, ForwardSelector(), buffer_timeout_ns=-1),
            range(1),
            self.answers.append,
            partial(barrier_of, network, partitioner),
        )
        self.forwarding = InputCheckpoints(
            "relay input", self.gate, [self.written], network, self.answers.append, lambda: None
        )

    def forwarded(self) -> list[tuple[object, int]]:
        """Events that the output has, with their data types."""
        found = []
        while (piece := self.output.subpartitions[0].poll()) is not None:
            found.append((decode_event(piece.view), piece.data_type))
        return found


@pytest.mark.parametrize(
    ("partitioner", "alignment", "data_type"),
    [
        ("rebalance", AlignmentType.UNALIGNED, DataType.PRIORITIZED_EVENT_BUFFER),
        ("broadcast", AlignmentType.FORCED_ALIGNED, DataType.ALIGNED_CHECKPOINT_BARRIER),
    ],
)
def test_a_barrier_that_came_unaligned_goes_on_so_where_the_edge_allows_it(
    partitioner: str, alignment: AlignmentType, data_type: DataType
) -> None:
    pair = Forwarding(TIMEOUTABLE, partitioner)
    barrier = barrier_of(TIMEOUTABLE, "rebalance", 4, 0).as_unaligned()
    pair.forwarding.trigger_checkpoint(barrier, now_ns=0)
    ((forwarded, forwarded_as),) = pair.forwarded()
    assert isinstance(forwarded, CheckpointBarrier)
    assert (forwarded.checkpoint_id, forwarded.alignment) == (4, alignment)
    assert forwarded_as == data_type


def test_a_checkpoint_that_an_input_gives_up_is_cancelled_downstream() -> None:
    pair = Forwarding(replace(ALIGNED, checkpoints_after_tasks_finish=False), "rebalance")
    first, second = pair.channels
    pair.forwarding.handle(barrier_of(ALIGNED, "rebalance", 4, 0), 4, first, 1, now_ns=0)
    assert pair.forwarded() == []
    for end in (EndOfData(), EndOfPartitionEvent()):
        pair.forwarding.handle(end, 10, second, 1, now_ns=0)
    assert [event for event, _ in pair.forwarded()] == [CancelCheckpointMarker(4)]
    assert pair.declined() == {4}


def test_what_was_aborted_before_its_barrier_came_is_cancelled_downstream() -> None:
    pair = Forwarding(ALIGNED, "rebalance")
    pair.written.abort(4)
    for checkpoint_id in (4, 5):
        barrier = barrier_of(ALIGNED, "rebalance", checkpoint_id, 0)
        pair.forwarding.trigger_checkpoint(barrier, now_ns=0)
    pair.written.abort(5)  # its barrier has been written
    cancellation, forwarded = (event for event, _ in pair.forwarded())
    assert cancellation == CancelCheckpointMarker(4)
    assert isinstance(forwarded, CheckpointBarrier)
    assert forwarded.checkpoint_id == 5
    assert pair.acknowledged("relay output").keys() == {5}


@pytest.mark.parametrize("network", MODES, ids=NAMES)
@compares_in(0.5)
@given(rounds=st.lists(verbs, min_size=1, max_size=4), wait_ms=st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_what_is_read_and_what_is_overtaken_is_what_was_emitted_before_the_barrier(
    network: NetworkConfig, rounds: list[list[tuple[str, int, int]]], wait_ms: int
) -> None:
    pair = CheckpointedPair(network)
    for plan in rounds:
        for verb, channel, length in plan:
            if verb == "emit":
                pair.emit(channel, length)
            elif verb == "read":
                pair.read()
            elif verb == "send":
                pair.send()
            elif verb == "deliver":
                pair.deliver(to_consumer=length, to_producer=length)
            else:
                pair.now_ns += wait_ms * MS
                pair.tick()
        pair.tick()
        if not pair.outputs.is_pending and not pair.writer.is_inside_record:
            pair.trigger()
    pair.settle()
    assert pair.inputs.read_bytes == pair.emitted
    assert not any(each.is_blocked for each in pair.partition.subpartitions)
    assert not pair.outputs.is_pending
    sources, sinks = pair.acknowledged("source"), pair.acknowledged("sink")
    assert sources.keys() == pair.cuts.keys()
    compares(bool(sinks))
    assert sinks.keys() | pair.declined() >= pair.cuts.keys()
    for checkpoint_id, sink in sinks.items():
        cut, taken = pair.cuts[checkpoint_id], pair.inputs.taken[checkpoint_id]
        overtaken_bytes = sink.overtaken_bytes + sources[checkpoint_id].overtaken_bytes
        if network == COUNTED:
            assert all(read >= before for read, before in zip(taken, cut, strict=True))
            assert overtaken_bytes == 0
        else:
            assert all(read <= before for read, before in zip(taken, cut, strict=True))
            assert sum(taken) + overtaken_bytes == sum(cut)
        if network == ALIGNED:
            assert taken == cut
        assert sink.read_ns.keys() == {0, 1}
