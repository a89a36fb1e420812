"""What buffers cost, from the time that passes between a buffer and its credit.

Only buffers that were alone on their channel count: the credit belongs to one buffer then. Those of
other channels to the same process were on their way at the same time, mostly of the same flush, and
their records take its time, too. How much of a round trip goes with records shows where their
number varies. Where it does not, it may be anything from nothing to all that a round trip takes
beyond the least that was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel
from flinknet.trace.event_block import EventColumns

from ..intervals import NOTHING, Intervals
from . import SAMPLES_MIN
from .delays import NO_DELAYS, ONE_FLUSH_NS, Delays, Flushes, delays_by_quiet, spread_of
from .queued import busy_for_ns
from .wakeups import Wakeups, gaps_of, wakeups_of
from .window_rows import places_by_channel

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

ASSUMED_CONSUME_NS_PER_RECORD = 20.0

WAY_SHARE = 0.4
"""Of a round trip without records, what the way to the reader takes; as much is the way back, and
the rest goes into handling the buffer."""

WAY_SHARES = (0.25, 0.5)
"""Least and greatest share that it may be."""

DELAYS_SHARE, DELAYS_SHARES = 0.6, (0.2, 1.0)
"""Of what round trips vary by, what happens to buffers on their way and not the credit on its way
back; and the least and greatest share that it may be."""

QUICK, QUICKEST = 0.1, 0.01
"""Quantiles of the times that the machine did not disturb, and of those where nobody slept."""

PARTS = 4
"""Of a run, whose times for each record are compared."""

ALIKE = 0.5
"""Largest difference between parts, as a share of their mean, of a time that is known."""

BUSY_OFF = 0.1
"""How far busy times are off what a record takes, as a share."""

WORK_UNKNOWN = (
    "assumed: tasks work on a record no longer than its credit shows, which is too short where"
    " floating buffers are free; Flink's busy times (--rest) show it of tasks that are busy"
)

NO_WORK = "tasks are idle by Flink's metrics: taken as no work on records"
"""The same where Flink says so."""

HELD_UP_NS = 100_000
"""A task that takes so long for a record holds up the credit of what comes meanwhile; a round trip
that waited for as long shows the task's work and not what the machine does to messages."""

ALL_HELD_UP = (
    "assumed: only tasks delay messages; they were busy whenever one came, so delays of the machine"
    " do not show"
)

TYPICAL_ROUND_TRIP_NS = 2 * TYPICAL_COSTS.transit_ns + TYPICAL_COSTS.receive_ns_per_message


@dataclass(frozen=True, slots=True, eq=False)
class RoundTrips:
    """Of buffers that were alone on their channel; columns.

    Attributes:
        total_ns: round trip, from a buffer until its credit is back.
        records: of the buffer.
        company: records of all buffers to the same process at that time, its own among them.
        consumer: index of its consumer.
        at_ns: when it passed.
        gap_ns: since what passed to the same process before, of another flush.
        quiet_ns: how long nothing had passed before the flush that it is of.
    """

    total_ns: IntArray
    records: IntArray
    company: IntArray
    consumer: IntArray
    at_ns: IntArray
    gap_ns: IntArray
    quiet_ns: IntArray

    def of(self, consumer: int) -> RoundTrips:
        """Those to one consumer."""
        return self.where(self.consumer == consumer)

    def where(self, keep: BoolArray) -> RoundTrips:
        """Some of them."""
        return RoundTrips(*(getattr(self, each.name)[keep] for each in fields(self)))


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """What is known of the typical round trip.

    Attributes:
        total_ns: with its records.
        records: that take their time in it.
        ns_per_record: the best guess, the mean over consumers.
        low_ns, high_ns: between which it lies.
        quick_ns: the quickest round trips without their records: no thread had to be woken.
    """

    total_ns: float
    records: float
    ns_per_record: float
    low_ns: float
    high_ns: float
    quick_ns: float

    def fixed_ns(self, ns_per_record: float) -> float:
        """The rest, if a record takes that long."""
        return max(self.total_ns - ns_per_record * self.records, 0.0)

    def costs_at(self, costs: CostModel, of_records: float, of_way: float) -> CostModel:
        """Costs that this round trip may have come of.

        Args:
            of_records: where the time for a record lies between its bounds, from 0 to 1.
            of_way: the same of the share of the way.
        """
        ns_per_record = self.low_ns + of_records * (self.high_ns - self.low_ns)
        least, most = WAY_SHARES
        factor = ns_per_record / self.ns_per_record if self.ns_per_record else 1.0
        costs = replace(
            costs,
            consume_ns_per_record=tuple(factor * each for each in costs.consume_ns_per_record),
        )
        share = least + of_way * (most - least)
        return _with_way(costs, self.fixed_ns(ns_per_record), share, self.quick_ns)


@dataclass(frozen=True, slots=True)
class CapturedCosts:
    """The costs, what was assumed for them, and what else the round trips show.

    Attributes:
        round_trip: the typical one; None where too few were measured.
        wakeups: how round trips depend on the time between messages; None if they do not show it.
    """

    costs: CostModel
    note: str
    delays: Delays = NO_DELAYS
    round_trip: RoundTrip | None = None
    wakeups: Wakeups | None = None


def fit_captured(
    sent: EventColumns,
    credit: EventColumns,
    consumer_of: Mapping[int, int],
    consumers: int,
    process_of: Mapping[int, str] | None = None,
    producer_of: Mapping[int, int] | None = None,
    passed_ns: IntArray | None = None,
    busy_ns: Mapping[int, float] | None = None,
    disturbed: Intervals = NOTHING,
    tap_ns: float = 0.0,
) -> CapturedCosts:
    """The costs of an exchange.

    Args:
        sent: data buffers.
        credit: AddCredits.
        consumer_of: channel to index of its consumer.
        consumers: their number.
        process_of: channel to the process of its consumer; None for one each.
        producer_of: channel to index of its producer; None for one each.
        passed_ns: when data buffers of any exchange passed, ascending; None for those of this one.
        busy_ns: of a consumer, what it takes for a record by Flink's account of its time.
        disturbed: when something delayed messages that is not there in other runs; it counts only
            where there is too little else.
        tap_ns: of a round trip, what the tap holds it up: it sends the data on, and has to wake
            for the credit.
    """
    trips = round_trips(sent, credit, consumer_of, process_of, passed_ns)
    total_ns = np.maximum(trips.total_ns - round(tap_ns), trips.total_ns // 2)
    trips = replace(trips, total_ns=total_ns)
    calm = trips.where(~disturbed.hold(trips.at_ns))
    if len(calm.total_ns) >= SAMPLES_MIN:
        trips = calm
    if len(trips.total_ns) < SAMPLES_MIN:
        note = (
            "assumed: what the steps on a buffer's way cost, as measured of flinknet's own stack;"
            " no credit came back that belongs to one buffer alone"
        )
        costs = replace(
            TYPICAL_COSTS, consume_ns_per_record=(ASSUMED_CONSUME_NS_PER_RECORD,) * consumers
        )
        return CapturedCosts(costs, note)
    low_ns, ns_per_record, high_ns = _ns_per_record(trips)
    free = trips.where(_is_free(trips, sent, consumer_of, busy_ns or {}))
    is_any_free = len(free.total_ns) >= SAMPLES_MIN
    if is_any_free:
        trips = free
    slopes_ns = np.full(consumers, ns_per_record)
    for each in range(consumers):
        own = trips.of(each)
        if len(own.total_ns) >= SAMPLES_MIN and low_ns > 0:
            slopes_ns[each] = _ns_per_record(own)[1]
    without_records_ns = trips.total_ns - slopes_ns[trips.consumer] * trips.company
    fixed_ns = max(float(np.median(without_records_ns)), 0.0)
    note = (
        f"assumed: each direction takes {WAY_SHARE:.0%} of the {fixed_ns / 1e3:.0f} us round trip"
    )
    company = float(np.median(trips.company))
    quick_ns = max(float(np.quantile(without_records_ns, QUICKEST)), 0.0)
    typical_ns = fixed_ns + ns_per_record * company
    trip = RoundTrip(typical_ns, company, ns_per_record, low_ns, high_ns, quick_ns)
    beyond_ns = (DELAYS_SHARE * (without_records_ns - fixed_ns)).astype(np.int64)
    spread_ns = spread_of(beyond_ns, np.maximum(trips.records, 1))
    costs = replace(TYPICAL_COSTS, consume_ns_per_record=tuple(slopes_ns.tolist()))
    costs = _with_way(costs, fixed_ns, WAY_SHARE, quick_ns)
    usual_ns = costs.transit_ns + costs.receive_ns_per_message
    delays = NO_DELAYS
    if not is_any_free:
        note = f"{note}; {ALL_HELD_UP}"
    elif len(spread_ns):
        by_quiet = delays_by_quiet(beyond_ns, trips.records, trips.quiet_ns)
        delays = Delays(spread_ns, usual_ns=usual_ns, by_quiet=by_quiet)
    receivers = _numbered(process_of or {each: str(each) for each in consumer_of})
    producers = producer_of or {each: each for each in consumer_of}
    ways_ns = np.maximum(WAY_SHARE * without_records_ns, 0).astype(np.int64)
    wakeups = wakeups_of(
        trips.gap_ns,
        ways_ns,
        sent,
        receivers,
        producers,
        costs.receive_ns_per_message,
        may_poll=False,
        is_inferred=True,
    )
    return CapturedCosts(costs, note, delays, trip, wakeups)


def _is_free(
    trips: RoundTrips,
    sent: EventColumns,
    consumer_of: Mapping[int, int],
    busy_ns: Mapping[int, float],
) -> BoolArray:
    """Whether no record before a buffer, and none in it but the last, held up its credit. That one
    does not: a task gives the buffer back when it has taken the last record out."""
    found = np.ones(len(trips.total_ns), np.bool_)
    consumer = np.array([consumer_of[each] for each in sent["channel"].tolist()], np.int64)
    for each, work_ns in busy_ns.items():
        own = np.flatnonzero(consumer == each)
        if work_ns < HELD_UP_NS or not len(own):
            continue
        own = own[np.argsort(sent["at_ns"][own], kind="stable")]
        at_ns = sent["at_ns"][own].astype(np.int64)
        waits_ns = busy_for_ns(at_ns, sent["records"][own], work_ns)
        mine = np.flatnonzero(trips.consumer == each)
        place = np.searchsorted(at_ns, trips.at_ns[mine])
        held_ns = waits_ns[place] + (trips.records[mine] - 1) * work_ns
        found[mine] = held_ns <= HELD_UP_NS
    return found


def with_busy_tasks(
    found: CapturedCosts,
    busy_ns: Mapping[int, float],
    records_per_message: float,
    *,
    is_idle: bool = False,
) -> CapturedCosts:
    """The costs with what tasks take for a record by Flink's own account of their time; without
    one, a note says what predictions leave out.

    Args:
        busy_ns: of each consumer, for a record with its share of the message.
        records_per_message: on average.
        is_idle: without times for a record, Flink reports the tasks as idle.
    """
    if not busy_ns:
        return replace(found, note=f"{found.note}; {NO_WORK if is_idle else WORK_UNKNOWN}")
    message_ns = found.costs.receive_ns_per_message / records_per_message
    own_ns = tuple(
        max(busy_ns[each] - message_ns, ASSUMED_CONSUME_NS_PER_RECORD) if each in busy_ns else known
        for each, known in enumerate(found.costs.consume_ns_per_record)
    )
    trip = found.round_trip
    if trip is not None:  # credit came back before the records were worked on
        mean_ns = float(np.mean(own_ns))
        trip = RoundTrip(
            trip.fixed_ns(trip.ns_per_record),
            0.0,
            mean_ns,
            (1 - BUSY_OFF) * mean_ns,
            (1 + BUSY_OFF) * mean_ns,
            trip.quick_ns,
        )
    return replace(found, costs=replace(found.costs, consume_ns_per_record=own_ns), round_trip=trip)


def round_trips(
    sent: EventColumns,
    credit: EventColumns,
    consumer_of: Mapping[int, int],
    process_of: Mapping[int, str] | None = None,
    passed_ns: IntArray | None = None,
) -> RoundTrips:
    """Of each buffer between two credits without another one of its channel; arguments as in
    `fit_captured`."""
    if passed_ns is None:
        passed_ns = np.sort(sent["at_ns"])
    processes = process_of or {channel: str(of) for channel, of in consumer_of.items()}
    gaps_ns = _gaps_between_flushes(sent, _numbered(processes))
    flushes = Flushes.of(passed_ns)
    traffic = _Traffic.by_process(sent, processes)
    credited = places_by_channel(credit)
    columns: list[tuple[Any, ...]] = []
    for channel, own in places_by_channel(sent).items():
        own = own[np.argsort(sent["at_ns"][own], kind="stable")]
        at_ns = sent["at_ns"][own].astype(np.int64)
        credit_ns = np.sort(credit["at_ns"][credited.get(channel, _NONE)]).astype(np.int64)
        before = np.searchsorted(at_ns, credit_ns)  # buffers that passed before each credit
        is_alone = np.diff(before) == 1
        which, back_ns = before[1:][is_alone] - 1, credit_ns[1:][is_alone]
        records = np.maximum(sent["records"][own][which], 0).astype(np.int64)
        near_ns = int(np.median(back_ns - at_ns[which])) // 2 if len(which) else 0
        company = traffic[processes[channel]].records_near(at_ns[which], near_ns)
        consumer = np.full(len(which), consumer_of[channel])
        total_ns, gap_ns = back_ns - at_ns[which], gaps_ns[own][which]
        quiet_ns = flushes.quiet_ns(at_ns[which])
        columns.append((total_ns, records, company, consumer, at_ns[which], gap_ns, quiet_ns))
    if not columns:
        return RoundTrips(*(_NONE,) * 7)
    return RoundTrips(*(np.concatenate(each) for each in zip(*columns, strict=True)))


def _numbered(names: Mapping[int, str]) -> dict[int, int]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names.values()))}
    return {channel: numbers[name] for channel, name in names.items()}


def _gaps_between_flushes(sent: EventColumns, receiver_of: Mapping[int, int]) -> IntArray:
    """Of each buffer, the time since the flush before that went to the same process: the buffers of
    one flush pass shortly one after the other, and wake it once.
    """
    if not len(sent["at_ns"]):
        return _NONE
    receiver = np.array([receiver_of[each] for each in sent["channel"].tolist()], np.int64)
    order = np.lexsort((sent["at_ns"], receiver))
    at_ns = sent["at_ns"][order].astype(np.int64)
    is_new = np.r_[True, (np.diff(receiver[order]) != 0) | (np.diff(at_ns) > ONE_FLUSH_NS)]
    begun_ns = np.empty(len(order), np.int64)
    begun_ns[order] = at_ns[is_new][np.cumsum(is_new) - 1]
    return gaps_of({**sent, "at_ns": begun_ns}, receiver_of)


@dataclass(frozen=True, slots=True, eq=False)
class _Traffic:
    """When buffers passed to one process, and records up to each of them."""

    at_ns: IntArray
    reached: IntArray

    @classmethod
    def by_process(cls, sent: EventColumns, process_of: Mapping[int, str]) -> dict[str, _Traffic]:
        found = {}
        names = np.array([process_of[each] for each in sent["channel"].tolist()], dtype=object)
        for name in dict.fromkeys(names.tolist()):
            own = np.flatnonzero(names == name)
            own = own[np.argsort(sent["at_ns"][own], kind="stable")]
            records = np.maximum(sent["records"][own], 0)
            at_ns = sent["at_ns"][own].astype(np.int64)
            found[name] = cls(at_ns, np.r_[0, np.cumsum(records)].astype(np.int64))
        return found

    def records_near(self, sent_ns: IntArray, near_ns: int) -> IntArray:
        """Records that passed so close before or after a buffer, its own among them."""
        first = np.searchsorted(self.at_ns, sent_ns - near_ns)
        last = np.searchsorted(self.at_ns, sent_ns + near_ns, side="right")
        found: IntArray = self.reached[last] - self.reached[first]
        return found


def _ns_per_record(trips: RoundTrips) -> tuple[float, float, float]:
    """Time for each record: least, best guess, greatest. By the quick ones among buffers with few
    and with many records at a time: what the machine adds now and then would hide it.
    """
    parts = np.array_split(np.argsort(trips.at_ns, kind="stable"), PARTS)
    found = [_slope_ns(trips.total_ns[part], trips.company[part]) for part in parts]
    known = np.array([each for each in found if each is not None])
    if len(known) == PARTS and known.min() >= 0 and np.ptp(known) <= ALIKE * known.mean():
        whole = _slope_ns(trips.total_ns, trips.company)
        best = float(np.median(known)) if whole is None else whole
        return min(float(known.min()), best), best, max(float(known.max()), best)
    typical_ns, records = float(np.median(trips.total_ns)), float(np.median(trips.company))
    least_ns = min(float(np.quantile(trips.total_ns, 0.01)), TYPICAL_ROUND_TRIP_NS)
    high_ns = max(typical_ns - least_ns, 0.0) / max(records, 1.0)
    return 0.0, high_ns / 2, high_ns


def _slope_ns(total_ns: IntArray, records: IntArray) -> float | None:
    """None where their numbers are alike."""
    if len(records) < SAMPLES_MIN:
        return None
    low, high = np.quantile(records, [0.25, 0.75])
    few, many = records <= low, records >= high
    more = float(np.mean(records[many]) - np.mean(records[few]))
    if more <= 0:
        return None
    quick_ns = np.quantile(total_ns[many], QUICK) - np.quantile(total_ns[few], QUICK)
    most_ns = float(np.quantile(total_ns[many] / np.maximum(records[many], 1), QUICK))
    return min(float(quick_ns) / more, most_ns)


def _with_way(costs: CostModel, round_trip_ns: float, share: float, quick_ns: float) -> CostModel:
    """The costs where the way to the reader takes this share of a round trip. What goes into
    handling the buffer keeps its task at work only as far as the quickest round trips have it, too:
    the rest is waking."""
    there_ns = (1 - share) * round_trip_ns
    receive_ns = min(max((1 - 2 * share) * quick_ns, 0.0), there_ns)
    return replace(
        costs,
        transit_ns=there_ns - receive_ns,
        receive_ns_per_message=receive_ns or costs.receive_ns_per_message,
    )


_NONE = np.zeros(0, np.int64)
