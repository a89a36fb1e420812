"""Joins recordings that are one run, as those of taps on many hosts.

Recordings with the same execution graph in a partition, which each submission of a job has anew, or
with a common channel by the id of its receiver, are one run. Recordings of one clock of which one
ends before the other begins are separate, unless the later one has a channel whose request only the
earlier one has, as in rotated captures. A channel in two recordings counts in the one that has more
of it.

Recordings of one host have one clock. Where two recorded the same channel, its messages relate
their clocks: data passes the one nearer to the producer first, credit the other one, so that each
message bounds the offset from one side. Clocks drift, so each second has its bounds, and the error
reaches from the lowest to the highest. Other clocks are related by the wall clocks of the hosts,
whose error is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from functools import cache, cached_property

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.results import ClockRelation
from flinknet.results.recordings import ASSUMED, BASES, MESSAGES, SAME_CLOCK, WALL_CLOCKS
from flinknet.storage import AnyPath, name_below
from flinknet.trace import ClockInfo, Run, RunManifest, TraceReader
from flinknet.trace.index import spans_of
from flinknet.trace.job_names import partition_of
from flinknet.trace.recordings import Recording, common_directory, joined
from flinknet.trace.trace_file import ChannelRange

CHANNELS_COMPARED, ROWS_COMPARED = 8, 50_000
"""Most channels of two recordings, and rows of each in each file, that are compared."""

_COLUMNS = ("at_ns", "point", "kind", "sequence_number")
_NOTHING: IntArray = np.zeros(0, np.int64)

SameChannel = tuple[int, int]
PART_NS, FOREVER_NS = 1_000_000_000, 2**62
"""Time in which messages bound the offset between drifting clocks; all, where few went one way."""


class Together(StrEnum):
    """Which of the recordings given are one run."""

    AUTO = "auto"
    ONE = "one"
    EACH = "each"


@dataclass(frozen=True)
class Part:
    """A recording that was opened, to be a run or a part of one."""

    recording: Recording
    run: Run

    @property
    def manifest(self) -> RunManifest:
        assert self.run.manifest is not None, "a trace file alone is refused"
        return self.run.manifest

    @cached_property
    def executions(self) -> frozenset[bytes]:
        found = map(partition_of, {each.partition for each in self.manifest.channels})
        return frozenset(each.producer_id.execution_graph_id.raw for each in found if each)

    @cached_property
    def receivers(self) -> Mapping[str, tuple[int, str]]:
        """Its channels and their partitions by the id of their receivers."""
        return {each.receiver_id: (each.index, each.partition) for each in self.manifest.channels}

    @property
    def measured(self) -> tuple[int, int] | None:
        """From its first data buffer to its last one."""
        from_ns, to_ns = self.manifest.measured_from_ns, self.manifest.measured_to_ns
        return None if from_ns is None or to_ns is None else (from_ns, to_ns)

    @cached_property
    def spans(self) -> Mapping[int, tuple[int, int, int]]:
        return spans_of(self.run.files)


@dataclass(frozen=True, slots=True)
class JoinedPart:
    """A recording with its channels and clock in the run; None if others have more of each."""

    part: Part
    recording: Recording | None
    channels_counted: int
    clock: ClockRelation


def groups_of(parts: Sequence[Part], together: Together = Together.AUTO) -> list[list[Part]]:
    """The recordings of each run, in the order of their first ones."""
    if together is Together.EACH:
        return [[each] for each in parts]
    owners: dict[bytes | str, list[int]] = {}
    group = list(range(len(parts)))

    @cache
    def may_be_one(one: int, other: int) -> bool:
        """Whether recordings that have ids in common may be one run, by when they were made."""
        first, later = parts[one], parts[other]
        if first.measured is None or later.measured is None:
            return True
        if not is_same_clock(first.manifest.clock, later.manifest.clock):
            return True
        if first.measured[0] < later.measured[1] and later.measured[0] < first.measured[1]:
            return True
        shared = first.receivers.keys() & later.receivers.keys()
        return any(not (first.receivers[x][1] and later.receivers[x][1]) for x in shared)

    is_one = together is Together.ONE
    for place, part in enumerate(parts):
        if not part.manifest.is_from_between:
            continue
        keys: Iterable[bytes | str] = [""] if is_one else [*part.executions, *part.receivers]
        for key in keys:
            known = owners.setdefault(key, [])
            fitting = [
                other
                for other in known
                if group[other] == group[place] or is_one or may_be_one(other, place)
            ]
            for other in fitting:
                first, last = sorted((group[other], group[place]))
                group = [first if each == last else each for each in group]
            if not fitting:
                known.append(place)
    found: dict[int, list[Part]] = {}
    for place, part in enumerate(parts):
        found.setdefault(group[place], []).append(part)
    return list(found.values())


def without_idle(groups: Sequence[list[Part]]) -> tuple[list[list[Part]], list[Part]]:
    """The groups but for taps that no data passed; and these, unless there are no others."""
    used = [
        group
        for group in groups
        if len(group) > 1 or not group[0].manifest.is_from_between or group[0].measured is not None
    ]
    idle = [group[0] for group in groups if group not in used]
    return (used, idle) if used else (list(groups), [])


def join(parts: Sequence[Part]) -> list[JoinedPart]:
    same = _same_channels(parts)
    clocks = relate(parts, same)
    owners = _owners(parts, clocks, same)
    labels = labels_of(each.run.path for each in parts)
    numbers: dict[tuple[int, int], int] = {}
    edges: dict[object, int] = {}
    members = []
    for place, part in enumerate(parts):
        own: list[tuple[int, int]] = []
        for channel in part.manifest.channels:
            owner = owners.get((place, channel.index), (place, channel.index))
            if owner is not None:
                own.append((channel.index, numbers.setdefault(owner, len(numbers))))
        recording = replace(
            part.recording,
            label=labels[place],
            channels=_ranges(own),
            edges=_edges(part, edges),
            offset_ns=clocks[place].offset_ns,
        )
        members.append(JoinedPart(part, recording if own else None, len(own), clocks[place]))
    return members


def run_of(members: Sequence[JoinedPart]) -> Run:
    counted = [(each.recording, each.part.run) for each in members if each.recording is not None]
    return joined([each for each, _ in counted], [each.of(run) for each, run in counted])


def _same_channels(parts: Sequence[Part]) -> dict[tuple[int, int], list[SameChannel]]:
    """Channels in two recordings, by the id of the receiver and, where known, the partition."""
    first: dict[str, tuple[int, int, str]] = {}
    found: dict[tuple[int, int], list[SameChannel]] = {}
    for place, part in enumerate(parts):
        for channel in part.manifest.channels:
            own = place, channel.index, channel.partition
            one, index, partition = first.setdefault(channel.receiver_id, own)
            is_other = partition and channel.partition and partition != channel.partition
            if place != one and not is_other:
                found.setdefault((one, place), []).append((index, channel.index))
    return found


def _owners(
    parts: Sequence[Part],
    clocks: Sequence[ClockRelation],
    same: Mapping[tuple[int, int], Sequence[SameChannel]],
) -> dict[tuple[int, int], tuple[int, int] | None]:
    """For channels in several recordings: the one whose number it has in the run; None if
    uncounted."""
    holders: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (one, other), channels in same.items():
        for index, other_index in channels:
            holders.setdefault((one, index), [(one, index)]).append((other, other_index))
    owners: dict[tuple[int, int], tuple[int, int] | None] = {}
    for first, own in holders.items():
        spans = {}
        for place, index in own:
            events, first_ns, last_ns = parts[place].spans.get(index, (0, 0, 0))
            offset_ns = clocks[place].offset_ns
            spans[place, index] = events, first_ns + offset_ns, last_ns + offset_ns
        taken: list[tuple[int, int]] = []
        for each in sorted(own, key=lambda each: -spans[each][0]):
            _, from_ns, to_ns = spans[each]
            is_apart = all(to_ns < spans[one][1] or from_ns > spans[one][2] for one in taken)
            if not taken or (is_apart and spans[each][0]):
                taken.append(each)
                owners[each] = first
            else:
                owners[each] = None
    return owners


def _edges(part: Part, known: dict[object, int]) -> list[int]:
    """The run's number of each edge of a recording: that of the data set and its execution."""
    keys: dict[int, object] = {}
    for channel in part.manifest.channels:
        if keys.get(channel.edge) is None:
            found = partition_of(channel.partition)
            data_set = found and str(found.partition_id.intermediate_data_set_id)
            keys[channel.edge] = found and (found.producer_id.execution_graph_id.raw, data_set)
    numbers = {edge: known.setdefault(key, len(known)) for edge, key in keys.items() if key}
    return [numbers.get(edge, 0) for edge in range(1 + max(keys, default=0))]


def _ranges(numbers: Sequence[tuple[int, int]]) -> list[ChannelRange]:
    found: list[ChannelRange] = []
    for channel, number in sorted(numbers):
        first, count, first_number = astuple(found[-1]) if found else (-1, 0, -1)
        if (channel, number) == (first + count, first_number + count):
            found[-1] = ChannelRange(first, count + 1, first_number)
        else:
            found.append(ChannelRange(channel, 1, number))
    return found


def labels_of(paths: Iterable[AnyPath]) -> list[str]:
    paths = list(paths)
    common = common_directory(paths)
    return [name_below(path, common) for path in paths]


# Clocks


_Passed = tuple[IntArray, IntArray, IntArray]
"""Instants at which a channel's messages passed a recording: those of the producer, behind their
ascending numbers; and of the request for the partition with each credit message after it."""


def relate(
    parts: Sequence[Part], same: Mapping[tuple[int, int], Sequence[SameChannel]]
) -> list[ClockRelation]:
    """Relate the clock of each recording to that of the first, by common channels."""
    manifests, runs = [each.manifest for each in parts], [each.run for each in parts]
    steps: dict[int, list[tuple[int, ClockRelation]]] = {}
    group = list(range(len(runs)))  # of those that are related: the smallest of its places

    def add(one: int, other: int, found: ClockRelation) -> None:
        steps.setdefault(one, []).append((other, found))
        steps.setdefault(other, []).append((one, replace(found, offset_ns=-found.offset_ns)))
        first, last = sorted((group[one], group[other]))
        group[:] = [first if each == last else each for each in group]

    first_of: dict[tuple[str, str], int] = {}
    for place, manifest in enumerate(manifests):
        clock = manifest.clock
        known = first_of.setdefault((clock.name, clock.host_id), place)
        if known != place and is_same_clock(manifests[known].clock, clock):
            add(known, place, ClockRelation(SAME_CLOCK, 0, 0))
    for (one, other), channels in sorted(same.items()):
        if group[one] == group[other]:
            continue
        found = by_messages(runs[one], runs[other], channels)
        if found is not None:
            add(one, other, found)
    relations: dict[int, ClockRelation] = {}
    for place in range(len(runs)):
        if place in relations:
            continue
        relations[place] = ClockRelation(SAME_CLOCK, 0, 0)
        if place:
            relations[place] = by_wall_clocks(manifests[0], manifests[place])
        waiting = [place]
        for known in waiting:
            nearest = sorted(steps.get(known, ()), key=lambda step: step[1].error_ns or 0)
            for other, step in nearest:
                if other in relations:
                    continue
                waiting.append(other)
                before, error_ns = relations[known], None
                if before.error_ns is not None and step.error_ns is not None:
                    error_ns = before.error_ns + step.error_ns
                basis = max(before.basis, step.basis, key=BASES.index)
                offset_ns = before.offset_ns + step.offset_ns
                relations[other] = ClockRelation(basis, offset_ns, error_ns)
    return [relations[place] for place in range(len(runs))]


def by_messages(one: Run, other: Run, channels: Sequence[SameChannel]) -> ClockRelation | None:
    """Relate two clocks by messages that both recorded; None without any. Credit messages are
    counted from the request on, as they have no number; if one was missed, only requests are
    compared."""
    passed = [
        (_passed(one, left), _passed(other, right))
        for left, right in sorted(channels)[:CHANNELS_COMPARED]
    ]
    both = []
    for (numbers, left_ns, _), (other_numbers, right_ns, _) in passed:
        _, ours, theirs = np.intersect1d(
            numbers, other_numbers, assume_unique=True, return_indices=True
        )
        both.append(np.stack((left_ns[ours], left_ns[ours] - right_ns[theirs])))
    data = np.concatenate(both, axis=1)
    if not data.size:
        return None
    for messages, part_ns in ((None, PART_NS), (None, FOREVER_NS), (1, FOREVER_NS)):
        asked = []
        for (_, _, left_ns), (_, _, right_ns) in passed:
            count = min(len(left_ns), len(right_ns), messages or ROWS_COMPARED)
            asked.append(np.stack((left_ns[:count], left_ns[:count] - right_ns[:count])))
        bounds = _bounds(data, np.concatenate(asked, axis=1), part_ns)
        if bounds is not None:
            low, high = bounds
            return ClockRelation(MESSAGES, (low + high) // 2, (high - low + 1) // 2)
    return ClockRelation(MESSAGES, int(np.median(data[1])), None)


def _bounds(data: IntArray, asked: IntArray, part_ns: int) -> tuple[int, int] | None:
    """The least and the most that the offset is in the parts with messages of both directions, each
    given with its instant, by the order of the recordings that leaves less; None if none can be."""
    (parts, *of_data), (others, *of_asked) = (_ends(each, part_ns) for each in (data, asked))
    _, here, there = np.intersect1d(parts, others, assume_unique=True, return_indices=True)
    data_low, data_high = (each[here] for each in of_data)
    asked_low, asked_high = (each[there] for each in of_asked)
    possible = [
        (int(low.min()), int(high.max()))
        for low, high in ((data_high, asked_low), (asked_high, data_low))
        if len(here) and (low <= high).all()
    ]
    return min(possible, key=lambda each: each[1] - each[0], default=None)


def _ends(messages: IntArray, part_ns: int) -> tuple[IntArray, ...]:
    """The parts of the time with messages, and the least and the largest of their offsets."""
    at_ns, offset_ns = messages
    order = np.argsort(at_ns, kind="stable")
    parts, first = np.unique(at_ns[order] // part_ns, return_index=True)
    if not len(parts):
        return parts, parts, parts
    return parts, *(each.reduceat(offset_ns[order], first) for each in (np.minimum, np.maximum))


def by_wall_clocks(first: RunManifest, other: RunManifest) -> ClockRelation:
    """Relate two clocks by wall clocks; if one is unknown, data is assumed to begin at one time."""
    ours, theirs = first.clock.wall_epoch_ns, other.clock.wall_epoch_ns
    if ours is not None and theirs is not None:
        return ClockRelation(WALL_CLOCKS, ours - theirs, None)
    starts = first.measured_from_ns, other.measured_from_ns
    offset_ns = 0 if starts[0] is None or starts[1] is None else starts[0] - starts[1]
    return ClockRelation(ASSUMED, offset_ns, None)


def is_same_clock(one: ClockInfo, other: ClockInfo) -> bool:
    """Whether two recordings are known to have one clock: that of a boot of one host."""
    return bool(one.host_id) and (one.name, one.host_id) == (other.name, other.host_id)


def _passed(run: Run, channel: int) -> _Passed:
    parts: list[dict[str, IntArray]] = []
    for file in run.files:
        rows = 0
        with TraceReader(file) as reader:
            for block in reader.events((*_COLUMNS, "order"), (channel,)):
                in_order = np.argsort(block["order"], kind="stable")
                parts.append({name: block[name][in_order] for name in _COLUMNS})
                rows += len(in_order)
                if rows >= ROWS_COMPARED:
                    break
    if not parts:
        return _NOTHING, _NOTHING, _NOTHING
    found = {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}
    is_sent = (found["kind"] == MessageKind.BUFFER_RESPONSE) & (found["point"] == TracePoint.SENT)
    number, first = np.unique(found["sequence_number"][is_sent], return_index=True)
    is_request = found["kind"] == MessageKind.PARTITION_REQUEST
    is_asked = is_request | (found["kind"] == MessageKind.ADD_CREDIT)
    since = int(np.argmax(is_request)) if is_request.any() else len(is_request)
    return (
        number.astype(np.int64),
        found["at_ns"][is_sent][first].astype(np.int64),
        found["at_ns"][since:][is_asked[since:]].astype(np.int64),
    )
