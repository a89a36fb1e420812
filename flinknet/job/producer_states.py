"""ProducerStateChecks: handles channels whose producer does not have the requested partition. The
JobManager is asked for the producer's state (Flink: SingleInputGate.triggerPartitionStateCheck
with RemoteChannelStateChecker).

Sans-IO: questions go out through a callback; answers come in through `receive`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.wire.ids import ExecutionAttemptID, ResultPartitionID
from flinknet.errors import PartitionError
from flinknet.graph.execution_graph import ExecutionState
from flinknet.units import NS_PER_MS

ANSWER_WAIT_NS = 10_000 * NS_PER_MS
"""How long Flink waits for an answer (pekko.ask.timeout)."""

_S = ExecutionState
_WILL_HAVE_IT = (_S.SCHEDULED, _S.DEPLOYING, _S.INITIALIZING, _S.RUNNING, _S.FINISHED)
_IS_OVER = (_S.CANCELING, _S.CANCELED, _S.FAILED)


@dataclass(frozen=True, slots=True)
class RequestPartitionState:
    """TaskManager to JobManager: request the state of a partition's producer (Flink:
    JobMasterGateway.requestPartitionState)?

    Attributes:
        attempt_id: the consuming attempt.
    """

    attempt_id: ExecutionAttemptID
    partition_id: ResultPartitionID


@dataclass(frozen=True, slots=True)
class PartitionState:
    """JobManager to TaskManager: the state of the producer.

    Attributes:
        state: None if another attempt replaced the producer (Flink:
            PartitionProducerDisposedException), or its state is unknown.
        error: why the state is unknown.
    """

    attempt_id: ExecutionAttemptID
    partition_id: ResultPartitionID
    state: ExecutionState | None
    error: str = ""


_Question = tuple[ExecutionAttemptID, ResultPartitionID]


@dataclass(slots=True)
class _Asked:
    """A question in flight, and the channels that wait for its answer."""

    channels: list[RemoteInputChannel]
    due_ns: int


class ProducerStateChecks:
    """The open questions of one TaskManager.

    If the producer has or will have the partition, the channel requests it again, with
    RequestBackoff; likewise if no answer arrives in time. If the producer is over, its consumer is
    canceled, which is no failure of its own. Channels of a consumer that is over are ignored.

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
        """Ask for the state of the producer after it refused a channel its partition."""
        question = attempt_id, channel.partition_id
        asked = self._asked.get(question)
        if asked is not None:
            asked.channels.append(channel)
            return
        self._asked[question] = _Asked([channel], now_ns + ANSWER_WAIT_NS)
        self._ask(RequestPartitionState(*question))

    def receive(self, answer: PartitionState, *, now_ns: int) -> None:
        """Handle an answer: each waiting channel requests again, fails, or is canceled with its
        task.
        """
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
        return min((each.due_ns for each in self._asked.values()), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        """Treat the producer of a timed-out question as running."""
        for question, asked in list(self._asked.items()):
            if now_ns >= asked.due_ns:
                self.receive(PartitionState(*question, _S.RUNNING), now_ns=now_ns)


def _is_open(channel: RemoteInputChannel) -> bool:
    return channel.error is None and not channel.is_released
