"""ProtocolChecker: checks the messages of every channel against the protocol's rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, IS_BUFFER, DataType
from flinknet.core.consumer.input_gate import RECOVERED
from flinknet.core.probe import MessageKind, Probe, TracePoint
from flinknet.core.producer import PipelinedSubpartition, ProducerConnection
from flinknet.core.wire.layout import next_sequence_number
from flinknet.errors import InvariantViolatedError
from flinknet.simulator.cluster import Cluster
from tests.invariants import queued_types

# plain ints: a member of an enum costs a look-up for each event
_SENT, _RECEIVED, _CONSUMED = map(int, (TracePoint.SENT, TracePoint.RECEIVED, TracePoint.CONSUMED))
_BUFFER_RESPONSE, _PARTITION_REQUEST, _ADD_CREDIT, _RESUME_CONSUMPTION, _BACKLOG = map(
    int,
    (
        MessageKind.BUFFER_RESPONSE,
        MessageKind.PARTITION_REQUEST,
        MessageKind.ADD_CREDIT,
        MessageKind.RESUME_CONSUMPTION,
        MessageKind.BACKLOG_ANNOUNCEMENT,
    ),
)
_PRIORITIZED = int(DataType.PRIORITIZED_EVENT_BUFFER)


@dataclass(slots=True)
class ChannelView:
    """One channel as its messages show it.

    Attributes:
        backlog: the backlog that the consumer knows; -1 if none yet.
        priority_number: sequence number of the last consumed priority event.
        under_way: instant of sending and backlog of each message under way.
    """

    sent_messages: int = 0
    received_messages: int = 0
    sent_buffers: int = 0
    received_buffers: int = 0
    credit: int = 0
    is_requested: bool = False
    has_initial_credit: bool = False
    is_resetting: bool = False
    announced: int = 0
    credited: int = 0
    backlog: int = -1
    priority_number: int | None = None
    under_way: deque[tuple[int, int]] = field(default_factory=deque)
    to_consume: deque[int] = field(default_factory=deque)


class ProtocolChecker:
    """A Probe of all TaskManagers that follows every message, and passes each event on.

    Rules: sequence numbers are contiguous when messages are sent, received and consumed. No message
    is received before it is sent. Data is sent only with credit, and credit equals the announced
    credit. Every message has the backlog of its queue when sent (see `watch`) and when received.

    A local channel is requested without a message and has no credit to check. A consumer without
    exclusive buffers returns all its buffers at a blocking event, and credit starts again at 0 when
    the producer resumes (`is_resetting` until then).

    Args:
        is_credit_based: False for flow control tcp.
        has_one_clock: False if instants of two TaskManagers cannot be compared.
        first_number: first sequence number of channels.
    """

    def __init__(
        self,
        seed: int,
        probe: Probe | None = None,
        *,
        is_credit_based: bool = True,
        has_one_clock: bool = True,
        first_number: int = 0,
    ) -> None:
        self.channels: dict[int, ChannelView] = {}
        self.is_credit_based = is_credit_based
        self._has_one_clock = has_one_clock
        self._first_number = first_number
        self._seed = seed
        self._probe = probe
        self._queues: dict[int, PipelinedSubpartition] = {}
        self._connections: Sequence[ProducerConnection] = ()
        self._connection_of: dict[int, ProducerConnection] = {}
        self._owed: dict[int, dict[int, int]] = {}

    def watch(self, cluster: Cluster) -> None:
        """Also check the queues of the current partitions, and the order of channels in their
        connections, whenever something is sent.
        """
        self._connections = cluster.channels.producer_connections
        for subtask in cluster.job.subtasks:
            for output in subtask.outputs:
                partition = cluster.partition_of.get((output.edge, subtask.subtask))
                if partition is None:
                    continue
                for channel, queue in zip(output.channels, partition.subpartitions, strict=True):
                    if isinstance(queue, PipelinedSubpartition):
                        self._queues[channel] = queue

    def record(self, *row: int) -> None:
        """Check the event. Raises: InvariantViolatedError."""
        at_ns, channel, point, kind, data_type, _, sequence_number, payload_bytes = row[:8]
        _, _, _, backlog_buffers, _, credit_after, _, _, value = row[8:]
        view = self.channels.get(channel)
        if view is None:
            view = self.channels[channel] = ChannelView()
        if kind == _PARTITION_REQUEST and point == _RECEIVED:
            view.credit = value
            view.is_requested = self.is_credit_based
            view.has_initial_credit = value > 0
        elif kind == _RESUME_CONSUMPTION and point == _RECEIVED:
            if not view.has_initial_credit:
                view.credit = 0
            view.is_resetting = False
        elif kind == _BACKLOG and point == _RECEIVED:
            view.backlog = value
        elif kind == _ADD_CREDIT:
            self._follow_credit(channel, view, point, value, credit_after)
        elif kind == _BUFFER_RESPONSE and sequence_number != RECOVERED:
            is_data = data_type in IS_BUFFER
            if point == _SENT:
                view.under_way.append((at_ns, backlog_buffers))
                self._follow_sent(channel, view, sequence_number, is_data, credit_after)
                self._follow_turn(channel)
                if view.is_requested and channel in self._queues:
                    self._check_backlog(channel, sequence_number, backlog_buffers)
            elif point == _RECEIVED:
                self._expect(channel, "received", view.received_messages, sequence_number)
                view.received_messages += 1
                if backlog_buffers >= 0:
                    view.backlog = backlog_buffers
                view.is_resetting |= (
                    data_type in IS_BLOCKING_UPSTREAM and not view.has_initial_credit
                )
                view.received_buffers += is_data
                if payload_bytes:  # an empty buffer carries a backlog and nothing to consume
                    view.to_consume.append(sequence_number)
                sent_ns, sent_backlog = view.under_way.popleft()
                if at_ns < sent_ns and self._has_one_clock:
                    raise self._violation(channel, f"{sequence_number} arrived before it left")
                if backlog_buffers != sent_backlog:
                    raise self._violation(
                        channel,
                        f"{sequence_number} arrived with backlog {backlog_buffers}, left with"
                        f" {sent_backlog}",
                    )
            elif point == _CONSUMED:
                self._follow_consumed(channel, view, data_type, sequence_number)
        if self._probe is not None:
            self._probe.record(*row)

    def _follow_consumed(
        self, channel: int, view: ChannelView, data_type: int, sequence_number: int
    ) -> None:
        """Check that consumption follows the order of arrival; priority events may overtake others,
        but not each other."""
        if data_type == _PRIORITIZED:
            if sequence_number not in view.to_consume:
                raise self._violation(channel, f"consumed {sequence_number}, which is not there")
            view.to_consume.remove(sequence_number)
            before, view.priority_number = view.priority_number, sequence_number
            if before is not None and (before - sequence_number) & 0xFFFF_FFFF < 1 << 31:
                raise self._violation(channel, f"consumed {sequence_number} behind {before}")
            return
        next_number = view.to_consume.popleft() if view.to_consume else None
        if sequence_number != next_number:
            raise self._violation(channel, f"consumed {sequence_number}, expected {next_number}")

    def _follow_credit(
        self, channel: int, view: ChannelView, point: int, credit: int, credit_after: int
    ) -> None:
        if credit <= 0:
            raise self._violation(channel, f"an AddCredit of {credit}")
        if point == _SENT:
            view.announced += credit
            return
        view.credited += credit
        view.credit += credit
        if view.credited > view.announced:
            raise self._violation(channel, "more credit arrived than was announced")
        if view.credit != credit_after:
            raise self._violation(channel, f"credit is {credit_after}, not {view.credit}")

    def _follow_sent(
        self,
        channel: int,
        view: ChannelView,
        sequence_number: int,
        is_data: bool,
        credit_after: int,
    ) -> None:
        self._expect(channel, "sent", view.sent_messages, sequence_number)
        view.sent_messages += 1
        if not view.is_requested:
            return
        if is_data:
            view.sent_buffers += 1
            view.credit -= 1
        if view.credit < 0 or view.credit != credit_after:
            raise self._violation(channel, f"credit is {credit_after}, should be {view.credit}")

    def _follow_turn(self, channel: int) -> None:
        """Check that between two turns of a channel, every channel that waited at the first had a
        turn; it may have sent nothing, as the rest of a buffer finished by a barrier may be empty.
        """
        connection = self._connection_of.get(channel)
        if connection is None:
            for each in self._connections:
                if any(reader.channel == channel for reader in each.queue.readers.values()):
                    self._connection_of[channel] = connection = each
                    break
            else:
                return  # a local channel
        queue = connection.queue
        for reader in queue.available:
            if queue.readers.get(reader.receiver_id) is not reader:
                raise self._violation(reader.channel, "closed, and it stands in the line")
        waiting = {each.channel: each.empty_turns for each in queue.available}
        waiting.pop(channel, None)
        owed = self._owed.get(channel, {})
        passed_over = dict(owed.items() & waiting.items())
        if passed_over:
            raise self._violation(channel, f"two turns in a row, and {set(passed_over)} had none")
        for other, others in self._owed.items():
            if others and self._connection_of[other] is connection:
                self._owed[other] = dict(others.items() & waiting.items())
        self._owed[channel] = waiting

    def _check_backlog(self, channel: int, sequence_number: int, backlog_buffers: int) -> None:
        """Check a message's backlog. Buffers taken from the queue after this one count as waiting,
        as several are taken at once."""
        queue = self._queues[channel]
        taken_behind = (queue.buffers_out - 1 - sequence_number) & 0xFFFF_FFFF
        expected = waiting_buffers(queue) + taken_behind
        if backlog_buffers != expected:
            raise self._violation(
                channel,
                f"{sequence_number} carries backlog {backlog_buffers}, {expected} buffers wait",
            )

    def _expect(self, channel: int, what: str, messages: int, sequence_number: int) -> None:
        expected = next_sequence_number(self._first_number, messages)
        if sequence_number != expected:
            raise self._violation(channel, f"{what} {sequence_number}, expected {expected}")

    def _violation(self, channel: int, text: str) -> InvariantViolatedError:
        return InvariantViolatedError(f"channel {channel}: {text}", self._seed)


def waiting_buffers(queue: PipelinedSubpartition) -> int:
    """The backlog, counted independently: data buffers in the queue, without the last one if it may
    not leave yet; 0 if the queue is blocked.
    """
    types = queued_types(queue)
    if queue.is_blocked or not types:
        return 0
    may_last_leave = queue._flush_requested or queue.is_finished or types[-1] not in IS_BUFFER
    return sum(each in IS_BUFFER for each in types) - (not may_last_leave)
