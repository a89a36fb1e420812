"""What the machine adds to each message at a given rate: timers that wake late, and jitter.

The simulated stack works on time and always takes as long. A recorded one wakes up some tens of µs
after the instant a record was due, and now and then something else has the core. Both are seen in
the rows: a buffer that was full left when the record came that no longer fitted; with timeout 0
every record is due at once; the flusher's beat is due a timeout after the one before. The spread of
the whole delay is laid over the predicted latencies.

Messages leave at instants that have nothing to do with those at which the machine is busy with
other things. So what they were delayed by is what a record would have been that was due at any
instant, at any other timeout, as long as the machine does to the processes what it did: they are
woken more often at shorter timeouts, and sleep less. What waking varies by goes with what it takes
(`Delays.awake`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import FlushReason
from flinknet.histogram import PERCENTILES, LogLinearHistogram, bucket_bounds_ns, bucket_index
from flinknet.results import MACHINE_DELAYED, LatencySummary
from flinknet.simulator.cost_model import CostModel
from flinknet.trace.event_block import EventColumns, same_message

from .queued import queued_ns
from .wakeups import UNKNOWN, Wakeups, gaps_of

QUANTILES = 500
"""Points that the spread is kept as: enough for the p99.9 of timeout 0 to show."""

_STEP = 197
"""Prime to QUANTILES, so that quantiles are put together that have nothing to do with each
other."""

PARTS = 4
"""Of a run, whose delays are compared to tell how much they differ."""

TAIL_WORTH_NOTING_NS = 300_000
"""A machine that delays one record in a hundred by less shows in no p99."""

_MIN_SAMPLES = 10

_EARLY_SHARE = 0.2
"""Of a buffer timeout: a flush that is earlier than this was no beat. Those after a flush whose
sending took long are a little early."""


@dataclass(frozen=True, slots=True, eq=False)
class DelaysByQuiet:
    """Delays of messages by how long nothing had passed before them (`fit.quiet`).

    Attributes:
        quiet_ns: that time, evenly spaced quantiles over the messages, ascending.
        from_ns: where each group of such times begins.
        spreads_ns: of each group, evenly spaced quantiles of the delay.
    """

    quiet_ns: IntArray
    from_ns: IntArray
    spreads_ns: tuple[IntArray, ...]

    def where_more_pass(self, factor: float) -> IntArray:
        """Quantiles of the delay where so many times as many flushes pass: the time between them is
        so much shorter."""
        group = np.searchsorted(self.from_ns, self.quiet_ns / factor, side="right") - 1
        shares = np.bincount(np.maximum(group, 0), minlength=len(self.spreads_ns))
        values_ns = np.concatenate(self.spreads_ns)
        order = np.argsort(values_ns, kind="stable")
        reached = np.cumsum(np.repeat(shares, [len(each) for each in self.spreads_ns])[order])
        wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES * reached[-1]
        found: IntArray = values_ns[order][np.searchsorted(reached, wanted)]
        return found

    def times(self, factor: float) -> DelaysByQuiet:
        """So many times as long."""
        spreads_ns = ((each * factor).astype(np.int64) for each in self.spreads_ns)
        return replace(self, spreads_ns=tuple(spreads_ns))


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """What is not the stack's own.

    Attributes:
        spread_ns: evenly spaced quantiles of the delay from due to consumed, less what the steps
            take in the simulation; empty if unknown.
        tails_ns: the p99 of that delay in each part of the run; empty if unknown.
        queued_at_start_ns: the longest that a consumer's first message waited for those ahead,
            which the simulation begins without.
        usual_ns: what a message typically takes to its consumer and there, as recorded. Delays up
            to that come of waking, the rest is the machine's.
        by_quiet: how delays depend on how often something passes; None if that is not known.
    """

    spread_ns: IntArray
    tails_ns: tuple[int, ...] = ()
    queued_at_start_ns: int = 0
    usual_ns: float = 0.0
    by_quiet: DelaysByQuiet | None = None

    @property
    def note(self) -> str | None:
        """How well p99 can be known; None where the machine hardly shows in it."""
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
        """The delays where waking takes that share of what it took in the recorded run: what it
        varies by shrinks or grows with it.

        Args:
            more: how many times as many flushes pass; where it is known what that does to delays,
                it counts instead of the share.
        """
        if self.by_quiet is not None:
            return replace(self, spread_ns=self.by_quiet.where_more_pass(more))
        own_ns = np.minimum(self.spread_ns, self.usual_ns)
        spread_ns = self.spread_ns + (share - 1.0) * own_ns
        return replace(self, spread_ns=spread_ns.astype(np.int64))

    def and_waits(self, waits_ns: IntArray) -> Delays:
        """Both together: records wait for late flushes whatever else delays them.

        Args:
            waits_ns: evenly spaced quantiles; empty for none.
        """
        if not len(waits_ns) or not len(self.spread_ns):
            return replace(self, spread_ns=waits_ns if len(waits_ns) else self.spread_ns)
        sums_ns = self.spread_ns + waits_ns[np.arange(QUANTILES) * _STEP % QUANTILES]
        return replace(self, spread_ns=np.sort(sums_ns))

    def times(self, factor: float) -> Delays:
        """So many times as long."""
        spread_ns = (self.spread_ns * factor).astype(np.int64)
        by_quiet = None if self.by_quiet is None else self.by_quiet.times(factor)
        return replace(self, spread_ns=spread_ns, by_quiet=by_quiet)

    def over(self, latency: LogLinearHistogram) -> LatencySummary:
        """The summary of predicted latencies with the spread laid over each of them."""
        plain = latency.summary()
        if not len(self.spread_ns) or latency.min is None or latency.max is None:
            return plain
        wide = LogLinearHistogram()
        filled = np.flatnonzero(latency.counts)
        middles_ns = np.array([sum(bucket_bounds_ns(int(index))) // 2 for index in filled])
        spread_out = np.maximum(middles_ns[:, None] + self.spread_ns[None, :], 0)
        counts = np.repeat(latency.counts[filled], len(self.spread_ns))
        np.add.at(wide.counts, bucket_index(spread_out.ravel()), counts)
        wide.count = int(wide.counts.sum())
        wide.min = max(latency.min + int(self.spread_ns[0]), 0)
        wide.max = latency.max + int(self.spread_ns[-1])
        mean = (plain.mean or 0.0) + float(self.spread_ns.mean())
        percentiles: dict[str, Any] = {
            name: None if getattr(plain, name) is None else wide.percentile(q)
            for name, q in PERCENTILES.items()
        }
        return replace(plain, min=wide.min, max=wide.max, mean=mean, **percentiles)


NO_DELAYS = Delays(np.zeros(0, dtype=np.int64))


def fit_delays(
    sent: EventColumns,
    consumed: EventColumns,
    buffer_timeout_ns: int,
    costs: CostModel,
    consumer_of: Mapping[int, int],
    receiver_of: Mapping[int, int],
    wakeups: Wakeups | None = None,
) -> Delays:
    """Fit the delays of a run with a rate from the rows of its data buffers.

    Args:
        costs: what the simulation takes for the way of a message; only what goes beyond is spread.
        consumer_of: channel to index of its consumer.
        receiver_of: channel to index of the TaskManager of that.
        wakeups: what messages take by their distance; None if all are expected to take as long.
    """
    due_ns = _due_ns(sent, buffer_timeout_ns)
    beat_ns = _beat_ns(sent, buffer_timeout_ns)
    beyond_ns, typical_ns = _lateness(sent["at_ns"], due_ns)
    # What a turn takes until it sends is in the time between beats, too, and cannot be seen there.
    beyond_beat_ns, _ = _lateness(sent["at_ns"], beat_ns)
    if (due_ns < 0).all() and (beat_ns < 0).all():
        return NO_DELAYS
    late_ns = np.where(due_ns < 0, beyond_beat_ns, beyond_ns) + int(typical_ns)
    sent_at, consumed_at = same_message(sent, consumed)
    records = np.maximum(sent["records"][sent_at], 0).astype(np.int64)
    whole_ns = consumed["at_ns"][consumed_at] - sent["at_ns"][sent_at] + late_ns[sent_at]
    transit_ns = np.full(len(sent_at), costs.transit_ns)
    if wakeups is not None:
        gaps_ns = gaps_of(sent, receiver_of)[sent_at]
        transit_ns = np.where(gaps_ns == UNKNOWN, transit_ns, wakeups.transit_after(gaps_ns))
    # The consumers' work, also on what was sent before the rows begin.
    consumer = np.array([consumer_of[each] for each in consumed["channel"].tolist()], np.int64)
    per_record_ns = np.array(costs.consume_ns_per_record)[consumer]
    work_ns = costs.receive_ns_per_message + per_record_ns * np.maximum(consumed["records"], 0)
    service_ns = work_ns.astype(np.int64)
    arrived_ns = consumed["at_ns"].astype(np.int64)
    arrived_ns[consumed_at] = sent["at_ns"][sent_at] + transit_ns.astype(np.int64)
    ahead_ns = queued_ns(arrived_ns, consumed["at_ns"], service_ns, consumer)[consumed_at]
    beyond_ns = whole_ns - transit_ns.astype(np.int64) - service_ns[consumed_at] - ahead_ns
    tails_ns = _tails(beyond_ns, records, sent["at_ns"][sent_at])
    in_order = np.argsort(arrived_ns[consumed_at], kind="stable")
    _, first = np.unique(consumer[consumed_at][in_order], return_index=True)
    at_start_ns = int(ahead_ns[in_order[first]].max(initial=0))
    usual_ns = costs.transit_ns + costs.receive_ns_per_message
    return Delays(spread_of(beyond_ns, records), tails_ns, at_start_ns, usual_ns)


def _tails(beyond_ns: IntArray, records: IntArray, at_ns: IntArray) -> tuple[int, ...]:
    """The p99 over the records of each of PARTS parts of a run, those with few messages left
    out."""
    tails_ns = []
    for part in np.array_split(np.argsort(at_ns, kind="stable"), PARTS):
        spread_ns = spread_of(beyond_ns[part], records[part])
        if len(spread_ns):
            tails_ns.append(int(np.quantile(spread_ns, 0.99)))
    return tuple(tails_ns)


def _lateness(at_ns: IntArray, due_ns: IntArray) -> tuple[IntArray, float]:
    """How much later than typical each buffer was sent, 0 where it is not known when it was due;
    and what is typical. Both are 0 for too few samples."""
    is_known = due_ns >= 0
    late_ns = np.maximum(at_ns - due_ns, 0)
    if is_known.sum() < _MIN_SAMPLES:
        return np.zeros(len(at_ns), np.int64), 0.0
    typical_ns = float(np.median(late_ns[is_known]))
    return np.where(is_known, late_ns - int(typical_ns), 0), typical_ns


def _due_ns(sent: EventColumns, buffer_timeout_ns: int) -> IntArray:
    """When each buffer should have left that a record pushed out; -1 for others."""
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
    """When each buffer should have left that the flusher's beat pushed out: a timeout after the
    flush before; -1 for others, and where a beat may have passed that found nothing to flush."""
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
    """Quantiles over records of what their messages took beyond the typical."""
    if len(beyond_ns) < _MIN_SAMPLES or not records.any():
        return NO_DELAYS.spread_ns
    order = np.argsort(beyond_ns, kind="stable")
    up_to = np.cumsum(records[order])
    wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES * up_to[-1]
    quantiles: IntArray = beyond_ns[order][np.searchsorted(up_to, wanted)]
    return quantiles
