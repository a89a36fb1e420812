"""Costs of captured buffers, from the time between a buffer and its credit.

Only buffers that were alone on their channel count, as the credit belongs to one buffer then.
Buffers of other channels to the same process were on their way at the same time, mostly of the same
flush, and their records take its time, too. The time for a record shows if the number of records
varies. If not, it may be anything up to the time of a typical round trip beyond the shortest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel
from flinknet.trace import ChannelInfo

from ..intervals import NOTHING, BoolArray, Intervals
from . import SAMPLES_MIN
from .delays import NO_DELAYS, ONE_FLUSH_NS, Delays, delays_by_quiet, quiet_before_ns, spread_of
from .queued import busy_for_ns
from .wakeups import Wakeups, fit_wakeups, gaps_of, receivers
from .window_rows import of_channels, of_each, places_by_channel, where

_NONE = np.zeros(0, np.int64)

ASSUMED_CONSUME_NS_PER_RECORD = 20.0
"""Time of a consumer for a record that is assumed if none can be measured, in ns."""

WAY_SHARE = 0.4
"""Share of the way to the reader in a round trip without records; the way back takes the same, and
the rest is the handling of the buffer."""

WAY_SHARES = (0.25, 0.5)
"""Bounds of WAY_SHARE."""

DELAYS_SHARE, DELAYS_SHARES = 0.6, (0.2, 1.0)
"""Share of buffers, not credit, in the variation of round trips, and its bounds."""

QUICK, QUICKEST = 0.1, 0.01
"""Quantiles of round trips that the machine did not disturb, and of those where nobody slept."""

PARTS = 4
"""Number of parts of a run whose times for a record are compared."""

ALIKE = 0.5
"""Largest difference between parts, as a share of their mean, at which the time is known."""

BUSY_OFF = 0.1
"""Relative error of busy times as times for a record."""

WORK_UNKNOWN = (
    "assumed: tasks work on a record no longer than its credit shows, which is too short where"
    " floating buffers are free; Flink's busy times (--rest) show it of tasks that are busy"
)

NO_WORK = "tasks are idle by Flink's metrics: taken as no work on records"

HELD_UP_NS = 100_000
"""Time for a record, in ns, from which on a task holds up the credit of later buffers. A round trip
that waited longer shows the task's work, not delays of the machine."""

ALL_HELD_UP = (
    "assumed: only tasks delay messages; they were busy whenever one came, so delays of the machine"
    " do not show"
)

TYPICAL_ROUND_TRIP_NS = 2 * TYPICAL_COSTS.transit_ns + TYPICAL_COSTS.receive_ns_per_message


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """The typical round trip, with `records` that take time in it."""

    total_ns: float
    records: float
    ns_per_record: float  # mean over consumers, with its bounds
    low_ns: float
    high_ns: float
    quick_ns: float  # length of the quickest ones without records, which woke no thread

    def fixed_ns(self, ns_per_record: float) -> float:
        """Its length without records."""
        return max(self.total_ns - ns_per_record * self.records, 0.0)

    def costs_at(self, costs: CostModel, of_records: float, of_way: float) -> CostModel:
        """Costs that agree with this round trip, where the time for a record and WAY_SHARE have
        these places between their bounds, from 0 to 1."""
        ns_per_record = self.low_ns + of_records * (self.high_ns - self.low_ns)
        least, most = WAY_SHARES
        factor = ns_per_record / self.ns_per_record if self.ns_per_record else 1.0
        consume_ns = tuple(factor * each for each in costs.consume_ns_per_record)
        costs = replace(costs, consume_ns_per_record=consume_ns)
        share = least + of_way * (most - least)
        return _with_way(costs, self.fixed_ns(ns_per_record), share, self.quick_ns)


@dataclass(frozen=True, slots=True)
class CapturedCosts:
    """The costs, their assumptions, and other results of the round trips."""

    costs: CostModel
    note: str
    delays: Delays = NO_DELAYS
    round_trip: RoundTrip | None = None  # the typical one; None if too few were measured
    wakeups: Wakeups | None = None  # by the gap before a message; None if they do not depend on it


def fit_captured(
    sent: EventColumns,
    credit: EventColumns,
    channels: Sequence[ChannelInfo],
    consumers: int,
    *,
    passed_ns: IntArray | None = None,
    busy_ns: Mapping[int, float] = MappingProxyType({}),
    disturbed: Intervals = NOTHING,
    tap_ns: float = 0.0,
) -> CapturedCosts:
    """Fit the costs of an exchange.

    Args:
        passed_ns: when data buffers of any exchange passed, ascending; None for those of this one.
        busy_ns: time of consumers for a record by Flink's metrics.
        disturbed: when messages were delayed by something that does not exist in other runs; it
            counts only if there are too few round trips otherwise.
        tap_ns: delay of a round trip by the tap, which forwards data and wakes for the credit.
    """
    trips = round_trips(sent, credit, channels, passed_ns)
    total_ns = np.maximum(trips["total_ns"] - round(tap_ns), trips["total_ns"] // 2)
    trips = {**trips, "total_ns": total_ns}
    calm = where(trips, ~disturbed.hold(trips["at_ns"]))
    if len(calm["total_ns"]) >= SAMPLES_MIN:
        trips = calm
    if len(trips["total_ns"]) < SAMPLES_MIN:
        note = (
            "assumed: what the steps on a buffer's way cost, as measured of flinknet's own stack;"
            " no credit came back that belongs to one buffer alone"
        )
        assumed_ns = (ASSUMED_CONSUME_NS_PER_RECORD,) * consumers
        return CapturedCosts(replace(TYPICAL_COSTS, consume_ns_per_record=assumed_ns), note)
    low_ns, ns_per_record, high_ns = _ns_per_record(trips)
    free = where(trips, _is_free(trips, sent, channels, busy_ns))
    is_any_free = len(free["total_ns"]) >= SAMPLES_MIN
    if is_any_free:
        trips = free
    slopes_ns = np.full(consumers, ns_per_record)
    for each in range(consumers):
        own = where(trips, trips["consumer"] == each)
        if len(own["total_ns"]) >= SAMPLES_MIN and low_ns > 0:
            slopes_ns[each] = _ns_per_record(own)[1]
    without_records_ns = trips["total_ns"] - slopes_ns[trips["consumer"]] * trips["company"]
    fixed_ns = max(float(np.median(without_records_ns)), 0.0)
    note = (
        f"assumed: each direction takes {WAY_SHARE:.0%} of the {fixed_ns / 1e3:.0f} us round trip"
    )
    company = float(np.median(trips["company"]))
    quick_ns = max(float(np.quantile(without_records_ns, QUICKEST)), 0.0)
    typical_ns = fixed_ns + ns_per_record * company
    trip = RoundTrip(typical_ns, company, ns_per_record, low_ns, high_ns, quick_ns)
    beyond_ns = (DELAYS_SHARE * (without_records_ns - fixed_ns)).astype(np.int64)
    spread_ns = spread_of(beyond_ns, np.maximum(trips["records"], 1))
    costs = replace(TYPICAL_COSTS, consume_ns_per_record=tuple(slopes_ns.tolist()))
    costs = _with_way(costs, fixed_ns, WAY_SHARE, quick_ns)
    usual_ns = costs.transit_ns + costs.receive_ns_per_message
    delays = NO_DELAYS
    if not is_any_free:
        note = f"{note}; {ALL_HELD_UP}"
    elif len(spread_ns):
        by_quiet = delays_by_quiet(beyond_ns, trips["records"], trips["quiet_ns"])
        delays = Delays(spread_ns, usual_ns=usual_ns, by_quiet=by_quiet)
    ways_ns = np.maximum(WAY_SHARE * without_records_ns, 0).astype(np.int64)
    awake_ns = costs.receive_ns_per_message
    wakeups = fit_wakeups(
        trips["gap_ns"], ways_ns, sent, channels, awake_ns, may_poll=False, is_inferred=True
    )
    return CapturedCosts(costs, note, delays, trip, wakeups)


def _is_free(
    trips: EventColumns,
    sent: EventColumns,
    channels: Sequence[ChannelInfo],
    busy_ns: Mapping[int, float],
) -> BoolArray:
    found = np.ones(len(trips["total_ns"]), np.bool_)
    consumer = of_each(sent, {each.index: each.consumer for each in channels})
    for each, work_ns in busy_ns.items():
        own = np.flatnonzero(consumer == each)
        if work_ns < HELD_UP_NS or not len(own):
            continue
        own = own[np.argsort(sent["at_ns"][own], kind="stable")]
        at_ns = sent["at_ns"][own].astype(np.int64)
        waits_ns = busy_for_ns(at_ns, sent["records"][own], work_ns)
        mine = np.flatnonzero(trips["consumer"] == each)
        place = np.searchsorted(at_ns, trips["at_ns"][mine])
        held_ns = waits_ns[place] + (trips["records"][mine] - 1) * work_ns
        found[mine] = held_ns <= HELD_UP_NS
    return found


def with_busy_tasks(
    found: CapturedCosts,
    busy_ns: Mapping[int, float],
    records_per_message: float,
    *,
    is_idle: bool = False,
) -> CapturedCosts:
    """The costs with the tasks' times for a record by Flink's metrics, each with its share of the
    message; without those, a note says what predictions leave out, unless the tasks are idle."""
    if not busy_ns:
        return replace(found, note=f"{found.note}; {NO_WORK if is_idle else WORK_UNKNOWN}")
    message_ns = found.costs.receive_ns_per_message / records_per_message
    own_ns = tuple(
        max(busy_ns[each] - message_ns, ASSUMED_CONSUME_NS_PER_RECORD) if each in busy_ns else known
        for each, known in enumerate(found.costs.consume_ns_per_record)
    )
    trip = found.round_trip
    if trip is not None:  # credit came back before the work on the records
        mean_ns = float(np.mean(own_ns))
        low_ns, high_ns = (1 - BUSY_OFF) * mean_ns, (1 + BUSY_OFF) * mean_ns
        fixed_ns = trip.fixed_ns(trip.ns_per_record)
        trip = RoundTrip(fixed_ns, 0.0, mean_ns, low_ns, high_ns, trip.quick_ns)
    return replace(found, costs=replace(found.costs, consume_ns_per_record=own_ns), round_trip=trip)


def round_trips(
    sent: EventColumns,
    credit: EventColumns,
    channels: Sequence[ChannelInfo],
    passed_ns: IntArray | None = None,
) -> EventColumns:
    """The round trip of each buffer that was alone on its channel, between two credits; arguments
    as in `fit_captured`.

    Columns are the time until its credit is back (`total_ns`), its records, those of all buffers to
    the same process at that time (`company`), its consumer, when it passed (`at_ns`), the time
    since the flush before it to the same process (`gap_ns`), and the idle time before its flush,
    over all exchanges (`quiet_ns`).
    """
    gaps_ns = _gaps_between_flushes(sent, channels)
    traffic: dict[str, tuple[IntArray, IntArray]] = {}  # instants of buffers, records up to them
    for name in {each.consumer_process for each in channels}:
        mine = [each.index for each in channels if each.consumer_process == name]
        passed = of_channels(sent, mine)
        reached = np.r_[0, np.cumsum(np.maximum(passed["records"], 0))].astype(np.int64)
        traffic[name] = passed["at_ns"].astype(np.int64), reached
    ends = {each.index: each for each in channels}
    credited = places_by_channel(credit)
    columns: list[tuple[Any, ...]] = [(_NONE,) * 6]
    for channel, own in places_by_channel(sent).items():
        own = own[np.argsort(sent["at_ns"][own], kind="stable")]
        at_ns = sent["at_ns"][own].astype(np.int64)
        credit_ns = np.sort(credit["at_ns"][credited.get(channel, _NONE)]).astype(np.int64)
        before = np.searchsorted(at_ns, credit_ns)  # buffers that passed before each credit
        is_alone = np.diff(before) == 1
        which, back_ns = before[1:][is_alone] - 1, credit_ns[1:][is_alone]
        records = np.maximum(sent["records"][own][which], 0).astype(np.int64)
        near_ns = int(np.median(back_ns - at_ns[which])) // 2 if len(which) else 0
        near, reached = traffic[ends[channel].consumer_process]
        since = np.searchsorted(near, at_ns[which] - near_ns)
        until = np.searchsorted(near, at_ns[which] + near_ns, side="right")
        consumer = np.full(len(which), ends[channel].consumer)
        total_ns, company = back_ns - at_ns[which], reached[until] - reached[since]
        columns.append((total_ns, records, company, consumer, at_ns[which], gaps_ns[own][which]))
    names = ("total_ns", "records", "company", "consumer", "at_ns", "gap_ns")
    trips = dict(zip(names, map(np.concatenate, zip(*columns, strict=True)), strict=True))
    passed_ns = np.sort(sent["at_ns"]) if passed_ns is None else passed_ns
    return {**trips, "quiet_ns": quiet_before_ns(passed_ns, trips["at_ns"])}


def _gaps_between_flushes(sent: EventColumns, channels: Sequence[ChannelInfo]) -> IntArray:
    if not len(sent["at_ns"]):
        return _NONE
    receiver = of_each(sent, receivers(channels))
    order = np.lexsort((sent["at_ns"], receiver))
    at_ns = sent["at_ns"][order].astype(np.int64)
    is_new = np.r_[True, (np.diff(receiver[order]) != 0) | (np.diff(at_ns) > ONE_FLUSH_NS)]
    begun_ns = np.empty(len(order), np.int64)
    begun_ns[order] = at_ns[is_new][np.cumsum(is_new) - 1]
    return gaps_of({**sent, "at_ns": begun_ns}, channels)


def _ns_per_record(trips: EventColumns) -> tuple[float, float, float]:
    """Time for a record: lower bound, best guess, upper bound. It compares the quick round trips
    with few and with many records, as delays of the machine would hide the difference."""
    parts = np.array_split(np.argsort(trips["at_ns"], kind="stable"), PARTS)
    found = [_slope_ns(trips["total_ns"][part], trips["company"][part]) for part in parts]
    known = np.array([each for each in found if each is not None])
    if len(known) == PARTS and known.min() >= 0 and np.ptp(known) <= ALIKE * known.mean():
        whole = _slope_ns(trips["total_ns"], trips["company"])
        best = float(np.median(known)) if whole is None else whole
        return min(float(known.min()), best), best, max(float(known.max()), best)
    typical_ns, records = float(np.median(trips["total_ns"])), float(np.median(trips["company"]))
    least_ns = min(float(np.quantile(trips["total_ns"], 0.01)), TYPICAL_ROUND_TRIP_NS)
    high_ns = max(typical_ns - least_ns, 0.0) / max(records, 1.0)
    return 0.0, high_ns / 2, high_ns


def _slope_ns(total_ns: IntArray, records: IntArray) -> float | None:
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
    """The costs if the way to the reader takes this share of a round trip. The handling of a buffer
    is work as far as the quickest round trips contain it; the rest is waking."""
    there_ns = (1 - share) * round_trip_ns
    receive_ns = min(max((1 - 2 * share) * quick_ns, 0.0), there_ns)
    return replace(
        costs,
        transit_ns=there_ns - receive_ns,
        receive_ns_per_message=receive_ns or costs.receive_ns_per_message,
    )
