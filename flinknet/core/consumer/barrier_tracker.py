"""CheckpointBarrierTracker: counts barriers without blocking channels.

Records after a barrier may be read before the checkpoint is taken, and again after a failure: at
least once.
"""

from __future__ import annotations

from collections import deque

from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.units import NS_PER_MS

from .checkpoint_barriers import (
    AbortReason,
    Alignment,
    CheckpointableTask,
)

CHECKPOINTS_TRACKED_MAX = 50
"""Most pending checkpoints to track; the oldest is dropped for a new one."""


class _BarrierCount:
    """Barriers of one checkpoint so far; `barrier` is None if it was canceled before the first."""

    __slots__ = ("aligned", "barrier", "checkpoint_id", "is_aborted", "started_ns", "target")

    def __init__(
        self, checkpoint_id: int, barrier: CheckpointBarrier | None, target: int, now_ns: int
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.barrier = barrier
        self.target = target
        self.started_ns = now_ns
        self.aligned: set[int] = set()
        self.is_aborted = False


class CheckpointBarrierTracker:
    """Triggers a checkpoint once its barrier has arrived on every open channel, and drops older
    ones.

    Args:
        channels: number of channels of the gate.
        epoch_ns: instant of the run's clock that is timestamp 0.
        counts_ended_channels: see SingleCheckpointBarrierHandler.
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
        """Whether some, but not all, barriers of a checkpoint have arrived."""
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
        """Do nothing: only barriers that may time out are announced, which this mode
        never sends.
        """

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
        """Remove a channel that has ended and sends no more barriers."""
        self._open_channels -= 1
        for count in list(self._pending):
            if self._counts_ended_channels:
                count.aligned.add(channel)
                self._complete(count, now_ns)
            else:
                self._abort(count, AbortReason.INPUT_ENDED, now_ns)
                self._pending.remove(count)

    def next_deadline_ns(self) -> int | None:
        """None: nothing times out."""
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
