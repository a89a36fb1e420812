"""A job of several exchanges as a tap writes it, drawn up channel by channel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    ExecutionGraphID,
    ExecutionVertexID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    JobVertexID,
    ResultPartitionID,
)
from flinknet.trace import ClockInfo, ProcessInfo, TraceWriter
from tests.recorded_run import channel_info, event, manifest_of, rows_of

MS = 1_000_000
START_NS = 1_000_000 * MS
PERIOD_NS = 100 * MS
"""Of the buffers of each channel."""

SLOW_NS = 5 * MS

SOURCE = "bc764cd8ddf7a0cff126f51c16239658"
SECOND = "0a448493b4782967b150582570326227"
THIRD = "ea632d67b7d595e5b851708ae9ad79d6"
"""Ids that Flink gives the vertices of a program without uids: each feeds the next one."""


@dataclass(frozen=True)
class TappedChannel:
    """A channel: its ends, and for how much of each period data waits for credit.

    Attributes:
        barrier_ns: when the barrier of checkpoint 1 passes, from the start; None: never.
        blocked_ns: how long that barrier blocks it; nothing is made meanwhile.
        buffers: of ten records each.
        after_ns: when the first one passes, from the start.
        first_buffers: that many come at once at the beginning.
        graph: of the execution of the job that it belongs to. `attempt`: of its producer.
        since_ns: when all of this begins.
        receiver: id of the channel; None: its place among those of the recording.
        from_buffer: the first one that was recorded; of more than 0 the request was not.
        slow_buffers: so many of the first ones have their credit back SLOW_NS later.
    """

    vertex: str
    producer: int = 0
    consumer: int = 0
    starved: float = 0.0
    barrier_ns: int | None = None
    blocked_ns: int = 0
    buffers: int = 100
    after_ns: int = 0
    first_buffers: int = 1
    graph: int = 0
    attempt: int = 0
    since_ns: int = 0
    receiver: int | None = None
    from_buffer: int = 0
    slow_buffers: int = 0


@dataclass(frozen=True)
class Place:
    """Where a tap stands.

    Attributes:
        clock: what its manifest says of that.
        ahead_ns: of its clock, before that of a tap at the producers; drift: by which it grows.
        way_ns: from the producers to it: data passes so much later, credit so much earlier.
        producer: what it calls their process.
    """

    clock: ClockInfo = field(default_factory=ClockInfo)
    ahead_ns: int = 0
    way_ns: int = 0
    producer: str = "a"
    drift: float = 0.0


def write_tapped_job(
    directory: Path, channels: Sequence[TappedChannel], place: Place = Place()
) -> Path:
    """The run directory; each vertex has one data set, numbered as they come."""
    directory.mkdir(parents=True)
    to_ns = START_NS + max(each.since_ns + each.buffers * PERIOD_NS for each in channels)
    from_ns = START_NS + min(each.since_ns + each.from_buffer * PERIOD_NS for each in channels)
    edges = list(dict.fromkeys((each.graph, each.vertex) for each in channels))
    events = [row for index, each in enumerate(channels) for row in _events(index, each, place)]
    events.sort(key=lambda row: row[0])
    if place.drift:
        origin_ns = START_NS + place.ahead_ns
        events = [(at + round((at - origin_ns) * place.drift), *rest) for at, *rest in events]
    process = ProcessInfo("tap", "tap-0001.fnt", 1)
    with TraceWriter(directory / process.file, process) as writer:
        writer.write_events(rows_of(events))
    manifest_of(
        (process,),
        (
            channel_info(
                index,
                each.producer,
                each.consumer,
                upstream=place.producer,
                partition="" if each.from_buffer else partition_of(each),
                receiver=each.receiver,
                edge=edges.index((each.graph, each.vertex)),
            )
            for index, each in enumerate(channels)
        ),
        from_ns + place.ahead_ns,
        to_ns + place.ahead_ns,
        flink_keys={"execution.buffer-timeout.interval": "100 ms"},
        clock=place.clock,
        origin="tap",
    ).save(directory)
    return directory


def _events(index: int, channel: TappedChannel, place: Place) -> Iterable[tuple[int, ...]]:
    sent = {"channel": index, "point": TracePoint.SENT, "kind": MessageKind.BUFFER_RESPONSE}
    received = {"channel": index, "point": TracePoint.RECEIVED}
    asked = {"kind": MessageKind.PARTITION_REQUEST, "value": 2}
    start_ns = START_NS + channel.since_ns + place.ahead_ns + place.way_ns
    if not channel.from_buffer:
        yield event(at_ns=start_ns - MS - 2 * place.way_ns, **received, **asked)
    is_starved = channel.starved > 0
    not_made = 0
    barrier_at_ns = goes_on_ns = start_ns + (channel.barrier_ns or 0)
    if channel.barrier_ns is not None:
        goes_on_ns += max(channel.blocked_ns, 1)
    for number in range(channel.from_buffer, channel.buffers):
        at_ns = start_ns + max(number * PERIOD_NS, channel.after_ns)
        if barrier_at_ns <= at_ns < goes_on_ns:
            not_made += 1
            continue
        copies = channel.first_buffers if number == 0 else 1
        for copy in range(copies):
            yield event(
                at_ns=at_ns + copy,
                **sent,
                data_type=DataType.DATA_BUFFER,
                reason=FlushReason.FLUSH,
                sequence_number=number - not_made,
                payload_bytes=1050,
                records=10,
                backlog_buffers=3 if is_starved else 0,
                credit_before=1,
                credit_after=0 if is_starved else 1,
            )
        fed_ns = at_ns + copies + round(channel.starved * PERIOD_NS)
        fed_ns -= 2 * place.way_ns
        if number < channel.slow_buffers:
            fed_ns += SLOW_NS
        added = {"kind": MessageKind.ADD_CREDIT, "value": 1}
        yield event(at_ns=fed_ns, **received, **added, credit_before=0, credit_after=1)
    if channel.barrier_ns is not None:
        barrier = {"data_type": DataType.ALIGNED_CHECKPOINT_BARRIER, "value": 1}
        yield event(at_ns=barrier_at_ns, **sent, **barrier, credit_before=1, credit_after=1)
        yield event(at_ns=goes_on_ns, **received, kind=MessageKind.RESUME_CONSUMPTION)


def partition_of(channel: TappedChannel) -> str:
    vertex = bytes.fromhex(channel.vertex)
    attempt = ExecutionAttemptID(
        ExecutionGraphID(channel.graph.to_bytes(16, "big")),
        ExecutionVertexID(JobVertexID(vertex), channel.producer),
        channel.attempt,
    )
    data_set = IntermediateDataSetID(vertex[::-1])
    partition = IntermediateResultPartitionID(data_set, channel.producer)
    return ResultPartitionID(partition, attempt).encode().hex()
