"""Round trips of credit: from the buffer that takes a credit until the producer has it back.

A run that recorded itself shows all of a round trip. The consumer notes its free buffers as each
buffer arrives, which counts all credits that it has given so far; so it is known which AddCredit
returned the credit of a consumed buffer. A recording between TaskManagers shows the part from its
own place to the consumer and back, and only where the AddCredit must be the answer: for a buffer
that is alone on its way after others without backlog, or while every buffer waits for a credit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram, encoded_by_group
from flinknet.predict.exchange import is_blocking, recorded_network
from flinknet.results.measures import CreditPath
from flinknet.trace.buffers import CHANNEL_BITS, SortedEvents, data_at_all, events_at
from flinknet.trace.event_block import EventBlock, is_data
from flinknet.trace.manifest import ChannelInfo

from ..read import RecordedRun
from ..spark.frames import Columns, Rows
from .channel_events import Window
from .question import Question, is_at, is_measured, of_blocks
from .stretches import ChannelTime
from .traffic import ThroughputWindow
from .units import Unit

TRIPS_MIN = 10
EXHAUSTED_FROM = 0.05
"""Share of buffers sent with the last credit, while more were queued, from which the credits that
the consumer had given at these instants are counted. With fewer, those that it may give count."""

QUIET_BUFFERS = 16
"""Buffers without backlog after which no floating buffer that was given before is left."""


@dataclass(frozen=True, slots=True)
class CreditRow:
    """Round trips of the credit of a channel; times are sums."""

    run: int
    channel: int
    trips: int  # round trips
    reader_ns: int  # from the arrival of these buffers until they were consumed
    sent: int  # buffers that may have one
    exhausted: int  # buffers that took the last credit while more were queued
    given: int  # credits that the consumer had given at these instants, summed
    refill_ns: int  # between TaskManagers: from one such buffer to the next, while more were queued
    refilled: int  # credits that came in this time
    trip_ns: bytes  # encoded LogLinearHistogram of the round trips


def own_trips(channels: IntArray, events: SortedEvents, window: Window) -> Columns:
    """Columns of CreditRow for channels in a slice; events are on the axis of the window."""
    lives = ("at_ns", "sequence_number")
    sent, received, consumed = data_at_all(
        events,
        (TracePoint.SENT, TracePoint.RECEIVED, TracePoint.CONSUMED),
        (
            (*lives, "credit_after", "backlog_buffers", "channel", "place"),
            (*lives, "credit_before"),
            lives,
        ),
    )
    sent_ns, channel = sent["at_ns"], sent["channel"]
    arrived_ns = np.maximum.accumulate(np.maximum(received["at_ns"], sent_ns))
    done_ns = np.maximum.accumulate(np.maximum(consumed["at_ns"], arrived_ns))
    number, free = np.arange(len(sent_ns)), received["credit_before"].astype(np.int64)
    counts = (sent_ns >= window.starts_ns(sent_ns)) & (sent_ns < window.ends_ns(sent_ns))
    counts &= (sent["credit_after"] >= 0) & (free > 0)  # local channels have no credit

    # Credits given until the next buffer arrived, less those of buffers consumed since this one.
    following = np.searchsorted(arrived_ns, done_ns)
    is_followed = following < len(number)
    following = np.minimum(following, len(number) - 1)
    is_followed &= channel[following] == channel
    since = np.searchsorted(done_ns, arrived_ns[following], side="right") - number - 1
    wanted = following + free[following] - np.maximum(since, 0)
    credited_ns, whose, reached = _credits_reached(events, sent)
    place = np.searchsorted(reached, (channel.astype(np.int64) << CHANNEL_BITS) + wanted)
    is_back = counts & is_followed & (place < len(reached))
    place = np.minimum(place, max(len(reached) - 1, 0))
    if len(reached):
        is_back &= (whose[place] == channel) & (credited_ns[place] >= done_ns)
    back = np.flatnonzero(is_back)
    queued = np.maximum(number - np.searchsorted(done_ns, arrived_ns), 0)
    exhausted = np.flatnonzero(counts & (sent["credit_after"] == 0) & (sent["backlog_buffers"] > 0))
    return _rows(
        channels,
        (channel[back], credited_ns[place[back]] - sent_ns[back]),
        reader_ns=(channel[back], done_ns[back] - arrived_ns[back]),
        sent=(channel[counts], None),
        exhausted=(channel[exhausted], None),
        given=(channel[exhausted], (free + queued)[exhausted]),
    )


def _credits_reached(
    events: SortedEvents, sent: Mapping[str, IntArray]
) -> tuple[IntArray, IntArray, IntArray]:
    """The AddCredits behind the first buffer of each channel: instants, channels, and the number of
    the last buffer that all credits until then pay for, counted from 1 over the buffers of all
    channels, with the channel in the bits above CHANNEL_BITS."""
    columns = ("at_ns", "place", "credit_after", "channel")
    added = events_at(events, MessageKind.ADD_CREDIT, TracePoint.RECEIVED, columns)
    at_ns, place = (np.r_[sent[name], added[name]] for name in columns[:2])
    order = np.lexsort((place, at_ns))
    is_credit = order >= len(sent["at_ns"])
    before, own = np.cumsum(~is_credit)[is_credit], order[is_credit] - len(sent["at_ns"])
    channel = added["channel"][own]
    keep = np.flatnonzero(before > np.searchsorted(sent["channel"], channel))
    own, channel = own[keep], channel[keep].astype(np.int64)
    reached = (channel << CHANNEL_BITS) + before[keep] + added["credit_after"][own]
    return added["at_ns"][own], channel, np.maximum.accumulate(reached)


def _captured(unit: Unit, block: EventBlock) -> Iterator[Columns]:
    """Columns of CreditRow of each block of a trace recorded between TaskManagers."""
    if unit.counted_at != TracePoint.SENT:
        return
    is_sent = is_data(block, TracePoint.SENT)
    is_credit = is_at(block, MessageKind.ADD_CREDIT, TracePoint.RECEIVED)
    keep = (is_sent | is_credit) & (block["credit_after"] >= 0) & (block["channel"] >= 0)
    rows = np.flatnonzero(keep & is_measured(unit, block["at_ns"]))
    if not len(rows):
        return
    rows = rows[np.lexsort([block[name][rows] for name in ("order", "at_ns", "channel")])]
    at_ns, whose = block["at_ns"][rows].astype(np.int64), block["channel"][rows]
    channels, channel = np.unique(whose, return_inverse=True)
    is_sent, backlog = is_sent[rows], block["backlog_buffers"][rows]
    after = block["credit_after"][rows]
    sends, credits = np.flatnonzero(is_sent), np.flatnonzero(~is_sent)
    quiet = sends[_quiet(channel[sends], backlog[sends])]
    home = np.zeros(len(channels), np.int64)  # credit while only the buffer that left is out
    np.maximum.at(home, channel[quiet], after[quiet])
    alone = quiet[after[quiet] == home[channel[quiet]]]
    alone = alone[alone < (credits[-1] if len(credits) else 0)]
    answer = credits[np.searchsorted(credits, alone)] if len(credits) else alone
    alone, answer = (each[channel[alone] == channel[answer]] for each in (alone, answer))

    is_last = is_sent & (backlog > 0) & (after == 0)
    last, sent = np.flatnonzero(is_last), np.cumsum(is_sent)
    idle = np.cumsum(is_sent & (backlog <= 0))
    first, then = last[:-1], last[1:]
    is_pair = (channel[first] == channel[then]) & (idle[first] == idle[then])
    first, then = first[is_pair], then[is_pair]
    yield _rows(
        channels,
        (channel[alone], at_ns[answer] - at_ns[alone]),
        sent=(channel[is_sent], None),
        exhausted=(channel[last], None),
        refill_ns=(channel[then], at_ns[then] - at_ns[first]),
        refilled=(channel[then], sent[then] - sent[first]),
    )


def _quiet(channel: IntArray, backlog: IntArray) -> npt.NDArray[np.bool_]:
    """Whether buffers, sorted by channel, follow QUIET_BUFFERS of their channel without backlog and
    have none: the consumer has given no floating buffers then."""
    found = np.zeros(len(channel), bool)
    if len(channel) > QUIET_BUFFERS:
        queued = np.r_[0, np.cumsum(backlog > 0)]
        found[QUIET_BUFFERS:] = channel[QUIET_BUFFERS:] == channel[:-QUIET_BUFFERS]
        found[QUIET_BUFFERS:] &= queued[QUIET_BUFFERS + 1 :] == queued[: -QUIET_BUFFERS - 1]
    return found


def _rows(
    channels: IntArray,
    trips: tuple[IntArray, IntArray],
    **sums: tuple[IntArray, IntArray | None],
) -> Columns:
    """Columns of CreditRow, by places of channels with round trips, and with values to add (None:
    1)."""
    count, (place, trip_ns) = len(channels), trips
    ones = np.ones(len(place), np.int64)
    sums["trips"] = place, None
    none = np.zeros(0, np.int64), None
    added = {
        name: np.bincount(*sums.get(name, none), count).astype(np.int64)
        for name in CREDIT_TRIPS.sums
    }
    trips_ns = encoded_by_group(place, trip_ns, ones, count)
    return {"channel": channels, **added, "trip_ns": trips_ns}


CREDIT_TRIPS = Question(
    "credit_trips",
    CreditRow,
    keys=("run", "channel"),
    sums=("trips", "reader_ns", "sent", "exhausted", "given", "refill_ns", "refilled"),
    histograms=("trip_ns",),
    ask=of_blocks(_captured),
)
"""Round trips of credit; `regimes.observe_slice` answers it for runs that recorded themselves."""


def credit_paths(
    run: RecordedRun,
    rows: Rows[CreditRow],
    taken: Rows[ThroughputWindow],
    starved: Rows[ChannelTime],
    taken_ns: int,
) -> tuple[CreditPath, ...]:
    """The credit of pairs of TaskManagers with recorded round trips; `taken_ns`: with the drain."""
    if is_blocking(run.manifest):
        return ()
    own = {channel: place for place, channel in enumerate(rows["channel"].tolist())}
    pairs: dict[tuple[str, str], list[ChannelInfo]] = {}
    for info in run.manifest.channels:
        if info.index in own and not info.is_local:
            pairs.setdefault((info.producer_process, info.consumer_process), []).append(info)
    network = recorded_network(run.manifest)
    found = []
    for (sender, receiver), infos in pairs.items():
        places = [own[each.index] for each in infos]
        total = {name: int(rows[name][places].sum()) for name in CREDIT_TRIPS.sums}
        gates = len({each.consumer for each in infos})
        credits = float(network.exclusive_buffers * len(infos) + network.floating_buffers * gates)
        is_exhausted = total["exhausted"] >= EXHAUSTED_FROM * max(total["sent"], 1)
        if is_exhausted and total["given"]:
            parts = [(int(rows["given"][each]), int(rows["exhausted"][each])) for each in places]
            credits = sum(given / count for given, count in parts if count)
        trips = LogLinearHistogram.from_bytes(*rows["trip_ns"][places])
        trip_ns = trips.percentile(0.5) if trips.count >= TRIPS_MIN else None
        reader_ns = total["reader_ns"] / max(total["trips"], 1)
        if is_exhausted and total["refilled"] >= TRIPS_MIN:
            trip_ns = credits * total["refill_ns"] / total["refilled"] / len(infos)
        if trip_ns is None:
            continue
        passed = np.array([each.index for each in infos])
        waits_ns = starved.of(passed, "ns")
        found.append(
            CreditPath(
                sender=sender,
                receiver=receiver,
                channels=len(infos),
                round_trip_ns=trip_ns,
                reader_ns=None if run.counted_at == TracePoint.SENT else reader_ns,
                credits=credits,
                segment_size_bytes=network.segment_size_bytes,
                bytes_per_s=int(taken.of(passed, "payload_bytes").sum()) * 1e9 / taken_ns,
                buffers_per_s=int(taken.of(passed, "buffers").sum()) * 1e9 / taken_ns,
                waits=min(int(waits_ns.max()) / run.duration_ns, 1.0),
            )
        )
    return tuple(found)
