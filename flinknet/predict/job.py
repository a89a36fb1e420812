"""A recorded job: its edges in the direction of flow, and what tasks pass on from one to the next.

One producer and one consumer are a job of one edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from flinknet.arrays import IntArray
from flinknet.options.what_if import Setting
from flinknet.trace.job_names import Edge
from flinknet.trace.manifest import RUN

from .kernel.memory import Barrier
from .outcome import BEHIND_UNKNOWN, NO_RECORDS, SEVERAL_INPUTS
from .recorded import RecordedExchange

WHOLE_WITHIN = 0.02
"""Share by which the outputs of a task may differ from a whole number for each input."""

UNKNOWN_ORIGIN = -1

AT_TIMES_FROM = 0.995
"""Share of arriving records from which an edge takes all of them in the end."""

LATE_PART = 0.75
"""Part of the time in which records come; records behind it show whether a job falls behind."""

LATE_RECORDS_MIN = 10
"""Fewest late records of a consumer that count alone: fewer may have come with one burst. Those of
all such consumers are looked at together."""

_STEPS = (197, 211, 223, 227, 229, 233)
"""Steps prime to the number of quantiles of a spread, so that each quantile comes equally often."""

WAIT_STEPS = (239, 241, 251, 263, 269, 271)
"""Steps for waits for late flushes, which do not depend on the delays of any edge."""


@dataclass(frozen=True, slots=True, eq=False)
class JobEdge:
    """An edge of a recorded job. Consumers have the numbers of the producers behind them. Without
    instants of its own its recorded arrivals are those at the job, not those at its producers."""

    edge: Edge  # its number and name, the vertices and tasks at its ends
    exchange: RecordedExchange  # with the TaskManagers of tasks in this attempt of the job
    has_own_instants: bool = True
    why_unknown: str | None = None  # why it cannot be predicted; None if it can
    is_in_turn: bool = False  # producers send to each channel in turn, or each record to all


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """Records in the order in which a task was done with them."""

    at_ns: IntArray
    origins_ns: IntArray  # when they came to the job, less machines' delays; or UNKNOWN_ORIGIN


NOTHING = Departures(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class RecordedJob:
    """A job in a part of a recording."""

    edges: Sequence[JobEdge]  # in the direction of flow
    origin: str = RUN  # what recorded it: run, tap or capture
    notes: Sequence[str] = ()  # assumptions, as lines

    @property
    def settings(self) -> tuple[Setting, ...]:
        exchanges = (each.exchange for each in self.edges)
        return tuple(Setting(each.network, each.flow_control) for each in exchanges)

    @cached_property
    def feeding(self) -> tuple[int | None, ...]:
        """Place of the edge before each one; None behind a source. Of several it is the first, and
        `whys_unknown` names the reason."""
        return tuple(next(iter(self._into(each.edge.source)), None) for each in self.edges)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Places of the edges that lead out of the job."""
        sources = {each.edge.source for each in self.edges}
        return tuple(n for n, each in enumerate(self.edges) if each.edge.target not in sources)

    @cached_property
    def whys_unknown(self) -> tuple[str | None, ...]:
        """Reason why each edge cannot be predicted under any setting; None if it can."""
        found: list[str | None] = []
        for number, each in enumerate(self.edges):
            why = each.why_unknown
            inputs, before = len(self._into(each.edge.source)), self.feeding[number]
            if why is None and inputs > 1:
                why = SEVERAL_INPUTS.format(inputs)
            if why is None and not each.exchange.records:
                why = NO_RECORDS
            if why is None and before is not None and found[before] is not None:
                why = BEHIND_UNKNOWN
            found.append(why)
        return tuple(found)

    @cached_property
    def passages(self) -> tuple[dict[int, Passage], ...]:
        """Passages of the producers of each edge; empty behind a source."""
        found: list[dict[int, Passage]] = []
        for each, before in zip(self.edges, self.feeding, strict=True):
            taken_ns: dict[int, list[IntArray]] = {}
            if before is not None:
                for channel in self.edges[before].exchange.channels:
                    taken_ns.setdefault(channel.consumer, []).append(channel.arrivals_ns)
            found.append(_passages(each, taken_ns))
        return tuple(found)

    def _into(self, vertex: int) -> list[int]:
        return [number for number, each in enumerate(self.edges) if each.edge.target == vertex]


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """Way of a task's records from its inputs to its outputs."""

    outputs_per_input: float
    routes: IntArray  # channels of successive records written, recorded or in turn; repeated

    def inputs(self, count: int) -> IntArray:
        """For `count` records read, the place of the one that each record written follows from."""
        outputs = np.arange(round(count * self.outputs_per_input))
        found: IntArray = (outputs / self.outputs_per_input).astype(np.int64)
        return np.minimum(found, max(count - 1, 0))

    def through(self, departures: Departures) -> Iterator[tuple[int, Departures]]:
        """Each channel with the records that come to it from departures of the task's inputs."""
        inputs = self.inputs(len(departures.at_ns))
        if not len(inputs):
            return
        routes = np.resize(self.routes, len(inputs))
        for channel in np.unique(routes).tolist():
            own = inputs[routes == channel]
            yield channel, Departures(departures.at_ns[own], departures.origins_ns[own])


def _passages(edge: JobEdge, taken_ns: Mapping[int, Sequence[IntArray]]) -> dict[int, Passage]:
    """Passage of each producer whose inputs were recorded, by their instants on each channel."""
    found = {}
    for producer, parts in taken_ns.items():
        channels = edge.exchange.channels
        own = [each for each in channels if each.producer == producer and each.records]
        inputs_ns = np.sort(np.concatenate(parts))
        if not own or not len(inputs_ns):
            continue
        instants_ns = np.concatenate([each.arrivals_ns for each in own])
        ratio = _outputs_per_input(inputs_ns, np.sort(instants_ns))
        routes, unseen = np.array([each.channel for each in own], np.int64), edge.exchange.unseen
        if unseen is not None and not edge.is_in_turn:
            passed = [each.channel for each in own if each.connection >= 0]
            within = [each.channel for each in own if each.connection < 0]
            routes = unseen.routes(passed, within, edge.exchange.seed)
        elif not edge.is_in_turn:
            routes = np.repeat(routes, [each.records for each in own])
            routes = routes[np.argsort(instants_ns, kind="stable")]
        found[producer] = Passage(ratio, routes)
    return found


def _outputs_per_input(inputs_ns: IntArray, outputs_ns: IntArray) -> float:
    """How many records a task emits for each that it takes. A whole number, where no more records
    are missing or left over than were within the task and before it at times: some of them are so
    at the beginning and at the end of a window."""
    ratio = len(outputs_ns) / len(inputs_ns)
    whole = max(round(ratio), 1)
    came = np.searchsorted(inputs_ns, outputs_ns, side="right")
    within = came * ratio - np.arange(1, len(outputs_ns) + 1)
    off = abs(len(outputs_ns) - whole * len(inputs_ns))
    if off <= max(WHOLE_WITHIN * whole * len(inputs_ns), float(np.ptp(within))):
        return float(whole)
    return ratio


def falls_behind(
    departed: Iterable[Departures], start_ns: int, duration_ns: int, beats_ns: int
) -> bool:
    """Whether a consumer lags behind the sources ever farther: all records that come late are older
    than the youngest of the window by more than AT_TIMES_FROM would leave over. Sources may end
    long before the window does. Records wait for flushers for `beats_ns` at most, all in all."""
    departed = tuple(departed)
    last_ns = max((int(own.origins_ns.max(initial=start_ns)) for own in departed), default=start_ns)
    duration_ns = min(duration_ns, last_ns - start_ns)
    lag_ns = (1.0 - AT_TIMES_FROM) * LATE_PART * duration_ns
    grown_ns: list[IntArray] = []  # by what late records of a consumer are older than its youngest
    of_few_ns: list[IntArray] = []
    for own in departed:
        is_known = own.origins_ns != UNKNOWN_ORIGIN
        ages_ns, origins_ns = (own.at_ns - own.origins_ns)[is_known], own.origins_ns[is_known]
        late_ns = ages_ns[origins_ns >= start_ns + LATE_PART * duration_ns]
        if len(late_ns):
            found = grown_ns if len(late_ns) >= LATE_RECORDS_MIN else of_few_ns
            found.append(late_ns - ages_ns.min())
    if sum(map(len, of_few_ns)) >= LATE_RECORDS_MIN:
        grown_ns.append(np.concatenate(of_few_ns))
    return any(
        each.min() > max(lag_ns, beats_ns * min(5.0 / np.sqrt(len(each)), 1.0) + 1_000_000)
        for each in grown_ns
    )


def passed_on(barriers: Mapping[int, IntArray], producers: int) -> tuple[IntArray, ...]:
    """Barriers that each producer passes on, as in RecordedExchange: those it has as a consumer. A
    producer without records does as the first of the others."""
    found = [each for each in barriers.values() if len(each)]
    rows = []
    for number in range(max(map(len, found), default=0)):
        there = (each[number] for each in found if number < len(each))
        rows.append(min(there, key=lambda row: int(row[0])))
    first = np.array(rows, np.int64).reshape(-1, Barrier.width())
    return tuple(barriers.get(producer, first) for producer in range(producers))


def in_order(parts: Mapping[int, Departures], taken_from: IntArray | None) -> Departures:
    """The departures of all channels of a consumer, in the order in which it took them: by the
    channels of these records, or where these are unknown by instants."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    own = [parts[channel] for channel in sorted(parts)]
    at_ns = np.concatenate([each.at_ns for each in own])
    origins_ns = np.concatenate([each.origins_ns for each in own])
    if taken_from is None:
        order = np.argsort(at_ns, kind="stable")
    else:
        order = np.argsort(np.argsort(taken_from, kind="stable"), kind="stable")
    return Departures(at_ns[order], origins_ns[order])


def drawn_delays(
    spread_ns: IntArray, count: int, number: int, steps: Sequence[int] = _STEPS
) -> IntArray:
    """Delays of successive records, unlike on successive edges."""
    if not len(spread_ns):
        return np.zeros(count, np.int64)
    places = (np.arange(count) * steps[number % len(steps)] + 61 * number) % len(spread_ns)
    found: IntArray = spread_ns[places]
    return found
