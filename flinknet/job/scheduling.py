"""When the readers of an exchange are deployed: with its producers, with its first output, or when
it is complete.

Flink has had two ways to decide. Before pipelined regions, each kind of exchange had a kind of
scheduling, and a vertex with several inputs had a flag for waiting for all or any of them. Since
then, tasks joined by pipelined exchanges, bounded or not, are deployed together, and the others
when their inputs are complete. Both are here; by default the exchange alone decides.

ProducerStateChecks: what becomes of a channel whose producer does not have its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from flinknet.config import Scenario
from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.producer import ResultPartition, ResultPartitionType, partition_type_of
from flinknet.core.wire.ids import ExecutionAttemptID, ResultPartitionID
from flinknet.errors import ConfigError, PartitionError
from flinknet.graph.execution_graph import ExecutionState
from flinknet.graph.job_config import ALL
from flinknet.units import NS_PER_MS


class SchedulingType(Enum):
    """What the readers of an exchange wait for (Flink: ScheduleMode)."""

    ALL_AT_ONCE = "all-at-once"  # nothing (EAGER)
    ON_FIRST_OUTPUT = "first-output"  # the first output of their inputs (LAZY_FROM_SOURCES)
    ON_COMPLETE_OUTPUT = "complete-output"  # their complete inputs


USES: Sequence[tuple[ResultPartitionType, SchedulingType]] = (
    (ResultPartitionType.PIPELINED, SchedulingType.ALL_AT_ONCE),
    (ResultPartitionType.PIPELINED_BOUNDED, SchedulingType.ON_FIRST_OUTPUT),
    (ResultPartitionType.BLOCKING, SchedulingType.ON_COMPLETE_OUTPUT),
    # since pipelined regions
    (ResultPartitionType.PIPELINED_BOUNDED, SchedulingType.ALL_AT_ONCE),
    (ResultPartitionType.PIPELINED_APPROXIMATE, SchedulingType.ALL_AT_ONCE),
)
"""Valid combinations of exchange and scheduling."""


def scheduling_of(scenario: Scenario) -> SchedulingType:
    """The configured scheduling, or that of the exchange. Raises: ConfigError if not in USES."""
    kind, asked = partition_type_of(scenario.workload.partition_type), scenario.workload.scheduling
    if asked is None:
        at_once = kind.can_be_pipelined_consumed
        return SchedulingType.ALL_AT_ONCE if at_once else SchedulingType.ON_COMPLETE_OUTPUT
    if (kind, SchedulingType(asked)) not in USES:
        fitting = " or ".join(when.value for each, when in USES if each is kind)
        raise ConfigError(
            f"scheduling {asked} does not go with {kind.label} exchanges; they have {fitting}"
        )
    return SchedulingType(asked)


def has_output(partition: ResultPartition) -> bool:
    """Whether a partition has data to read, or is finished."""
    return partition.is_finished or any(each.buffers_in_backlog for each in partition.subpartitions)


def may_start(inputs: Sequence[bool], constraint: str) -> bool:
    """Whether a vertex may be deployed, given which of its inputs are consumable: all or any of
    them (Flink: InputDependencyConstraint), or none if it has none.
    """
    return not inputs or (all(inputs) if constraint == ALL else any(inputs))


ANSWER_WAIT_NS = 10_000 * NS_PER_MS
"""How long Flink waits for an answer (pekko.ask.timeout)."""

_S = ExecutionState
_WILL_HAVE_IT = (_S.SCHEDULED, _S.DEPLOYING, _S.INITIALIZING, _S.RUNNING, _S.FINISHED)
_IS_OVER = (_S.CANCELING, _S.CANCELED, _S.FAILED)


@dataclass(frozen=True, slots=True)
class RequestPartitionState:
    """TaskManager to JobManager: request the state of a partition's producer for the consuming
    attempt (Flink: JobMasterGateway.requestPartitionState).
    """

    attempt_id: ExecutionAttemptID
    partition_id: ResultPartitionID


@dataclass(frozen=True, slots=True)
class PartitionState:
    """JobManager to TaskManager: the state of the producer; None if it is unknown because of the
    error or, without one, if another attempt replaced it (Flink:
    PartitionProducerDisposedException).
    """

    attempt_id: ExecutionAttemptID
    partition_id: ResultPartitionID
    state: ExecutionState | None
    error: str = ""


@dataclass(eq=False)
class ProducerStateChecks:
    """The open questions of one TaskManager.

    If the producer has or will have the partition, the channel requests it again, with
    RequestBackoff; likewise if no answer arrives in time. If the producer is over, its consumer is
    canceled, which is no failure of its own. Channels of a consumer that is over are ignored.
    """

    ask: Callable[[RequestPartitionState], None]
    cancel: Callable[[ExecutionAttemptID], None]
    _asked: dict[RequestPartitionState, tuple[list[RemoteInputChannel], int]] = field(
        default_factory=dict
    )  # the channels that wait for each answer, and until when

    def check(
        self, attempt_id: ExecutionAttemptID, channel: RemoteInputChannel, now_ns: int
    ) -> None:
        """Ask for the state of the producer after it refused a channel its partition."""
        question = RequestPartitionState(attempt_id, channel.partition_id)
        if question in self._asked:
            self._asked[question][0].append(channel)
        else:
            self._asked[question] = [channel], now_ns + ANSWER_WAIT_NS
            self.ask(question)

    def receive(self, answer: PartitionState, *, now_ns: int) -> None:
        """Handle an answer: waiting channels request again, fail, or are canceled with the task."""
        question = RequestPartitionState(answer.attempt_id, answer.partition_id)
        asked, _ = self._asked.pop(question, ([], 0))
        waiting = [each for each in asked if each.error is None and not each.is_released]
        if not waiting:
            return
        state = answer.state
        if state in _WILL_HAVE_IT:
            for channel in waiting:
                channel.request_again(now_ns=now_ns)
        elif state in _IS_OVER or (state is None and not answer.error):
            self.cancel(answer.attempt_id)
        else:
            reason = answer.error or f"its producer is in the unexpected state {state}"
            for channel in waiting:
                channel.fail(PartitionError(f"Partition {answer.partition_id}: {reason}"))

    def next_deadline_ns(self) -> int | None:
        return min((due_ns for _, due_ns in self._asked.values()), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        """Treat the producer of a timed-out question as running."""
        for question, (_, due_ns) in list(self._asked.items()):
            if now_ns >= due_ns:
                answer = PartitionState(question.attempt_id, question.partition_id, _S.RUNNING)
                self.receive(answer, now_ns=now_ns)
