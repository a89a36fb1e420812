"""The law of a synthetic channel: when its records come and what becomes of its buffers.

Records come evenly. A buffer leaves at the beat of its producer's flusher or when the record comes
that no longer fits, whichever is first; a beat does not close the segment, which goes on being
filled. Then it takes its way: it is handed over a little late, needs credit, travels, waits for its
consumer, and gives its credit back. What varies, varies by a hash of channel and buffer, so the
same seed gives the same events however they are sliced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import FlushReason

LATE_NS, LATE_SPREAD_NS = 15_000, 30_000
"""From when a buffer is due until it is handed to the socket."""

WAY_NS, WAY_SPREAD_NS = 12_000, 8_000
"""From one TaskManager to the other, either way."""

TAKE_NS, TAKE_SPREAD_NS, TAKE_NS_PER_RECORD = 2_000, 2_000, 20
"""Time of a consumer for a buffer, and for each record in it, in ns."""

PAUSE_NS, PAUSE_EVERY = 400_000, 1 << 12
"""Now and then a consumer is kept from its work."""

ANNOUNCE_NS = 500
"""From when a consumer is done with a buffer until it announces the credit."""

_ROUNDS_MAX = 500
_PRIME, _MIX_1, _MIX_2 = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


@dataclass(frozen=True, slots=True)
class ChannelLaw:
    """The settings that determine the buffers of a channel.

    Attributes:
        first_ns, gap_ns: instant of its first record, and time from one record to the next.
        record_bytes: size of a record in a buffer.
        beat_ns: the first beat of the flusher.
        credit: buffers that the consumer has for it.
    """

    channel: int
    seed: int
    first_ns: float
    gap_ns: float
    record_bytes: int
    segment_bytes: int
    timeout_ns: int
    beat_ns: int
    period_ns: int
    credit: int

    def instant_ns(self, records: IntArray) -> IntArray:
        """When records come, by their number."""
        instants_ns: IntArray = np.floor(self.first_ns + records * self.gap_ns).astype(np.int64)
        return instants_ns

    def records_until(self, until_ns: IntArray) -> IntArray:
        """How many records have come up to instants, those at them included."""
        guess: IntArray = np.ceil((until_ns - self.first_ns) / self.gap_ns).astype(np.int64)
        guess = np.maximum(guess - 1, 0)
        for _ in range(3):  # rounding puts the guess off by one at most
            guess += self.instant_ns(guess) <= until_ns
        return guess

    @property
    def buffers_per_s(self) -> float:
        """Buffers that are full, and beats of the flusher that find something."""
        records_per_s = 1e9 / self.gap_ns
        fills = records_per_s * self.record_bytes / self.segment_bytes
        if self.timeout_ns < 0:
            return fills
        if self.timeout_ns == 0:
            return records_per_s + fills
        return min(1e9 / self.period_ns, records_per_s) + fills


class SyntheticChannel:
    """Makes the buffers of a channel, slice by slice; `sent_ns` and `received_ns` are instants of
    the last one, 0 before the first."""

    def __init__(self, law: ChannelLaw) -> None:
        self.law = law
        self.buffers = 0
        self._made_ns = min(int(law.first_ns), law.beat_ns) - 1
        self._bytes = 0
        self.sent_ns = self.received_ns = 0
        self._consumed_ns = np.full(law.credit, -1, np.int64)
        self._credits_received_ns = np.full(law.credit, -1, np.int64)

    @property
    def consumed_ns(self) -> int:
        """Instant at which the consumer was done with the last buffer, -1 before the first."""
        return int(self._consumed_ns[-1])

    def until(self, until_ns: int, *, is_end: bool = False) -> EventColumns:
        """The data buffers that are due before an instant, in the order in which they leave; at the
        end, what is left leaves too. Columns are int64; `free_buffers` are those of the consumer
        before it took a buffer, whose credit is announced at `credit_ns`.

        Raises: ValueError if the channel does not keep up.
        """
        due_ns, ends, reason = self._cuts(until_ns, is_end=is_end)
        starts = np.r_[self._bytes, ends[:-1]] if len(ends) else ends
        keep = ends > starts
        due_ns, ends, starts, reason = due_ns[keep], ends[keep], starts[keep], reason[keep]
        self._made_ns = until_ns - 1
        law, count = self.law, len(ends)
        number = self.buffers + np.arange(count)
        first, end = starts // law.record_bytes, ends // law.record_bytes
        records = end - first
        base = np.uint64((law.seed * 1_000_003 + law.channel * 0x632BE59BD9B4E019) % 2**64)
        dice = number.astype(np.uint64) * _PRIME + base  # splitmix64: 64 even bits for each buffer
        dice = (dice ^ (dice >> np.uint64(30))) * _MIX_1
        dice = (dice ^ (dice >> np.uint64(27))) * _MIX_2
        dice ^= dice >> np.uint64(31)
        earliest_ns = due_ns + LATE_NS + _share(dice, 0, LATE_SPREAD_NS)
        ways_ns = WAY_NS + _share(dice, 16, WAY_SPREAD_NS)
        takes_ns = TAKE_NS + TAKE_NS_PER_RECORD * records + _share(dice, 32, TAKE_SPREAD_NS)
        takes_ns += PAUSE_NS * ((dice >> np.uint64(48)) % np.uint64(PAUSE_EVERY) == 0)
        sent_ns, received_ns, consumed_ns, credit_ns, credit_received_ns = self._flow(
            earliest_ns, ways_ns, takes_ns
        )
        taken = np.r_[self._consumed_ns, consumed_ns]
        given_back = np.searchsorted(taken, received_ns, side="right") - law.credit
        due_by_then = np.searchsorted(due_ns, sent_ns, side="right")
        if count:
            self._bytes, self.buffers = int(ends[-1]), self.buffers + count
            self.sent_ns, self.received_ns = int(sent_ns[-1]), int(received_ns[-1])
            self._consumed_ns = taken[-law.credit :]
            back_ns = np.r_[self._credits_received_ns, credit_received_ns]
            self._credits_received_ns = back_ns[-law.credit :]
        has_records = records > 0
        return {
            "sequence_number": number,
            "payload_bytes": ends - starts,
            "records": records,
            "first_record_ns": np.where(has_records, law.instant_ns(first), -1),
            "last_record_ns": np.where(has_records, law.instant_ns(end - 1), -1),
            "reason": reason,
            "backlog_buffers": np.maximum(due_by_then - np.arange(1, count + 1), 0),
            "sent_ns": sent_ns,
            "received_ns": received_ns,
            "consumed_ns": consumed_ns,
            "free_buffers": law.credit - (np.arange(count) - given_back),
            "credit_ns": credit_ns,
            "credit_received_ns": credit_received_ns,
        }

    def _cuts(self, until_ns: int, *, is_end: bool) -> tuple[IntArray, IntArray, IntArray]:
        """Where the stream of bytes is cut, when and why, ascending; some cuts may be empty."""
        law = self.law
        since_ns, last_ns = np.array([self._made_ns, until_ns - 1])
        before, come = law.records_until(np.array([since_ns, last_ns])).tolist()
        # A segment ends when the record comes that holds the first byte beyond it.
        segments = np.arange(
            -(-before * law.record_bytes // law.segment_bytes),
            ((come * law.record_bytes) - 1) // law.segment_bytes + 1,
        )
        segments = segments[segments > 0]
        opened_by = segments * law.segment_bytes // law.record_bytes
        segments = segments[(opened_by >= before) & (opened_by < come)]
        fills = segments * law.segment_bytes
        fills_ns = law.instant_ns(fills // law.record_bytes)
        if law.timeout_ns == 0:
            flushed = np.arange(before, come) + 1
            flushes_ns = law.instant_ns(flushed - 1)
        elif law.timeout_ns > 0:
            first = max(-((law.beat_ns - int(since_ns) - 1) // law.period_ns), 0)
            beats = np.arange(first, (int(last_ns) - law.beat_ns) // law.period_ns + 1)
            flushes_ns = law.beat_ns + beats * law.period_ns
            flushed = law.records_until(flushes_ns)
        else:
            flushes_ns = flushed = np.zeros(0, np.int64)
        due_ns = np.concatenate([fills_ns, flushes_ns])
        ends = np.concatenate([fills, flushed * law.record_bytes])
        reasons = np.repeat([FlushReason.FULL, FlushReason.FLUSH], [len(fills), len(flushed)])
        if is_end:
            due_ns = np.r_[due_ns, last_ns]
            ends = np.r_[ends, come * law.record_bytes]
            reasons = np.r_[reasons, FlushReason.END]
        # A record that ends with its segment closes it, but only a flush or the next one sends it.
        reasons[ends % law.segment_bytes == 0] = FlushReason.FULL
        order = np.lexsort((due_ns, ends))
        return due_ns[order], ends[order], reasons[order].astype(np.int64)

    def _flow(
        self, earliest_ns: IntArray, ways_ns: IntArray, takes_ns: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Instants of each buffer: the least ones that keep order and credit. Each round lets
        buffers wait for the credit that the round before found them to need."""
        credit = self.law.credit
        waits_for = self._credits_received_ns
        sent_ns = earliest_ns
        for _ in range(_ROUNDS_MAX):
            sent_ns = np.maximum.accumulate(np.maximum(sent_ns, self.sent_ns))
            received_ns = np.maximum.accumulate(np.maximum(sent_ns + ways_ns, self.received_ns))
            # A consumer takes one after the other: c[i] = max(r[i], c[i - 1]) + t[i].
            spent_ns = np.cumsum(takes_ns)
            begun_ns = np.maximum(received_ns, self._consumed_ns[-1])
            consumed_ns = np.maximum.accumulate(begun_ns - spent_ns + takes_ns) + spent_ns
            credit_ns = consumed_ns + ANNOUNCE_NS
            arrives_ns = np.maximum(credit_ns + ways_ns, waits_for[-1])
            arrives_ns = np.maximum.accumulate(arrives_ns)
            allowed_ns = np.r_[waits_for, arrives_ns][: len(sent_ns)]
            if (allowed_ns <= sent_ns).all():
                return sent_ns, received_ns, consumed_ns, credit_ns, arrives_ns
            sent_ns = np.maximum(sent_ns, allowed_ns)
        raise ValueError(
            f"channel {self.law.channel} does not keep up with {self.law.buffers_per_s:,.0f}"
            f" buffers a second and {credit} exclusive buffers"
        )


def _share(dice: npt.NDArray[np.uint64], shift: int, below: int) -> IntArray:
    bits = (dice >> np.uint64(shift)) & np.uint64(0xFFFF)
    return (bits * np.uint64(below) >> np.uint64(16)).astype(np.int64)
