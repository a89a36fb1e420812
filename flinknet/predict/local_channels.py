"""Channels within TaskManagers, which nobody between them sees, by Flink's plan and counters.

The plan says which channels an edge has and where its tasks run; each task counts the records that
it took and emitted, and the local share of the bytes that came to it. These counters give the
number of records on local channels. Their instants are those of a recorded channel of the same
producer, scaled to that number.

An edge without any recorded channel lies behind another one, or before one. Behind it, records come
as the task between them is done with its inputs; the counters give their number for each input, and
the shares of the consumers. Before it, records are assumed to come when the task between them
passed them on: up to a beat of the flusher late, and alike for all of them. The cost of a message
there is that of the other edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.wiring import DistributionPattern, Wiring
from flinknet.trace import ChannelInfo, Run, RunManifest
from flinknet.trace.index import spans_of
from flinknet.trace.job_names import Edge, named_edges
from flinknet.trace.metrics import Series
from flinknet.trace.recordings import RunPlace, series_within

from .fit.arrivals import Seen, Unseen
from .fit.queued import (
    BYTES_IN_LOCAL,
    BYTES_IN_REMOTE,
    RECORDS_IN,
    RECORDS_OUT,
    busy_ns_per_record,
    consuming_tasks,
    series_of_tasks,
)
from .fit.round_trips import ASSUMED_CONSUME_NS_PER_RECORD
from .intervals import GOLDEN
from .ramps import Ramps
from .recorded import RecordedChannel, RecordedExchange

BUFFERS_IN_LOCAL = "numBuffersInLocal"

IN_TURN = frozenset({"rebalance", "rescale"})
"""Partitioners that take one channel after the other."""

BROADCAST = "broadcast"

COUNTED_WITHIN = 0.05
"""Share by which the records that a task took and emitted may differ if it takes one for each:
counters are read once a second."""

NO_COUNTERS = (
    "its channels are local, which a tap does not see, and Flink's counters do not say what passed"
    " on them"
)


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """An edge as Flink has laid it.

    Attributes:
        places: TaskManager of each producer, and of each consumer, as numbers.
    """

    index: int
    wiring: Wiring
    partitioner: str
    places: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def local(self) -> list[tuple[int, int]]:
        """Producer and consumer of each channel within a TaskManager."""
        upstream, downstream = self.places
        return [
            (producer, consumer)
            for producer, consumer, _ in self.wiring
            if upstream[producer] == downstream[consumer]
        ]


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """Counters of the tasks of an edge, each by its subtask; None for missing ones.

    Attributes:
        emitted_per_s: records of producers; of a broadcast one counts once.
        taken_per_s: records of producers from their own inputs.
        local_share: local share of the bytes that came to consumers.
        record_bytes, message_records: mean size of a record, and mean number in a message, on
            local channels.
    """

    emitted_per_s: tuple[float | None, ...]
    taken_per_s: tuple[float | None, ...]
    received_per_s: tuple[float | None, ...]
    local_share: tuple[float | None, ...]
    record_bytes: float | None
    message_records: float | None


def planned_edge(manifest: RunManifest, index: int) -> PlannedEdge | None:
    """An edge of the job; None where Flink's plan of it is not known, where tasks have no place, or
    where its consumers have other inputs, too, and so do not count those of this edge.
    """
    edges = named_edges(manifest)
    named = edges.get(index)
    if named is None or named.channels is None or named.local_channels is None:
        return None
    if sum(each.target == named.target for each in edges.values()) > 1:
        return None
    found = _planned(manifest, named)
    return found if found is not None and len(found.local) == named.local_channels else None


def _planned(manifest: RunManifest, edge: Edge) -> PlannedEdge | None:
    """An edge by its number of channels and the places of its tasks; None without these."""
    vertices = {each["index"]: each for each in manifest.scenario["job"]["vertices"]}
    source, target = (vertices[each]["task_managers"] for each in (edge.source, edge.target))
    numbers = {place: number for number, place in enumerate(dict.fromkeys([*source, *target]))}
    wiring = _wiring_of(edge)
    if wiring is None or None in numbers:
        return None
    places = tuple(numbers[each] for each in source), tuple(numbers[each] for each in target)
    return PlannedEdge(edge.index, wiring, partitioner_of(manifest, edge.index), places)


def at_places_of(
    manifest: RunManifest,
    place: RunPlace,
    from_ns: int,
    to_ns: int,
    recorded: Iterable[ChannelInfo],
) -> RunManifest:
    """The manifest with the places that the tasks of a job had in a part of a recording: those of
    its attempt, by Flink's metrics; a manifest has the places of the last attempt.

    Args:
        recorded: channels that were recorded in this part.
    """
    known = {
        (each.job, each.vertex, each.task): each.task_manager
        for each in series_within(place, from_ns, to_ns)
        if each.task is not None and each.task_manager is not None
    }
    if not known or not isinstance(manifest.scenario.get("job"), Mapping):
        return manifest
    job: dict[str, Any] = dict(manifest.scenario["job"])
    vertices = [
        {
            **vertex,
            "task_managers": [
                known.get((vertex.get("job"), vertex.get("id"), task), stated)
                for task, stated in zip(vertex["tasks"], vertex["task_managers"], strict=True)
            ],
        }
        for vertex in job["vertices"]
    ]
    job["vertices"] = vertices
    manifest = replace(manifest, scenario={**manifest.scenario, "job": job})
    ends = {(each.edge, each.producer, each.consumer) for each in recorded}
    local: dict[int, int] = {}
    for index, edge in named_edges(manifest).items():
        planned = _planned(manifest, edge)
        if planned is not None:
            local[index] = sum((index, *each) not in ends for each in planned.local)
    job["edges"] = [
        {**each, "local_channels": local.get(each["index"], each["local_channels"])}
        for each in job["edges"]
    ]
    return manifest


def recorded_within(run: Run, from_ns: int, to_ns: int) -> list[ChannelInfo]:
    """The channels with events within [from_ns, to_ns)."""
    assert run.manifest is not None
    spans = spans_of(run.files)
    return [
        each
        for each in run.manifest.channels
        if each.index in spans and spans[each.index][1] < to_ns and spans[each.index][2] >= from_ns
    ]


def partitioner_of(manifest: RunManifest, index: int) -> str:
    """The name of the partitioner of an edge of the job."""
    edges: Any = manifest.scenario["job"]["edges"]
    return next(str(each["partitioner"]) for each in edges if each["index"] == index)


def _wiring_of(edge: Edge) -> Wiring | None:
    """By the number of channels."""
    for pattern in (DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE):
        wiring = Wiring(pattern, len(edge.source_tasks), len(edge.target_tasks))
        if wiring.channels == edge.channels:
            return wiring
    return None


def counts_of(
    place: RunPlace, manifest: RunManifest, index: int, from_ns: int, to_ns: int
) -> EdgeCounts:
    """Counters of the tasks at the ends of an edge in a part of a run."""
    named = named_edges(manifest)[index]
    source, target = (
        series_of_tasks(place, manifest, vertex, from_ns, to_ns)
        for vertex in (named.source, named.target)
    )
    own = [target.get(each) for each in named.target_tasks]
    local_bytes = _sum(own, BYTES_IN_LOCAL)
    records, buffers = _sum(own, RECORDS_IN), _sum(own, BUFFERS_IN_LOCAL)
    return EdgeCounts(
        tuple(_rate(source.get(each), RECORDS_OUT) for each in named.source_tasks),
        tuple(_rate(source.get(each), RECORDS_IN) for each in named.source_tasks),
        tuple(_rate(each, RECORDS_IN) for each in own),
        tuple(map(_local_share, own)),
        local_bytes / records if local_bytes and records else None,
        records / buffers if buffers and records else None,
    )


def _rate(series: Series | None, name: str) -> float | None:
    return None if series is None else series.increase_per_s(name)


def _sum(series: Sequence[Series | None], name: str) -> float:
    return sum(_rate(each, name) or 0.0 for each in series)


def _local_share(series: Series | None) -> float | None:
    local, remote = _rate(series, BYTES_IN_LOCAL), _rate(series, BYTES_IN_REMOTE)
    if local is None or remote is None or not local + remote:
        return None
    return local / (local + remote)


def with_local_channels(
    exchange: RecordedExchange, unseen: Unseen, edge: PlannedEdge, counts: EdgeCounts
) -> RecordedExchange | None:
    """A partly recorded exchange with its other channels; None where the counters do not give
    the number of their records.
    """
    ends = {each.channel: (each.producer, each.consumer) for each in exchange.channels}
    local = [each for each in edge.local if each not in set(ends.values())]
    recorded = {each: int(seen.records.sum()) for each, seen in unseen.seen.items()}
    received = [0] * edge.wiring.consumers
    for channel, count in recorded.items():
        received[ends[channel][1]] += count
    records_of = _local_records(local, received, counts, (unseen.to_ns - unseen.from_ns) / 1e9)
    if records_of is None or not recorded:
        return None
    first = 1 + max(ends)
    found: dict[int, Seen] = {}
    ends_of: dict[int, tuple[int, int]] = {}
    turns = [0] * edge.wiring.producers
    for (producer, consumer), records in records_of.items():
        own = [each for each in recorded if ends[each][0] == producer] or [*recorded]
        like = own[turns[producer] % len(own)]
        turns[producer] += 1
        scaled = unseen.seen[like].times(records / max(recorded[like], 1))
        if len(scaled.records):
            found[first + len(found)] = scaled
            ends_of[first + len(found) - 1] = producer, consumer
    unseen = replace(unseen, seen={**unseen.seen, **found})
    arrivals = unseen.arrivals(exchange.seed)
    weights = [each.records for each in exchange.channels]
    sizes = [each.record_wire_bytes for each in exchange.channels]
    mean_bytes = float(np.average(sizes, weights=weights)) if any(weights) else sizes[0]
    channels = [
        RecordedChannel(channel, *ends_of[channel], -1, arrivals[channel], mean_bytes)
        for channel in found
    ]
    return replace(
        exchange, channels=(*exchange.channels, *channels), task_managers=edge.places, unseen=unseen
    )


def _local_records(
    local: Sequence[tuple[int, int]], received: Sequence[int], counts: EdgeCounts, duration_s: float
) -> dict[tuple[int, int], float] | None:
    """How many records passed on each local channel.

    Args:
        received: by each consumer on recorded channels.
    """
    found = {}
    for consumer in dict.fromkeys(consumer for _, consumer in local):
        share, per_s = counts.local_share[consumer], counts.received_per_s[consumer]
        if received[consumer] and share is not None and share < 1:
            records = received[consumer] * share / (1 - share)
        elif per_s is not None:
            records = max(per_s * duration_s - received[consumer], 0.0)
        else:
            return None
        producers = [each for each, to in local if to == consumer]
        emitted = [counts.emitted_per_s[each] or 0.0 for each in producers]
        whole = sum(emitted)
        for producer, own in zip(producers, emitted, strict=True):
            part = own / whole if whole else 1 / len(producers)
            found[producer, consumer] = records * part
    return found


@dataclass(frozen=True, slots=True)
class LocalEdge:
    """An edge without any recorded channel.

    Attributes:
        counted: the part of it whose counts are used.
    """

    place: RunPlace
    manifest: RunManifest
    edge: PlannedEdge
    counted: tuple[int, int]

    def behind(self, before: RecordedExchange) -> RecordedExchange | None:
        """The exchange behind another one; None where counters are missing."""
        edge = self.edge
        counts = counts_of(self.place, self.manifest, edge.index, *self.counted)
        if None in (*counts.emitted_per_s, *counts.taken_per_s, *counts.received_per_s):
            return None
        passed: dict[tuple[int, int], IntArray] = {}
        for producer in range(edge.wiring.producers):
            parts = [each.arrivals_ns for each in before.channels if each.consumer == producer]
            inputs_ns = _in_order(parts)
            taken, emitted = counts.taken_per_s[producer], counts.emitted_per_s[producer]
            outputs = round(len(inputs_ns) * (emitted or 0.0) / taken) if taken else 0
            others, instants_ns = edge.wiring.consumers_of(producer), _as_many(inputs_ns, outputs)
            for each, own in self._shares(instants_ns, others, counts.received_per_s):
                passed[producer, each] = own
        return self._exchange(before, passed, counts)

    def before(self, behind: RecordedExchange, partitioner: str) -> RecordedExchange | None:
        """The exchange before another one, which leads away from its consumers; None where counters
        are missing.

        Args:
            partitioner: partitioner of the other one.
        """
        edge = self.edge
        counts = counts_of(self.place, self.manifest, edge.index, *self.counted)
        if None in (*counts.emitted_per_s, *counts.received_per_s):
            return None
        passed: dict[tuple[int, int], IntArray] = {}
        for consumer in range(edge.wiring.consumers):
            parts = [each.arrivals_ns for each in behind.channels if each.producer == consumer]
            if partitioner == BROADCAST:
                parts = parts[:1]
            duration_s = behind.duration_ns / 1e9
            records = round((counts.received_per_s[consumer] or 0.0) * duration_s)
            outputs_ns = _in_order(parts)
            if abs(records - len(outputs_ns)) <= COUNTED_WITHIN * len(outputs_ns):
                records = len(outputs_ns)
            others, instants_ns = edge.wiring.partitions_of(consumer), _as_many(outputs_ns, records)
            for each, own in self._shares(instants_ns, others, counts.emitted_per_s):
                passed[each, consumer] = own
        return self._exchange(behind, passed, counts)

    def _shares(
        self, instants_ns: IntArray, others: Iterable[int], per_s: Sequence[float | None]
    ) -> Iterator[tuple[int, IntArray]]:
        """The records of a task as they go to several others, or come from them: all to each, in
        turn, or in no order that repeats itself."""
        tasks = list(others)
        share = np.array([per_s[each] or 0.0 for each in tasks])
        if self.edge.partitioner == BROADCAST:
            yield from ((each, instants_ns) for each in tasks)
            return
        if self.edge.partitioner in IN_TURN or not share.any():
            routes = np.arange(len(instants_ns)) % len(share)
        else:
            places = np.arange(len(instants_ns)) * GOLDEN % 1.0
            routes = np.searchsorted(np.cumsum(share) / share.sum(), places, side="right")
        yield from ((each, instants_ns[routes == at]) for at, each in enumerate(tasks))

    def _exchange(
        self, like: RecordedExchange, passed: Mapping[tuple[int, int], IntArray], counts: EdgeCounts
    ) -> RecordedExchange | None:
        edge = self.edge
        tasks = consuming_tasks(self.place, self.manifest, edge.index, *self.counted)
        busy_ns = busy_ns_per_record(tasks, is_all_seen=True)
        record_bytes = counts.record_bytes or like.channels[0].record_wire_bytes
        filled = {ends: instants_ns for ends, instants_ns in passed.items() if len(instants_ns)}
        if not filled:
            return None
        message_ns = like.costs.receive_ns_per_message / (counts.message_records or 1.0)
        consume_ns = tuple(
            max(busy_ns.get(each, 0.0) - message_ns, ASSUMED_CONSUME_NS_PER_RECORD)
            for each in range(edge.wiring.consumers)
        )
        return replace(
            like,
            producers=edge.wiring.producers,
            consumers=edge.wiring.consumers,
            channels=tuple(
                RecordedChannel(number, *ends, -1, Ramps.of(instants_ns), record_bytes)
                for number, (ends, instants_ns) in enumerate(filled.items())
            ),
            costs=replace(like.costs, consume_ns_per_record=consume_ns),
            task_managers=edge.places,
            has_instants=False,
            partitioner=edge.partitioner,
            pauses={},
            unseen=None,
        )


def _in_order(parts: Sequence[IntArray]) -> IntArray:
    return np.sort(np.concatenate([*parts, np.zeros(0, np.int64)]))


def _as_many(instants_ns: IntArray, count: int) -> IntArray:
    """A number of records at the instants of others."""
    if not len(instants_ns):
        return instants_ns
    return instants_ns[np.arange(count) * len(instants_ns) // max(count, 1)]
