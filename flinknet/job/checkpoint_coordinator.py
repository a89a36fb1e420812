"""CheckpointCoordinator: triggers checkpoints and records their outcome (Flink:
CheckpointCoordinator).

Sans-IO: the JobManager, the launcher and the simulator each drive one. A checkpoint stores no
state here; what is measured is how its barriers travel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Set
from dataclasses import KW_ONLY, dataclass, field

from flinknet.histogram import LogLinearHistogram
from flinknet.results import CheckpointSummary
from flinknet.units import NS_PER_MS

SPANS_MAX = 1_000
"""Completed checkpoints whose instants are kept, at most."""


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Command to every task: begin a checkpoint; sources write its barrier, with ms since 1970."""

    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Command to every task: the checkpoint timed out or a task declined it. A task that has not
    begun it never will (Flink: notifyCheckpointAborted).
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AcknowledgeCheckpoint:
    """Answer of a task: its part of the checkpoint is done.

    Attributes:
        task: name, unique in the run.
        written_ns, read_ns: when it wrote and read the barrier, by channel of the run.
        start_delay_ns, alignment_ns: see core.consumer.checkpoint_barriers.Alignment; None if the
            task has no inputs or they had ended.
        overtaken_bytes: data that the barrier overtook at the task's outputs and inputs; a
            checkpoint that stores state would store these bytes too.
        processed_bytes: data that the task read between the first and the last barrier.
        is_unaligned: whether the task proceeded before all barriers had arrived.
    """

    task: str
    checkpoint_id: int
    written_ns: Mapping[int, int] = field(default_factory=dict)
    read_ns: Mapping[int, int] = field(default_factory=dict)
    start_delay_ns: int | None = None
    alignment_ns: int | None = None
    overtaken_bytes: int = 0
    processed_bytes: int = 0
    is_unaligned: bool = False


@dataclass(frozen=True, slots=True)
class DeclineCheckpoint:
    """Answer of a task: it cannot take part, so the whole checkpoint is aborted."""

    task: str
    checkpoint_id: int
    reason: str


Command = TriggerCheckpoint | AbortCheckpoint
"""Message of the coordinator to tasks."""

Answer = AcknowledgeCheckpoint | DeclineCheckpoint
"""Message of a task to the coordinator."""


@dataclass(slots=True)
class _Pending:
    """A checkpoint that was triggered and is not yet complete or aborted."""

    checkpoint_id: int
    began_ns: int
    acknowledged: dict[str, AcknowledgeCheckpoint] = field(default_factory=dict)


@dataclass(eq=False)
class CheckpointCoordinator:
    """Triggers a checkpoint every `interval_ns`, one at a time: a trigger that falls due while one
    is pending waits until that is over.

    Checkpoints that begin in [measured_from_ns, measured_to_ns) count for the summary.

    Attributes:
        tasks: names of all tasks; a checkpoint is complete when all have acknowledged it.
        timeout_ns: age at which a pending checkpoint is aborted.
        end_ns: no checkpoint begins from this instant on; None for no end.
        epoch_ns: instant of the run's clock that is timestamp 0.
        spans_ns: when the first SPANS_MAX completed ones were triggered and completed.
        counts: how many were triggered, aborted and unaligned, and bytes of completed ones.
        times: of checkpoints, start delays, alignments and travel of barriers, in this order.
    """

    tasks: Set[str]
    _: KW_ONLY
    interval_ns: int
    timeout_ns: int
    start_ns: int
    end_ns: int | None = None
    measured_from_ns: int = 0
    measured_to_ns: int | None = None
    epoch_ns: int = 0
    completed: int = 0
    spans_ns: list[tuple[int, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    overtaken_bytes_max: int = 0
    times: tuple[LogLinearHistogram, ...] = field(
        default_factory=lambda: tuple(LogLinearHistogram() for _ in range(4))
    )
    _next_ns: int | None = None
    _last_id: int = 0
    _pending: _Pending | None = None
    _finished: Collection[str] = ()

    def __post_init__(self) -> None:
        self._next_ns = self.start_ns + self.interval_ns

    @property
    def pending_id(self) -> int | None:
        return None if self._pending is None else self._pending.checkpoint_id

    def next_deadline_ns(self) -> int | None:
        """When to call `advance` next, None for never."""
        if self._pending is not None:
            return self._pending.began_ns + self.timeout_ns
        return self._next_ns

    def advance(self, *, now_ns: int, finished: Collection[str] = ()) -> list[Command]:
        """The commands to send to every task now. Finished tasks no longer answer."""
        commands: list[Command] = []
        self._finished = finished
        if self.end_ns is not None and now_ns >= self.end_ns:
            self.stop()
        if self._pending is not None:
            self._complete(self._pending, now_ns)
        pending = self._pending
        if pending is not None and now_ns >= pending.began_ns + self.timeout_ns:
            commands.append(self._abort(pending))
        if self._pending is None and self._next_ns is not None and now_ns >= self._next_ns:
            missed = (now_ns - self._next_ns) // self.interval_ns
            self._next_ns += (missed + 1) * self.interval_ns
            self._last_id += 1
            self._pending = _Pending(self._last_id, now_ns)
            self.counts["triggered"] += self._is_measured(now_ns)
            timestamp_ms = (now_ns - self.epoch_ns) // NS_PER_MS
            commands.append(TriggerCheckpoint(self._last_id, timestamp_ms))
        return commands

    def stop(self) -> None:
        """Trigger no more checkpoints; the pending one may still complete."""
        self._next_ns = None

    def abort_pending(self) -> list[Command]:
        """Abort the pending checkpoint, because tasks restart. Returns: commands to every task."""
        return [] if self._pending is None else [self._abort(self._pending)]

    def receive(self, answer: Answer, *, now_ns: int) -> list[Command]:
        """Handle an answer, unless the checkpoint is over. Returns: commands for all tasks."""
        pending = self._pending
        if pending is None or answer.checkpoint_id != pending.checkpoint_id:
            return []
        if isinstance(answer, DeclineCheckpoint):
            return [self._abort(pending)]
        pending.acknowledged[answer.task] = answer
        self._complete(pending, now_ns)
        return []

    def summary(self) -> CheckpointSummary:
        """Statistics of the checkpoints so far."""
        completed, counts = self.completed, self.counts
        duration, start_delay, alignment, travel = (each.summary() for each in self.times)
        return CheckpointSummary(
            triggered=counts["triggered"],
            completed=completed,
            aborted=counts["aborted"],
            unaligned=counts["unaligned"],
            duration_ns=duration,
            start_delay_ns=start_delay,
            alignment_ns=alignment,
            travel_ns=travel,
            overtaken_bytes_mean=counts["overtaken bytes"] / completed if completed else None,
            overtaken_bytes_max=self.overtaken_bytes_max if completed else None,
            processed_bytes_mean=counts["processed bytes"] / completed if completed else None,
        )

    def _is_measured(self, at_ns: int) -> bool:
        to_ns = self.measured_to_ns
        return self.measured_from_ns <= at_ns and (to_ns is None or at_ns < to_ns)

    def _complete(self, pending: _Pending, now_ns: int) -> None:
        missing = self.tasks - pending.acknowledged.keys()
        if missing.issubset(self._finished):
            self._pending = None
            if self._is_measured(pending.began_ns):
                self._count(pending, now_ns)

    def _abort(self, pending: _Pending) -> AbortCheckpoint:
        self._pending = None
        self.counts["aborted"] += self._is_measured(pending.began_ns)
        return AbortCheckpoint(pending.checkpoint_id)

    def _count(self, pending: _Pending, now_ns: int) -> None:
        answers = list(pending.acknowledged.values())
        self.completed += 1
        self.counts["unaligned"] += any(each.is_unaligned for each in answers)
        duration, start_delay, alignment, travel = self.times
        duration.add([now_ns - pending.began_ns])
        if self.completed <= SPANS_MAX:
            self.spans_ns.append((pending.began_ns, now_ns))
        written_ns = {k: v for each in answers for k, v in each.written_ns.items()}
        travel.add(
            [
                read_ns - written_ns[channel]
                for each in answers
                for channel, read_ns in each.read_ns.items()
                if channel in written_ns
            ]
        )
        start_delay.add([x.start_delay_ns for x in answers if x.start_delay_ns is not None])
        alignment.add([x.alignment_ns for x in answers if x.alignment_ns is not None])
        overtaken_bytes = sum(each.overtaken_bytes for each in answers)
        self.overtaken_bytes_max = max(self.overtaken_bytes_max, overtaken_bytes)
        self.counts["overtaken bytes"] += overtaken_bytes
        self.counts["processed bytes"] += sum(each.processed_bytes for each in answers)
