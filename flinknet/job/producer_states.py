"""ProducerStateChecks: what becomes of a channel whose producer does not have its partition. The
JobManager is asked what state the producer is in (Flink: SingleInputGate.triggerPartitionStateCheck
with RemoteChannelStateChecker).

Sans-IO: told who asks and what is answered, it says what to ask and acts on channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.wire.ids import ExecutionAttemptID, ResultPartitionID
from flinknet.errors import PartitionError
from flinknet.graph.execution import ExecutionState
from flinknet.units import NS_PER_MS

ANSWER_WAIT_NS = 10_000 * NS_PER_MS
"""As long as Flink waits for an answer (pekko.ask.timeout)."""

_S = ExecutionState
_WILL_HAVE_IT = (_S.SCHEDULED, _S.DEPLOYING, _S.INITIALIZING, _S.RUNNING, _S.FINISHED)
_IS_OVER = (_S.CANCELING, _S.CANCELED, _S.FAILED)


@dataclass(frozen=True, slots=True)
class RequestPartitionState:
    """TaskManager: what state is the producer of a partition in (Flink:
    JobMasterGateway.requestPartitionState)?

    Attributes:
        attempt_id: whose channels ask.
    """

    attempt_id: ExecutionAttemptID
    partition_id: ResultPartitionID


@dataclass(frozen=True, slots=True)
class PartitionState:
    """JobManager: that of the attempt that was asked for.

    Attributes:
        state: None: another attempt took its place (Flink: PartitionProducerDisposedException),
            or nothing is known of it.
        error: why nothing is known of it.
    """

    attempt_id: ExecutionAttemptID
    partition_id: ResultPartitionID
    state: ExecutionState | None
    error: str = ""


_Question = tuple[ExecutionAttemptID, ResultPartitionID]


@dataclass(slots=True)
class _Asked:
    """A question under way, and the channels that wait for its answer."""

    channels: list[RemoteInputChannel]
    due_ns: int


class ProducerStateChecks:
    """Those of one TaskManager.

    A producer that is about to have the partition, or that may, is asked for it again, as patiently
    as RequestBackoff says; so is one of which nothing is heard in time. One that is over takes its
    consumer along, which is no failure of its own. Of a consumer that is over nothing is done.

    Args:
        ask: sends a question.
        cancel: cancels an attempt.
    """

    def __init__(
        self,
        ask: Callable[[RequestPartitionState], None],
        cancel: Callable[[ExecutionAttemptID], None],
    ) -> None:
        self._ask = ask
        self._cancel = cancel
        self._asked: dict[_Question, _Asked] = {}

    def check(
        self, attempt_id: ExecutionAttemptID, channel: RemoteInputChannel, now_ns: int
    ) -> None:
        """A channel of an attempt was refused its partition: ask about the producer."""
        question = attempt_id, channel.partition_id
        asked = self._asked.get(question)
        if asked is not None:
            asked.channels.append(channel)
            return
        self._asked[question] = _Asked([channel], now_ns + ANSWER_WAIT_NS)
        self._ask(RequestPartitionState(*question))

    def receive(self, answer: PartitionState, *, now_ns: int) -> None:
        """Let the channels that wait for an answer go on, fail, or end with their task."""
        asked = self._asked.pop((answer.attempt_id, answer.partition_id), None)
        waiting = [] if asked is None else [each for each in asked.channels if _is_open(each)]
        if not waiting:
            return
        state = answer.state
        if state in _WILL_HAVE_IT:
            for channel in waiting:
                channel.request_again(now_ns=now_ns)
        elif state in _IS_OVER or (state is None and not answer.error):
            self._cancel(answer.attempt_id)
        else:
            reason = answer.error or f"its producer is in the unexpected state {state}"
            for channel in waiting:
                channel.fail(PartitionError(f"Partition {answer.partition_id}: {reason}"))

    def next_deadline_ns(self) -> int | None:
        """When an answer has not come in time."""
        return min((each.due_ns for each in self._asked.values()), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        """What is not answered in time counts as: it runs."""
        for question, asked in list(self._asked.items()):
            if now_ns >= asked.due_ns:
                self.receive(PartitionState(*question, _S.RUNNING), now_ns=now_ns)


def _is_open(channel: RemoteInputChannel) -> bool:
    """Whether its task still wants to read it."""
    return channel.error is None and not channel.is_released
