"""How long messages waited for those before them, which a simulation lets them do again."""

from __future__ import annotations

import numpy as np

from .units import IntArray


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
