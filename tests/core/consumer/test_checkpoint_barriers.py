"""Barrier handlers: who waits, when the checkpoint is taken, what is given up."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.consumer import checkpoint_barriers
from flinknet.core.wire.checkpoint_barrier import (
    NO_ALIGNMENT_TIMEOUT_MS,
    AlignmentType,
    CheckpointBarrier,
)

MS = 1_000_000
TIMEOUT_MS = 10


def aligned(checkpoint_id: int, timestamp_ms: int = 0) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, timestamp_ms)


def timeoutable(checkpoint_id: int, timestamp_ms: int = 0) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, timestamp_ms, aligned_timeout_ms=TIMEOUT_MS)


def unaligned(checkpoint_id: int, timestamp_ms: int = 0) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, timestamp_ms, alignment=AlignmentType.UNALIGNED)


def at_least_once(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0, alignment=AlignmentType.AT_LEAST_ONCE)


class Decisions:
    """Task of a handler: keeps what it decides, in words."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.alignments: list[checkpoint_barriers.Alignment] = []

    def taken(self) -> list[str]:
        made, self.made = self.made, []
        return made

    def resume_consumption(self, channel: int) -> None:
        self.made.append(f"resume {channel}")

    def convert_to_priority_event(self, channel: int, sequence_number: int) -> None:
        self.made.append(f"convert {channel} {sequence_number}")

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        assert barrier.is_unaligned
        self.made.append(f"started {barrier.checkpoint_id}")

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        self.made.append(f"stopped {checkpoint_id}")

    def trigger_checkpoint(self, barrier: CheckpointBarrier, *, now_ns: int) -> None:
        how = "unaligned " if barrier.is_unaligned else ""
        self.made.append(f"trigger {how}{barrier.checkpoint_id}")

    def abort_checkpoint(
        self, checkpoint_id: int, reason: checkpoint_barriers.AbortReason, *, now_ns: int
    ) -> None:
        self.made.append(f"abort {checkpoint_id} {reason.name}")

    def complete_alignment(self, alignment: checkpoint_barriers.Alignment) -> None:
        self.alignments.append(alignment)
        self.made.append(f"complete {alignment.checkpoint_id}")


def handler_of(
    channels: int = 3, *, can_be_unaligned: bool = False, counts_ended_channels: bool = True
) -> tuple[checkpoint_barriers.SingleCheckpointBarrierHandler, Decisions]:
    decisions = Decisions()
    handler = checkpoint_barriers.SingleCheckpointBarrierHandler(
        channels,
        decisions,
        can_be_unaligned=can_be_unaligned,
        counts_ended_channels=counts_ended_channels,
    )
    return handler, decisions


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_aligned_each_channel_waits_for_the_last_barrier(order: tuple[int, ...]) -> None:
    handler, decisions = handler_of()
    for count, channel in enumerate(order[:-1], 1):
        handler.receive_barrier(aligned(1), channel, now_ns=count * MS)
        assert decisions.taken() == []
    handler.receive_barrier(aligned(1), order[-1], now_ns=7 * MS)
    resumed = [f"resume {channel}" for channel in order]
    assert decisions.taken() == ["trigger 1", *resumed, "complete 1"]
    assert decisions.alignments == [checkpoint_barriers.Alignment(1, 1 * MS, 1 * MS, 7 * MS, False)]
    assert decisions.alignments[0].duration_ns == 6 * MS


def test_the_start_delay_counts_from_the_timestamp_on_the_clock_of_the_run() -> None:
    decisions = Decisions()
    handler = checkpoint_barriers.SingleCheckpointBarrierHandler(1, decisions, epoch_ns=-7 * MS)
    handler.receive_barrier(aligned(1, 10), 0, now_ns=5 * MS)
    assert decisions.alignments[0].start_delay_ns == 2 * MS
    handler.receive_barrier(aligned(2, 13), 0, now_ns=5 * MS)
    assert decisions.alignments[1].start_delay_ns == 0  # never negative, whatever the clocks say


def test_a_later_checkpoint_takes_the_place_of_a_pending_one() -> None:
    handler, decisions = handler_of(2)
    handler.receive_barrier(aligned(1), 0, now_ns=0)
    handler.receive_barrier(aligned(2), 1, now_ns=1)
    assert decisions.taken() == ["resume 0", "abort 1 SUBSUMED"]
    handler.receive_barrier(aligned(1), 1, now_ns=2)  # too late: its channel goes on at once
    assert decisions.taken() == ["resume 1"]
    handler.receive_barrier(aligned(2), 0, now_ns=3)
    assert decisions.taken() == ["trigger 2", "resume 1", "resume 0", "complete 2"]


def test_a_barrier_of_a_checkpoint_that_is_over_lets_its_channel_go_on() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    for channel in (0, 1):
        handler.receive_barrier(aligned(3), channel, now_ns=0)
    decisions.taken()
    handler.receive_barrier(aligned(3), 0, now_ns=1)
    handler.receive_barrier(aligned(2), 1, now_ns=1)
    assert decisions.taken() == ["resume 0", "resume 1"]
    handler.receive_barrier(unaligned(3), 0, now_ns=1)  # its producer never stopped
    assert decisions.taken() == []


@pytest.mark.parametrize("can_be_unaligned", [False, True])
def test_a_cancellation_ends_the_alignment(can_be_unaligned: bool) -> None:
    handler, decisions = handler_of(2, can_be_unaligned=can_be_unaligned)
    handler.receive_barrier(aligned(1), 0, now_ns=0)
    handler.receive_cancellation(1, 1, now_ns=1)
    assert decisions.taken() == ["resume 0", "abort 1 CANCELLED"]
    handler.receive_cancellation(1, 0, now_ns=2)
    assert decisions.taken() == []
    handler.receive_barrier(aligned(2), 0, now_ns=3)
    handler.receive_barrier(aligned(2), 1, now_ns=3)
    assert "trigger 2" in decisions.taken()


def test_a_cancellation_before_any_barrier_makes_its_barriers_late_ones() -> None:
    handler, decisions = handler_of(2)
    handler.receive_cancellation(4, 0, now_ns=0)
    assert decisions.taken() == ["abort 4 CANCELLED"]
    handler.receive_barrier(aligned(4), 1, now_ns=0)
    assert decisions.taken() == ["resume 1"]
    handler.receive_cancellation(3, 1, now_ns=0)
    assert decisions.taken() == []


def test_a_cancellation_of_a_later_checkpoint_ends_the_pending_one_too() -> None:
    handler, decisions = handler_of(2)
    handler.receive_barrier(aligned(1), 0, now_ns=0)
    handler.receive_cancellation(2, 1, now_ns=0)
    assert decisions.taken() == ["resume 0", "abort 1 SUBSUMED", "abort 2 CANCELLED"]
    assert not handler.is_pending


def test_an_input_that_ends_during_alignment_counts_as_aligned() -> None:
    handler, decisions = handler_of(3)
    handler.receive_barrier(aligned(1), 0, now_ns=0)
    handler.receive_end_of_partition(2, now_ns=1)
    assert decisions.taken() == []
    handler.receive_barrier(aligned(1), 1, now_ns=2)
    assert decisions.taken() == ["trigger 1", "resume 0", "resume 1", "complete 1"]
    handler.receive_barrier(aligned(2), 0, now_ns=3)
    handler.receive_end_of_partition(1, now_ns=4)  # the last one that was waited for
    assert decisions.taken() == ["trigger 2", "resume 0", "complete 2"]
    handler.receive_barrier(aligned(3), 0, now_ns=5)
    assert decisions.taken() == ["trigger 3", "resume 0", "complete 3"]


def test_an_input_that_ends_aborts_where_ended_tasks_take_no_part() -> None:
    handler, decisions = handler_of(3, counts_ended_channels=False)
    handler.receive_barrier(aligned(1), 0, now_ns=0)
    handler.receive_end_of_partition(2, now_ns=1)
    assert decisions.taken() == ["resume 0", "abort 1 INPUT_ENDED"]
    handler.receive_barrier(aligned(1), 1, now_ns=1)
    assert decisions.taken() == ["resume 1"]


def test_unaligned_the_first_barrier_starts_the_checkpoint() -> None:
    handler, decisions = handler_of(3, can_be_unaligned=True)
    handler.receive_barrier(unaligned(1), 1, now_ns=2 * MS)
    assert decisions.taken() == ["started 1", "trigger unaligned 1"]
    handler.receive_barrier(unaligned(1), 0, now_ns=3 * MS)
    assert decisions.taken() == []
    handler.receive_barrier(unaligned(1), 2, now_ns=5 * MS)
    assert decisions.taken() == ["stopped 1", "complete 1"]
    assert decisions.alignments == [checkpoint_barriers.Alignment(1, 2 * MS, 2 * MS, 5 * MS, True)]


def test_an_aligned_barrier_among_unaligned_ones_is_let_go_on_at_the_end() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_barrier(unaligned(1), 0, now_ns=0)
    decisions.taken()
    handler.receive_barrier(timeoutable(1), 1, now_ns=1)
    assert decisions.taken() == ["stopped 1", "resume 1", "complete 1"]


def test_an_unaligned_barrier_among_aligned_ones_ends_the_waiting() -> None:
    handler, decisions = handler_of(3, can_be_unaligned=True)
    handler.receive_barrier(timeoutable(1), 0, now_ns=0)
    handler.receive_announcement(timeoutable(1), 17, 2, now_ns=0)
    assert decisions.taken() == []
    handler.receive_barrier(unaligned(1), 1, now_ns=1)
    assert decisions.taken() == ["convert 2 17", "started 1", "trigger unaligned 1"]
    handler.receive_barrier(unaligned(1), 2, now_ns=2)
    # the producer of channel 2 had sent an aligned barrier and waits, too
    assert decisions.taken() == ["stopped 1", "resume 0", "resume 2", "complete 1"]


def test_an_alignment_that_is_quick_enough_stays_aligned() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_announcement(timeoutable(1), 3, 0, now_ns=MS)
    assert handler.next_deadline_ns() == TIMEOUT_MS * MS
    handler.receive_barrier(timeoutable(1), 0, now_ns=2 * MS)
    handler.handle_deadline(now_ns=TIMEOUT_MS * MS - 1)
    handler.receive_barrier(timeoutable(1), 1, now_ns=TIMEOUT_MS * MS)
    assert decisions.taken() == ["trigger 1", "resume 0", "resume 1", "complete 1"]
    assert handler.next_deadline_ns() is None
    assert not decisions.alignments[0].is_unaligned


def test_when_the_timeout_comes_announced_barriers_overtake_their_data() -> None:
    handler, decisions = handler_of(3, can_be_unaligned=True)
    handler.receive_barrier(timeoutable(1), 0, now_ns=MS)
    handler.receive_announcement(timeoutable(1), 5, 1, now_ns=MS)
    handler.handle_deadline(now_ns=TIMEOUT_MS * MS)
    assert decisions.taken() == ["convert 1 5", "started 1", "trigger unaligned 1"]
    handler.receive_announcement(timeoutable(1), 9, 2, now_ns=11 * MS)
    assert decisions.taken() == ["convert 2 9"]
    for channel in (1, 2):
        handler.receive_barrier(unaligned(1), channel, now_ns=12 * MS)
    assert decisions.taken() == ["stopped 1", "resume 0", "resume 1", "resume 2", "complete 1"]
    assert decisions.alignments[0].is_unaligned


def test_the_timeout_may_come_before_any_barrier_was_read() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_announcement(timeoutable(1), 5, 1, now_ns=MS)
    handler.handle_deadline(now_ns=TIMEOUT_MS * MS)
    assert decisions.taken() == ["convert 1 5"]
    handler.receive_barrier(unaligned(1), 1, now_ns=11 * MS)
    assert decisions.taken() == ["started 1", "trigger unaligned 1"]
    handler.receive_barrier(timeoutable(1), 0, now_ns=12 * MS)
    assert decisions.taken() == ["stopped 1", "resume 1", "resume 0", "complete 1"]


def test_a_barrier_that_comes_too_late_times_out_by_itself() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_barrier(timeoutable(1, 0), 0, now_ns=TIMEOUT_MS * MS)
    assert decisions.taken() == []  # not later than the timeout allows
    assert handler.next_deadline_ns() == TIMEOUT_MS * MS
    late, made = handler_of(2, can_be_unaligned=True)
    late.receive_barrier(timeoutable(1, 0), 0, now_ns=TIMEOUT_MS * MS + 1)
    assert made.taken() == ["started 1", "trigger unaligned 1"]


def test_the_last_barrier_ends_the_alignment_however_late_it_is() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_barrier(timeoutable(1), 0, now_ns=MS)
    handler.receive_barrier(timeoutable(1), 1, now_ns=TIMEOUT_MS * MS + 1)
    assert decisions.taken() == ["trigger 1", "resume 0", "resume 1", "complete 1"]


def test_an_input_that_ends_may_be_the_first_that_an_unaligned_checkpoint_hears_of() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_announcement(timeoutable(1), 5, 1, now_ns=MS)
    handler.handle_deadline(now_ns=TIMEOUT_MS * MS)
    handler.receive_end_of_partition(0, now_ns=11 * MS)
    assert decisions.taken() == ["convert 1 5", "started 1", "trigger unaligned 1"]
    handler.receive_barrier(unaligned(1), 1, now_ns=12 * MS)
    assert decisions.taken() == ["stopped 1", "resume 1", "complete 1"]


def test_an_unaligned_checkpoint_that_is_given_up_stops_and_lets_all_go_on() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_barrier(timeoutable(1), 0, now_ns=MS)
    handler.handle_deadline(now_ns=TIMEOUT_MS * MS)
    decisions.taken()
    handler.receive_cancellation(1, 1, now_ns=11 * MS)
    assert decisions.taken() == ["stopped 1", "resume 0", "abort 1 CANCELLED"]


def test_a_savepoint_keeps_its_alignment_whatever_it_takes() -> None:
    handler, decisions = handler_of(2, can_be_unaligned=True)
    handler.receive_barrier(aligned(1), 0, now_ns=0)
    assert handler.next_deadline_ns() is None
    assert aligned(1).aligned_timeout_ms == NO_ALIGNMENT_TIMEOUT_MS
    handler.receive_barrier(aligned(1), 1, now_ns=10**12)
    assert decisions.taken() == ["trigger 1", "resume 0", "resume 1", "complete 1"]


def tracker_of(
    channels: int = 2, *, counts_ended_channels: bool = True
) -> tuple[checkpoint_barriers.CheckpointBarrierTracker, Decisions]:
    decisions = Decisions()
    tracker = checkpoint_barriers.CheckpointBarrierTracker(
        channels, decisions, counts_ended_channels=counts_ended_channels
    )
    return tracker, decisions


def test_at_least_once_counts_and_nobody_waits() -> None:
    tracker, decisions = tracker_of()
    tracker.receive_barrier(at_least_once(1), 0, now_ns=3)
    tracker.receive_barrier(at_least_once(2), 0, now_ns=4)
    assert decisions.taken() == []
    tracker.receive_barrier(at_least_once(1), 1, now_ns=8)
    assert decisions.taken() == ["trigger 1", "complete 1"]
    assert decisions.alignments == [checkpoint_barriers.Alignment(1, 3, 3, 8, False)]
    tracker.receive_barrier(at_least_once(2), 1, now_ns=9)
    assert decisions.taken() == ["trigger 2", "complete 2"]
    assert not tracker.is_pending


def test_at_least_once_the_start_delay_counts_from_the_timestamp_on_the_clock_of_the_run() -> None:
    decisions = Decisions()
    tracker = checkpoint_barriers.CheckpointBarrierTracker(1, decisions, epoch_ns=-7 * MS)
    tracker.receive_barrier(replace(at_least_once(1), timestamp_ms=10), 0, now_ns=5 * MS)
    assert decisions.alignments == [checkpoint_barriers.Alignment(1, 2 * MS, 5 * MS, 5 * MS, False)]


def test_at_least_once_a_complete_checkpoint_makes_the_older_ones_forgotten() -> None:
    tracker, decisions = tracker_of()
    tracker.receive_barrier(at_least_once(1), 0, now_ns=0)
    for channel in (0, 1):
        tracker.receive_barrier(at_least_once(2), channel, now_ns=0)
    assert decisions.taken() == ["trigger 2", "complete 2"]
    tracker.receive_barrier(at_least_once(1), 1, now_ns=0)
    assert decisions.taken() == []
    assert not tracker.is_pending


def test_at_least_once_fifty_checkpoints_are_tracked() -> None:
    tracker, decisions = tracker_of()
    for checkpoint_id in range(checkpoint_barriers.CHECKPOINTS_TRACKED_MAX + 1):
        tracker.receive_barrier(at_least_once(checkpoint_id), 0, now_ns=0)
    tracker.receive_barrier(at_least_once(0), 1, now_ns=0)
    assert decisions.taken() == []
    tracker.receive_barrier(at_least_once(1), 1, now_ns=0)
    assert decisions.taken() == ["trigger 1", "complete 1"]


def test_at_least_once_cancellations_are_told_once() -> None:
    tracker, decisions = tracker_of()
    tracker.receive_barrier(at_least_once(1), 0, now_ns=0)
    tracker.receive_barrier(at_least_once(2), 0, now_ns=0)
    tracker.receive_cancellation(2, 1, now_ns=0)
    assert decisions.taken() == ["abort 1 SUBSUMED", "abort 2 CANCELLED"]
    assert not tracker.is_pending
    tracker.receive_cancellation(5, 0, now_ns=0)
    tracker.receive_cancellation(5, 1, now_ns=0)
    tracker.receive_cancellation(4, 1, now_ns=0)
    assert decisions.taken() == ["abort 5 CANCELLED"]
    tracker.receive_barrier(at_least_once(3), 0, now_ns=0)
    assert decisions.taken() == []


@pytest.mark.parametrize("counts_ended_channels", [True, False])
def test_at_least_once_an_input_ends(counts_ended_channels: bool) -> None:
    tracker, decisions = tracker_of(counts_ended_channels=counts_ended_channels)
    tracker.receive_barrier(at_least_once(1), 0, now_ns=0)
    tracker.receive_end_of_partition(1, now_ns=1)
    if counts_ended_channels:
        assert decisions.taken() == ["trigger 1", "complete 1"]
    else:
        assert decisions.taken() == ["abort 1 INPUT_ENDED"]
    tracker.receive_barrier(at_least_once(2), 0, now_ns=2)
    assert decisions.taken() == ["trigger 2", "complete 2"]


class Streams(Decisions):
    """A small model of the channels: what is still to send, what has arrived, what was read.

    Data is numbered: what lies before the barrier of checkpoint n is below 1000 n. A producer stops
    behind an aligned barrier; an unaligned one is put in front of what has arrived.
    """

    def __init__(self, streams: list[list[int]], barrier: CheckpointBarrier) -> None:
        super().__init__()
        self.to_send = [deque(stream) for stream in streams]
        self.arrived: list[deque[CheckpointBarrier | int]] = [deque() for _ in streams]
        self.is_stopped = [False] * len(streams)
        self.has_ended = [False] * len(streams)
        self.read: list[list[int]] = [[] for _ in streams]
        self.now_ns = 0
        self.barrier = barrier
        self.handler = checkpoint_barriers.SingleCheckpointBarrierHandler(
            len(streams), self, can_be_unaligned=barrier != aligned(0)
        )

    def arrive(self, channel: int) -> None:
        """The next element of a producer that has not stopped; below 0 it is a barrier."""
        if self.is_stopped[channel] or not self.to_send[channel]:
            return
        element = self.to_send[channel].popleft()
        if element > 0:
            self.arrived[channel].append(element)
            return
        barrier = replace(self.barrier, checkpoint_id=-element)
        if barrier.is_unaligned:
            self.overtake(channel, barrier)
            return
        self.arrived[channel].append(barrier)
        self.is_stopped[channel] = True
        if barrier.is_timeoutable:
            self.handler.receive_announcement(barrier, -element, channel, now_ns=self.now_ns)

    def take(self, channel: int) -> None:
        """The task reads the next element of a channel, or its end."""
        queue = self.arrived[channel]
        if queue:
            element = queue.popleft()
            if isinstance(element, int):
                self.read[channel].append(element)
            else:
                self.handler.receive_barrier(element, channel, now_ns=self.now_ns)
        elif not self.to_send[channel] and not self.has_ended[channel]:
            assert not self.is_stopped[channel] or self.handler.is_pending
            if not self.is_stopped[channel]:
                self.has_ended[channel] = True
                self.handler.receive_end_of_partition(channel, now_ns=self.now_ns)

    def wait(self) -> None:
        self.now_ns += 3 * MS
        self.handler.handle_deadline(now_ns=self.now_ns)

    def resume_consumption(self, channel: int) -> None:
        assert self.is_stopped[channel], "nobody waits there"
        assert not self.has_ended[channel], "nobody listens there"
        self.is_stopped[channel] = False

    def convert_to_priority_event(self, channel: int, sequence_number: int) -> None:
        queue = self.arrived[channel]
        (barrier,) = (
            each for each in queue if isinstance(each, CheckpointBarrier) and each.is_timeoutable
        )
        assert barrier.checkpoint_id == sequence_number
        queue.remove(barrier)
        self.overtake(channel, barrier.as_unaligned())

    def overtake(self, channel: int, barrier: CheckpointBarrier) -> None:
        """In front of the data, behind barriers that have overtaken before."""
        queue = self.arrived[channel]
        ahead = sum(isinstance(each, CheckpointBarrier) and each.is_unaligned for each in queue)
        queue.insert(ahead, barrier)

    def trigger_checkpoint(self, barrier: CheckpointBarrier, *, now_ns: int) -> None:
        super().trigger_checkpoint(barrier, now_ns=now_ns)
        cut = 1000 * barrier.checkpoint_id
        for read, queue, to_send in zip(self.read, self.arrived, self.to_send, strict=True):
            assert all(number < cut for number in read), "read beyond the barrier"
            if not barrier.is_unaligned:
                ahead = [each for each in (*queue, *to_send) if isinstance(each, int)]
                assert not [n for n in ahead if 0 < n < cut], "data before the barrier was left"


CHECKPOINTS = 4

steps = st.lists(st.tuples(st.sampled_from(["arrive", "take", "wait"]), st.integers(0, 2)))


@pytest.mark.parametrize("barrier", [aligned(0), timeoutable(0), unaligned(0)], ids=str)
@given(sizes=st.lists(st.integers(0, 4), min_size=12, max_size=12), plan=steps)
def test_a_checkpoint_cuts_every_channel_at_its_barrier(
    barrier: CheckpointBarrier, sizes: list[int], plan: list[tuple[str, int]]
) -> None:
    streams: list[list[int]] = []
    for channel in range(3):
        stream: list[int] = []
        for number in range(CHECKPOINTS):
            size = sizes[channel * CHECKPOINTS + number]
            stream += [1000 * number + 1 + index for index in range(size)]
            stream.append(-number - 1)
        streams.append(stream)
    model = Streams(streams, barrier)
    for verb, channel in plan:
        if verb == "wait":
            model.wait()
        else:
            getattr(model, verb)(channel)
    for _ in range(200):
        for channel in range(3):
            model.arrive(channel)
            model.take(channel)
        model.wait()
    assert model.read == [[n for n in stream if n > 0] for stream in streams]
    assert not any(model.is_stopped)
    assert not model.handler.is_pending
    assert model.handler.next_deadline_ns() is None
    done = [each.checkpoint_id for each in model.alignments]
    aborted = [int(each.split()[1]) for each in model.made if each.startswith("abort")]
    assert sorted(done + aborted) == list(range(1, CHECKPOINTS + 1))
    if barrier == aligned(0):
        assert done == list(range(1, CHECKPOINTS + 1))
