"""Steps: what a process noted, as one sequence in time.

What it noted at one go is one step: buffers that arrived together, buffers that left together, the
buffers of one channel that a task read one after the other. From the beginning of one step to the
next the process did the one, and then what leads to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.simulator.loop_costs import TCP_BYTES
from flinknet.trace.event_block import EventColumns, same_message

from .window_rows import ExchangeRows, of_channels, same_credit

UNKNOWN_NS = -1


class Kind(IntEnum):
    """What a process did."""

    SENDS = 0
    TAKES_CREDIT = 1
    WRITES = 2
    WAITS = 3
    RECEIVES = 4
    ANNOUNCES = 5
    READS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of one process, in order.

    Attributes:
        kind: a Kind.
        at_ns: when it was noted.
        units: bytes of data that was sent, or taken from the socket, with what was there already of
            the buffer that follows; records that were read.
        buffers: that were sent, received or read.
        sent_ns: of what was received, when the first of it had been sent; UNKNOWN_NS if that is not
            known or nothing was received.
        ahead_bytes: data that had been sent in one go with the first, up to the end of the part of
            TCP_BYTES that it ends in.
    """

    kind: IntArray
    at_ns: IntArray
    units: IntArray
    buffers: IntArray
    sent_ns: IntArray
    ahead_bytes: IntArray

    def pairs(self, first: Sequence[Kind], then: Sequence[Kind]) -> IntArray:
        """Indices of the steps of some kinds that one of some kinds follows."""
        found: IntArray = np.flatnonzero(
            np.isin(self.kind[:-1], first) & np.isin(self.kind[1:], then)
        )
        return found

    def gaps_ns(self, pairs: IntArray) -> IntArray:
        """Time from each of those steps to the next."""
        gaps: IntArray = self.at_ns[pairs + 1] - self.at_ns[pairs]
        return gaps


def steps_of(rows: ExchangeRows, written: Sequence[int], read: Sequence[int]) -> Steps:
    """The steps of a process.

    Args:
        written: channels that it produces.
        read: channels that it consumes.
    """
    sent, credit = of_channels(rows.sent, written), of_channels(rows.credit_received, written)
    waits = of_channels(rows.waits, written)
    received, announced = of_channels(rows.received, read), of_channels(rows.credit_sent, read)
    consumed = of_channels(rows.consumed, read)
    is_waiting = waits["point"] == TracePoint.WRITER_WAITS
    parts = [
        _part(Kind.TAKES_CREDIT, credit, sent_ns=_credit_sent_ns(rows, credit)),
        _part(Kind.SENDS, sent, units=sent["payload_bytes"]),
        _part(Kind.WRITES, _where(waits, ~is_waiting)),
        _part(Kind.WAITS, _where(waits, is_waiting)),
        _received(rows, received),
        _part(Kind.ANNOUNCES, announced),
        _part(Kind.READS, consumed, units=np.maximum(consumed["records"], 0)),
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["at_ns"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    return _grouped(columns)


def _grouped(columns: EventColumns) -> Steps:
    kind, at_ns, channel = columns["kind"], columns["at_ns"], columns["channel"]
    if not len(kind):
        return Steps(
            kind, at_ns, columns["units"], kind, columns["sent_ns"], columns["ahead_bytes"]
        )
    is_read = kind[1:] == Kind.READS
    is_other = np.where(is_read, np.diff(channel) != 0, np.diff(at_ns) != 0)
    starts = np.flatnonzero(np.r_[True, (np.diff(kind) != 0) | is_other])
    ends = np.r_[starts[1:], len(kind)] - 1
    units = np.add.reduceat(columns["units"], starts)
    takes = np.flatnonzero(kind[starts] == Kind.RECEIVES)
    units[takes] += np.diff(columns["begun_bytes"][ends[takes]], prepend=0)
    return Steps(
        kind[starts],
        at_ns[starts],
        units,
        np.diff(np.r_[starts, len(kind)]),
        columns["sent_ns"][starts],
        columns["ahead_bytes"][starts],
    )


def _part(kind: Kind, rows: EventColumns, **given: npt.NDArray[np.int64]) -> EventColumns:
    count = len(rows["at_ns"])
    zeros = np.zeros(count, np.int64)
    return {
        "kind": np.full(count, int(kind)),
        "at_ns": rows["at_ns"],
        "channel": rows["channel"],
        "units": given.get("units", zeros),
        "sent_ns": given.get("sent_ns", zeros + UNKNOWN_NS),
        "ahead_bytes": given.get("ahead_bytes", zeros),
        "begun_bytes": given.get("begun_bytes", zeros),  # of the buffer that follows
    }


def _received(rows: ExchangeRows, received: EventColumns) -> EventColumns:
    """What was received, with when it was sent, and what went with it."""
    order = np.lexsort((rows.sent["sequence_number"], rows.sent["channel"], rows.sent["at_ns"]))
    sent = {name: values[order] for name, values in rows.sent.items()}
    up_to = np.cumsum(sent["payload_bytes"])
    begins = np.flatnonzero(np.r_[True, np.diff(sent["at_ns"]) != 0])
    counts = np.diff(np.r_[begins, len(up_to)])
    before = np.repeat((up_to - sent["payload_bytes"])[begins], counts)
    whole = np.repeat(up_to[begins + counts - 1], counts) - before
    ahead = np.minimum(-(-(up_to - before) // TCP_BYTES) * TCP_BYTES, whole)
    sent_ns = np.full(len(received["at_ns"]), UNKNOWN_NS)
    ahead_bytes = np.zeros(len(received["at_ns"]), np.int64)
    begun_bytes = np.zeros(len(received["at_ns"]), np.int64)
    there, here = same_message(sent, received)
    sent_ns[here] = sent["at_ns"][there]
    ahead_bytes[here] = ahead[there]
    begun_bytes[here] = (ahead - (up_to - before))[there]
    return _part(
        Kind.RECEIVES,
        received,
        units=received["payload_bytes"],
        sent_ns=sent_ns,
        ahead_bytes=ahead_bytes,
        begun_bytes=begun_bytes,
    )


def _credit_sent_ns(rows: ExchangeRows, received: EventColumns) -> IntArray:
    """When each credit message had been sent."""
    sent_ns = np.full(len(received["at_ns"]), UNKNOWN_NS)
    for channel in np.unique(received["channel"]).tolist():
        own = np.flatnonzero(received["channel"] == channel)
        gives = of_channels(rows.credit_sent, [channel])
        given, got = same_credit(gives, {name: values[own] for name, values in received.items()})
        sent_ns[own[got]] = gives["at_ns"][given]
    return sent_ns


def _where(rows: EventColumns, keep: npt.NDArray[np.bool_]) -> EventColumns:
    return {name: values[keep] for name, values in rows.items()}
