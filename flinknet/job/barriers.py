"""Checkpoint barriers of a task: sources write them, readers align them, all acknowledge.

No state is stored: a checkpoint here is its barriers and the data they overtake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from flinknet.config import AT_LEAST_ONCE, NetworkConfig
from flinknet.core.consumer import InputChannel
from flinknet.core.consumer.checkpoint_barriers import (
    AbortReason,
    Alignment,
    CheckpointableTask,
    CheckpointBarrierTracker,
    SingleCheckpointBarrierHandler,
)
from flinknet.core.consumer.checkpointed_input import (
    CheckpointBarrierHandler,
    CheckpointedInput,
    Gate,
)
from flinknet.core.producer import RecordWriter
from flinknet.core.wire.checkpoint_barrier import (
    NO_ALIGNMENT_TIMEOUT_MS,
    AlignmentType,
    CheckpointBarrier,
)
from flinknet.core.wire.events import CancelCheckpointMarker, Event
from flinknet.units import NS_PER_MS

from .checkpoint_coordinator import AcknowledgeCheckpoint, Answer, DeclineCheckpoint

CheckpointResponder = Callable[[Answer], None]
"""Sends a task's answers to the coordinator (Flink: CheckpointResponder)."""


def ignore(_answer: Answer) -> None:
    """Drop the answer: the responder of a task without checkpoints."""


def barrier_of(
    network: NetworkConfig, partitioner: str, checkpoint_id: int, timestamp_ms: int
) -> CheckpointBarrier:
    """The barrier that a source writes to an edge with this partitioner."""
    name, timeout_ms = network.alignment(partitioner)
    return CheckpointBarrier(
        checkpoint_id,
        timestamp_ms,
        alignment=AlignmentType[name],
        aligned_timeout_ms=timeout_ms or NO_ALIGNMENT_TIMEOUT_MS,
    )


@dataclass(eq=False)
class OutputCheckpoints:
    """Writes the barriers of one output (Flink: the output side of
    SubtaskCheckpointCoordinatorImpl).

    A barrier waits while a record is partly written, as the task thread does in Flink. A barrier
    that may time out is watched until it has left: while it `is_pending`, call `advance` in every
    step.

    Attributes:
        channels: the partition's channels, as indices in the run.
        barrier_of: creates the barrier of a checkpoint from its id and timestamp in ms, aligned as
            the edge demands.
        epoch_ns: instant of the run's clock that is timestamp 0.
    """

    task: str
    writer: RecordWriter
    channels: Sequence[int]
    respond: CheckpointResponder
    barrier_of: Callable[[int, int], CheckpointBarrier]
    epoch_ns: int = 0
    is_pending: bool = False
    _waiting: list[CheckpointBarrier | CancelCheckpointMarker] = field(default_factory=list)
    _watched: CheckpointBarrier | None = None
    _written_id: int = -1
    _aborted: set[int] = field(default_factory=set)
    _written_ns: int = 0
    _overtaken_bytes: int = 0

    def write(self, event: CheckpointBarrier | CancelCheckpointMarker, *, now_ns: int) -> None:
        """Write a barrier or cancellation to every channel, now or after the current record."""
        self._waiting.append(event)
        self.advance(now_ns=now_ns)

    def abort(self, checkpoint_id: int) -> None:
        """Abort a checkpoint: cancel an unwritten barrier; a written one will not time out."""
        if checkpoint_id > self._written_id:
            self._aborted.add(checkpoint_id)
        if self._watched is not None and self._watched.checkpoint_id == checkpoint_id:
            self._watched = None

    def advance(self, *, now_ns: int) -> None:
        """Write what is waiting, unless a record is partly written; time out a late barrier."""
        if self._watched is not None:
            self._watch(self._watched, now_ns)
        if self._waiting and not self.writer.is_inside_record:
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                self._write(event, now_ns)
        self.is_pending = bool(self._waiting) or self._watched is not None

    def next_deadline_ns(self) -> int | None:
        return None if self._watched is None else self._timeout_ns(self._watched)

    def _write(self, event: CheckpointBarrier | CancelCheckpointMarker, now_ns: int) -> None:
        partition = self.writer.partition
        if isinstance(event, CancelCheckpointMarker):
            partition.broadcast_event(event)
            return
        self._written_id = event.checkpoint_id
        is_aborted = event.checkpoint_id in self._aborted
        self._aborted = {each for each in self._aborted if each > event.checkpoint_id}
        if is_aborted:
            partition.broadcast_event(CancelCheckpointMarker(event.checkpoint_id))
            return
        if self._watched is not None:
            self._acknowledge(self._watched)  # a later checkpoint takes its place
        self._written_ns = now_ns
        self._overtaken_bytes = partition.broadcast_event(event, is_priority=event.is_unaligned)
        if event.is_timeoutable:
            self._watched = event
            self._watch(event, now_ns)
        else:
            self._acknowledge(event)

    def _watch(self, barrier: CheckpointBarrier, now_ns: int) -> None:
        """Acknowledge a barrier that has left every channel; time it out in the others when due."""
        partition = self.writer.partition
        if not partition.holds_barrier(barrier.checkpoint_id):
            self._acknowledge(barrier)
        elif now_ns >= self._timeout_ns(barrier):
            self._overtaken_bytes += partition.alignment_timeout(barrier.checkpoint_id)
            self._acknowledge(barrier)

    def _acknowledge(self, barrier: CheckpointBarrier) -> None:
        self._watched = None
        self.respond(
            AcknowledgeCheckpoint(
                self.task,
                barrier.checkpoint_id,
                written_ns=dict.fromkeys(self.channels, self._written_ns),
                overtaken_bytes=self._overtaken_bytes,
            )
        )

    def _timeout_ns(self, barrier: CheckpointBarrier) -> int:
        return self.epoch_ns + (barrier.timestamp_ms + barrier.aligned_timeout_ms) * NS_PER_MS


class InputCheckpoints(CheckpointedInput):
    """Checkpoints of one input: handles its events, passes barriers on to all outputs of its task,
    and acknowledges complete checkpoints (Flink: the CheckpointableTask side of StreamTask).

    Args:
        before_barrier: called before a barrier is written, to write the pending output first.
        epoch_ns: instant of the run's clock that is timestamp 0.

    Attributes:
        last_alignment: of the last checkpoint whose barriers have all arrived.
    """

    def __init__(
        self,
        task: str,
        gate: Gate,
        outputs: Sequence[OutputCheckpoints],
        network: NetworkConfig,
        respond: CheckpointResponder = ignore,
        before_barrier: Callable[[], None] = lambda: None,
        *,
        epoch_ns: int = 0,
    ) -> None:
        self.last_alignment: Alignment | None = None
        self._task = task
        self._channels = len(gate.channels)
        self._outputs = tuple(outputs)
        self._network = network
        self._respond = respond
        self._before_barrier = before_barrier
        self._epoch_ns = epoch_ns
        self._begun_id = -1
        self._begun_bytes = 0
        self._read_ns: dict[int, int] = {}
        super().__init__(gate, self._create_handler)

    def handle(
        self,
        event: Event,
        data_type: int,
        channel: InputChannel,
        sequence_number: int,
        *,
        now_ns: int,
    ) -> None:
        if isinstance(event, CheckpointBarrier):
            if event.checkpoint_id > self._begun_id:
                self._begun_id = event.checkpoint_id
                self._begun_bytes = sum(self.read_bytes)
                self._read_ns.clear()
            self._read_ns[channel.index] = now_ns
        super().handle(event, data_type, channel, sequence_number, now_ns=now_ns)

    def trigger_checkpoint(self, barrier: CheckpointBarrier, *, now_ns: int) -> None:
        """Pass the barrier on; an unaligned one stays unaligned where the edge allows it."""
        self._before_barrier()
        for output in self._outputs:
            outgoing = output.barrier_of(barrier.checkpoint_id, barrier.timestamp_ms)
            if barrier.is_unaligned and outgoing.alignment is AlignmentType.ALIGNED:
                outgoing = outgoing.as_unaligned()
            output.write(outgoing, now_ns=now_ns)

    def abort_checkpoint(self, checkpoint_id: int, reason: AbortReason, *, now_ns: int) -> None:
        self._respond(DeclineCheckpoint(self._task, checkpoint_id, reason.value))
        for output in self._outputs:
            output.write(CancelCheckpointMarker(checkpoint_id), now_ns=now_ns)

    def complete_alignment(self, alignment: Alignment) -> None:
        """Acknowledge the checkpoint, with the time its barriers took."""
        self.last_alignment = alignment
        self._respond(
            AcknowledgeCheckpoint(
                self._task,
                alignment.checkpoint_id,
                read_ns=dict(self._read_ns),
                start_delay_ns=alignment.start_delay_ns,
                alignment_ns=alignment.duration_ns,
                overtaken_bytes=self.overtaken_bytes if alignment.is_unaligned else 0,
                processed_bytes=sum(self.read_bytes) - self._begun_bytes,
                is_unaligned=alignment.is_unaligned,
            )
        )

    def _create_handler(self, task: CheckpointableTask) -> CheckpointBarrierHandler:
        network = self._network
        handler: Callable[..., CheckpointBarrierHandler] = CheckpointBarrierTracker
        if network.checkpoint_mode != AT_LEAST_ONCE:
            can_be_unaligned = network.unaligned_checkpoints
            handler = partial(SingleCheckpointBarrierHandler, can_be_unaligned=can_be_unaligned)
        return handler(
            self._channels,
            task,
            epoch_ns=self._epoch_ns,
            counts_ended_channels=network.checkpoints_after_tasks_finish,
        )


INPUT = "input"
"""Name of a task's input among its acknowledging parts."""


def output_name(edge: int) -> str:
    return f"output {edge}"


@dataclass(eq=False)
class TaskAcknowledgements:
    """Merges the answers of a task's input and outputs (`parts`) into the answer of the task.

    A task that has ended acknowledges every checkpoint, including those still open when it ended:
    the coordinator does not wait for it (Flink: checkpoints after tasks finish).
    """

    task: str
    parts: Sequence[str]
    respond: CheckpointResponder
    _open: dict[int, dict[str, AcknowledgeCheckpoint]] = field(default_factory=dict)
    _has_ended: bool = False

    def ask(self, checkpoint_id: int) -> None:
        self._open.setdefault(checkpoint_id, {})
        if self._has_ended or not self.parts:
            self._acknowledge(checkpoint_id)

    def receive(self, answer: Answer) -> None:
        """Take the answer of a part."""
        if isinstance(answer, DeclineCheckpoint):
            self.forget(answer.checkpoint_id)
            self.respond(replace(answer, task=self.task))
            return
        found = self._open.setdefault(answer.checkpoint_id, {})
        found[answer.task] = answer
        if found.keys() >= set(self.parts):
            self._acknowledge(answer.checkpoint_id)

    def end(self) -> None:
        """End the task: acknowledge all open checkpoints."""
        self._has_ended = True
        for checkpoint_id in sorted(self._open):
            self._acknowledge(checkpoint_id)

    def forget(self, checkpoint_id: int) -> None:
        """Forget this checkpoint, which is over, and all before it."""
        self._open = {each: found for each, found in self._open.items() if each > checkpoint_id}

    def _acknowledge(self, checkpoint_id: int) -> None:
        parts = self._open[checkpoint_id].values()
        self.forget(checkpoint_id)
        aligned = [each for each in parts if each.alignment_ns is not None]
        self.respond(
            AcknowledgeCheckpoint(
                self.task,
                checkpoint_id,
                written_ns={at: ns for each in parts for at, ns in each.written_ns.items()},
                read_ns={at: ns for each in parts for at, ns in each.read_ns.items()},
                start_delay_ns=aligned[0].start_delay_ns if aligned else None,
                alignment_ns=aligned[0].alignment_ns if aligned else None,
                overtaken_bytes=sum(each.overtaken_bytes for each in parts),
                processed_bytes=sum(each.processed_bytes for each in parts),
                is_unaligned=any(each.is_unaligned for each in parts),
            )
        )
