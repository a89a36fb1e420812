"""What a run at the highest rate tells of its processes: what buffers and records cost them, what
the ways take, and when the machine kept them from working.

A consumer has work from when a buffer could have arrived until it is done with it; a producer while
its writer does not wait, and from when credit could have arrived until it has. The sums are exact:
busy time and preemptions together are the time in which there was work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.simulator.cost_model import Preemptions
from flinknet.trace import RunManifest
from flinknet.trace.event_block import EventColumns, same_message

from ..intervals import Intervals, from_switches
from .preemptions import activity_of, joined, uncontended_ns, union
from .window_rows import ExchangeRows, of_channels, same_credit


@dataclass(frozen=True, slots=True, eq=False)
class Saturation:
    """What was found; processes by name.

    Attributes:
        transit_ns: from SENT to RECEIVED of a buffer that met nothing on its way.
        back_ns: the same of credit; None if there was none.
        busy_ns_per_buffer: of the processes that consume.
        busy_ns_per_record: of the processes that produce, with all that belongs to a record.
        preemptions: of every process; instants count from the start of the window.
        preemption_share: of the window, the mean over processes.
    """

    transit_ns: float
    back_ns: float | None
    busy_ns_per_buffer: Mapping[str, float]
    busy_ns_per_record: Mapping[str, float]
    preemptions: Mapping[str, Preemptions]
    preemption_share: float


def fit_saturation(
    rows: ExchangeRows, manifest: RunManifest, from_ns: int, to_ns: int
) -> Saturation:
    """Fit a window [from_ns, to_ns) in which all rows are known."""
    produces = {each.index: each.producer_process for each in manifest.channels}
    consumes = {each.index: each.consumer_process for each in manifest.channels}
    there, here = same_message(rows.sent, rows.received)
    ways_ns = rows.received["at_ns"][here] - rows.sent["at_ns"][there]
    transit_ns = uncontended_ns(ways_ns, 0.0)
    per_buffer: dict[str, float] = {}
    per_record: dict[str, float] = {}
    preemptions: dict[str, Preemptions] = {}
    shares: list[float] = []
    backs_ns: list[float] = []
    for process in dict.fromkeys([*produces.values(), *consumes.values()]):
        own_in = [channel for channel, name in consumes.items() if name == process]
        own_out = [channel for channel, name in produces.items() if name == process]
        taken, written = of_channels(rows.consumed, own_in), of_channels(rows.sent, own_out)
        work = joined(
            [
                _consuming(of_channels(rows.sent, own_in), taken, int(transit_ns)),
                _writing(of_channels(rows.waits, own_out), written, from_ns, to_ns),
                _crediting(
                    of_channels(rows.credit_sent, own_out),
                    of_channels(rows.credit_received, own_out),
                    backs_ns,
                ),
            ]
        ).clipped(from_ns, to_ns)
        progress = [
            taken,
            of_channels(rows.received, own_in),
            of_channels(rows.credit_sent, own_in),
            written,
        ]
        progress += [of_channels(rows.credit_received, own_out), of_channels(rows.waits, own_out)]
        activity = activity_of(work, np.concatenate([each["at_ns"] for each in progress]))
        found = activity.preemptions
        preemptions[process] = Preemptions(
            found.starts_ns - from_ns, found.ends_ns - found.starts_ns, activity.wakeups_ns
        )
        shares.append(found.total_ns / max(to_ns - from_ns, 1))
        if len(taken["at_ns"]):
            per_buffer[process] = activity.busy_ns / len(taken["at_ns"])
        records = int(np.maximum(written["records"], 0).sum())
        if records:
            per_record[process] = activity.busy_ns / records
    return Saturation(
        transit_ns,
        float(np.mean(backs_ns)) if backs_ns else None,
        per_buffer,
        per_record,
        preemptions,
        float(np.mean(shares)) if shares else 0.0,
    )


def _consuming(sent: EventColumns, consumed: EventColumns, transit_ns: int) -> Intervals:
    there, here = same_message(sent, consumed)
    return union(sent["at_ns"][there] + transit_ns, consumed["at_ns"][here])


def _writing(waits: EventColumns, written: EventColumns, from_ns: int, to_ns: int) -> Intervals:
    """When a writer did not wait; each producer tells it on a channel of its own."""
    parts = []
    for channel in np.unique(waits["channel"]).tolist():
        own = waits["channel"] == channel
        order = np.argsort(waits["at_ns"][own], kind="stable")
        at_ns = waits["at_ns"][own][order]
        is_writing = waits["point"][own][order] == TracePoint.WRITER_RESUMES
        if not is_writing[0]:
            at_ns, is_writing = np.r_[from_ns, at_ns], np.r_[True, is_writing]
        parts.append(from_switches(at_ns, is_writing, to_ns))
    if not parts and len(written["at_ns"]):  # nothing ever held it back
        return Intervals(np.array([from_ns]), np.array([to_ns]))
    return joined(parts)


def _crediting(sent: EventColumns, received: EventColumns, backs_ns: list[float]) -> Intervals:
    """When credit had come to a producer that had not read it; adds what its way takes."""
    starts: list[IntArray] = []
    ends: list[IntArray] = []
    for channel in np.unique(received["channel"]).tolist():
        gives, gets = (of_channels(each, [channel]) for each in (sent, received))
        given, got = same_credit(gives, gets)
        starts.append(gives["at_ns"][given])
        ends.append(np.maximum(gives["at_ns"][given], gets["at_ns"][got]))
    if not starts:
        return union(np.zeros(0, np.int64), np.zeros(0, np.int64))
    given_ns, got_ns = np.concatenate(starts), np.concatenate(ends)
    back_ns = uncontended_ns(got_ns - given_ns, 0.0)
    backs_ns.append(back_ns)
    return union(given_ns + int(back_ns), got_ns)
