"""The clocks of recordings that make up a run, each related to that of the first one.

Recordings of one host have one clock. Where two recorded the same channel, its messages relate
their clocks: data passes the one nearer to the producer first, credit the other one, so that each
message bounds the offset from one side. Other clocks are related by the wall clocks of the hosts,
whose error is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.results import ClockRelation
from flinknet.results.recordings import ASSUMED, BASES, MESSAGES, SAME_CLOCK, WALL_CLOCKS
from flinknet.trace import ClockInfo, Run, RunManifest, TraceReader

CHANNELS_COMPARED = 8
"""Most channels of two recordings that are compared."""

ROWS_COMPARED = 50_000
"""Most rows of each channel in each file that are compared, from its start."""

_COLUMNS = ("at_ns", "point", "kind", "sequence_number")
_NOTHING: IntArray = np.zeros(0, np.int64)

SameChannel = tuple[int, int]
"""A channel in two recordings, by its number in each."""


@dataclass(frozen=True, slots=True, eq=False)
class _Passed:
    """Instants at which the messages of a channel passed a recording, as far as they can be
    identified.

    Attributes:
        sequence_number, data_ns: buffers and events of the producer, ascending.
        asked_ns: the request for the partition, and each credit message after it.
    """

    sequence_number: IntArray
    data_ns: IntArray
    asked_ns: IntArray


def relate(
    runs: Sequence[Run], same: Mapping[tuple[int, int], Sequence[SameChannel]]
) -> list[ClockRelation]:
    """Relate the clock of each run to that of the first.

    Args:
        same: channels that two of the runs both recorded.
    """
    manifests = [_manifest(run) for run in runs]
    steps: dict[int, list[tuple[int, ClockRelation]]] = {}
    group = list(range(len(runs)))  # of those that are related: the smallest of its places

    def add(one: int, other: int, found: ClockRelation) -> None:
        steps.setdefault(one, []).append((other, found))
        steps.setdefault(other, []).append((one, _turned(found)))
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
        relations[place] = (
            by_wall_clocks(manifests[0], manifests[place])
            if place
            else ClockRelation(SAME_CLOCK, 0, 0)
        )
        waiting = [place]
        for known in waiting:
            nearest = sorted(steps.get(known, ()), key=lambda step: step[1].error_ns or 0)
            for other, step in nearest:
                if other not in relations:
                    relations[other] = _after(relations[known], step)
                    waiting.append(other)
    return [relations[place] for place in range(len(runs))]


def by_messages(one: Run, other: Run, channels: Sequence[SameChannel]) -> ClockRelation | None:
    """Relate two clocks by messages that both recorded; None without any.

    Credit messages have no number: they are counted from the request on. If that is contradictory,
    because one was missed, only the requests are compared.
    """
    passed = [
        (_passed(one, left), _passed(other, right))
        for left, right in sorted(channels)[:CHANNELS_COMPARED]
    ]
    data = [_between(*each) for each in passed]
    data_ns = np.concatenate([*data, _NOTHING])
    if not len(data_ns):
        return None
    for messages in (None, 1):
        asked = []
        for left, right in passed:
            count = min(len(left.asked_ns), len(right.asked_ns), messages or ROWS_COMPARED)
            asked.append(left.asked_ns[:count] - right.asked_ns[:count])
        asked_ns = np.concatenate([*asked, _NOTHING])
        if not len(asked_ns):
            break
        ways = (
            (int(data_ns.max()), int(asked_ns.min())),
            (int(asked_ns.max()), int(data_ns.min())),
        )
        possible = [(low, high) for low, high in ways if low <= high]
        if possible:
            low, high = min(possible, key=lambda each: each[1] - each[0])
            return ClockRelation(MESSAGES, (low + high) // 2, (high - low + 1) // 2)
    return ClockRelation(MESSAGES, int(np.median(data_ns)), None)


def by_wall_clocks(first: RunManifest, other: RunManifest) -> ClockRelation:
    """Relate two clocks by the wall clocks of both hosts, if both recordings state them; else by
    the assumption that their data began at the same time."""
    ours, theirs = epoch_ns(first.clock), epoch_ns(other.clock)
    if ours is not None and theirs is not None:
        return ClockRelation(WALL_CLOCKS, ours - theirs, None)
    starts = first.measured_from_ns, other.measured_from_ns
    offset_ns = 0 if starts[0] is None or starts[1] is None else starts[0] - starts[1]
    return ClockRelation(ASSUMED, offset_ns, None)


def is_same_clock(one: ClockInfo, other: ClockInfo) -> bool:
    """Whether two recordings are known to have one clock: that of a boot of one host."""
    return bool(one.host_id) and (one.name, one.host_id) == (other.name, other.host_id)


def epoch_ns(clock: ClockInfo) -> int | None:
    """The instant of a clock at which the wall clock showed 0; None if unknown."""
    return 0 if clock.name == "CLOCK_REALTIME" else clock.epoch_ns


def _passed(run: Run, channel: int) -> _Passed:
    """Messages of a channel in a recording, from its start."""
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
        return _Passed(_NOTHING, _NOTHING, _NOTHING)
    found = {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}
    is_sent = (found["kind"] == MessageKind.BUFFER_RESPONSE) & (found["point"] == TracePoint.SENT)
    number, first = np.unique(found["sequence_number"][is_sent], return_index=True)
    is_request = found["kind"] == MessageKind.PARTITION_REQUEST
    is_asked = is_request | (found["kind"] == MessageKind.ADD_CREDIT)
    since = int(np.argmax(is_request)) if is_request.any() else len(is_request)
    return _Passed(
        number.astype(np.int64),
        found["at_ns"][is_sent][first].astype(np.int64),
        found["at_ns"][since:][is_asked[since:]].astype(np.int64),
    )


def _between(left: _Passed, right: _Passed) -> IntArray:
    """Difference of the instants of each buffer that both have, each by its own clock."""
    _, ours, theirs = np.intersect1d(
        left.sequence_number, right.sequence_number, assume_unique=True, return_indices=True
    )
    later: IntArray = left.data_ns[ours] - right.data_ns[theirs]
    return later


def _manifest(run: Run) -> RunManifest:
    assert run.manifest is not None, "a trace file alone is in no set"
    return run.manifest


def _turned(relation: ClockRelation) -> ClockRelation:
    return ClockRelation(relation.basis, -relation.offset_ns, relation.error_ns)


def _after(known: ClockRelation, step: ClockRelation) -> ClockRelation:
    """Relate a clock by one that is related to the first."""
    weakest = max(known.basis, step.basis, key=BASES.index)
    errors = known.error_ns, step.error_ns
    error_ns = None if errors[0] is None or errors[1] is None else errors[0] + errors[1]
    return ClockRelation(weakest, known.offset_ns + step.offset_ns, error_ns)
