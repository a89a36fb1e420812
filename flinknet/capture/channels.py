"""ChannelTable: the observed channels, numbered as they appear, with the state of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.messages import PartitionRequest
from flinknet.core.wire.record_counter import RecordCounter
from flinknet.trace import ChannelInfo

CHANNELS_MAX: Final = 100_000
"""Most channels of one trace; messages of further channels count for their connection only."""

WAIT_FOR_CREDIT_NS: Final = 5_000_000
"""Time after a buffer with a backlog, in ns, in which a producer with credit sends the next one."""

WAITS_FOR_CREDIT: Final = 3
"""Number of such waits in a row, all at one credit and none below it, that show that it is 0."""

COUNTERS_MAX: Final = 4096
"""Most record streams within one channel: one for each subpartition and, while in-flight data is
recovered, each pair of input and output."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a connection, as names for the manifest."""

    producer: str
    consumer: str

    @property
    def connection(self) -> str:
        return f"{self.producer}->{self.consumer}"


@dataclass(slots=True)
class Wait:
    ns: int = 0  # of those that have ended
    since_ns: int = -1  # beginning of the current one; -1: there is none

    def begin(self, at_ns: int) -> None:
        if self.since_ns < 0:
            self.since_ns = at_ns

    def end(self, at_ns: int) -> None:
        if self.since_ns >= 0:
            self.ns, self.since_ns = self.ns + at_ns - self.since_ns, -1

    def until(self, at_ns: int) -> int:
        """The time of all waits, including the current one."""
        return self.ns + (max(0, at_ns - self.since_ns) if self.since_ns >= 0 else 0)


@dataclass(slots=True, eq=False)
class ObservedChannel:
    """The state of one channel, as far as the observed messages show it. Events count in
    `payload_bytes`, but not in `data_bytes`."""

    index: int  # its number in the trace and its manifest
    receiver_id: bytes
    ends: Ends
    partition_id: ResultPartitionID | None = None  # None: the request was missed; see `Places`
    subpartitions: tuple[int, int] | None = None  # first and last; without a request, that of data
    initial_credit: int | None = None  # None: the request was missed
    # Data buffers that may pass without new credit. Known from a request on, as long as no bytes
    # are missed; otherwise None, until waits with a backlog show when it was 0.
    credits_available: int | None = None
    is_credit_inferred: bool = False
    backlog_buffers: int | None = None  # as the producer last announced
    next_sequence_number: int | None = None
    may_lack_messages: bool = False  # bytes are missing since the producer's last buffer or event
    is_blocked: bool = False  # an event of a blocking type passed, and nothing that ends it since
    is_ended: bool = False
    exhausted: Wait = field(default_factory=Wait)  # without credit
    starved: Wait = field(default_factory=Wait)  # of data, without credit: back pressure
    blocked: Wait = field(default_factory=Wait)  # behind an event of a blocking type; see `unblock`
    data_buffers: int = 0
    events: int = 0
    payload_bytes: int = 0
    data_bytes: int = 0
    largest_buffer_bytes: int = 0
    records: int = 0
    other_elements: int = 0  # watermarks and the like
    uncounted_buffers: int = 0  # without a count: compressed, or record boundaries were lost
    events_by_kind: Counter[str] = field(default_factory=Counter)  # by class name
    first_ns: int | None = None  # of data buffers
    last_ns: int | None = None
    recovered: tuple[int, int] | None = None
    is_inside_unknown: bool = True  # record boundaries are unknown
    counter: tuple[int, RecordCounter] | None = None  # last subpartition and its counter
    counters: dict[tuple[int, tuple[int, int] | None], RecordCounter] = field(default_factory=dict)
    _ended_subpartitions: int = 0
    _balance: int = 0  # credit less data buffers while the credit is unknown
    _waits_at: int = 0
    _waits: int = 0

    def forget_credit(self) -> None:
        self.credits_available = None
        self.is_credit_inferred = False
        self._balance = self._waits_at = self._waits = 0

    def use_unknown(self) -> None:
        """Note a data buffer while the credit is unknown."""
        self._balance -= 1
        if self._balance < self._waits_at:
            self._waits = 0

    def grant_unknown(self, credit: int, at_ns: int) -> None:
        """Note credit while the credit is unknown. It becomes known if it must have been 0 before:
        data waited, as nothing else than credit holds a producer back for so long so often."""
        idle_ns = 0 if self.last_ns is None else at_ns - self.last_ns
        if self.backlog_buffers and not self.is_blocked and idle_ns >= WAIT_FOR_CREDIT_NS:
            is_same = self._balance == self._waits_at
            self._waits_at, self._waits = self._balance, 1 + self._waits * is_same
            if self._waits >= WAITS_FOR_CREDIT:
                self.credits_available, self.is_credit_inferred = credit, True
        self._balance += credit

    def exhaust(self, at_ns: int) -> None:
        """Note that the last credit is used. More data is known to wait only if the last buffer
        announced a backlog: a producer without credit sends nothing."""
        self.exhausted.begin(at_ns)
        if self.backlog_buffers:
            self.starved.begin(at_ns)

    def grant(self, at_ns: int) -> None:
        self.exhausted.end(at_ns)
        self.starved.end(at_ns)

    def block(self, at_ns: int) -> None:
        self.is_blocked = True
        self.blocked.begin(at_ns)
        self.starved.end(at_ns)

    def end(self, at_ns: int) -> None:
        self.is_ended = True
        self.grant(at_ns)
        self.unblock(at_ns)

    def unblock(self, at_ns: int) -> None:
        """Note the end of a wait behind a barrier: a ResumeConsumption, or the next message from
        the producer, as then the ResumeConsumption was missed."""
        self.is_blocked = False
        self.blocked.end(at_ns)

    def lose_messages(self) -> None:
        """Note that bytes are missing, with which a ResumeConsumption may have been missed: a wait
        behind a barrier does not count."""
        self.forget_credit()
        self.is_blocked, self.blocked.since_ns = False, -1

    def identify(self, request: PartitionRequest) -> None:
        self.partition_id = request.partition_id
        indexes = request.queue_index_set
        self.subpartitions = indexes.start_index, indexes.end_index
        self.initial_credit = max(request.credit, 0)
        self.is_credit_inferred = False

    def open(self, request: PartitionRequest) -> None:
        self.identify(request)
        self.credits_available = self.initial_credit
        self.backlog_buffers = 0
        self.next_sequence_number = 0
        self.is_blocked = False
        self.is_inside_unknown = False

    def counter_of(self, subpartition: int) -> RecordCounter:
        known = self.counter
        if known is not None and known[0] == subpartition:
            return known[1]
        key = subpartition, self.recovered
        counter = self.counters.get(key)
        if counter is None:
            if len(self.counters) >= COUNTERS_MAX:
                return RecordCounter(is_lost=True)
            counter = self.counters[key] = RecordCounter(is_lost=self.is_inside_unknown)
        self.counter = subpartition, counter
        return counter

    def recover_from(self, pair: tuple[int, int] | None) -> None:
        """Note that in-flight data of a pair of input and output follows; None: it is over."""
        if pair is None:
            self.counters = {key: each for key, each in self.counters.items() if key[1] is None}
        self.recovered = pair
        self.counter = None

    def resume(self, at_ns: int) -> tuple[int, int]:
        """Apply a ResumeConsumption: earlier credit is void if the initial credit was 0 (Flink:
        CreditBasedSequenceNumberingViewReader.resumeConsumption). Returns: credit before and after;
        -1 where it does not change or is unknown."""
        self.unblock(at_ns)
        if self.initial_credit != 0 or self.credits_available is None:
            return -1, -1
        before, self.credits_available = self.credits_available, 0
        return before, 0

    def end_subpartition(self, at_ns: int) -> None:
        """Note an EndOfPartition; the channel ends with that of its last subpartition."""
        self._ended_subpartitions += 1
        first, last = self.subpartitions or (0, 0)
        if self._ended_subpartitions > last - first:
            self.end(at_ns)

    def lose_records(self) -> None:
        self.is_inside_unknown = True
        for counter in self.counters.values():
            counter.lose()


class ChannelTable:
    """The channels of all connections of one trace.

    The data sets of each execution of a job are numbered as they appear, as the manifest's edges.
    """

    def __init__(self) -> None:
        self.channels: list[ObservedChannel] = []
        self.refused_channels = 0
        self._edges: dict[tuple[str, ...], int] = {}

    def __len__(self) -> int:
        return len(self.channels)

    def add(self, receiver_id: bytes, ends: Ends) -> ObservedChannel | None:
        """Add a channel. Returns: the channel; None if there are CHANNELS_MAX already."""
        if len(self.channels) >= CHANNELS_MAX:
            self.refused_channels += 1
            return None
        channel = ObservedChannel(len(self.channels), receiver_id, ends)
        self.channels.append(channel)
        return channel

    def infos(self) -> tuple[ChannelInfo, ...]:
        """The channels for a manifest.

        The wire does not name the consumer. Each consumer of a rebalance, hash or broadcast edge
        reads the subpartition with its own index, so this index stands for the consumer. The
        fields that only a request contains are -1 if the request was missed.
        """
        return tuple(map(self._info, self.channels))

    def data_span(self) -> tuple[int, int] | None:
        """Instants of the first data buffer and just after the last, in ns; None without data."""
        first = [each.first_ns for each in self.channels if each.first_ns is not None]
        last = [each.last_ns for each in self.channels if each.last_ns is not None]
        return (min(first), max(last) + 1) if first else None

    def fan_out(self) -> dict[str, int]:
        return Counter(str(each.partition_id) for each in self.channels if each.partition_id)

    def _info(self, channel: ObservedChannel) -> ChannelInfo:
        partition = channel.partition_id
        subpartition = channel.subpartitions[0] if channel.subpartitions else -1
        data_set: tuple[str, ...] = ()  # shared by all channels whose request was missed
        if partition is not None:
            data_set = (
                str(partition.producer_id.execution_graph_id),
                str(partition.partition_id.intermediate_data_set_id),
            )
        edge = self._edges.setdefault(data_set, len(self._edges))
        return ChannelInfo(
            index=channel.index,
            receiver_id=channel.receiver_id.hex(),
            producer=partition.producer_id.execution_vertex_id.subtask_index if partition else -1,
            consumer=subpartition,
            producer_process=channel.ends.producer,
            consumer_process=channel.ends.consumer,
            connection=channel.ends.connection,
            subpartition=subpartition,
            partition=partition.encode().hex() if partition else "",
            is_local=False,
            edge=edge,
        )
