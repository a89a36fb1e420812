"""What the tasks of a job did with their time, put together from all its edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flinknet.trace import ChannelInfo, RunManifest

from ..observe.observed import ObservedRun
from ..observe.task_times import (
    AT_BARRIER,
    AT_CONSUMER,
    EVERY,
    FOR_CREDIT,
    FOR_POOL,
    LATE_TRANSITS,
    ON_THE_WAY,
    TRANSITS,
    WAITS,
    WORKING,
)
from ..read import result_of
from .caveats import BARRIERS
from .edges import EdgeEnds, ends_of, task_of

Pair = tuple[int, int]
"""Producer and consumer."""


@dataclass(frozen=True, slots=True)
class Held:
    """Why a producer's writer waited for a buffer, as shares of the time.

    Attributes:
        consumer: the consumer had something to work on.
        barrier: it had not, and a checkpoint barrier blocked the channel.
        way: data was on its way, or the credit for it was.
    """

    consumer: float = 0.0
    barrier: float = 0.0
    way: float = 0.0


@dataclass(frozen=True, slots=True)
class EdgeUse:
    """An edge and the tasks at its ends; shares are of the measured part.

    Attributes:
        waits: of each producer, how long its writer waited for a buffer.
        pool: of each producer, how long it waited although every channel could have gone on.
        way: the same, while data was on its way.
        working: of each consumer, how long it had something to work on.
        held: by producer and consumer.
        blocked, in_socket, flush: time of the channels, by producer and consumer.
        late: of the buffers of remote channels, the share that were long on their way; missing
            where there were none.
        records: of each consumer.
        has_barriers: checkpoint barriers passed.
    """

    ends: EdgeEnds
    waits: Mapping[int, float]
    pool: Mapping[int, float]
    way: Mapping[int, float]
    working: Mapping[int, float]
    held: Mapping[Pair, Held]
    blocked: Mapping[Pair, float]
    in_socket: Mapping[Pair, float]
    flush: Mapping[Pair, float]
    late: Mapping[Pair, float]
    records: Mapping[int, int]
    channels: Mapping[Pair, ChannelInfo]
    has_barriers: bool = False

    @property
    def most_waiting(self) -> int:
        """The producer that waited most."""
        return max(self.waits, key=lambda producer: self.waits[producer])

    def process_of(self, consumer: int) -> str:
        """The TaskManager of a consumer."""
        return next(
            info.consumer_process for (_, own), info in self.channels.items() if own == consumer
        )


def edge_use(observed: ObservedRun) -> EdgeUse:
    """An edge of a run that recorded itself."""
    run, rows = observed.run, observed.rows
    whole_ns = max(run.duration_ns, 1)
    amounts = {(row.producer, row.consumer, row.what): row.amount for row in rows.task_times}

    def share(producer: int, consumer: int, what: str) -> float:
        return amounts.get((producer, consumer, what), 0) / whole_ns

    channels = {(info.producer, info.consumer): info for info in run.manifest.channels}
    producers = sorted({producer for producer, _ in channels})
    consumers = sorted({consumer for _, consumer in channels})
    pair_of = {info.index: pair for pair, info in channels.items()}
    spent = {name: dict.fromkeys(channels, 0.0) for name in _REGIMES}
    for row in rows.regimes:
        if row.regime in spent and row.channel in pair_of:
            spent[row.regime][pair_of[row.channel]] += row.ns / whole_ns
    records = dict.fromkeys(consumers, 0)
    consumer_of = {info.index: info.consumer for info in run.manifest.channels}
    for counted in rows.throughput_by_channel:
        if counted.channel in consumer_of:
            records[consumer_of[counted.channel]] += counted.records
    passed = {pair: amounts.get((*pair, TRANSITS), 0) for pair in channels}
    return EdgeUse(
        ends_of(run.manifest, run.edge),
        waits={each: share(each, EVERY, WAITS) for each in producers},
        pool={each: share(each, EVERY, FOR_POOL) for each in producers},
        way={each: share(each, EVERY, ON_THE_WAY) for each in producers},
        working={each: share(EVERY, each, WORKING) for each in consumers},
        held={
            pair: Held(
                share(*pair, AT_CONSUMER),
                share(*pair, AT_BARRIER),
                share(*pair, ON_THE_WAY) + share(*pair, FOR_CREDIT),
            )
            for pair in channels
        },
        blocked=spent["blocked_by_alignment"],
        in_socket=spent["in_socket"],
        flush=spent["waiting_for_flush"],
        late={
            pair: amounts.get((*pair, LATE_TRANSITS), 0) / count
            for pair, count in passed.items()
            if count and not channels[pair].is_local
        },
        records=records,
        channels=channels,
        has_barriers=any(row.data_type in BARRIERS for row in rows.messages),
    )


_REGIMES = ("blocked_by_alignment", "in_socket", "waiting_for_flush")


@dataclass(frozen=True, slots=True)
class JobUse:
    """All edges of a run, and the names of its tasks.

    Attributes:
        task_names: of vertices, by index.
        loop_busy: of TaskManagers, the share of the time in which the event loop was busy, as far
            as the run itself reported it.
        loop_lacked: the same for how long it wanted a processor in vain.
    """

    edges: Sequence[EdgeUse]
    task_names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    is_tcp: bool = False
    loop_busy: Mapping[str, float] = field(default_factory=dict)
    loop_lacked: Mapping[str, float] = field(default_factory=dict)

    def pressed(self, vertex: int, subtask: int) -> float:
        """Share of its time in which a task waited for its output."""
        own = [each for each in self.edges if each.ends.source == vertex]
        return min(sum(each.waits.get(subtask, 0.0) for each in own), 1.0)

    def busy(self, vertex: int, subtask: int) -> float:
        """Share of its time in which a task had input and did not wait for its output."""
        own = [each for each in self.edges if each.ends.target == vertex]
        working = max((each.working.get(subtask, 0.0) for each in own), default=0.0)
        return max(working - self.pressed(vertex, subtask), 0.0)

    def consumer_name(self, edge: EdgeUse, consumer: int) -> str:
        """A task that reads an edge."""
        ends = edge.ends
        return self._name(ends.target, ends.target_name, consumer, len(edge.working))

    def producer_name(self, edge: EdgeUse, producer: int) -> str:
        """A task that writes to an edge."""
        ends = edge.ends
        return self._name(ends.source, ends.source_name, producer, len(edge.waits))

    def _name(self, vertex: int, name: str, subtask: int, count: int) -> str:
        names = self.task_names.get(vertex, ())
        return names[subtask] if subtask < len(names) else task_of(name, subtask, count)


def job_use(edges: Sequence[ObservedRun]) -> JobUse:
    """The edges of a run that recorded itself."""
    manifest = edges[0].run.manifest
    is_tcp = manifest.scenario.get("flow_control") == "tcp"
    return JobUse(
        [edge_use(each) for each in edges],
        _task_names(manifest),
        is_tcp,
        _reported(edges[0], "busy_share"),
        _reported(edges[0], "lacked_share"),
    )


def _reported(observed: ObservedRun, name: str) -> dict[str, float]:
    """Shares of TaskManagers in the result that the run left."""
    processors = result_of(observed.run).get("processors")
    shares = processors.get(name) if isinstance(processors, Mapping) else None
    if not isinstance(shares, Mapping):
        return {}
    return {each: share for each, share in shares.items() if isinstance(share, int | float)}


def _task_names(manifest: RunManifest) -> dict[int, Sequence[str]]:
    job: Any = manifest.scenario.get("job")
    if not isinstance(job, Mapping):
        return {}
    found = {each["index"]: each.get("tasks") for each in job["vertices"]}
    return {
        index: names
        for index, names in found.items()
        if isinstance(names, list) and all(isinstance(each, str) for each in names)
    }
