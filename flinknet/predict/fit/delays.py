"""Delays that the machine adds to each message of a run with a rate: timers that wake late, and
jitter.

The simulated stack works on time and always takes equally long. A recorded one wakes some tens of
µs after a record was due, and now and then something else has the core. The rows show both: a full
buffer was due when the next record came; with timeout 0 every record is due at once; a flush is due
a timeout after the one before. Quantiles of the delay are added to the predicted latencies.

Instants at which messages leave are independent of those at which the machine is busy. So a record
that is due at any other instant, under any other timeout, has the same delays, as long as the
machine treats the processes alike. At shorter timeouts processes are woken more often and sleep
less, and the part of the delays that comes from waking shrinks with it (`Delays.awake`).

A machine without work sleeps, its threads and cores, and a virtual machine as a whole: after a
longer idle time it takes longer to wake, and less evenly. On two cores one in ten round trips took
2.9 ms and more after 2 to 4 ms without messages, and 1.1 ms after up to 0.5 ms. The buffers of one
flush wake it once, so the time before their flush counts, over all exchanges (`DelaysByQuiet`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import FlushReason
from flinknet.histogram import LogLinearHistogram, bucket_bounds_ns, bucket_index
from flinknet.results import MACHINE_DELAYED
from flinknet.simulator.cost_model import CostModel
from flinknet.trace import ChannelInfo
from flinknet.trace.event_block import same_message

from .queued import queued_ns
from .wakeups import UNKNOWN, Wakeups, gaps_of
from .window_rows import of_each

QUANTILES = 500
"""Number of quantiles of a distribution; enough for p99.9 at timeout 0."""

_STEP = 197
"""Step through the quantiles of a distribution to pair them with those of an independent one; prime
to QUANTILES."""

PARTS = 4
"""Number of parts of a run whose delays are compared."""

TAIL_WORTH_NOTING_NS = 300_000
"""Smallest p99 of the delays that is worth a note, in ns."""

_MIN_SAMPLES = 10

_EARLY_SHARE = 0.2
"""Share of the timeout by which a beat may be early: those after a flush that took long to send
are."""

ONE_FLUSH_NS = 200_000
"""Largest gap between two buffers of one flush, in ns."""

AWAKE_NS = 1_000_000
"""Time after the start of a flush from which on its buffers find the machine awake, in ns."""

GROUPS_FROM_NS = (0, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000)
"""Idle times at which groups of messages begin, in ns."""

GROUP_MIN = 50
"""Fewest messages of a group; smaller groups join the next."""


@dataclass(frozen=True, slots=True, eq=False)
class DelaysByQuiet:
    """Delays of messages by the idle time before them: evenly spaced quantiles of that time, the
    time at which each group begins, and evenly spaced quantiles of the delay in each."""

    quiet_ns: IntArray
    from_ns: IntArray
    spreads_ns: tuple[IntArray, ...]

    def where_more_pass(self, factor: float) -> IntArray:
        """Quantiles of the delay if `factor` times as many flushes pass, with shorter idle times
        between them."""
        group = np.searchsorted(self.from_ns, self.quiet_ns / factor, side="right") - 1
        shares = np.bincount(np.maximum(group, 0), minlength=len(self.spreads_ns))
        weights = np.repeat(shares, [len(each) for each in self.spreads_ns])
        return spread_of(np.concatenate(self.spreads_ns), weights)

    def times(self, factor: float) -> DelaysByQuiet:
        spreads_ns = ((each * factor).astype(np.int64) for each in self.spreads_ns)
        return replace(self, spreads_ns=tuple(spreads_ns))


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """Delays beyond the time that the stack itself takes. Those up to the usual time come from
    waking, longer ones from the machine."""

    spread_ns: IntArray  # quantiles from due to consumed, without simulated steps; empty: unknown
    tails_ns: tuple[int, ...] = ()  # p99 of the delay in each part of the run; empty if unknown
    queued_at_start_ns: int = 0  # longest wait of a consumer's first message for those before it
    usual_ns: float = 0.0  # typical time of a message on its way and at its consumer, as recorded
    by_quiet: DelaysByQuiet | None = None  # by the idle time before messages; None if unknown

    @property
    def note(self) -> str | None:
        """A sentence on how uncertain p99 is; None if delays hardly matter to it."""
        if not self.tails_ns or max(self.tails_ns) < TAIL_WORTH_NOTING_NS:
            return None
        p99_ns = np.quantile(self.spread_ns, 0.99)
        return (
            f"{MACHINE_DELAYED} 1 record in 100 by {p99_ns / 1e6:.1f} ms or more; it varied"
            f" between {min(self.tails_ns) / 1e6:.1f} and {max(self.tails_ns) / 1e6:.1f} ms during"
            f" the run, so p50 and p99 at buffer timeouts below {max(self.tails_ns) / 1e6:.1f} ms"
            " are uncertain"
        )

    def awake(self, share: float, more: float = 1.0) -> Delays:
        """The delays if waking takes `share` of the recorded time; where they are known by idle
        time, if there are `more` times as many flushes."""
        if self.by_quiet is not None:
            return replace(self, spread_ns=self.by_quiet.where_more_pass(more))
        own_ns = np.minimum(self.spread_ns, self.usual_ns)
        spread_ns = self.spread_ns + (share - 1.0) * own_ns
        return replace(self, spread_ns=spread_ns.astype(np.int64))

    def and_waits(self, waits_ns: IntArray) -> Delays:
        """The delays plus independent waits for late flushes, as evenly spaced quantiles."""
        if not len(waits_ns) or not len(self.spread_ns):
            return replace(self, spread_ns=waits_ns if len(waits_ns) else self.spread_ns)
        sums_ns = self.spread_ns + waits_ns[np.arange(QUANTILES) * _STEP % QUANTILES]
        return replace(self, spread_ns=np.sort(sums_ns))

    def times(self, factor: float) -> Delays:
        spread_ns = (self.spread_ns * factor).astype(np.int64)
        by_quiet = None if self.by_quiet is None else self.by_quiet.times(factor)
        return replace(self, spread_ns=spread_ns, by_quiet=by_quiet)

    def added(self, latency: LogLinearHistogram) -> LogLinearHistogram:
        """Predicted latencies with the delays added to each, independent of it."""
        if not len(self.spread_ns) or latency.min is None or latency.max is None:
            return latency
        wide, each = LogLinearHistogram(), len(self.spread_ns)
        filled = np.flatnonzero(latency.counts)
        middles_ns = np.array([sum(bucket_bounds_ns(int(index))) // 2 for index in filled])
        spread_out = bucket_index(np.maximum(middles_ns[:, None] + self.spread_ns, 0).ravel())
        np.add.at(wide.counts, spread_out, latency.counts[filled].repeat(each))
        wide.counts = np.diff(np.cumsum(wide.counts) // each, prepend=0)  # whole records
        total_ns = latency.total + round(latency.count * float(self.spread_ns.mean()))
        ends_ns = latency.min + int(self.spread_ns[0]), latency.max + int(self.spread_ns[-1])
        wide.add_totals(latency.count, total_ns, max(ends_ns[0], 0), ends_ns[1])
        return wide


NO_DELAYS = Delays(np.zeros(0, dtype=np.int64))


def fit_delays(
    sent: EventColumns,
    consumed: EventColumns,
    channels: Sequence[ChannelInfo],
    buffer_timeout_ns: int,
    costs: CostModel,
    wakeups: Wakeups | None = None,
) -> Delays:
    """Fit the delays of a run with a rate from its data buffers: time beyond the costs of the
    simulation. Transit times depend on the gap before a message if there are wakeups."""
    due_ns = _due_ns(sent, buffer_timeout_ns)
    beat_ns = _beat_ns(sent, buffer_timeout_ns)
    beyond_ns, typical_ns = _lateness(sent["at_ns"], due_ns)
    # The time of a turn until it sends is part of the time between beats, too, and does not show.
    beyond_beat_ns, _ = _lateness(sent["at_ns"], beat_ns)
    if (due_ns < 0).all() and (beat_ns < 0).all():
        return NO_DELAYS
    late_ns = np.where(due_ns < 0, beyond_beat_ns, beyond_ns) + int(typical_ns)
    sent_at, consumed_at = same_message(sent, consumed)
    records = np.maximum(sent["records"][sent_at], 0).astype(np.int64)
    whole_ns = consumed["at_ns"][consumed_at] - sent["at_ns"][sent_at] + late_ns[sent_at]
    transit_ns = np.full(len(sent_at), costs.transit_ns)
    if wakeups is not None:
        gaps_ns = gaps_of(sent, channels)[sent_at]
        transit_ns = np.where(gaps_ns == UNKNOWN, transit_ns, wakeups.transit_after(gaps_ns))
    # The consumers' work, also on buffers that were sent before the rows begin.
    consumer = of_each(consumed, {each.index: each.consumer for each in channels})
    per_record_ns = np.array(costs.consume_ns_per_record)[consumer]
    work_ns = costs.receive_ns_per_message + per_record_ns * np.maximum(consumed["records"], 0)
    service_ns = work_ns.astype(np.int64)
    arrived_ns = consumed["at_ns"].astype(np.int64)
    arrived_ns[consumed_at] = sent["at_ns"][sent_at] + transit_ns.astype(np.int64)
    ahead_ns = queued_ns(arrived_ns, consumed["at_ns"], service_ns, consumer)[consumed_at]
    beyond_ns = whole_ns - transit_ns.astype(np.int64) - service_ns[consumed_at] - ahead_ns
    parts = np.array_split(np.argsort(sent["at_ns"][sent_at], kind="stable"), PARTS)
    spreads_ns = [spread_of(beyond_ns[part], records[part]) for part in parts]
    tails_ns = tuple(int(np.quantile(each, 0.99)) for each in spreads_ns if len(each))
    in_order = np.argsort(arrived_ns[consumed_at], kind="stable")
    _, first = np.unique(consumer[consumed_at][in_order], return_index=True)
    at_start_ns = int(ahead_ns[in_order[first]].max(initial=0))
    usual_ns = costs.transit_ns + costs.receive_ns_per_message
    return Delays(spread_of(beyond_ns, records), tails_ns, at_start_ns, usual_ns)


def _lateness(at_ns: IntArray, due_ns: IntArray) -> tuple[IntArray, float]:
    is_known = due_ns >= 0
    late_ns = np.maximum(at_ns - due_ns, 0)
    if is_known.sum() < _MIN_SAMPLES:
        return np.zeros(len(at_ns), np.int64), 0.0
    typical_ns = float(np.median(late_ns[is_known]))
    return np.where(is_known, late_ns - int(typical_ns), 0), typical_ns


def _due_ns(sent: EventColumns, buffer_timeout_ns: int) -> IntArray:
    order = np.lexsort((sent["sequence_number"], sent["channel"]))
    rows = {name: values[order].astype(np.int64) for name, values in sent.items()}
    due_ns = np.full(len(order), -1, dtype=np.int64)
    if buffer_timeout_ns == 0:
        middle_ns = (rows["first_record_ns"] + rows["last_record_ns"]) // 2
        due_ns = np.where(rows["reason"] == FlushReason.FLUSH, middle_ns, due_ns)
    is_followed = (np.diff(rows["channel"]) == 0) & (np.diff(rows["sequence_number"]) == 1)
    is_full = (rows["reason"][:-1] == FlushReason.FULL) & is_followed
    due_ns[:-1] = np.where(is_full, rows["first_record_ns"][1:], due_ns[:-1])
    in_order = np.empty_like(due_ns)
    in_order[order] = due_ns
    return in_order


def _beat_ns(sent: EventColumns, buffer_timeout_ns: int) -> IntArray:
    """Due instant of each buffer that a beat of the flusher sent, a timeout after the flush before;
    -1 for others, and where a beat in between may have found nothing to flush."""
    beat_ns = np.full(len(sent["at_ns"]), -1, dtype=np.int64)
    if buffer_timeout_ns <= 0:
        return beat_ns
    flushed = np.flatnonzero(sent["reason"] == FlushReason.FLUSH)
    flushed = flushed[np.lexsort((sent["sequence_number"][flushed], sent["channel"][flushed]))]
    before, after = flushed[:-1], flushed[1:]
    due_ns = sent["at_ns"][before].astype(np.int64) + buffer_timeout_ns
    is_beat = sent["channel"][before] == sent["channel"][after]
    is_beat &= sent["at_ns"][after] > due_ns - int(_EARLY_SHARE * buffer_timeout_ns)
    is_beat &= sent["first_record_ns"][after] <= due_ns
    beat_ns[after] = np.where(is_beat, due_ns, -1)
    return beat_ns


def spread_of(beyond_ns: IntArray, records: IntArray) -> IntArray:
    """Quantiles over records of the delays of their messages."""
    if len(beyond_ns) < _MIN_SAMPLES or not records.any():
        return NO_DELAYS.spread_ns
    order = np.argsort(beyond_ns, kind="stable")
    up_to = np.cumsum(records[order])
    wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES * up_to[-1]
    quantiles: IntArray = beyond_ns[order][np.searchsorted(up_to, wanted)]
    return quantiles


def quiet_before_ns(passed_ns: IntArray, at_ns: IntArray) -> IntArray:
    """Idle time before the flush of each buffer, where buffers passed at these instants, ascending;
    0 before the first flush, and for buffers that find the machine awake."""
    is_new = np.diff(passed_ns) > ONE_FLUSH_NS
    first_ns = passed_ns[:1]
    begun_ns = np.r_[first_ns, passed_ns[1:][is_new]]
    before_ns = np.r_[first_ns, passed_ns[:-1][is_new]]
    place = np.searchsorted(begun_ns, at_ns, side="right") - 1
    is_seen = place >= 0
    own_ns = begun_ns[place[is_seen]]
    is_waking = at_ns[is_seen] - own_ns < AWAKE_NS
    found = np.zeros(len(place), np.int64)
    found[is_seen] = np.where(is_waking, own_ns - before_ns[place[is_seen]], 0)
    return found


def delays_by_quiet(beyond_ns: IntArray, records: IntArray, quiet_ns: IntArray) -> DelaysByQuiet:
    """Group the delays of messages (`beyond_ns`) by the idle time before them."""
    from_ns: list[int] = []
    spreads_ns: list[IntArray] = []
    group = np.searchsorted(GROUPS_FROM_NS, quiet_ns, side="right") - 1
    first = 0
    for last, _ in enumerate(GROUPS_FROM_NS):
        own = (group >= first) & (group <= last)
        if own.sum() >= GROUP_MIN:
            from_ns.append(GROUPS_FROM_NS[first] if from_ns else 0)
            spreads_ns.append(spread_of(beyond_ns[own], np.maximum(records[own], 1)))
            first = last + 1
    if not spreads_ns:
        from_ns, spreads_ns = [0], [spread_of(beyond_ns, np.maximum(records, 1))]
    typical_ns = np.quantile(quiet_ns, (np.arange(QUANTILES) + 0.5) / QUANTILES).astype(np.int64)
    return DelaysByQuiet(typical_ns, np.array(from_ns, np.int64), tuple(spreads_ns))
