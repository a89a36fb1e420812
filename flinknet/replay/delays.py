"""What the machine adds to each message at a given rate: timers that wake late, and jitter.

The simulated stack works on time and always takes as long. A recorded one wakes up some tens of µs
after the instant a record was due, and now and then something else has the core. Both are seen in
the rows: a buffer that was full left when the record came that no longer fitted; with timeout 0
every record is due at once. The median lateness is added to the way of each message, the spread of
the whole delay is laid over the predicted latencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flinknet.core.probe import FlushReason
from flinknet.histogram import LogLinearHistogram, bucket_bounds_ns, bucket_index
from flinknet.results import LatencySummary
from flinknet.workload.recorded import CostModel

from .units import EventColumns, IntArray, same_message

QUANTILES = 500
"""Points that the spread is kept as: enough for the p99.9 of timeout 0 to show."""

_MIN_SAMPLES = 20
_PERCENTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """What is not the stack's own.

    Attributes:
        late_ns: from the instant a message was due until it was sent, median.
        spread_ns: evenly spaced quantiles of the delay from due to consumed, less their median;
            empty if unknown.
    """

    late_ns: float
    spread_ns: IntArray

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
            for name, q in _PERCENTILES.items()
        }
        return replace(plain, min=wide.min, max=wide.max, mean=mean, **percentiles)


NO_DELAYS = Delays(0.0, np.zeros(0, dtype=np.int64))


def fit_delays(
    sent: EventColumns,
    consumed: EventColumns,
    buffer_timeout_ns: int,
    costs: CostModel,
    consumer_of: Mapping[int, int],
) -> Delays:
    """Fit the delays of a run with a rate from the rows of its data buffers.

    Args:
        costs: what the simulation takes for the way of a message; only what goes beyond is spread.
        consumer_of: channel to index of its consumer.
    """
    due_ns = _due_ns(sent, buffer_timeout_ns)
    is_known = due_ns >= 0
    if is_known.sum() < _MIN_SAMPLES:
        return NO_DELAYS
    late_ns = np.maximum(sent["at_ns"] - due_ns, 0)
    typical_ns = float(np.median(late_ns[is_known]))
    late_ns = np.where(is_known, late_ns, int(typical_ns))
    sent_at, consumed_at = same_message(sent, consumed)
    records = np.maximum(sent["records"][sent_at], 0).astype(np.int64)
    whole_ns = consumed["at_ns"][consumed_at] - sent["at_ns"][sent_at] + late_ns[sent_at]
    per_record_ns = np.array(
        [
            costs.consume_ns_per_record[consumer_of[each]]
            for each in sent["channel"][sent_at].tolist()
        ]
    )
    message_ns = typical_ns + costs.transit_ns + costs.receive_ns_per_message
    beyond_ns = whole_ns - (message_ns + per_record_ns * records).astype(np.int64)
    return Delays(typical_ns, spread_of(beyond_ns, records))


def _due_ns(sent: EventColumns, buffer_timeout_ns: int) -> IntArray:
    """When each buffer should have left; -1 where the rows do not tell (the beat's phase is not
    recorded)."""
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


def spread_of(beyond_ns: IntArray, records: IntArray) -> IntArray:
    """Quantiles over records of what their messages took beyond the typical."""
    if len(beyond_ns) < _MIN_SAMPLES or not records.any():
        return NO_DELAYS.spread_ns
    order = np.argsort(beyond_ns, kind="stable")
    up_to = np.cumsum(records[order])
    wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES * up_to[-1]
    quantiles: IntArray = beyond_ns[order][np.searchsorted(up_to, wanted)]
    return quantiles
