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

BROADCAST = "broadcast"

IN_TURN = frozenset({"rebalance", "rescale", BROADCAST})
"""Partitioners that take one channel after the other, or all for each record."""

COUNTED_WITHIN = 0.05
"""Share by which the records that a task took and emitted may differ if it takes one for each:
counters are read once a second."""

NO_COUNTERS = (
    "its channels are local, which a tap does not see, and Flink's counters do not say what passed"
    " on them"
)


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """An edge as Flink has laid it, with the TaskManager of each producer, and of each consumer, as
    numbers."""

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
    """Counters of the tasks of an edge, each by its subtask; None for missing ones."""

    emitted_per_s: tuple[float | None, ...]  # records of producers; of a broadcast one counts once
    taken_per_s: tuple[float | None, ...]  # records of producers from their own inputs
    received_per_s: tuple[float | None, ...]
    local_share: tuple[float | None, ...]  # of the bytes that came to consumers
    record_bytes: float | None  # mean size of a record on local channels
    message_records: float | None  # mean number of records in a message on local channels


def planned_edge(manifest: RunManifest, index: int) -> PlannedEdge | None:
    """An edge of the job; None where Flink's plan of it is not known, where tasks have no place, or
    where its consumers have other inputs, too, and so do not count those of this edge."""
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
    patterns = DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE
    ends = len(edge.source_tasks), len(edge.target_tasks)
    wirings = (Wiring(each, *ends) for each in patterns)
    wiring = next((each for each in wirings if each.channels == edge.channels), None)
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
    """The manifest with the places that the tasks of a job had in a part of a recording, of which
    these channels were recorded: those of its attempt, by Flink's metrics; a manifest has the
    places of the last attempt."""
    known = {
        (each.job, each.vertex, each.task): each.task_manager
        for each in series_within(place, from_ns, to_ns)
        if each.task is not None and each.task_manager is not None
    }
    if not known or not isinstance(manifest.scenario.get("job"), Mapping):
        return manifest
    job: dict[str, Any] = dict(manifest.scenario["job"])
    job["vertices"] = [dict(vertex) for vertex in job["vertices"]]
    for vertex in job["vertices"]:
        vertex["task_managers"] = [
            known.get((vertex.get("job"), vertex.get("id"), task), stated)
            for task, stated in zip(vertex["tasks"], vertex["task_managers"], strict=True)
        ]
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
    edges: Any = manifest.scenario["job"]["edges"]
    return next(str(each["partitioner"]) for each in edges if each["index"] == index)


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
    """A partly recorded exchange with its other channels; None where the counters do not give the
    number of their records."""
    ends = {each.channel: (each.producer, each.consumer) for each in exchange.channels}
    local = [each for each in edge.local if each not in ends.values()]
    recorded = {each: int(seen.records.sum()) for each, seen in unseen.seen.items()}
    received = [0] * edge.wiring.consumers
    for channel, count in recorded.items():
        received[ends[channel][1]] += count
    records_of = _local_records(local, received, counts, (unseen.to_ns - unseen.from_ns) / 1e9)
    if records_of is None or not recorded:
        return None
    first = 1 + max(ends)
    found: dict[int, Seen] = {}
    turns = [0] * edge.wiring.producers
    for (producer, consumer), records in records_of.items():
        own = [each for each in recorded if ends[each][0] == producer] or [*recorded]
        like = own[turns[producer] % len(own)]
        turns[producer] += 1
        scaled = unseen.seen[like].times(records / max(recorded[like], 1))
        if len(scaled.records):
            channel = first + len(found)
            found[channel], ends[channel] = scaled, (producer, consumer)
    unseen = replace(unseen, seen={**unseen.seen, **found})
    arrivals = unseen.arrivals(exchange.seed)
    weights = [each.records for each in exchange.channels]
    sizes = [each.record_wire_bytes for each in exchange.channels]
    mean_bytes = float(np.average(sizes, weights=weights)) if any(weights) else sizes[0]
    channels = [
        RecordedChannel(channel, *ends[channel], -1, arrivals[channel], mean_bytes)
        for channel in found
    ]
    return replace(
        exchange, channels=(*exchange.channels, *channels), task_managers=edge.places, unseen=unseen
    )


def _local_records(
    local: Sequence[tuple[int, int]], received: Sequence[int], counts: EdgeCounts, duration_s: float
) -> dict[tuple[int, int], float] | None:
    """How many records passed on each local channel, where these were received by each consumer on
    recorded channels."""
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


def filled_edge(
    place: RunPlace,
    manifest: RunManifest,
    edge: PlannedEdge,
    counted: tuple[int, int],
    near: RecordedExchange,
    next_one: int | None,
) -> RecordedExchange | None:
    """An edge without any recorded channel; None where counters are missing.

    Args:
        counted: the part of the recording whose counts are used.
        near: exchange before this one, or the one behind it, which leads away from its consumers.
        next_one: index of the one behind; None if `near` is the one before.
    """
    counts, is_behind = counts_of(place, manifest, edge.index, *counted), next_one is None
    sends_to_all = next_one is not None and partitioner_of(manifest, next_one) == BROADCAST
    needed = *counts.emitted_per_s, *counts.received_per_s
    if None in (*needed, *(counts.taken_per_s if is_behind else ())):
        return None
    passed: dict[tuple[int, int], IntArray] = {}
    for task in range(edge.wiring.producers if is_behind else edge.wiring.consumers):
        own = [x for x in near.channels if (x.consumer if is_behind else x.producer) == task]
        parts = [each.arrivals_ns for each in (own[:1] if sends_to_all else own)]
        instants_ns = np.sort(np.concatenate([*parts, np.zeros(0, np.int64)]))
        if is_behind:
            taken, emitted = counts.taken_per_s[task], counts.emitted_per_s[task]
            records = round(len(instants_ns) * (emitted or 0.0) / taken) if taken else 0
            others, per_s = edge.wiring.consumers_of(task), counts.received_per_s
        else:
            records = round((counts.received_per_s[task] or 0.0) * (near.duration_ns / 1e9))
            if abs(records - len(instants_ns)) <= COUNTED_WITHIN * len(instants_ns):
                records = len(instants_ns)
            others, per_s = edge.wiring.partitions_of(task), counts.emitted_per_s
        if len(instants_ns):
            instants_ns = instants_ns[np.arange(records) * len(instants_ns) // max(records, 1)]
        for other, shared_ns in _shares(edge, instants_ns, [*others], per_s):
            if len(shared_ns):
                passed[(task, other) if is_behind else (other, task)] = shared_ns
    if not passed:
        return None
    tasks = consuming_tasks(place, manifest, edge.index, *counted)
    busy_ns = busy_ns_per_record(tasks, is_all_seen=True)
    record_bytes = counts.record_bytes or near.channels[0].record_wire_bytes
    message_ns = near.costs.receive_ns_per_message / (counts.message_records or 1.0)
    consume_ns = tuple(
        max(busy_ns.get(each, 0.0) - message_ns, ASSUMED_CONSUME_NS_PER_RECORD)
        for each in range(edge.wiring.consumers)
    )
    return replace(
        near,
        producers=edge.wiring.producers,
        consumers=edge.wiring.consumers,
        channels=tuple(
            RecordedChannel(number, *ends, -1, Ramps.of(instants_ns), record_bytes)
            for number, (ends, instants_ns) in enumerate(passed.items())
        ),
        costs=replace(near.costs, consume_ns_per_record=consume_ns),
        task_managers=edge.places,
        has_instants=False,
        partitioner=edge.partitioner,
        pauses={},
        unseen=None,
    )


def _shares(
    edge: PlannedEdge, instants_ns: IntArray, tasks: Sequence[int], per_s: Sequence[float | None]
) -> Iterator[tuple[int, IntArray]]:
    """The records of a task as they go to several others, or come from them: all to each, in turn,
    or in no order that repeats itself."""
    share = np.array([per_s[each] or 0.0 for each in tasks])
    if edge.partitioner == BROADCAST:
        yield from ((each, instants_ns) for each in tasks)
        return
    if edge.partitioner in IN_TURN or not share.any():
        routes = np.arange(len(instants_ns)) % len(share)
    else:
        places = np.arange(len(instants_ns)) * GOLDEN % 1.0
        routes = np.searchsorted(np.cumsum(share) / share.sum(), places, side="right")
    yield from ((each, instants_ns[routes == at]) for at, each in enumerate(tasks))
