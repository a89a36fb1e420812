"""Messages captured between processes: when their records came, and when they were disturbed.

No record waits longer than a beat for its flush. So where the timeout is known and nothing held a
buffer back, its records came within one beat before it left, however long the channel was silent.

A tap that may ask Flink's REST API asks about every task once a second. A moment before, it makes
the JobManager fetch new values from all TaskManagers. On a machine of two cores one in eight round
trips took 3 ms and more then, of others one in 300. And when a job ends, its tasks flush and close
together: credit for the last buffers came back 4 to 20 ms late. Other runs have no such delays.

A record of an application in event time carries its timestamp, in ms. If that is the instant at
which it came to its producer, it lies between the buffer before and its own one. On an exchange
behind another one the records are older, by their wait there, and in a job that reads old data by
far more; then the timestamps say nothing of arrivals. Of a buffer with many records there is a
sample, and each record of it stands for those around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, SMALLEST_VALUE_BYTES, NetworkConfig
from flinknet.core.probe import FlushReason
from flinknet.core.wire.records import NO_TIME, OVERHEAD_BYTES
from flinknet.trace import TraceFile, TraceReader
from flinknet.trace.recordings import RunPlace, asked_within, open_recordings
from flinknet.trace.schema import TIMESTAMPS
from flinknet.units import NS_PER_MS

from .fit import SAMPLES_MIN
from .fit.arrivals import Seen
from .fit.flusher import flush_overhead_ns, flusher_late_ns
from .fit.window_rows import ExchangeRows, places_by_channel, read_tap
from .intervals import NOTHING, BoolArray, Intervals, merged

FLUSHER_LATE_NS = 100_000
"""Greatest delay of the flusher behind its usual beat."""

RELEASED_NS = 1_000_000
"""Time after its channel may send again within which a buffer leaves that had waited for it."""

FETCHED_BEFORE_NS = 150_000_000
"""Time before the first answer at which the JobManager begins to fetch the values asked for."""

SETTLED_AFTER_NS = 50_000_000
"""Time after the last answer until the machine is as it was before."""

ENDING_NS = 100_000_000
"""Time before the last recorded message in which the job may have been ending."""

SHARE_MAX = 0.5
"""Greatest share of the time with answers of Flink that is set aside."""

ALIKE_SHARE = 0.9
"""Share of buffers as long as records of one size make them, from which all have that size."""

MANY_RECORDS = 10
"""Records in a buffer from which one cut at its end is no evidence of another size."""

FOLLOW_SHARE = 0.9
"""Least share of timestamps within the interval of their buffer at which they follow the clock."""

SLACK_NS = NS_PER_MS
"""Longest time in ns by which such a timestamp lies outside: it is cut to whole milliseconds."""

BLOCKS = 16
"""Blocks of a file in which timestamps are looked for."""

BY_TIMESTAMPS = "records came at their timestamps, which follow the clock"

_NONE = np.zeros(0, np.int64)


def with_uncounted(sent: EventColumns) -> tuple[EventColumns, float]:
    """Data buffers with as many records in those that could not be counted as their bytes had in
    the others: of their channel, or of all where a channel has no others. Buffers stay without
    records if none are known. Second, the share of the bytes that this is about."""
    is_unknown, size = sent["records"] < 0, sent["payload_bytes"].astype(np.int64)
    unknown_bytes = int(size[is_unknown].sum())
    if not unknown_bytes:
        return sent, 0.0
    records = np.where(is_unknown, 0, sent["records"]).astype(np.int64)
    known = np.where(is_unknown, 0, size)
    of_all = records.sum() / max(int(known.sum()), 1)
    for own in places_by_channel(sent).values():
        own_records = records[own].sum()
        ratio = own_records / known[own].sum() if own_records else of_all
        reached = np.rint(np.cumsum(size[own] * is_unknown[own]) * ratio).astype(np.int64)
        records[own] += np.diff(reached, prepend=0)
    return {**sent, "records": records}, unknown_bytes / int(size.sum())


def wire_bytes(sent: EventColumns) -> dict[int, float]:
    """Mean bytes of a record of each channel."""
    size, records = sent["payload_bytes"], sent["records"].clip(0)
    return {
        channel: float(size[own].sum() / max(records[own].sum(), 1))
        for channel, own in places_by_channel(sent).items()
    }


def starved_share(rows: ExchangeRows, duration_ns: int) -> float:
    """Share of the channels' time in which a producer had used up its credit and said that more
    waited: pressure, in which no timeout acts."""
    starved_ns = 0
    sent, credited = places_by_channel(rows.sent), places_by_channel(rows.credit_received)
    for channel, data in sent.items():
        credit = credited.get(channel, _NONE)
        at_ns = np.concatenate([rows.sent["at_ns"][data], rows.credit_received["at_ns"][credit]])
        waits = (rows.sent["credit_after"][data] == 0) & (rows.sent["backlog_buffers"][data] > 0)
        waits = np.concatenate([waits, np.zeros(len(credit), bool)])
        order = np.argsort(at_ns, kind="stable")
        gaps_ns = np.diff(at_ns[order])
        starved_ns += int(gaps_ns[waits[order][:-1]].sum())
    return starved_ns / (duration_ns * len(sent)) if sent and duration_ns else 0.0


def disturbed_within(
    place: RunPlace, from_ns: int, to_ns: int, recorded_to_ns: int | None
) -> Intervals:
    """The disturbed part of [from_ns, to_ns); `recorded_to_ns` is when the last message came."""
    asked_ns = asked_within(place, from_ns - FETCHED_BEFORE_NS, to_ns + FETCHED_BEFORE_NS)
    questions = Intervals(asked_ns - FETCHED_BEFORE_NS, asked_ns + SETTLED_AFTER_NS)
    end = NOTHING
    if recorded_to_ns is not None:
        last_ns = np.array([recorded_to_ns])
        end = Intervals(last_ns - ENDING_NS, last_ns + SETTLED_AFTER_NS).clipped(from_ns, to_ns)
    found = merged((questions.clipped(from_ns, to_ns), end))
    return found if found.total_ns <= SHARE_MAX * (to_ns - from_ns) else end


def wait_max_ns_of(
    rows: ExchangeRows, network: NetworkConfig, is_timeout_known: bool
) -> int | None:
    """Longest wait of a record for its flush; None where it is unknown, or has no end."""
    if not is_timeout_known or network.buffer_timeout_ns == BUFFER_TIMEOUT_NEVER_NS:
        return None
    overhead_ns = flush_overhead_ns(rows.sent, network.buffer_timeout_ns)
    return network.buffer_timeout_ns + overhead_ns + FLUSHER_LATE_NS


def seen_between(
    rows: ExchangeRows,
    from_ns: int,
    wait_max_ns: int | None = None,
    producer_of: Mapping[int, int] | None = None,
    pauses: Mapping[int, Intervals] | None = None,
    *,
    is_later: bool = False,
) -> dict[int, Seen]:
    """Between which instants the records of each buffer came, by channel. Buffers in which no
    record ends belong to the next one that has an end.

    Args:
        wait_max_ns: how long a record may have waited for its flush; those of a buffer that was
            held back may be older. None where that is unknown, or has no end.
        pauses: of the process of each producer; records of the first buffers behind one may have
            come while it lasted.
        is_later: the trace began before `from_ns`, so records of the first buffers may have come
            before it; else all of them count as the first ones of the job.
    """
    found: dict[int, Seen] = {}
    fed, resumed = (
        {channel: each["at_ns"][places] for channel, places in places_by_channel(each).items()}
        for each in (rows.credit_received, rows.resumed)
    )
    late_ns = np.zeros(len(rows.sent["at_ns"]), np.int64)
    if wait_max_ns is not None and producer_of is not None:
        late_ns = flusher_late_ns(rows.sent, producer_of, wait_max_ns - FLUSHER_LATE_NS)
    for channel, own in _by_sequence(rows.sent):
        last = np.flatnonzero(rows.sent["records"][own] > 0)
        if len(last):
            sent_ns = rows.sent["at_ns"][own].astype(np.int64)
            at_ns, records = sent_ns[last], rows.sent["records"][own[last]].astype(np.int64)
            since_ns = np.r_[min(from_ns, int(at_ns[0])), at_ns[:-1]]
            first = np.r_[0, last[:-1] + 1]
            if wait_max_ns is not None and is_later:
                since_ns[0] = min(since_ns[0], int(sent_ns[0]) - wait_max_ns)
            # A buffer may have been ready for longer than it took: the one before it left others
            # behind, or it left as soon as credit came where there was none, or as soon as the
            # channel was resumed.
            is_behind = np.r_[False, rows.sent["backlog_buffers"][own[:-1]] > 0]
            had_credit = np.r_[True, rows.sent["credit_after"][own[:-1]] > 0]
            is_held = is_behind | ~had_credit & _follows(sent_ns, fed.get(channel, _NONE))
            is_held = (is_held | _follows(sent_ns, resumed.get(channel, _NONE)))[first]
            if wait_max_ns is not None:
                due_ns = sent_ns[first] - wait_max_ns
                paused = (pauses or {}).get((producer_of or {}).get(channel, -1), NOTHING)
                begun_ns = np.minimum(paused.begins_of(due_ns), due_ns - late_ns[own[first]])
                earliest_ns = np.maximum(since_ns, begun_ns)
                since_ns = np.where(is_held, since_ns, earliest_ns)
            is_flush = rows.sent["reason"][own[last]] == FlushReason.FLUSH
            found[channel] = Seen(records, since_ns, at_ns, is_flush)
    return found


def _by_sequence(sent: EventColumns) -> Iterator[tuple[int, IntArray]]:
    """Each channel with the rows of its buffers, in the order in which they left."""
    for channel, own in places_by_channel(sent).items():
        yield channel, own[np.lexsort((sent["sequence_number"][own], sent["at_ns"][own]))]


def _follows(at_ns: IntArray, causes_ns: IntArray) -> BoolArray:
    """Whether each instant comes right after one of the others."""
    causes_ns = np.sort(causes_ns)
    before, long_before = (
        np.searchsorted(causes_ns, each, side="right") for each in (at_ns, at_ns - RELEASED_NS)
    )
    found: BoolArray = before > long_before
    return found


def stamps_in(files: Iterable[TraceFile]) -> tuple[str, ...]:
    """Names of the columns of timestamps; none if none of the first BLOCKS blocks has any."""
    for file in files:
        with TraceReader(file) as reader:
            for index in range(min(len(reader.blocks()), BLOCKS)):
                if TIMESTAMPS[0] in reader.stored_columns(index):
                    return TIMESTAMPS
    return ()


def stamped(
    seen: Mapping[int, Seen], sent: EventColumns, epoch_ns: int | None
) -> dict[int, Seen] | None:
    """The buffers of each channel, divided by the timestamps of their records, of which data
    buffers have a sample; None if there are none, or if they do not follow the clock, which was 0
    at an instant of the trace (`epoch_ns`; None if unknown)."""
    if epoch_ns is None or TIMESTAMPS[0] not in sent:
        return None
    first_ms = sent[TIMESTAMPS[0]]
    later_ms = np.stack([sent[name] for name in TIMESTAMPS[1:]], axis=1)
    later_ms = np.where(later_ms == NO_TIME, NO_TIME, later_ms + first_ms[:, None])
    came_ms = np.c_[first_ms, later_ms]
    found, inside = {}, [np.zeros(0, np.bool_)]
    for channel, own in _by_sequence(sent):
        own = own[sent["records"][own] > 0]
        if channel in seen:
            buffers = seen[channel]
            place, number = np.nonzero(came_ms[own] != NO_TIME)
            came_ns = came_ms[own][place, number] * NS_PER_MS + epoch_ns
            is_early = came_ns + NS_PER_MS < buffers.since_ns[place] - SLACK_NS
            inside.append(~is_early & (came_ns <= buffers.at_ns[place] + SLACK_NS))
            found[channel] = _divided(buffers, place, came_ns)
    is_inside = np.concatenate(inside)
    if len(is_inside) < SAMPLES_MIN or is_inside.mean() < FOLLOW_SHARE:
        return None
    return found


def _divided(buffers: Seen, place: IntArray, came_ns: IntArray) -> Seen:
    """Divide buffers at the instants of some of their records, each of which stands for as many;
    `place` is the buffer of each."""
    sampled = np.bincount(place, minlength=len(buffers.records))
    sampled[(sampled == 1) & (buffers.records > 1)] = 0  # one does not show how far apart all came
    order = np.lexsort((came_ns, place))
    order = order[sampled[place[order]] > 0]
    place, came_ns = place[order], came_ns[order]
    others = np.flatnonzero(sampled == 0)
    # A record lies within its millisecond; one of a sample reaches half-way to its neighbors.
    is_alone = (sampled == buffers.records)[place]
    gaps_ns = np.where(np.diff(place) == 0, np.diff(came_ns), -1)
    before_ns, behind_ns = np.r_[-1, gaps_ns], np.r_[gaps_ns, -1]
    left_ns, right_ns = (
        np.where(is_alone, 0, np.maximum(np.where(own < 0, other, own), 0) // 2)
        for own, other in ((before_ns, behind_ns), (behind_ns, before_ns))
    )
    since_ns, at_ns = came_ns - left_ns, came_ns + np.maximum(right_ns, NS_PER_MS)
    parts = np.r_[place, others]
    in_order = np.argsort(parts, kind="stable")
    parts = parts[in_order]
    since_ns = np.r_[since_ns, buffers.since_ns[others]][in_order]
    at_ns = np.r_[at_ns, buffers.at_ns[others]][in_order]
    since_ns, at_ns = (
        np.clip(each, buffers.since_ns[parts], buffers.at_ns[parts]) for each in (since_ns, at_ns)
    )
    is_first = np.r_[True, np.diff(parts) > 0]
    number = np.arange(len(parts)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    count, total = np.maximum(sampled, 1)[parts], buffers.records[parts]
    records = total * (number + 1) // count - total * number // count
    before_ns = np.r_[since_ns[:1], np.maximum.accumulate(at_ns)[:-1]]
    since_ns = np.maximum(since_ns, np.minimum(before_ns, at_ns))
    is_flush = buffers.is_flush[parts] & (number + 1 == count)
    keep = records > 0
    return Seen(records[keep], since_ns[keep], at_ns[keep], is_flush[keep])


@dataclass(frozen=True, slots=True, eq=False)
class SentBytes:
    """Stretches of buffers of one channel, each up to one in which a record ends; int64 columns.
    Instants and records are those of the last buffer, bytes those of all."""

    at_ns: IntArray
    records: IntArray
    wire_bytes: IntArray

    def value_bytes(self, instants_ns: IntArray) -> IntArray:
        """For records that came at these instants, the mean size of the values in the buffer that
        was the next to leave; never less than what a record of flinknet needs."""
        place = np.searchsorted(self.at_ns, instants_ns).clip(max=len(self.at_ns) - 1)
        mean = np.round(self.wire_bytes / self.records).astype(np.int64) - OVERHEAD_BYTES
        found: IntArray = np.maximum(mean, SMALLEST_VALUE_BYTES)[place]
        return found


def sent_bytes(
    place: RunPlace, channels: Sequence[int], from_ns: int, to_ns: int
) -> dict[int, SentBytes]:
    """Sizes on some channels, by channel; channels without records are left out."""
    files = open_recordings(place).files
    rows = read_tap(files, from_ns, to_ns, channels=list(channels)).sent
    found = {}
    for channel, own in _by_sequence(rows):
        last = np.flatnonzero(rows["records"][own] > 0)
        if len(last):
            up_to = np.cumsum(rows["payload_bytes"][own].astype(np.int64))
            found[channel] = SentBytes(
                rows["at_ns"][own[last]].astype(np.int64),
                rows["records"][own[last]].astype(np.int64),
                np.diff(up_to[last], prepend=0),
            )
    return found


def common_value_bytes(sent: Mapping[int, SentBytes]) -> int | None:
    """The size of all values, but not less than what a record of flinknet needs; None if they
    differ."""
    records = np.concatenate([each.records for each in sent.values()])
    wire_bytes = np.concatenate([each.wire_bytes for each in sent.values()])
    size = round(float(wire_bytes.sum() / records.sum()))
    tolerance = np.where(records >= MANY_RECORDS, size, 0)
    is_alike = np.abs(wire_bytes - records * size) <= tolerance
    if is_alike.mean() < ALIKE_SHARE:
        return None
    return max(size - OVERHEAD_BYTES, SMALLEST_VALUE_BYTES)
