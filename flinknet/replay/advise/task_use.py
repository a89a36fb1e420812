"""What the tasks of a job did with their time, put together from all its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from flinknet.arrays import FloatArray, IntArray
from flinknet.trace import ChannelInfo, RunManifest
from flinknet.trace.job_names import Edge

from ..observe.observed_run import ObservedRun
from ..observe.question import EVERY
from ..observe.task_times import (
    AT_BARRIER,
    AT_CONSUMER,
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
from .channel_times import channel_ends
from .edges import task_of

Pair = tuple[int, int]
"""Producer and consumer."""

_Value = TypeVar("_Value")


class ByPair(Mapping[Pair, _Value]):
    """Something of each of some pairs, as arrays: a dictionary of a million takes ten times the
    memory.

    Args:
        producers, consumers: pairs that differ, in the order in which they are gone through.
        value: of the pair at a place.
    """

    def __init__(
        self, producers: IntArray, consumers: IntArray, value: Callable[[int], _Value]
    ) -> None:
        self._producers, self._consumers, self._value = producers, consumers, value
        self._keys = _key(producers, consumers)
        self._order = np.argsort(self._keys, kind="stable")

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Pair]:
        for start in range(0, len(self), _PAIRS_AT_ONCE):
            some = slice(start, start + _PAIRS_AT_ONCE)
            yield from zip(
                self._producers[some].tolist(), self._consumers[some].tolist(), strict=True
            )

    def __getitem__(self, pair: Pair) -> _Value:
        found = int(places_of(self._keys, self._order, np.array([_key(*pair)]))[0])
        if found < 0:
            raise KeyError(pair)
        return self._value(found)


_PAIRS_AT_ONCE = 4_096


def _key(producer: Any, consumer: Any) -> Any:
    return producer * (1 << 32) + consumer


def places_of(keys: IntArray, order: IntArray, wanted: IntArray) -> IntArray:
    """Where the wanted ones are among keys; -1 for what is not there.

    Args:
        order: that sorts the keys.
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, place, -1)


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

    ends: Edge
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
    channel, producer, consumer = channel_ends(run.manifest)
    keys = _key(producer, consumer)
    producers, consumers = np.unique(producer), np.unique(consumer)
    records = np.zeros(len(consumers), np.int64)
    taken = rows.throughput_by_channel.of(channel, "records")
    np.add.at(records, np.searchsorted(consumers, consumer), taken)
    newest = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
    newest.sort()  # of several channels between two tasks
    channel, producer, consumer = channel[newest], producer[newest], consumer[newest]
    amounts = _Amounts(observed)

    def of_pairs(share: FloatArray) -> ByPair[float]:
        return ByPair(producer, consumer, lambda place: float(share[place]))

    def held(place: int) -> Held:
        return Held(float(at_consumer[place]), float(at_barrier[place]), float(way[place]))

    at_consumer, at_barrier, on_the_way, for_credit = (
        amounts.of(what, producer, consumer) / whole_ns
        for what in (AT_CONSUMER, AT_BARRIER, ON_THE_WAY, FOR_CREDIT)
    )
    way = on_the_way + for_credit
    spent = {name: rows.regimes.of(channel, name) / whole_ns for name in _REGIMES}
    passed, late = (amounts.of(what, producer, consumer) for what in (TRANSITS, LATE_TRANSITS))
    infos = run.manifest.channels
    is_local = np.fromiter((infos[each].is_local for each in newest), bool, len(newest))
    remote = np.flatnonzero((passed > 0) & ~is_local)
    late_share = late[remote] / passed[remote]

    def of_producers(what: str) -> dict[int, float]:
        found = amounts.of(what, producers, np.full(len(producers), EVERY)) / whole_ns
        return dict(zip(producers.tolist(), found.tolist(), strict=True))

    working = amounts.of(WORKING, np.full(len(consumers), EVERY), consumers) / whole_ns
    return EdgeUse(
        run.ends,
        waits=of_producers(WAITS),
        pool=of_producers(FOR_POOL),
        way=of_producers(ON_THE_WAY),
        working=dict(zip(consumers.tolist(), working.tolist(), strict=True)),
        held=ByPair(producer, consumer, held),
        blocked=of_pairs(spent["blocked_by_alignment"]),
        in_socket=of_pairs(spent["in_socket"]),
        flush=of_pairs(spent["waiting_for_flush"]),
        late=ByPair(producer[remote], consumer[remote], lambda place: float(late_share[place])),
        records=dict(zip(consumers.tolist(), records.tolist(), strict=True)),
        channels=ByPair(producer, consumer, lambda place: infos[newest[place]]),
        has_barriers=any(row.data_type in BARRIERS for row in rows.messages),
    )


class _Amounts:
    """The amounts of TaskTimeRow of a run."""

    def __init__(self, observed: ObservedRun) -> None:
        self._rows = observed.rows.task_times

    def of(self, what: str, producer: IntArray, consumer: IntArray) -> IntArray:
        """Those of some pairs; 0 where there is none."""
        own = self._rows.where("what", what)
        keys, amounts = _key(own["producer"], own["consumer"]), own["amount"]
        if not len(keys):
            return np.zeros(len(producer), np.int64)
        place = places_of(keys, np.argsort(keys, kind="stable"), _key(producer, consumer))
        found: IntArray = np.where(place >= 0, amounts[place], 0)
        return found


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
