"""A recorded job: its exchanges, how they follow each other, and what its tasks pass on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flinknet.arrays import IntArray

from .fit.delays import NO_DELAYS, Delays
from .fit.unseen import Unseen
from .job_unknown import BEHIND_UNKNOWN, NO_RECORDS, SEVERAL_INPUTS
from .recorded import RecordedChannel, RecordedExchange

WHOLE_WITHIN = 0.02
"""A task whose outputs are so close to a whole number for each input emits that number."""

UNKNOWN_ORIGIN = -1


@dataclass(frozen=True, slots=True, eq=False)
class JobEdge:
    """An exchange within its job.

    Attributes:
        source, target: the vertices that it joins.
        exchange: as it was recorded. Consumers are numbered as the producers of the exchanges
            behind them are.
        delays: that its machines add.
        has_own_instants: its recorded arrivals are when its producers emitted its records; False
            where they are when those came to the job.
        unseen: what was not recorded of it, to be drawn; None for nothing.
        why_unknown: why nothing can be said of it; None if something can.
        is_in_turn: its producers are known to send to each channel in turn, or each record to all.
    """

    source: int
    target: int
    exchange: RecordedExchange
    delays: Delays = NO_DELAYS
    has_own_instants: bool = True
    unseen: Unseen | None = None
    why_unknown: str | None = None
    is_in_turn: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """Records in the order in which a task was done with them.

    Attributes:
        at_ns: when.
        origins_ns: when they came to the job, less what machines delayed them by;
            UNKNOWN_ORIGIN where that is not known.
    """

    at_ns: IntArray
    origins_ns: IntArray


NOTHING = Departures(np.zeros(0, np.int64), np.zeros(0, np.int64))


class RecordedJob:
    """The exchanges of a job.

    Attributes:
        edges: those of one task before those behind it.
    """

    def __init__(self, edges: Sequence[JobEdge]) -> None:
        self.edges = tuple(edges)

    @cached_property
    def feeding(self) -> tuple[int | None, ...]:
        """Of each edge the one whose consumers are its producers; None behind a source. Of several
        the first, and `whys_unknown` names the reason.
        """
        return tuple(next(iter(self._into(each.source)), None) for each in self.edges)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The edges that lead out of the job."""
        sources = {each.source for each in self.edges}
        return tuple(n for n, each in enumerate(self.edges) if each.target not in sources)

    @cached_property
    def whys_unknown(self) -> tuple[str | None, ...]:
        """Of each edge, why it cannot be predicted under any setting; None if it can."""
        found: list[str | None] = []
        for number, each in enumerate(self.edges):
            why = each.why_unknown
            inputs, before = len(self._into(each.source)), self.feeding[number]
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
        """Of each edge, what its producers do with their inputs; empty behind a source."""
        found: list[dict[int, Passage]] = []
        for each, before in zip(self.edges, self.feeding, strict=True):
            taken_ns: dict[int, list[IntArray]] = {}
            if before is not None:
                for channel in self.edges[before].exchange.channels:
                    taken_ns.setdefault(channel.consumer, []).append(channel.arrivals_ns)
            found.append(_passages(each, taken_ns))
        return tuple(found)

    def without(self, whys: Sequence[str | None]) -> RecordedJob:
        """The same with edges that were found to be unknown."""
        return RecordedJob(
            [
                each if why is None or each.why_unknown else replace(each, why_unknown=why)
                for each, why in zip(self.edges, whys, strict=True)
            ]
        )

    def _into(self, vertex: int) -> list[int]:
        return [number for number, each in enumerate(self.edges) if each.target == vertex]


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """What a task does with its records.

    Attributes:
        outputs_per_input: records out for each one in.
        routes: channels of successive records out, as recorded or in turn; over and over if there
            are more.
    """

    outputs_per_input: float
    routes: IntArray

    def inputs(self, count: int) -> IntArray:
        """Of each record out, the record of so many in that it follows from."""
        outputs = np.arange(round(count * self.outputs_per_input))
        found: IntArray = (outputs / self.outputs_per_input).astype(np.int64)
        return np.minimum(found, max(count - 1, 0))

    def through(self, departures: Departures) -> Iterator[tuple[int, Departures]]:
        """What comes to each channel of departures of the task's inputs."""
        inputs = self.inputs(len(departures.at_ns))
        if not len(inputs):
            return
        routes = np.resize(self.routes, len(inputs))
        for channel in np.unique(routes).tolist():
            own = inputs[routes == channel]
            yield channel, Departures(departures.at_ns[own], departures.origins_ns[own])


def _passages(edge: JobEdge, taken_ns: Mapping[int, Sequence[IntArray]]) -> dict[int, Passage]:
    """By producer; those whose inputs were not recorded are left out.

    Args:
        taken_ns: by producer, the instants of its inputs on each channel.
    """
    found = {}
    for producer, parts in taken_ns.items():
        channels = edge.exchange.channels
        own = [each for each in channels if each.producer == producer and each.records]
        inputs_ns = np.sort(np.concatenate(parts))
        if not own or not len(inputs_ns):
            continue
        instants_ns = np.sort(np.concatenate([each.arrivals_ns for each in own]))
        ratio = _outputs_per_input(inputs_ns, instants_ns)
        numbers = np.array([each.channel for each in own], np.int64)
        found[producer] = Passage(ratio, numbers if edge.is_in_turn else _routes(edge, own))
    return found


def _routes(edge: JobEdge, own: Sequence[RecordedChannel]) -> IntArray:
    """The channels of successive records of a producer."""
    if edge.unseen is not None:
        passed = [each.channel for each in own if each.connection >= 0]
        within = [each.channel for each in own if each.connection < 0]
        return edge.unseen.routes(passed, within, edge.exchange.seed)
    instants_ns = np.concatenate([each.arrivals_ns for each in own])
    numbers = np.array([each.channel for each in own], np.int64)
    routes = np.repeat(numbers, [each.records for each in own])
    return routes[np.argsort(instants_ns, kind="stable")]


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
