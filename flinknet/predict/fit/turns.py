"""What the turns of TaskManagers cost at the highest rate, from the instants of a trace.

A TaskManager is one thread that goes round: it takes what has arrived, sends what it may, lets its
tasks work, and sends again. It never rests but before something arrives. So the time from one of
its steps to the next is what the one costs, and before something is taken what taking it costs: as
long as it was there already. What found the thread idle tells how long it had been on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.simulator.cost_model import Preemptions
from flinknet.simulator.loop_costs import Jitter, LoopCosts
from flinknet.trace import RunManifest

from . import SAMPLES_MIN
from .preemptions import activity_of, longest_ns, uncontended_ns, union
from .steps import UNKNOWN_NS, Kind, Steps, steps_of
from .window_rows import ExchangeRows

FloatArray = npt.NDArray[Any]


_FOLLOWERS: Mapping[Kind, Sequence[Kind]] = {
    Kind.SENDS: [Kind.WRITES, Kind.SENDS],
    Kind.WRITES: [Kind.WAITS, Kind.SENDS],
    Kind.TAKES_CREDIT: [Kind.SENDS],
    Kind.RECEIVES: [Kind.ANNOUNCES, Kind.READS],
    Kind.ANNOUNCES: [Kind.READS],
    Kind.READS: [Kind.ANNOUNCES, Kind.READS],
}
"""What a process does next when it has not rested in between: then it is seen what a step cost."""

_BEFORE = {Kind.TAKES_CREDIT: Kind.WAITS, Kind.RECEIVES: Kind.READS}
"""After what it is seen what taking costs. After sending, what is there was mostly not there yet
but for a sending that took long."""


@dataclass(frozen=True, slots=True)
class Line:
    """A cost that has a fixed part and one for each unit."""

    fixed_ns: float
    unit_ns: float = 0.0

    def at(self, units: IntArray) -> FloatArray:
        """The cost of each."""
        found: FloatArray = self.fixed_ns + self.unit_ns * units
        return found


NOTHING = Line(0.0)


@dataclass(frozen=True, slots=True, eq=False)
class LoopFit:
    """What was found; processes by name.

    Attributes:
        costs: of turns, over all processes.
        send_ns_per_byte: of data handed to the socket.
        emit_ns_per_record: of a producer.
        runs: of the records that a consumer reads at one go.
        transit_ns: of a buffer until it could be read, from when it and what was ahead of it had
            been handed over, beside the fixed part of sending.
        back_ns: the same of credit.
        preemptions: instants as in the trace.
    """

    costs: LoopCosts
    send_ns_per_byte: float
    emit_ns_per_record: float
    runs: Mapping[str, Line]
    transit_ns: float
    back_ns: float
    preemptions: Mapping[str, Preemptions]


def fit_loop(rows: ExchangeRows, manifest: RunManifest) -> LoopFit | None:
    """Fit a window in which all rows are known.

    Returns: None where a process both produces and consumes, or did too little.
    """
    of_producers: dict[str, list[int]] = {}
    of_consumers: dict[str, list[int]] = {}
    for each in manifest.channels:
        of_producers.setdefault(each.producer_process, []).append(each.index)
        of_consumers.setdefault(each.consumer_process, []).append(each.index)
    if of_producers.keys() & of_consumers.keys() or not len(rows.sent["at_ns"]):
        return None
    upstream = {name: steps_of(rows, own, []) for name, own in of_producers.items()}
    downstream = {name: steps_of(rows, [], own) for name, own in of_consumers.items()}
    up, down = [*upstream.values()], [*downstream.values()]
    send, write = _line(up, Kind.SENDS), _line(up, Kind.WRITES)
    pick = _line(up, Kind.TAKES_CREDIT)
    decode, announce = _line(down, Kind.RECEIVES), _line(down, Kind.ANNOUNCES)
    runs = {name: _line([steps], Kind.READS) for name, steps in downstream.items()}
    records = int(np.maximum(rows.sent["records"], 0).sum())
    if not (send and write and pick and decode and announce and records):
        return None
    known = {name: line for name, line in runs.items() if line is not None}
    if len(known) < len(runs):
        return None
    sending = {Kind.SENDS: send, Kind.TAKES_CREDIT: pick, Kind.WRITES: write}
    reading = {Kind.RECEIVES: decode, Kind.ANNOUNCES: announce}
    ahead = [_Process(steps, sending) for steps in up]
    behind = [
        _Process(steps, reading | {Kind.READS: known[name]}) for name, steps in downstream.items()
    ]
    take, receive = _taking(ahead, Kind.TAKES_CREDIT), _taking(behind, Kind.RECEIVES)
    back_ns = _way_ns(ahead, Kind.TAKES_CREDIT, take, announce)
    transit_ns = _way_ns(behind, Kind.RECEIVES, receive, send)
    preemptions = {
        name: _preemptions(each, Kind.TAKES_CREDIT, take, announce, back_ns)
        for name, each in zip(upstream, ahead, strict=True)
    }
    preemptions |= {
        name: _preemptions(each, Kind.RECEIVES, receive, send, transit_ns)
        for name, each in zip(downstream, behind, strict=True)
    }
    writes = sum(int((each.kind == Kind.WRITES).sum()) for each in up)
    return LoopFit(
        LoopCosts(
            take_credit_ns=take.fixed_ns,
            pick_ns=pick.fixed_ns,
            send_ns=send.fixed_ns,
            receive_ns=receive.fixed_ns,
            receive_ns_per_byte=receive.unit_ns,
            decode_ns=decode.fixed_ns,
            decode_ns_per_buffer=decode.unit_ns,
            announce_ns=announce.fixed_ns,
        ),
        send.unit_ns,
        write.fixed_ns * writes / records,
        known,
        transit_ns,
        back_ns,
        preemptions,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Process:
    """Its steps, and what they cost."""

    steps: Steps
    costs: Mapping[Kind, Line]

    def costs_ns(self, places: IntArray) -> FloatArray:
        """What some steps cost."""
        steps, found = self.steps, np.zeros(len(places))
        for kind, line in self.costs.items():
            own = steps.kind[places] == kind
            found[own] = line.at(_units(steps, places[own], kind))
        return found

    def arrivals_ns(self, taken: IntArray, sending: Line, way_ns: float) -> IntArray:
        """When what was taken in those steps had arrived; UNKNOWN_NS where nobody knows.

        Much of what sending costs comes when the bytes are on their way, so their way begins with
        it.
        """
        sent_ns = self.steps.sent_ns[taken]
        ahead_ns = sending.unit_ns * self.steps.ahead_bytes[taken]
        done_ns = sent_ns + (ahead_ns + way_ns).astype(np.int64)
        return np.where(sent_ns == UNKNOWN_NS, UNKNOWN_NS, done_ns)


def _line(processes: Iterable[Steps], kind: Kind) -> Line | None:
    """What steps of a kind cost; None if it is seen too seldom."""
    gaps_ns, units = [], []
    for steps in processes:
        pairs = steps.pairs([kind], _FOLLOWERS[kind])
        gaps_ns.append(steps.gaps_ns(pairs))
        units.append(_units(steps, pairs, kind))
    return _line_through(np.concatenate(gaps_ns), np.concatenate(units))


def _units(steps: Steps, places: IntArray, kind: Kind) -> IntArray:
    """What the costs of steps of a kind grow with: making buffers of bytes is by the buffer."""
    units: IntArray = (steps.buffers if kind is Kind.RECEIVES else steps.units)[places]
    return units


def _line_through(costs_ns: IntArray, units: IntArray) -> Line | None:
    """The line that fits best, preemptions apart, and goes through their means."""
    if len(costs_ns) < SAMPLES_MIN:
        return None
    usual = costs_ns <= longest_ns(costs_ns)
    costs_ns, units = costs_ns[usual], units[usual]
    mean_ns, mean_units = float(costs_ns.mean()), float(units.mean())
    spread = float(units.var())
    if spread == 0.0:
        return Line(max(mean_ns, 0.0))
    slope = float(((units - mean_units) * (costs_ns - mean_ns)).mean()) / spread
    slope = min(max(slope, 0.0), max(mean_ns, 0.0) / mean_units)
    return Line(max(mean_ns - slope * mean_units, 0.0), slope)


def _taking(processes: Sequence[_Process], kind: Kind) -> Line:
    """What it costs to take what is there: seen where it had been sent long before."""
    ways_ns = [
        each.steps.at_ns[own] - each.steps.sent_ns[own]
        for each in processes
        for own in [(each.steps.kind == kind) & (each.steps.sent_ns != UNKNOWN_NS)]
    ]
    fastest_ns = int(uncontended_ns(np.concatenate(ways_ns), 0.0))
    costs_ns, units = [], []
    for each in processes:
        steps = each.steps
        pairs = steps.pairs([_BEFORE[kind]], [kind])
        sent_ns = steps.sent_ns[pairs + 1]
        is_there = (sent_ns != UNKNOWN_NS) & (sent_ns + fastest_ns <= steps.at_ns[pairs])
        pairs = pairs[is_there]
        costs_ns.append(steps.gaps_ns(pairs) - each.costs_ns(pairs).astype(np.int64))
        units.append(steps.units[pairs + 1])
    return _line_through(np.concatenate(costs_ns), np.concatenate(units)) or NOTHING


def _way_ns(processes: Sequence[_Process], kind: Kind, taking: Line, sending: Line) -> float:
    """How long it takes from when something was handed over until it can be taken: seen where who
    takes it was waiting already. Where nobody ever waited, no way was longer than the shortest.
    """
    ways_ns, has_waited = [], []
    for each in processes:
        steps = each.steps
        pairs = steps.pairs([*Kind], [kind])
        pairs = pairs[steps.sent_ns[pairs + 1] != UNKNOWN_NS]
        handed_over_ns = each.arrivals_ns(pairs + 1, sending, 0.0)
        taking_ns = taking.at(steps.units[pairs + 1]).astype(np.int64)
        ways_ns.append(steps.at_ns[pairs + 1] - taking_ns - handed_over_ns)
        has_waited.append(handed_over_ns >= steps.at_ns[pairs] + each.costs_ns(pairs))
    all_ns, waited = np.concatenate(ways_ns), np.concatenate(has_waited)
    if np.count_nonzero(waited) < SAMPLES_MIN:
        return max(float(all_ns.min(initial=longest_ns(all_ns))), 0.0)
    return max(uncontended_ns(all_ns[waited], 0.0), 0.0)


def _preemptions(
    process: _Process, kind: Kind, taking: Line, sending: Line, way_ns: float
) -> Preemptions:
    """When a process was kept from its work, and how late it woke when it had rested."""
    steps = process.steps
    before = np.arange(max(len(steps.at_ns) - 1, 0))
    begins_ns, ends_ns = steps.at_ns[before], steps.at_ns[before + 1]
    arrivals_ns = process.arrivals_ns(before + 1, sending, way_ns)
    has_rested = (steps.kind[before + 1] == kind) & (arrivals_ns != UNKNOWN_NS)
    has_rested &= arrivals_ns >= begins_ns + process.costs_ns(before)
    due_ns = arrivals_ns + taking.at(steps.units[before + 1]).astype(np.int64)
    work = union(np.where(has_rested, np.minimum(due_ns, ends_ns), begins_ns), ends_ns)
    found = activity_of(work, steps.at_ns).preemptions
    late_ns = np.maximum(ends_ns - due_ns, 0)[has_rested]
    return Preemptions(
        found.starts_ns,
        found.ends_ns - found.starts_ns,
        late_ns[late_ns <= longest_ns(late_ns)],
        _jitter(process),
    )


def _jitter(process: _Process) -> Jitter:
    """What the steps of a process took beside their costs, preemptions apart."""
    steps = process.steps

    def beyond_ns(kind: Kind) -> IntArray:
        pairs = steps.pairs([kind], _FOLLOWERS[kind])
        spent_ns = steps.gaps_ns(pairs)
        pairs = pairs[spent_ns <= longest_ns(spent_ns)]
        found: IntArray = (steps.gaps_ns(pairs) - process.costs_ns(pairs)).astype(np.int64)
        return found

    return Jitter(
        pick_ns=beyond_ns(Kind.TAKES_CREDIT),
        send_ns=beyond_ns(Kind.SENDS),
        write_ns=beyond_ns(Kind.WRITES),
        decode_ns=beyond_ns(Kind.RECEIVES),
        announce_ns=beyond_ns(Kind.ANNOUNCES),
        read_ns=beyond_ns(Kind.READS),
    )
