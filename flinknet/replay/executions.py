"""Executions of jobs in a trace that was recorded between processes, and their start-up.

A partition names the execution graph of its producer. A job that is submitted again has another
one; a job that restarts keeps it, and its tasks have a higher attempt.

The start of a job is not marked, but visible: channels open one after another, and the rate rises
or a backlog is reduced. So the start-up lasts until every channel has carried data and the bytes of
a window are near those of most windows. In the first two or three seconds, while a JVM loads and
compiles classes, credit comes back two to six times as late; where the trace shows the begin of the
job, the start-up lasts until it comes back about as soon as later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import BUCKETS, bucket_index
from flinknet.trace import ChannelInfo, RunManifest, TraceFile, TraceReader, file_index
from flinknet.trace.event_block import is_data
from flinknet.trace.index import spans_of
from flinknet.trace.job_names import producer_of

SEARCH_NS = 120_000_000_000
"""Length of the beginning of a trace that is searched for the start-up."""

SEARCH_MIN_NS = 2_000_000_000
"""Shortest trace in which the start-up can be distinguished from the rest."""

WINDOWS = 40
MOST = WINDOWS // 4
"""Windows of the searched part, and windows of start-up at most."""

NEAR = 1.5
"""Factor by which the bytes of a steady window differ from the median at most, and by which its
share of slow buffers is at most higher than later."""

SLOW = 0.1
"""Share of the buffers in the later half that are slow: those whose credit takes longest."""

TOGETHER = 4
"""Windows whose slow buffers are counted together: one alone has few buffers."""

BUFFERS_MIN = 20
"""Fewest buffers in TOGETHER windows that say how soon credit comes back."""

_COLUMNS = (*("at_ns", "channel", "point", "kind", "data_type", "payload_bytes"), "sequence_number")


Spans = Mapping[int, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a job, or a part of it between two restarts: its channels with events, from
    its first event to behind its last one; how often the task that was started most often was
    started again; and its longest part, if there are several."""

    channels: tuple[ChannelInfo, ...]
    from_ns: int
    to_ns: int
    restarts: int = 0
    longest: Execution | None = None


def executions_of(manifest: RunManifest, files: Iterable[TraceFile]) -> list[Execution]:
    """The executions in a trace with events, the earliest first. A channel whose request was not
    recorded belongs to the one that was there when it began."""
    spans = spans_of(files)
    known: dict[bytes, list[ChannelInfo]] = {}
    strays: list[ChannelInfo] = []
    for channel in manifest.channels:
        if channel.index in spans:
            producer = producer_of(channel.partition)
            own = known.setdefault(producer.execution_graph_id.raw, []) if producer else strays
            own.append(channel)
    if strays and not known:
        return [_execution(strays, spans)]
    found = [_execution(own, spans) for own in known.values()]
    found.sort(key=lambda each: each.from_ns)
    for stray in strays:
        at_ns = spans[stray.index][1]
        place = max((i for i, each in enumerate(found) if each.from_ns <= at_ns), default=0)
        found[place] = _execution([*found[place].channels, stray], spans)
    return found


def _execution(channels: Sequence[ChannelInfo], spans: Spans) -> Execution:
    attempts = (producer_of(each.partition) for each in channels)
    return Execution(
        tuple(sorted(channels, key=lambda each: each.index)),
        min(spans[each.index][1] for each in channels),
        max(spans[each.index][2] for each in channels) + 1,
        max((each.attempt_number for each in attempts if each is not None), default=0),
        _longest_attempt(channels, spans),
    )


def _longest_attempt(channels: Sequence[ChannelInfo], spans: Spans) -> Execution | None:
    """The longest part between the instants at which tasks of a new attempt began to be read."""
    begun_ns: dict[int, int] = {}
    for each in channels:
        producer = producer_of(each.partition)
        number = 0 if producer is None else producer.attempt_number
        first_ns = spans[each.index][1]
        begun_ns[number] = min(begun_ns.get(number, first_ns), first_ns)
    if len(begun_ns) < 2:
        return None
    end_ns = max(spans[each.index][2] for each in channels) + 1
    parts = []
    for from_ns, to_ns in pairwise([*sorted(begun_ns.values()), end_ns]):
        with_spans = [(each, *spans[each.index][1:]) for each in channels]
        own = [x for x, first, last in with_spans if last >= from_ns and first < to_ns]
        last_ns = max(spans[each.index][2] for each in own) + 1
        own.sort(key=lambda each: each.index)
        parts.append(Execution(tuple(own), from_ns, min(last_ns, to_ns)))
    return max(parts, key=lambda each: each.to_ns - each.from_ns)


@dataclass(slots=True, eq=False)
class _Windows:
    """Traffic in the windows of the searched part: bytes, buffers by the time until their credit
    came back, when each channel first carried data, and whether one began."""

    width_ns: int
    passed_bytes: IntArray = field(default_factory=lambda: np.zeros(WINDOWS, np.int64))
    credited: IntArray = field(default_factory=lambda: np.zeros((WINDOWS, BUCKETS), np.int64))
    first_ns: dict[int, int] = field(default_factory=dict)
    is_begun: bool = False

    def add(self, block: EventColumns, from_ns: int) -> None:
        is_known = block["channel"] >= 0
        is_inside = (block["at_ns"] >= from_ns) & (
            block["at_ns"] < from_ns + WINDOWS * self.width_ns
        )
        data = is_data(block, TracePoint.SENT) & is_known & is_inside
        at_ns = block["at_ns"][data].astype(np.int64) - from_ns
        channels = block["channel"][data]
        np.add.at(self.passed_bytes, at_ns // self.width_ns, block["payload_bytes"][data])
        # an event or two come before the first buffer
        self.is_begun |= bool((block["sequence_number"][data] <= 3).any())
        credit = (block["kind"] == MessageKind.ADD_CREDIT) & is_known
        back_ns = block["at_ns"][credit].astype(np.int64) - from_ns
        back_of = block["channel"][credit]
        order = np.lexsort((back_ns, back_of))
        back_ns, back_of = back_ns[order], back_of[order]
        for channel in np.unique(channels).tolist():
            own_ns = at_ns[channels == channel]
            self.first_ns[channel] = min(self.first_ns.get(channel, SEARCH_NS), int(own_ns.min()))
            first, last = np.searchsorted(back_of, [channel, channel + 1])
            place = first + np.searchsorted(back_ns[first:last], own_ns)
            is_back = place < last
            took_ns = back_ns[place[is_back]] - own_ns[is_back]
            np.add.at(self.credited, (own_ns[is_back] // self.width_ns, bucket_index(took_ns)), 1)

    @property
    def opened(self) -> int:
        early_ns = [each for each in self.first_ns.values() if each < MOST * self.width_ns]
        return max(early_ns, default=0) // self.width_ns


def start_up_ns(files: Iterable[TraceFile], from_ns: int, to_ns: int) -> int:
    """Time that the job needed to start, in the recorded part [from_ns, to_ns)."""
    searched_ns = min(to_ns - from_ns, SEARCH_NS)
    if searched_ns < SEARCH_MIN_NS:
        return 0
    windows = _Windows(searched_ns // WINDOWS)
    to_ns = from_ns + WINDOWS * windows.width_ns
    for file in files:
        with TraceReader(file, file_index(file).within(from_ns, to_ns)) as reader:
            for block in reader.events(_COLUMNS, None, from_ns, to_ns):
                windows.add(block, from_ns)
    # The first window that is like most, from the one on in which the last channel opened; that one
    # if there is none, for then the load itself is not steady.
    middle, first = float(np.median(windows.passed_bytes)), windows.opened
    near = (windows.passed_bytes >= middle / NEAR) & (windows.passed_bytes <= middle * NEAR)
    first += int(np.argmax(near[first : MOST + 1]))
    if windows.is_begun:
        first = _first_quick(windows.credited, first)
    return first * windows.width_ns


def _first_quick(credited: IntArray, steady: int) -> int:
    """The first window, from a steady one on, from which credit comes back about as soon as later;
    without one, that with clearly fewer slow buffers than at first, or else the steady one."""
    later = np.cumsum(credited[WINDOWS // 2 :].sum(axis=0))
    if later[-1] < BUFFERS_MIN:
        return steady
    slow_from = int(np.searchsorted(later, (1 - SLOW) * later[-1])) + 1
    passed, slow = credited.sum(axis=1), credited[:, slow_from:].sum(axis=1)
    shares = []
    for window in range(steady, MOST + 1):
        together = slice(window, window + TOGETHER)
        of = int(passed[together].sum())
        shares.append(float(slow[together].sum()) / of if of >= BUFFERS_MIN else 0.0)
        if shares[-1] <= NEAR * SLOW:
            return window
    return steady + int(np.argmin(shares)) if NEAR * min(shares) <= shares[0] else steady
