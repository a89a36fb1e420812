"""Between which instants the records of captured buffers came.

No record waits longer than a beat for its flush. So where the timeout is known and nothing held a
buffer back, its records came within one beat before it left, however long the channel was silent.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, NetworkConfig
from flinknet.core.probe import FlushReason

from .captured_rows import CapturedRows
from .fit.arrivals import Seen
from .fit.flusher import flush_overhead_ns, flusher_late_ns
from .fit.window_rows import places_by_channel

FLUSHER_LATE_NS = 100_000
"""How much later than its usual beat the flusher may come."""

RELEASED_NS = 1_000_000
"""A buffer that leaves this soon after its channel may send again had waited for that."""

_NONE = np.zeros(0, np.int64)


def wait_max_ns_of(
    rows: CapturedRows, network: NetworkConfig, is_timeout_known: bool
) -> int | None:
    """How long a record may wait for its flush; None where that is unknown, or has no end."""
    if not is_timeout_known or network.buffer_timeout_ns == BUFFER_TIMEOUT_NEVER_NS:
        return None
    overhead_ns = flush_overhead_ns(rows.sent, network.buffer_timeout_ns)
    return network.buffer_timeout_ns + overhead_ns + FLUSHER_LATE_NS


def seen_between(
    rows: CapturedRows,
    from_ns: int,
    wait_max_ns: int | None = None,
    producer_of: Mapping[int, int] | None = None,
) -> dict[int, Seen]:
    """Between which instants the records of each buffer came, by channel.

    Buffers in which no record ends belong to the next one that has an end. What came before
    `from_ns` counts from there.

    Args:
        wait_max_ns: how long a record may have waited for its flush; those of a buffer that was
            held back may be older. None where that is unknown, or has no end.
    """
    found: dict[int, Seen] = {}
    causes_ns = [
        {channel: each["at_ns"][places] for channel, places in places_by_channel(each).items()}
        for each in (rows.credit, rows.resumed)
    ]
    late_ns = np.zeros(len(rows.sent["at_ns"]), np.int64)
    if wait_max_ns is not None and producer_of is not None:
        late_ns = flusher_late_ns(rows.sent, producer_of, wait_max_ns - FLUSHER_LATE_NS)
    for channel, own in places_by_channel(rows.sent).items():
        own = own[np.lexsort((rows.sent["sequence_number"][own], rows.sent["at_ns"][own]))]
        last = np.flatnonzero(rows.sent["records"][own] > 0)
        if len(last):
            sent_ns = rows.sent["at_ns"][own].astype(np.int64)
            at_ns, records = sent_ns[last], rows.sent["records"][own[last]].astype(np.int64)
            since_ns = np.r_[min(from_ns, int(at_ns[0])), at_ns[:-1]]
            first = np.r_[0, last[:-1] + 1]
            if wait_max_ns is not None:
                since_ns[0] = min(since_ns[0], int(sent_ns[0]) - wait_max_ns)
            fed_ns, resumed_ns = (each.get(channel, _NONE) for each in causes_ns)
            is_held = _is_held(rows, own, fed_ns, resumed_ns)[first]
            if wait_max_ns is not None:
                earliest_ns = np.maximum(
                    since_ns, sent_ns[first] - wait_max_ns - late_ns[own[first]]
                )
                since_ns = np.where(is_held, since_ns, earliest_ns)
            is_flush = rows.sent["reason"][own[last]] == FlushReason.FLUSH
            found[channel] = Seen(records, since_ns, at_ns, is_flush)
    return found


def _is_held(
    rows: CapturedRows, own: IntArray, fed_ns: IntArray, resumed_ns: IntArray
) -> npt.NDArray[np.bool_]:
    """Whether each buffer of a channel may have been ready to leave for longer than it took: the
    one before it left others behind, or it left as soon as credit came where there was none, or as
    soon as the channel was resumed.

    Args:
        own: rows of the channel's buffers, in their order.
        fed_ns: when credit came.
        resumed_ns: when the channel was resumed.
    """
    at_ns = rows.sent["at_ns"][own]
    is_behind = np.r_[False, rows.sent["backlog_buffers"][own[:-1]] > 0]
    had_credit = np.r_[True, rows.sent["credit_after"][own[:-1]] > 0]
    is_held: npt.NDArray[np.bool_] = (
        is_behind | ~had_credit & _follows(at_ns, fed_ns) | _follows(at_ns, resumed_ns)
    )
    return is_held


def _follows(at_ns: IntArray, causes_ns: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each instant comes right after one of the others."""
    causes_ns = np.sort(causes_ns)
    before, long_before = (
        np.searchsorted(causes_ns, each, side="right") for each in (at_ns, at_ns - RELEASED_NS)
    )
    found: npt.NDArray[np.bool_] = before > long_before
    return found
