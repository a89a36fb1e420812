"""What the recorded backlog says about waiting, by Little's law, and whether a prediction agrees.

Of a trace of messages seen in passing nobody knows how long records waited for a saturated
consumer. The backlog that buffers carry bounds it from below: so many buffers were ready to leave,
and at the rate at which they left each of them waited so long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinknet.arrays import IntArray
from flinknet.results import ERROR_TO_BET_ON
from flinknet.trace.event_block import EventColumns
from flinknet.units import human_duration

from .window_rows import places_by_channel

WORTH_A_LOOK_NS = 1_000_000
"""Less waiting is what schedulers do to any process."""

CONTRADICTED = "the recorded backlog contradicts the predicted latency"
"""Why nothing can be advised."""


@dataclass(frozen=True, slots=True)
class Queued:
    """How long buffers that were ready to leave waited in the queues of producers, at least.

    Attributes:
        mean_ns: over all records.
        p99_ns: what the mean of a channel comes to for one record in a hundred: one slow consumer
            among many shows here.
    """

    mean_ns: float = 0.0
    p99_ns: float = 0.0

    @property
    def is_worth_a_look(self) -> bool:
        """Whether a prediction should be compared with it."""
        return max(self.mean_ns, self.p99_ns) >= WORTH_A_LOOK_NS


NOT_QUEUED = Queued()


def queued(sent: EventColumns, to_ns: int) -> Queued:
    """Little's law for each channel: the time that buffers stood in its queue, over their number.

    Between two buffers a queue only grows, so the backlog that the first one left behind is the
    least that stood there until the second one left.

    Args:
        sent: data buffers; those that left before `to_ns` count.
    """
    waits_ns, records = [], []
    for places in places_by_channel(sent).values():
        own = places[sent["at_ns"][places] < to_ns]
        own = own[np.lexsort((sent["sequence_number"][own], sent["at_ns"][own]))]
        if not len(own):
            continue
        stood_ns = np.maximum(sent["backlog_buffers"][own[:-1]], 0) * np.diff(sent["at_ns"][own])
        waits_ns.append(float(stood_ns.sum()) / len(own))
        records.append(int(np.maximum(sent["records"][own], 0).sum()))
    if not sum(records):
        return NOT_QUEUED
    order = np.argsort(waits_ns)
    up_to = np.cumsum(np.array(records)[order])
    slowest = order[np.searchsorted(up_to, 0.99 * up_to[-1])]
    return Queued(float(np.average(waits_ns, weights=records)), waits_ns[slowest])


def contradiction(
    found: Queued,
    latency: Mapping[str, Any],
    low: Mapping[str, Any],
    high: Mapping[str, Any],
) -> str | None:
    """Why a prediction of the recorded setting cannot be true; None if it can.

    Waiting alone is proof when it is longer than the whole predicted latency. With the predicted
    way to the consumer on top, the model is granted the error that predictions may have.

    Args:
        latency: fields of a LatencySummary, in ns.
        low: the same of the least latency: from sending on.
        high: of the greatest.
    """
    if not latency["count"]:
        return None
    implied_ns = found.mean_ns + low["mean"]
    if max(found.mean_ns, implied_ns / (1 + ERROR_TO_BET_ON)) > latency["mean"]:
        return _described("a mean latency", implied_ns, latency["mean"])
    if high["p99"] is not None and found.p99_ns > high["p99"]:
        return _described("a p99", found.p99_ns, high["p99"])
    return None


def _described(what: str, implied_ns: float, predicted_ns: float) -> str:
    return (
        f"the recorded backlog implies {what} of at least {human_duration(implied_ns)}, and the"
        f" model predicts {human_duration(predicted_ns)}: a consumer is saturated, and how long"
        " records wait for it does not show in the messages"
    )


def queued_ns(
    arrived_ns: IntArray, consumed_ns: IntArray, service_ns: IntArray, consumer: IntArray
) -> IntArray:
    """What the messages ahead of each took, that its consumer had not worked off when it came.

    Each consumer is one server that takes its messages in turn. Where it stood still the wait was
    longer than that: such a delay is the machine's, and no queue.

    Args:
        arrived_ns: of each message, when it reached its consumer.
        consumed_ns: when the consumer was done with it.
        service_ns: what it costs the consumer.
        consumer: the consumer's index.
    """
    queued = np.zeros(len(arrived_ns), dtype=np.int64)
    for each in np.unique(consumer).tolist():
        own = np.flatnonzero(consumer == each)
        own = own[np.argsort(consumed_ns[own], kind="stable")]
        done_ns, took_ns, came_ns = consumed_ns[own], service_ns[own], arrived_ns[own]
        begun_ns = np.concatenate(([0], np.cumsum(took_ns)))  # of work, not of time
        place = np.arange(len(own))
        in_work = np.minimum(np.searchsorted(done_ns, came_ns, side="right"), place)
        rest_ns = np.clip(done_ns[in_work] - came_ns, 0, took_ns[in_work])
        behind_it_ns = begun_ns[place] - begun_ns[np.minimum(in_work + 1, place)]
        queued[own] = np.where(in_work < place, rest_ns + behind_it_ns, 0)
    return queued


def busy_for_ns(at_ns: IntArray, records: IntArray, ns_per_record: float) -> IntArray:
    """How long a consumer has to work on the messages before each when that comes, if it takes so
    long for each record and works without a pause.

    Args:
        at_ns: when its messages come, ascending.
    """
    work_ns = np.cumsum(np.maximum(records, 0) * ns_per_record)
    before_ns = np.r_[0.0, work_ns[:-1]]
    done_ns = before_ns + np.maximum.accumulate(at_ns - before_ns)  # begun, of each message
    found: IntArray = (done_ns - at_ns).astype(np.int64)
    return found
