"""Joins recordings that are one run, as those of taps on many hosts.

A partition names the execution graph of its producer, and each submission of a job has another one.
So recordings with the same execution, or with a common channel by the id of its receiver, belong to
one job and one run; others are separate runs, as repetitions are. Recordings of one clock of which
one ends before the other begins are separate, too, unless the later one has a channel whose request
only the earlier one has, as in rotated captures. A channel in two recordings is counted once, in
the recording that has more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property

from flinknet.results import ClockRelation, ReplayedRecording
from flinknet.storage import AnyPath, name_below
from flinknet.trace import Run, RunManifest
from flinknet.trace.index import spans_of
from flinknet.trace.job_names import partition_of
from flinknet.trace.recordings import Recording, common_directory, joined
from flinknet.trace.trace_file import ChannelRange

from .clocks import SameChannel, is_same_clock, relate


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
        """Path of its run directory."""
        assert self.run.manifest is not None, "a trace file alone is refused"
        return self.run.manifest

    @cached_property
    def executions(self) -> frozenset[bytes]:
        """The execution graphs that its partitions name."""
        partitions = {each.partition for each in self.manifest.channels}
        found = map(partition_of, partitions)
        return frozenset(
            each.producer_id.execution_graph_id.raw for each in found if each is not None
        )

    @cached_property
    def receivers(self) -> Mapping[str, tuple[int, str]]:
        """Its channels and their partitions by the id of their receivers."""
        return {each.receiver_id: (each.index, each.partition) for each in self.manifest.channels}

    @property
    def measured(self) -> tuple[int, int] | None:
        """From its first data buffer to its last one; None without any."""
        from_ns, to_ns = self.manifest.measured_from_ns, self.manifest.measured_to_ns
        return None if from_ns is None or to_ns is None else (from_ns, to_ns)

    @cached_property
    def spans(self) -> Mapping[int, tuple[int, int, int]]:
        """Number of events of each channel, with the first instant and the last one."""
        return spans_of(self.run.files)


@dataclass(frozen=True, slots=True)
class JoinedPart:
    """A recording within its run.

    Attributes:
        recording: with its channels and its clock in the run; None: none of its channels count,
            because others have more of each.
        channels_counted: number of its channels that count.
    """

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
        return _may_be_one(parts[one], parts[other])

    def root(place: int) -> int:
        while group[place] != place:
            group[place] = group[group[place]]
            place = group[place]
        return place

    for place, part in enumerate(parts):
        if not part.manifest.is_from_between:
            continue
        keys: Iterable[bytes | str] = [*part.executions, *part.receivers]
        if together is Together.ONE:
            keys = [""]
        for key in keys:
            known = owners.setdefault(key, [])
            fitting = [
                other
                for other in known
                if root(other) == root(place)
                or together is Together.ONE
                or may_be_one(other, place)
            ]
            for other in fitting:
                first, own = sorted((root(other), root(place)))
                group[own] = first
            if not fitting:
                known.append(place)
    found: dict[int, list[Part]] = {}
    for place, part in enumerate(parts):
        found.setdefault(root(place), []).append(part)
    return list(found.values())


def without_idle(groups: Sequence[list[Part]]) -> tuple[list[list[Part]], list[Part]]:
    """The groups without recordings of taps that no data passed, which are of no run; and these,
    unless they are all that there is."""
    is_idle = [
        not others and each.manifest.is_from_between and each.measured is None
        for each, *others in groups
    ]
    if all(is_idle):
        return list(groups), []
    used = [group for group, idle in zip(groups, is_idle, strict=True) if not idle]
    return used, [group[0] for group, idle in zip(groups, is_idle, strict=True) if idle]


def _may_be_one(one: Part, other: Part) -> bool:
    """Whether two recordings that have ids in common may be one run, by when they were made."""
    clocks = one.manifest.clock, other.manifest.clock
    spans = one.measured, other.measured
    if not is_same_clock(*clocks) or spans[0] is None or spans[1] is None:
        return True
    if spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]:
        return True
    shared = one.receivers.keys() & other.receivers.keys()
    return any(not (one.receivers[each][1] and other.receivers[each][1]) for each in shared)


def join(parts: Sequence[Part]) -> list[JoinedPart]:
    """The part of each recording in the run that they make up."""
    same = _same_channels(parts)
    clocks = relate([each.run for each in parts], same)
    owners = _owners(parts, clocks, same)
    labels = _labels([each.run.path for each in parts])
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
    """The run that some recordings are."""
    counted = [(each.recording, each.part.run) for each in members if each.recording is not None]
    return joined([each for each, _ in counted], [each.of(run) for each, run in counted])


def _same_channels(
    parts: Sequence[Part],
) -> dict[tuple[int, int], list[SameChannel]]:
    """Channels in both of two recordings: by the id of the receiver, and by the partition where
    both know it."""
    first: dict[str, list[tuple[int, int, str]]] = {}
    for place, part in enumerate(parts):
        for channel in part.manifest.channels:
            holders = first.setdefault(channel.receiver_id, [])
            holders.append((place, channel.index, channel.partition))
    found: dict[tuple[int, int], list[SameChannel]] = {}
    for holders in first.values():
        one, index, partition = holders[0]
        for other, other_index, other_partition in holders[1:]:
            is_other = partition and other_partition and partition != other_partition
            if other != one and not is_other:
                found.setdefault((one, other), []).append((index, other_index))
    return found


def _owners(
    parts: Sequence[Part],
    clocks: Sequence[ClockRelation],
    same: Mapping[tuple[int, int], Sequence[SameChannel]],
) -> dict[tuple[int, int], tuple[int, int] | None]:
    """For each channel in several recordings, by recording and number: the channel whose number it
    has in the run; None if it does not count."""
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
        keys.setdefault(channel.edge, None)
        if keys[channel.edge] is None and (found := partition_of(channel.partition)) is not None:
            keys[channel.edge] = (
                found.producer_id.execution_graph_id.raw,
                str(found.partition_id.intermediate_data_set_id),
            )
    numbers = {
        edge: known.setdefault(key, len(known)) for edge, key in keys.items() if key is not None
    }
    return [numbers.get(edge, 0) for edge in range(1 + max(keys, default=0))]


def _ranges(numbers: Sequence[tuple[int, int]]) -> list[ChannelRange]:
    """Pairs of a channel and its number as ranges."""
    found: list[ChannelRange] = []
    for channel, number in sorted(numbers):
        last = found[-1] if found else None
        if last is not None and (channel, number) == (
            last.first + last.count,
            last.number + last.count,
        ):
            found[-1] = replace(last, count=last.count + 1)
        else:
            found.append(ChannelRange(channel, 1, number))
    return found


def _labels(paths: Sequence[AnyPath]) -> list[str]:
    """Labels of recordings: their paths from the common directory."""
    common = common_directory(paths)
    return [name_below(path, common) for path in paths]


def described_recordings(
    members: Sequence[JoinedPart], from_ns: int
) -> tuple[ReplayedRecording, ...]:
    """Descriptions of the recordings of a run.

    Args:
        from_ns: start of the measured part of the run.
    """
    labels = _labels([each.part.run.path for each in members]) if members else []
    found = []
    for label, each in zip(labels, members, strict=True):
        manifest, span = each.part.manifest, each.part.measured
        since_ns = each.clock.offset_ns - from_ns
        found.append(
            ReplayedRecording(
                str(each.part.run.path),
                label,
                manifest.started_at,
                len(manifest.channels),
                each.channels_counted,
                None if span is None else span[0] + since_ns,
                None if span is None else span[1] + since_ns,
                each.clock,
            )
        )
    return tuple(found)
