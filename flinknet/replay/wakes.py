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

SAMPLES_MIN = 20
"""Of a group; of fewer messages in all nothing is known."""

UNKNOWN = -1

TOO_FEW = (
    f"fewer than {SAMPLES_MIN} messages: what consumers that slept took to wake is not known, and"
    " settings that bring messages more often are told too slow"
)


def gaps_of(sent: EventColumns, receiver_of: Mapping[int, int]) -> IntArray:
    """Time since something was sent to the same TaskManager before, in ns; UNKNOWN for what came
    first. What is sent at one instant wakes it once, and has one gap.

    Args:
        receiver_of: channel to index of the TaskManager of its consumer: its tasks share a loop.
    """
    receiver = np.array([receiver_of[each] for each in sent["channel"].tolist()], np.int64)
    order = np.lexsort((sent["at_ns"], receiver))
    in_order = np.stack([receiver, sent["at_ns"]])[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = np.diff(in_order).any(axis=0)
    before = np.diff(in_order[:, is_new], prepend=UNKNOWN)
    gaps_ns = np.empty(len(order), np.int64)
    gaps_ns[order] = np.where(before[0] == 0, before[1], UNKNOWN)[np.cumsum(is_new) - 1]
    return gaps_ns


def fit_wakes(
    sent: EventColumns,
    received: EventColumns,
    receiver_of: Mapping[int, int],
    producer_of: Mapping[int, int],
    awake_receive_ns: float,
    *,
    may_poll: bool = True,
) -> Wakes | None:
    """Fit what messages of a run took, from the rows of its data buffers.

    Args:
        receiver_of: as in `gaps_of`.
        producer_of: channel to index of its producer.
        awake_receive_ns, may_poll: as in Wakes.

    Returns: None for too few messages.
    """
    there, here = same_message(sent, received)
    gaps_ns = gaps_of(sent, receiver_of)[there]
    ways_ns = received["at_ns"][here] - sent["at_ns"][there]
    is_known = gaps_ns != UNKNOWN
    if is_known.sum() < SAMPLES_MIN:
        return None
    groups = _rising(np.flatnonzero(is_known), gaps_ns, ways_ns)
    typical_gaps_ns = [0.0, *(float(np.median(gaps_ns[own])) for own in groups)]
    typical_ns = [float(np.median(ways_ns[own])) for own in groups]
    typical_ns.insert(0, min(float(np.quantile(ways_ns, AWAKE)), typical_ns[0]))
    records = max(int(np.maximum(sent["records"], 0).sum()), 1)
    channels = np.unique(sent["channel"]).tolist()
    receivers = len({receiver_of[each] for each in channels})
    flushers = len({(producer_of[each], receiver_of[each]) for each in channels})
    duration_ns = max(int(np.ptp(sent["at_ns"])), 1)
    return Wakes(
        tuple(typical_gaps_ns),
        tuple(typical_ns),
        awake_receive_ns,
        records_per_s=records * 1e9 / duration_ns / receivers,
        record_bytes=float(sent["payload_bytes"].sum()) / records,
        flushers=flushers / receivers,
        receivers=receivers,
        may_poll=may_poll,
    )


def _rising(known: IntArray, gaps_ns: IntArray, ways_ns: IntArray) -> list[IntArray]:
    """Groups of messages by their gaps, ascending, joined where the next group is quicker: then
    something else made the difference."""
    groups: list[IntArray] = []
    count = min(GROUPS, len(known) // SAMPLES_MIN)
    for part in np.array_split(known[np.argsort(gaps_ns[known], kind="stable")], count):
        groups.append(part)
        while len(groups) > 1 and np.median(ways_ns[groups[-2]]) > np.median(ways_ns[groups[-1]]):
            groups[-2:] = [np.concatenate(groups[-2:])]
    return groups
