"""The law of one channel: when its records come, and what becomes of the buffers that hold them.

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

from flinknet.arrays import IntArray
from flinknet.core.probe import FlushReason
from flinknet.errors import ConfigError

LATE_NS, LATE_SPREAD_NS = 15_000, 30_000
"""From when a buffer is due until it is handed to the socket."""

WAY_NS, WAY_SPREAD_NS = 12_000, 8_000
"""From one TaskManager to the other, either way."""

TAKE_NS, TAKE_SPREAD_NS, TAKE_NS_PER_RECORD = 2_000, 2_000, 20
"""What a consumer needs for a buffer, and for each record in it."""

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
    """What determines the buffers of a channel.

    Attributes:
        channel: its index.
        seed: of the run.
        first_ns: when its first record comes.
        gap_ns: from one record to the next.
        record_bytes: of a record in a buffer.
        segment_bytes: of a buffer.
        timeout_ns: 0: each record leaves at once; -1: full buffers only.
        beat_ns: the first beat of the flusher.
        period_ns: from one beat to the next.
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
        """Fills, and beats that find something."""
        records_per_s = 1e9 / self.gap_ns
        fills = records_per_s * self.record_bytes / self.segment_bytes
        if self.timeout_ns < 0:
            return fills
        if self.timeout_ns == 0:
            return records_per_s + fills
        return min(1e9 / self.period_ns, records_per_s) + fills


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Data buffers that left one after the other; columns int64.

    `free_buffers` are those of the consumer before it took this one, `credit_ns` and
    `credit_received_ns` when its credit is announced and comes back.
    """

    sequence_number: IntArray
    payload_bytes: IntArray
    records: IntArray
    first_record_ns: IntArray
    last_record_ns: IntArray
    reason: IntArray
    backlog_buffers: IntArray
    sent_ns: IntArray
    received_ns: IntArray
    consumed_ns: IntArray
    free_buffers: IntArray
    credit_ns: IntArray
    credit_received_ns: IntArray

    def __len__(self) -> int:
        return len(self.sequence_number)


class SyntheticChannel:
    """Makes the buffers of a channel, slice by slice.

    What a slice needs of earlier ones: where the bytes and the time stand.
    """

    def __init__(self, law: ChannelLaw) -> None:
        self.law = law
        self.buffers = 0
        self._made_ns = min(int(law.first_ns), law.beat_ns) - 1
        self._bytes = 0
        self._sent_ns = self._received_ns = 0
        self._consumed_ns = np.full(law.credit, -1, np.int64)
        self._credit_ns = self._credit_received_ns = 0
        self._credits_received_ns = np.full(law.credit, -1, np.int64)

    @property
    def last_sent_ns(self) -> int:
        """When the last buffer was sent, 0 before the first."""
        return self._sent_ns

    @property
    def last_received_ns(self) -> int:
        """When the last buffer was received, 0 before the first."""
        return self._received_ns

    @property
    def last_consumed_ns(self) -> int:
        """When the consumer was done with the last buffer, -1 before the first."""
        return int(self._consumed_ns[-1])

    def until(self, until_ns: int, *, is_end: bool = False) -> Buffers:
        """The buffers that are due before an instant; at the end, what is left leaves too.

        Raises: ConfigError if the channel does not keep up.
        """
        due_ns, ends, reason = self._cuts(until_ns, is_end=is_end)
        starts = np.r_[self._bytes, ends[:-1]] if len(ends) else ends
        keep = ends > starts
        if not keep.all():
            due_ns, ends, starts, reason = due_ns[keep], ends[keep], starts[keep], reason[keep]
        if len(ends):
            self._bytes = int(ends[-1])
        self._made_ns = until_ns - 1
        return self._on_their_way(due_ns, starts, ends, reason)

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

    def _on_their_way(
        self, due_ns: IntArray, starts: IntArray, ends: IntArray, reason: IntArray
    ) -> Buffers:
        law, count = self.law, len(ends)
        number = self.buffers + np.arange(count)
        first, end = starts // law.record_bytes, ends // law.record_bytes
        records = end - first
        late_ns, ways_ns, takes_ns = self._durations(number, records)
        earliest_ns = due_ns + late_ns
        sent_ns, received_ns, consumed_ns, credit_ns, credit_received_ns = self._flow(
            earliest_ns, ways_ns, takes_ns
        )
        taken = np.r_[self._consumed_ns, consumed_ns]
        given_back = np.searchsorted(taken, received_ns, side="right") - law.credit
        due_by_then = np.searchsorted(due_ns, sent_ns, side="right")
        if count:
            self._sent_ns, self._received_ns = int(sent_ns[-1]), int(received_ns[-1])
            self._credit_ns = int(credit_ns[-1])
            self._credit_received_ns = int(credit_received_ns[-1])
            self._consumed_ns = taken[-law.credit :]
            self._credits_received_ns = np.r_[self._credits_received_ns, credit_received_ns][
                -law.credit :
            ]
            self.buffers += count
        has_records = records > 0
        return Buffers(
            sequence_number=number,
            payload_bytes=ends - starts,
            records=records,
            first_record_ns=np.where(has_records, law.instant_ns(first), -1),
            last_record_ns=np.where(has_records, law.instant_ns(end - 1), -1),
            reason=reason,
            backlog_buffers=np.maximum(due_by_then - np.arange(1, count + 1), 0),
            sent_ns=sent_ns,
            received_ns=received_ns,
            consumed_ns=consumed_ns,
            free_buffers=law.credit - (np.arange(count) - given_back),
            credit_ns=credit_ns,
            credit_received_ns=credit_received_ns,
        )

    def _flow(
        self, earliest_ns: IntArray, ways_ns: IntArray, takes_ns: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Instants of each buffer: the least ones that keep order and credit.

        Each round lets buffers wait for the credit that the round before found them to need.
        """
        credit = self.law.credit
        waits_for = self._credits_received_ns
        sent_ns = earliest_ns
        for _ in range(_ROUNDS_MAX):
            sent_ns = np.maximum.accumulate(np.maximum(sent_ns, self._sent_ns))
            received_ns = np.maximum.accumulate(np.maximum(sent_ns + ways_ns, self._received_ns))
            # A consumer takes one after the other: c[i] = max(r[i], c[i - 1]) + t[i].
            spent_ns = np.cumsum(takes_ns)
            begun_ns = np.maximum(received_ns, self._consumed_ns[-1])
            consumed_ns = np.maximum.accumulate(begun_ns - spent_ns + takes_ns) + spent_ns
            credit_ns = np.maximum(consumed_ns + ANNOUNCE_NS, self._credit_ns)
            arrives_ns = np.maximum(credit_ns + ways_ns, self._credit_received_ns)
            arrives_ns = np.maximum.accumulate(arrives_ns)
            allowed_ns = np.r_[waits_for, arrives_ns][: len(sent_ns)]
            if (allowed_ns <= sent_ns).all():
                return sent_ns, received_ns, consumed_ns, credit_ns, arrives_ns
            sent_ns = np.maximum(sent_ns, allowed_ns)
        raise ConfigError(
            f"channel {self.law.channel} does not keep up with {self.law.buffers_per_s:,.0f}"
            f" buffers a second and {credit} exclusive buffers; lower the rate, or raise the buffer"
            " timeout or the exclusive buffers"
        )

    def _durations(
        self, number: IntArray, records: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Lateness, way, and time at the consumer of each buffer."""
        dice = _hashed(number, self.law.seed, self.law.channel)
        late_ns = LATE_NS + _share(dice, 0, LATE_SPREAD_NS)
        ways_ns = WAY_NS + _share(dice, 16, WAY_SPREAD_NS)
        takes_ns = TAKE_NS + TAKE_NS_PER_RECORD * records + _share(dice, 32, TAKE_SPREAD_NS)
        is_kept = (dice >> np.uint64(48)) % np.uint64(PAUSE_EVERY) == 0
        return late_ns, ways_ns, takes_ns + PAUSE_NS * is_kept


def _hashed(number: IntArray, seed: int, channel: int) -> npt.NDArray[np.uint64]:
    """64 even bits for each number (splitmix64)."""
    base = np.uint64((seed * 1_000_003 + channel * 0x632BE59BD9B4E019) % 2**64)
    bits = number.astype(np.uint64) * _PRIME + base
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


def _share(dice: npt.NDArray[np.uint64], shift: int, below: int) -> IntArray:
    """A number below a bound, from 16 of the bits."""
    bits = (dice >> np.uint64(shift)) & np.uint64(0xFFFF)
    return (bits * np.uint64(below) >> np.uint64(16)).astype(np.int64)
