"""Rules for the events of a channel: sequence numbers and credit. Only arithmetic on columns.

A check is fed blocks in the order of recording; a block's rows are sorted by channel, kind and
point, and within these by arrival. Between blocks it keeps one number per channel. Channels are
looked up in the sorted list of a file's channels, so that no number in a file determines the size
of an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flinknet.arrays import EventColumns
from flinknet.core.probe import MessageKind, TracePoint

from .blocks import IS_DATA, IntArray
from .event_block import EventBlock, is_data, same_message
from .format import MAX_BLOCK_EVENTS

CHECKED_COLUMNS = (
    *("channel", "point", "kind", "data_type", "sequence_number", "payload_bytes"),
    *("credit_before", "credit_after", "value", "order", "at_ns"),
)

_UNKNOWN = np.int64(-(1 << 62))

_KIND_NAMES = {each.value: each.name for each in MessageKind}


@dataclass(slots=True)
class Violation:
    """A rule broken by a channel: how often, and a description of the first time."""

    channel: int
    rule: str
    times: int
    first: str


class Violations:
    """Violations by channel and kind; repeated ones are counted in one entry."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[int, str], Violation] = {}

    def __iter__(self) -> Iterator[Violation]:
        return iter(sorted(self._by_kind.values(), key=lambda each: (each.channel, each.rule)))

    def add(self, rule: str, channels: IntArray, sentence: str, *details: IntArray) -> None:
        """Add rows that break `rule`; the details of a channel's first one go into `sentence`."""
        if not len(channels):
            return
        numbers, first, times = np.unique(channels, return_index=True, return_counts=True)
        counted = (each.tolist() for each in (numbers, first, times))
        for channel, row, count in zip(*counted, strict=True):
            known = self._by_kind.get((channel, sentence))
            if known is None:
                text = sentence.format(*(int(detail[row]) for detail in details))
                self._by_kind[channel, sentence] = Violation(channel, rule, count, text)
            else:
                known.times += count


def _previous(values: IntArray, where: IntArray, carried: npt.NDArray[np.int64]) -> IntArray:
    """The value of the previous row of the same channel, for each row.

    Rows of a channel are adjacent. `carried` has the last values of earlier blocks, and is updated
    to those of this one.
    """
    before = np.empty(len(values), dtype=np.int64)
    before[1:] = values[:-1]
    is_first = np.r_[True, where[1:] != where[:-1]]
    before[is_first] = carried[where[is_first]]
    is_last = np.r_[is_first[1:], True]
    carried[where[is_last]] = values[is_last]
    return before


class SequenceCheck:
    """Sequence numbers of BufferResponses, which wrap at 32 bits, rise by one at both ends."""

    def __init__(self, channels: IntArray, violations: Violations) -> None:
        self._channels = channels
        self._violations = violations
        self._last = {
            point: np.full(len(channels), _UNKNOWN)
            for point in (TracePoint.SENT, TracePoint.RECEIVED)
        }

    def forget(self) -> None:
        """Expect any number next: events are missing."""
        for last in self._last.values():
            last[:] = _UNKNOWN

    def feed(self, block: EventColumns) -> None:
        for point, last in self._last.items():
            rows = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (block["point"] == point)
            channel, number = block["channel"][rows], block["sequence_number"][rows]
            if not len(channel):
                continue
            before = _previous(number, np.searchsorted(self._channels, channel), last)
            is_gap = (before != _UNKNOWN) & (number != (before + 1).astype(np.int32))
            self._violations.add(
                "sequence",
                channel[is_gap],
                f"sequence numbers are not contiguous where they were {point.name}:"
                " {} follows {}",
                number[is_gap],
                before[is_gap],
            )


class CreditCheck:
    """Checks that credit is conserved on every channel, on both sides.

    At the producer the credit after a message is the credit before the next one. A PartitionRequest
    sets it, an AddCredit raises it by its value, data costs one and an event none, and data is
    never sent without credit. So initial credit + credit received - data sent = credit left, at any
    moment. At the consumer each data buffer takes a free buffer, and an AddCredit announces all
    unannounced credit.

    ResumeConsumption sets the credit of a channel without initial credit to 0 (Flink:
    CreditBasedSequenceNumberingViewReader.resumeConsumption).
    """

    def __init__(self, channels: IntArray, violations: Violations) -> None:
        self._channels = channels
        self._violations = violations
        self._credit = np.full(len(channels), _UNKNOWN)
        self._is_without_initial = np.zeros(len(channels), dtype=bool)
        self._may_be_without_initial = np.zeros(len(channels), dtype=bool)

    def forget(self) -> None:
        """Expect any credit next: events are missing."""
        self._credit[:] = _UNKNOWN
        self._may_be_without_initial = ~self._is_without_initial

    def feed(self, block: EventColumns) -> None:
        kind, is_sent = block["kind"], block["point"] == TracePoint.SENT
        is_received = block["point"] == TracePoint.RECEIVED
        is_buffer_response = kind == MessageKind.BUFFER_RESPONSE
        is_data = is_buffer_response & IS_DATA[block["data_type"]]
        is_credit = kind == MessageKind.ADD_CREDIT
        has_credit = block["credit_before"] != -1
        self._check_producer(
            block,
            has_credit & ((is_sent & is_buffer_response) | (is_received & is_credit)),
            has_credit & is_received & (kind == MessageKind.PARTITION_REQUEST),
            is_received & (kind == MessageKind.RESUME_CONSUMPTION),
            is_data,
        )
        self._check_consumer(
            block,
            has_credit & is_received & is_buffer_response,
            has_credit & is_sent & is_credit,
            is_data,
        )

    def _check_producer(
        self,
        block: EventColumns,
        changes: IntArray,
        requests: IntArray,
        resumes: IntArray,
        is_data: IntArray,
    ) -> None:
        where = np.searchsorted(self._channels, block["channel"])
        self._is_without_initial[where[requests]] = block["value"][requests] == 0
        self._may_be_without_initial[where[requests]] = False
        # a resume with credit counts even without a request, which may be in another file
        has_credit = block["credit_before"] != -1
        unsure = resumes & self._may_be_without_initial[where] & ~has_credit
        resumes = resumes & (self._is_without_initial[where] | has_credit)
        rows = np.flatnonzero(changes | requests | resumes | unsure)
        arrival = where[rows].astype(np.int64) * MAX_BLOCK_EVENTS + block["order"][rows]
        rows = rows[np.argsort(arrival, kind="stable")]
        if not len(rows):
            return
        channel, where, is_data = block["channel"][rows], where[rows], is_data[rows]
        before = block["credit_before"][rows].astype(np.int64)
        after = block["credit_after"][rows].astype(np.int64)
        value = block["value"][rows]
        is_reset = resumes[rows]
        after[is_reset] = 0
        after[unsure[rows]] = _UNKNOWN
        expected = before + np.where(
            block["kind"][rows] == MessageKind.ADD_CREDIT, value, -1 * is_data
        )
        is_set = requests[rows] | is_reset | unsure[rows]
        expected[requests[rows]] = value[requests[rows]]
        expected[is_reset] = 0
        expected[unsure[rows]] = _UNKNOWN
        credit = _previous(after, where, self._credit)

        wrong = after != expected
        self._violations.add(
            "credit",
            channel[wrong],
            "credit is not conserved at the producer: {} before and {} after a message"
            " that leaves {}",
            before[wrong],
            after[wrong],
            expected[wrong],
        )
        jump = ~is_set & (credit != _UNKNOWN) & (credit != before)
        self._violations.add(
            "credit",
            channel[jump],
            "credit at the producer was {} after a message and {} before the next one",
            credit[jump],
            before[jump],
        )
        unpaid = is_data & (before <= 0)
        self._violations.add(
            "credit",
            channel[unpaid],
            "data was sent without credit (credit {}, sequence number {})",
            before[unpaid],
            block["sequence_number"][rows][unpaid],
        )

    def _check_consumer(
        self, block: EventColumns, taken: IntArray, announced: IntArray, is_data: IntArray
    ) -> None:
        channel, before, after = block["channel"], block["credit_before"], block["credit_after"]
        wrong = taken & (after != before - is_data)
        self._violations.add(
            "buffers",
            channel[wrong],
            "free buffers of the consumer went from {} to {} with sequence number {}",
            before[wrong],
            after[wrong],
            block["sequence_number"][wrong],
        )
        lacking = taken & is_data & (before <= 0)
        self._violations.add(
            "buffers",
            channel[lacking],
            "data came for which the consumer had no free buffer (sequence number {})",
            block["sequence_number"][lacking],
        )
        wrong = announced & (before - after != block["value"])
        self._violations.add(
            "credit",
            channel[wrong],
            "the consumer announced {} of {} credits, and {} were left to announce",
            block["value"][wrong],
            before[wrong],
            after[wrong],
        )


WAITING_MAX = 1 << 17
"""Most received buffers that wait for their consumption; later ones displace the first."""


class ConsumptionCheck:
    """No data buffer is consumed before the instant at which it was received."""

    def __init__(self, violations: Violations) -> None:
        self._violations = violations
        self.forget()

    def forget(self) -> None:
        """Expect any buffer next: events are missing."""
        names = "channel", "sequence_number", "at_ns"
        self._waiting: EventColumns = {name: np.zeros(0, np.int64) for name in names}

    def feed(self, block: EventColumns) -> None:
        came, done = (is_data(block, each) for each in (TracePoint.RECEIVED, TracePoint.CONSUMED))
        consumed = {name: block[name][done] for name in self._waiting}
        waiting = {
            name: np.concatenate((values, block[name][came]))
            for name, values in self._waiting.items()
        }
        known, same = same_message(waiting, consumed)
        early_ns = waiting["at_ns"][known] - consumed["at_ns"][same]
        is_early = early_ns > 0
        self._violations.add(
            "consumption",
            consumed["channel"][same][is_early],
            "sequence number {} was consumed {} ns before it was received",
            consumed["sequence_number"][same][is_early],
            early_ns[is_early],
        )
        self._waiting = {
            name: np.delete(values, known)[-WAITING_MAX:] for name, values in waiting.items()
        }


_VALUE_MATTERS = [
    *(MessageKind.ADD_CREDIT, MessageKind.PARTITION_REQUEST, MessageKind.NEW_BUFFER_SIZE),
]
_PAYLOAD_FACTOR, _TYPE_FACTOR, _VALUE_FACTOR = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
)


class DeliveryCheck:
    """Checks that each side received the messages that the other side sent, all and in order.

    The last sent messages may still be in flight when recording ends. A message is kept as one
    number, computed from sequence number, data type, payload length, and the value of credit
    messages.

    A consumer cancels a removed channel again for each buffer that still arrives; these
    cancellations have no channel at either end.

    Args:
        clock_error_ns: error between the clocks of two hosts: no message is received earlier than
            that before it was sent. 0: instants are not compared.
    """

    def __init__(self, clock_error_ns: int = 0) -> None:
        self._clock_error_ns = clock_error_ns
        self._instants_ns: dict[tuple[int, int, int], list[npt.NDArray[np.int64]]] = {}
        self._messages: dict[tuple[int, int, int], list[npt.NDArray[np.uint64]]] = {}
        self._cancelled_again = 0  # cancellations that were sent without a channel

    def feed(self, block: EventColumns) -> None:
        prints = _fingerprints(block)
        spans = EventBlock(block).spans
        columns = spans.starts, spans.ends, spans.channel, spans.kind, spans.point
        for start, end, *key_parts in zip(*(each.tolist() for each in columns), strict=True):
            channel, _, point = key = tuple(key_parts)
            if channel >= 0 and point in (TracePoint.SENT, TracePoint.RECEIVED):
                self._messages.setdefault(key, []).append(prints[start:end])
                if self._clock_error_ns:
                    at_ns = block["at_ns"][start:end].astype(np.int64)
                    self._instants_ns.setdefault(key, []).append(at_ns)
            elif key[1:] == (MessageKind.CANCEL_PARTITION_REQUEST, TracePoint.SENT):
                self._cancelled_again += end - start

    def totals(self) -> tuple[int, int, int]:
        """Number of messages sent and received on channels, and of those that were sent and not
        received where both ends were recorded.
        """
        counts = {key: sum(map(len, parts)) for key, parts in self._messages.items()}
        sent = {key[:2]: n for key, n in counts.items() if key[2] == TracePoint.SENT}
        received = {key[:2]: n for key, n in counts.items() if key[2] == TracePoint.RECEIVED}
        in_flight = sum(max(0, n - received.get(key, n)) for key, n in sent.items())
        return sum(sent.values()), sum(received.values()), in_flight

    def compare(self, *, is_sent_complete: bool) -> Iterator[Violation]:
        """Compare both sides of every channel for which both were recorded. If not every sent
        message was recorded, more may be received; so may cancellations that were repeated, to
        which producers of earlier traces gave their channel.
        """
        again = self._cancelled_again
        for channel, kind, point in sorted(self._messages):
            sides = (channel, kind, TracePoint.SENT), (channel, kind, TracePoint.RECEIVED)
            if point != TracePoint.SENT or sides[1] not in self._messages:
                continue
            sent, received = (np.concatenate(self._messages[side]) for side in sides)
            common = min(len(sent), len(received))
            different = np.flatnonzero(sent[:common] != received[:common])
            name = _KIND_NAMES.get(kind, f"message {kind}")
            if len(different):
                text = f"{name} number {different[0] + 1} differs from the one that was sent"
                yield Violation(channel, "delivery", len(different), text)
                continue
            if self._clock_error_ns:
                at_ns = (np.concatenate(self._instants_ns[side])[:common] for side in sides)
                early_ns = np.subtract(*at_ns)
                beyond = np.flatnonzero(early_ns > self._clock_error_ns)
                if len(beyond):
                    text = (
                        f"{name} number {beyond[0] + 1} was received {early_ns[beyond[0]]} ns"
                        f" before it was sent; the clocks agree within {self._clock_error_ns} ns"
                    )
                    yield Violation(channel, "clock", len(beyond), text)
            surplus = len(received) - len(sent)
            if kind == MessageKind.CANCEL_PARTITION_REQUEST and 0 < surplus <= again:
                again -= surplus
            elif surplus > 0 and is_sent_complete:
                text = f"{len(received)} {name} messages were received, but only {len(sent)} sent"
                yield Violation(channel, "delivery", 1, text)


def _fingerprints(block: EventColumns) -> npt.NDArray[np.uint64]:
    value = np.where(np.isin(block["kind"], _VALUE_MATTERS), block["value"], 0)
    prints: npt.NDArray[np.uint64] = block["sequence_number"].astype(np.uint64)
    prints += block["payload_bytes"].astype(np.uint64) * _PAYLOAD_FACTOR
    prints += block["data_type"].astype(np.uint64) * _TYPE_FACTOR
    prints += value.astype(np.uint64) * _VALUE_FACTOR
    return prints
