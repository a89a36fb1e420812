"""Barrier handling of a task with several channels: decides when its checkpoint is taken.

Flink: SingleCheckpointBarrierHandler with the states of its aligned and alternating strategies, as
one state machine. A barrier divides a channel's records into those before and after the checkpoint:

- aligned: a channel whose barrier has arrived waits for all other barriers;
- unaligned: the first barrier starts the checkpoint at once; the data it has overtaken, and what
  arrives on other channels before their barriers, belongs to the checkpoint;
- aligned with a timeout: aligned until the timeout, unaligned from then on.

Channels are identified by their index in the gate. No channel is blocked here: a producer stops by
itself after an aligned barrier, and continues on request.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.units import NS_PER_MS


class AbortReason(Enum):
    """Why a checkpoint is aborted (Flink: CheckpointFailureReason)."""

    SUBSUMED = "a later checkpoint has begun"
    CANCELLED = "an upstream task has cancelled it"
    INPUT_ENDED = "an input has come to its end"


@dataclass(frozen=True, slots=True)
class Alignment:
    """Times of a checkpoint's barriers, in ns of the run's clock.

    Attributes:
        start_delay_ns: from the barrier's timestamp, in whole milliseconds, to the first barrier
            (Flink: checkpointStartDelayNanos).
        started_ns, ended_ns: arrival of the first and last barrier (Flink:
            checkpointAlignmentTime).
        is_unaligned: whether the checkpoint was taken before the last one.
    """

    checkpoint_id: int
    start_delay_ns: int
    started_ns: int
    ended_ns: int
    is_unaligned: bool

    @property
    def duration_ns(self) -> int:
        return self.ended_ns - self.started_ns


class CheckpointableTask(Protocol):
    """The task and its gate, as barrier handlers use them (Flink: CheckpointableTask and
    CheckpointableInput): `checkpointed_input.CheckpointedInput`.
    """

    def trigger_checkpoint(self, barrier: CheckpointBarrier, *, now_ns: int) -> None:
        """Take the checkpoint now, and forward this barrier downstream."""

    def abort_checkpoint(self, checkpoint_id: int, reason: AbortReason, *, now_ns: int) -> None:
        """Abort the checkpoint, and notify downstream."""

    def complete_alignment(self, alignment: Alignment) -> None:
        """Complete a triggered checkpoint: all barriers have arrived."""

    def resume_consumption(self, channel: int) -> None:
        """Let the channel's producer continue after its barrier."""

    def convert_to_priority_event(self, channel: int, sequence_number: int) -> None:
        """Let an announced barrier overtake the data before it."""

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Assign the data before each channel's barrier to the checkpoint, from now on."""

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        """Assign no more data: all barriers have arrived, or the checkpoint was aborted."""


class SingleCheckpointBarrierHandler:
    """Handles one checkpoint at a time; a later one subsumes it.

    Invariants: `_aligned` are the channels whose barrier has arrived or will never arrive;
        `_blocked` those whose producer waits for ResumeConsumption.

    Args:
        can_be_unaligned: whether unaligned checkpoints are enabled (Flink: alternating).
        epoch_ns: instant of the run's clock that is timestamp 0.
        counts_ended_channels: whether an ended channel counts as aligned; otherwise its end aborts
            the checkpoint (execution.checkpointing.checkpoints-after-tasks-finish).
    """

    def __init__(
        self,
        channels: int,
        task: CheckpointableTask,
        *,
        can_be_unaligned: bool = False,
        epoch_ns: int = 0,
        counts_ended_channels: bool = True,
    ) -> None:
        self._task = task
        self._can_be_unaligned = can_be_unaligned
        self._epoch_ns = epoch_ns
        self._counts_ended_channels = counts_ended_channels
        self._open_channels = channels
        self._current_id = -1
        self._last_done_id = -1  # completed or aborted
        self._pending: CheckpointBarrier | None = None
        self._target_channels = 0
        self._aligned: set[int] = set()
        self._blocked: list[int] = []
        self._announced: dict[int, int] = {}
        self._is_unaligned = False
        self._is_triggered = False
        self._deadline_ns: int | None = None
        self._started_ns = 0
        self._start_delay_ns = 0

    @property
    def is_pending(self) -> bool:
        """Whether some, but not all, barriers of a checkpoint have arrived."""
        return self._current_id != self._last_done_id

    def receive_barrier(self, barrier: CheckpointBarrier, channel: int, *, now_ns: int) -> None:
        """Handle a barrier. One of an earlier checkpoint only unblocks its channel."""
        if not self._is_current(barrier, now_ns):
            if not barrier.is_unaligned:
                self._task.resume_consumption(channel)
            return
        self._mark_aligned(channel, barrier, now_ns)
        self._follow_barrier(barrier, channel, now_ns)
        self._finish_if_complete(now_ns)

    def receive_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: int, *, now_ns: int
    ) -> None:
        """Handle the announcement of a barrier that arrived behind data and may time out."""
        if not self._can_be_unaligned or not self._is_current(barrier, now_ns):
            return
        if self._is_unaligned:
            self._prioritize(channel, sequence_number)
        else:
            self._announced[channel] = sequence_number

    def receive_cancellation(self, checkpoint_id: int, channel: int, *, now_ns: int) -> None:
        """Handle a CancelCheckpointMarker.

        Differs from Flink in that the pending checkpoint is also aborted when a later one is
        canceled.
        """
        is_begun = checkpoint_id == self._current_id and bool(self._aligned)
        if checkpoint_id > self._current_id or is_begun:
            if self.is_pending and checkpoint_id > self._current_id:
                self._abort(self._current_id, AbortReason.SUBSUMED, now_ns)
            self._abort(checkpoint_id, AbortReason.CANCELLED, now_ns)

    def receive_end_of_partition(self, channel: int, *, now_ns: int) -> None:
        self._open_channels -= 1
        if channel in self._blocked:
            self._blocked.remove(channel)
        self._announced.pop(channel, None)
        if not self.is_pending:
            return
        if not self._counts_ended_channels:
            self._abort(self._current_id, AbortReason.INPUT_ENDED, now_ns)
        elif channel not in self._aligned:
            assert self._pending is not None
            self._mark_aligned(channel, self._pending, now_ns)
            if self._is_unaligned and not self._is_triggered:
                self._start_unaligned(self._pending, now_ns)
            elif not self._is_unaligned and self._is_complete:
                self._trigger(self._pending, now_ns)
            self._finish_if_complete(now_ns)

    def next_deadline_ns(self) -> int | None:
        return self._deadline_ns

    def handle_deadline(self, *, now_ns: int) -> None:
        """Continue unaligned if the alignment has timed out."""
        if self._deadline_ns is not None and now_ns >= self._deadline_ns:
            assert self._pending is not None
            self._time_out(self._pending, now_ns)

    def _is_current(self, barrier: CheckpointBarrier, now_ns: int) -> bool:
        """Whether the barrier belongs to the pending checkpoint, which it may begin."""
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id > self._current_id:
            if self.is_pending:
                self._abort(self._current_id, AbortReason.SUBSUMED, now_ns)
            self._begin(barrier, now_ns)
        return checkpoint_id == self._current_id and self.is_pending

    def _begin(self, barrier: CheckpointBarrier, now_ns: int) -> None:
        self._current_id = barrier.checkpoint_id
        self._pending = barrier
        self._target_channels = self._open_channels
        if self._can_be_unaligned and barrier.is_timeoutable:
            self._deadline_ns = max(now_ns, self._timeout_ns(barrier))

    def _mark_aligned(self, channel: int, barrier: CheckpointBarrier, now_ns: int) -> None:
        self._aligned.add(channel)
        if len(self._aligned) == 1:
            self._started_ns = now_ns
            self._start_delay_ns = max(0, now_ns - self._instant_ns(barrier))

    def _follow_barrier(self, barrier: CheckpointBarrier, channel: int, now_ns: int) -> None:
        self._announced.pop(channel, None)
        if not barrier.is_unaligned:
            self._blocked.append(channel)
        if not self._is_unaligned:
            # a barrier may end the alignment although others are missing
            is_timed_out = barrier.is_timeoutable and now_ns > self._timeout_ns(barrier)
            is_too_late = barrier.is_unaligned or (is_timed_out and not self._is_complete)
            if not self._can_be_unaligned or not is_too_late:
                if self._is_complete:
                    self._trigger(barrier, now_ns)
                return
            self._time_out(barrier, now_ns)
        if not self._is_triggered:
            self._start_unaligned(barrier, now_ns)

    def _time_out(self, barrier: CheckpointBarrier, now_ns: int) -> None:
        """Continue unaligned: barriers that have arrived overtake the data before them."""
        self._deadline_ns = None
        self._is_unaligned = True
        announced, self._announced = self._announced, {}
        for channel, sequence_number in announced.items():
            self._prioritize(channel, sequence_number)
        if self._aligned:
            self._start_unaligned(barrier, now_ns)

    def _prioritize(self, channel: int, sequence_number: int) -> None:
        # The producer sent it as an aligned barrier, and waits as after any other.
        self._blocked.append(channel)
        self._task.convert_to_priority_event(channel, sequence_number)

    def _start_unaligned(self, barrier: CheckpointBarrier, now_ns: int) -> None:
        barrier = barrier.as_unaligned()
        self._task.checkpoint_started(barrier)
        self._trigger(barrier, now_ns)

    def _trigger(self, barrier: CheckpointBarrier, now_ns: int) -> None:
        self._is_triggered = True
        self._task.trigger_checkpoint(barrier, now_ns=now_ns)

    @property
    def _is_complete(self) -> bool:
        return len(self._aligned) == self._target_channels

    def _finish_if_complete(self, now_ns: int) -> None:
        if not self._is_complete:
            return
        alignment = Alignment(
            self._current_id, self._start_delay_ns, self._started_ns, now_ns, self._is_unaligned
        )
        self._reset(self._current_id)
        self._task.complete_alignment(alignment)

    def _abort(self, checkpoint_id: int, reason: AbortReason, now_ns: int) -> None:
        self._current_id = max(self._current_id, checkpoint_id)
        self._reset(checkpoint_id)
        self._task.abort_checkpoint(checkpoint_id, reason, now_ns=now_ns)

    def _reset(self, done_id: int) -> None:
        """End the checkpoint: unblock every channel."""
        if self._is_unaligned and self._is_triggered:
            self._task.checkpoint_stopped(done_id)
        self._last_done_id = done_id
        self._pending = None
        self._aligned.clear()
        self._announced.clear()
        self._is_unaligned = self._is_triggered = False
        self._deadline_ns = None
        blocked, self._blocked = self._blocked, []
        for channel in blocked:
            self._task.resume_consumption(channel)

    def _instant_ns(self, barrier: CheckpointBarrier) -> int:
        return self._epoch_ns + barrier.timestamp_ms * NS_PER_MS

    def _timeout_ns(self, barrier: CheckpointBarrier) -> int:
        return self._instant_ns(barrier) + barrier.aligned_timeout_ms * NS_PER_MS


CHECKPOINTS_TRACKED_MAX = 50
"""Most pending checkpoints to track; the oldest is dropped for a new one."""


@dataclass(slots=True, eq=False)
class _BarrierCount:
    """Barriers of one checkpoint so far; `barrier` is None if it was canceled before the first."""

    checkpoint_id: int
    barrier: CheckpointBarrier | None
    target: int
    started_ns: int
    aligned: set[int] = field(default_factory=set)
    is_aborted: bool = False


class CheckpointBarrierTracker:
    """Triggers a checkpoint once its barrier has arrived on every open channel, and drops older
    ones. For the arguments see SingleCheckpointBarrierHandler.
    """

    def __init__(
        self,
        channels: int,
        task: CheckpointableTask,
        *,
        epoch_ns: int = 0,
        counts_ended_channels: bool = True,
    ) -> None:
        self._task = task
        self._epoch_ns = epoch_ns
        self._counts_ended_channels = counts_ended_channels
        self._open_channels = channels
        self._latest_id = -1
        self._pending: deque[_BarrierCount] = deque()

    @property
    def is_pending(self) -> bool:
        return any(not count.is_aborted for count in self._pending)

    def receive_barrier(self, barrier: CheckpointBarrier, channel: int, *, now_ns: int) -> None:
        """Count a barrier; ignored if its checkpoint is older than the tracked ones."""
        checkpoint_id = barrier.checkpoint_id
        count = self._find(checkpoint_id)
        if count is None:
            if checkpoint_id <= self._latest_id:
                return
            self._latest_id = checkpoint_id
            count = _BarrierCount(checkpoint_id, barrier, self._open_channels, now_ns)
            self._pending.append(count)
            if len(self._pending) > CHECKPOINTS_TRACKED_MAX:
                self._pending.popleft()
        count.aligned.add(channel)
        self._complete(count, now_ns)

    def receive_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: int, *, now_ns: int
    ) -> None:
        """Do nothing: only barriers that may time out are announced; this mode sends none."""

    def receive_cancellation(self, checkpoint_id: int, channel: int, *, now_ns: int) -> None:
        """Abort a checkpoint and all older ones, after a CancelCheckpointMarker."""
        while self._pending and self._pending[0].checkpoint_id < checkpoint_id:
            self._abort(self._pending.popleft(), AbortReason.SUBSUMED, now_ns)
        count = self._find(checkpoint_id)
        if count is None:
            if checkpoint_id <= self._latest_id:
                return
            self._latest_id = checkpoint_id
            count = _BarrierCount(checkpoint_id, None, self._open_channels, now_ns)
            self._pending.appendleft(count)
        self._abort(count, AbortReason.CANCELLED, now_ns)
        count.aligned.add(channel)
        self._complete(count, now_ns)

    def receive_end_of_partition(self, channel: int, *, now_ns: int) -> None:
        self._open_channels -= 1
        for count in list(self._pending):
            if self._counts_ended_channels:
                count.aligned.add(channel)
                self._complete(count, now_ns)
            else:
                self._abort(count, AbortReason.INPUT_ENDED, now_ns)
                self._pending.remove(count)

    def next_deadline_ns(self) -> int | None:
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Do nothing: nothing is ever due."""

    def _find(self, checkpoint_id: int) -> _BarrierCount | None:
        return next((c for c in self._pending if c.checkpoint_id == checkpoint_id), None)

    def _complete(self, count: _BarrierCount, now_ns: int) -> None:
        """Trigger the checkpoint if all barriers have arrived; drop it and older ones."""
        if len(count.aligned) < count.target or count not in self._pending:
            return
        while self._pending.popleft() is not count:
            pass
        if count.is_aborted:
            return
        assert count.barrier is not None
        self._task.trigger_checkpoint(count.barrier, now_ns=now_ns)
        instant_ns = self._epoch_ns + count.barrier.timestamp_ms * NS_PER_MS
        self._task.complete_alignment(
            Alignment(
                count.checkpoint_id,
                max(0, count.started_ns - instant_ns),
                count.started_ns,
                now_ns,
                is_unaligned=False,
            )
        )

    def _abort(self, count: _BarrierCount, reason: AbortReason, now_ns: int) -> None:
        if not count.is_aborted:
            count.is_aborted = True
            self._task.abort_checkpoint(count.checkpoint_id, reason, now_ns=now_ns)
