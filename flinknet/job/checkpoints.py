"""One checkpoint answer for a task with any number of outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from flinknet.config import NetworkConfig
from flinknet.core.consumer.checkpoint_barriers import AbortReason
from flinknet.core.consumer.checkpointed_input import Gate
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier
from flinknet.core.wire.events import CancelCheckpointMarker

from .barriers import (
    CheckpointResponder,
    InputCheckpoints,
    OutputCheckpoints,
    barrier_of,
)
from .checkpoint_coordinator import (
    AcknowledgeCheckpoint,
    Answer,
    DeclineCheckpoint,
)

INPUT = "input"
"""Name of a task's input among its acknowledging parts."""


def output_name(edge: int) -> str:
    """Name of an edge's output among the acknowledging parts."""
    return f"output {edge}"


class TaskAcknowledgements:
    """Merges the answers of a task's input and outputs into the answer of the task.

    A task that has ended acknowledges every checkpoint, including those still open when it ended:
    the coordinator does not wait for it (Flink: checkpoints after tasks finish).

    Args:
        task: its id.
        parts: names of the input and outputs that must all acknowledge.
    """

    def __init__(self, task: str, parts: Iterable[str], respond: CheckpointResponder) -> None:
        self._task = task
        self._parts = frozenset(parts)
        self._respond = respond
        self._asked: set[int] = set()
        self._found: dict[int, dict[str, AcknowledgeCheckpoint]] = {}
        self._has_ended = False

    def ask(self, checkpoint_id: int) -> None:
        """Begin a checkpoint."""
        if self._has_ended or not self._parts:
            self._respond(AcknowledgeCheckpoint(self._task, checkpoint_id))
        else:
            self._asked.add(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        """Abort a checkpoint."""
        self._forget(checkpoint_id)

    def receive(self, answer: Answer) -> None:
        """Take the answer of a part."""
        checkpoint_id = answer.checkpoint_id
        if isinstance(answer, DeclineCheckpoint):
            self._forget(checkpoint_id)
            self._respond(replace(answer, task=self._task))
            return
        found = self._found.setdefault(checkpoint_id, {})
        found[answer.task] = answer
        if found.keys() >= self._parts:
            self._forget(checkpoint_id)
            self._respond(_merged(self._task, checkpoint_id, list(found.values())))

    def end(self) -> None:
        """End the task: acknowledge all open checkpoints."""
        if not self._has_ended:
            self._has_ended = True
            for checkpoint_id in sorted(self._asked | self._found.keys()):
                found = self._found.get(checkpoint_id, {})
                self._respond(_merged(self._task, checkpoint_id, list(found.values())))
            self._asked.clear()
            self._found.clear()

    def _forget(self, checkpoint_id: int) -> None:
        self._asked = {each for each in self._asked if each > checkpoint_id}
        self._found = {each: found for each, found in self._found.items() if each > checkpoint_id}


class BranchingCheckpoints(InputCheckpoints):
    """Checkpoints of an input whose barriers go on to all outputs of its task.

    Args:
        task: name of the input.
        outputs: each with the partitioner of its edge, which decides how the barrier is aligned
            there.
        before_barrier: called before a barrier is written, to write the pending output first.
    """

    def __init__(
        self,
        task: str,
        gate: Gate,
        outputs: Sequence[tuple[OutputCheckpoints, str]],
        network: NetworkConfig,
        respond: CheckpointResponder,
        before_barrier: Callable[[], None],
        *,
        epoch_ns: int = 0,
    ) -> None:
        super().__init__(task, gate, network, respond, epoch_ns=epoch_ns)
        self._outputs = tuple(outputs)
        self._before_barrier = before_barrier

    def trigger_checkpoint(self, barrier: CheckpointBarrier, *, now_ns: int) -> None:
        """Forward the barrier; an unaligned one stays unaligned where the edge allows it."""
        self._before_barrier()
        for output, partitioner in self._outputs:
            outgoing = barrier_of(
                self._network, partitioner, barrier.checkpoint_id, barrier.timestamp_ms
            )
            if barrier.is_unaligned and outgoing.alignment is AlignmentType.ALIGNED:
                outgoing = outgoing.as_unaligned()
            output.write(outgoing, now_ns=now_ns)

    def abort_checkpoint(self, checkpoint_id: int, reason: AbortReason, *, now_ns: int) -> None:
        """Decline the checkpoint and cancel it downstream."""
        super().abort_checkpoint(checkpoint_id, reason, now_ns=now_ns)
        for output, _ in self._outputs:
            output.write(CancelCheckpointMarker(checkpoint_id), now_ns=now_ns)


def _merged(
    task: str, checkpoint_id: int, parts: Sequence[AcknowledgeCheckpoint]
) -> AcknowledgeCheckpoint:
    aligned = [each for each in parts if each.alignment_ns is not None]
    return AcknowledgeCheckpoint(
        task,
        checkpoint_id,
        written_ns=_joined(each.written_ns for each in parts),
        read_ns=_joined(each.read_ns for each in parts),
        start_delay_ns=aligned[0].start_delay_ns if aligned else None,
        alignment_ns=aligned[0].alignment_ns if aligned else None,
        overtaken_bytes=sum(each.overtaken_bytes for each in parts),
        processed_bytes=sum(each.processed_bytes for each in parts),
        is_unaligned=any(each.is_unaligned for each in parts),
    )


def _joined(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    return {key: value for part in parts for key, value in part.items()}
