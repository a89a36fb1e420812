"""What messages take by their distance: how long their consumer had nothing to do.

Consumers that wait for milliseconds sleep, and so do the cores they ran on; at short buffer
timeouts, or at high rates, messages find them awake. One trace holds messages after short and after
long gaps, if not as short as any setting brings them: what comes after no gap at all is taken to be
as quick on its way as the quickest ones seen, and to be received in what an awake stack needs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flinknet.workload.wakes import Wakes

from .units import EventColumns, IntArray, same_message

AWAKE = 0.01
"""Share of messages that are taken to have found their consumer awake, if the gaps do not tell:
recorded at 10 ms and 2,000 records/s, p50 at timeout 0 is predicted at 198 us so, at 244 with 5 %,
and was measured at 201."""

GROUPS = 5
"""Messages are put together by their gaps; each group tells its typical way."""

SAMPLES_MIN = 100
UNKNOWN = -1


def gaps_of(sent: EventColumns, consumer_of: Mapping[int, int]) -> IntArray:
    """Time since the message before to the same consumer was sent, in ns; UNKNOWN for the first."""
    consumer = _consumers(sent, consumer_of)
    order = np.lexsort((sent["at_ns"], consumer))
    gaps_ns = np.full(len(order), UNKNOWN, np.int64)
    is_next = np.diff(consumer[order]) == 0
    gaps_ns[order[1:]] = np.where(is_next, np.diff(sent["at_ns"][order]), UNKNOWN)
    return gaps_ns


def fit_wakes(
    sent: EventColumns,
    received: EventColumns,
    consumer_of: Mapping[int, int],
    awake_receive_ns: float,
    *,
    may_poll: bool = True,
) -> Wakes | None:
    """Fit what messages of a run took, from the rows of its data buffers.

    Args:
        consumer_of: channel to index of its consumer.
        awake_receive_ns, may_poll: as in Wakes.

    Returns: None for too few messages.
    """
    there, here = same_message(sent, received)
    gaps_ns = gaps_of(sent, consumer_of)[there]
    ways_ns = received["at_ns"][here] - sent["at_ns"][there]
    is_known = gaps_ns != UNKNOWN
    if is_known.sum() < SAMPLES_MIN:
        return None
    groups = _rising(np.flatnonzero(is_known), gaps_ns, ways_ns)
    typical_gaps_ns = [0.0, *(float(np.median(gaps_ns[own])) for own in groups)]
    typical_ns = [float(np.median(ways_ns[own])) for own in groups]
    typical_ns.insert(0, min(float(np.quantile(ways_ns, AWAKE)), typical_ns[0]))
    records = max(int(np.maximum(sent["records"], 0).sum()), 1)
    consumers = len(np.unique(_consumers(sent, consumer_of)))
    duration_ns = max(int(np.ptp(sent["at_ns"])), 1)
    return Wakes(
        tuple(typical_gaps_ns),
        tuple(typical_ns),
        awake_receive_ns,
        records_per_s=records * 1e9 / duration_ns / consumers,
        record_bytes=float(sent["payload_bytes"].sum()) / records,
        channels=len(np.unique(sent["channel"])) / consumers,
        may_poll=may_poll,
    )


def _rising(known: IntArray, gaps_ns: IntArray, ways_ns: IntArray) -> list[IntArray]:
    """Groups of messages by their gaps, ascending, joined where the next group is quicker: then
    something else made the difference."""
    groups: list[IntArray] = []
    for part in np.array_split(known[np.argsort(gaps_ns[known], kind="stable")], GROUPS):
        groups.append(part)
        while len(groups) > 1 and np.median(ways_ns[groups[-2]]) > np.median(ways_ns[groups[-1]]):
            groups[-2:] = [np.concatenate(groups[-2:])]
    return groups


def _consumers(rows: EventColumns, consumer_of: Mapping[int, int]) -> IntArray:
    return np.array([consumer_of[each] for each in rows["channel"].tolist()], np.int64)
