"""Rules for the two sides of a channel: what one side sent, the other received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from flinknet.core.probe import MessageKind, TracePoint

from .checks import Violation
from .reader import EventColumns

_VALUE_MATTERS = (
    int(MessageKind.ADD_CREDIT),
    int(MessageKind.PARTITION_REQUEST),
    int(MessageKind.NEW_BUFFER_SIZE),
)
_PAYLOAD_FACTOR, _TYPE_FACTOR, _VALUE_FACTOR = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
)


class DeliveryCheck:
    """Checks that what one side received is what the other side sent, message by message, in order.

    The last sent messages may still be in flight when recording ends. A message is kept as one
    number, computed from sequence number, data type, payload length, and the value of credit
    messages.

    A consumer cancels a removed channel again for each buffer that still arrives; these
    cancellations have no channel at the sender, but one at the receiver.
    """

    def __init__(self) -> None:
        self._messages: dict[tuple[int, int, int], list[npt.NDArray[np.uint64]]] = {}
        self._sent_without_channel: Counter[int] = Counter()

    def feed(self, block: EventColumns) -> None:
        """Take the messages of one block."""
        channel, kind, point = block["channel"], block["kind"], block["point"]
        prints = _fingerprints(block)
        is_start = (
            (channel[1:] != channel[:-1]) | (kind[1:] != kind[:-1]) | (point[1:] != point[:-1])
        )
        starts = np.r_[0, np.flatnonzero(is_start) + 1]
        ends = np.r_[starts[1:], len(channel)]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            if channel[start] >= 0 and point[start] in (TracePoint.SENT, TracePoint.RECEIVED):
                key = int(channel[start]), int(kind[start]), int(point[start])
                self._messages.setdefault(key, []).append(prints[start:end])
            elif point[start] == TracePoint.SENT:
                self._sent_without_channel[int(kind[start])] += end - start

    def totals(self) -> tuple[int, int]:
        """Number of messages sent and received on channels."""
        sent = received = 0
        for (_, _, point), parts in self._messages.items():
            if point == TracePoint.SENT:
                sent += sum(map(len, parts))
            else:
                received += sum(map(len, parts))
        return sent, received

    def in_flight(self) -> int:
        """Messages that were sent and not received, on channels whose two ends were recorded."""
        count = 0
        for (channel, kind, point), sent in self._messages.items():
            received = self._messages.get((channel, kind, TracePoint.RECEIVED))
            if point == TracePoint.SENT and received is not None:
                count += max(0, sum(map(len, sent)) - sum(map(len, received)))
        return count

    def compare(self, *, is_sent_complete: bool) -> Iterator[Violation]:
        """Compare both sides of every channel for which both were recorded.

        Args:
            is_sent_complete: whether every sent message was recorded; if not, more may be received.
        """
        spare = self._sent_without_channel.copy()
        for channel, kind, point in sorted(self._messages):
            sides = (channel, kind, TracePoint.SENT), (channel, kind, TracePoint.RECEIVED)
            if point != TracePoint.SENT or sides[1] not in self._messages:
                continue
            sent, received = (np.concatenate(self._messages[side]) for side in sides)
            common = min(len(sent), len(received))
            different = np.flatnonzero(sent[:common] != received[:common])
            name = _kind_name(kind)
            if len(different):
                text = f"{name} number {different[0] + 1} differs from the one that was sent"
                yield Violation(channel, "delivery", len(different), text)
                continue
            spare[kind] -= max(0, len(received) - len(sent))
            if spare[kind] < 0 and is_sent_complete:
                spare[kind] = 0
                text = f"{len(received)} {name} messages were received, but only {len(sent)} sent"
                yield Violation(channel, "delivery", 1, text)


def _fingerprints(block: EventColumns) -> npt.NDArray[np.uint64]:
    value = np.where(np.isin(block["kind"], _VALUE_MATTERS), block["value"], 0)
    prints: npt.NDArray[np.uint64] = block["sequence_number"].astype(np.uint64)
    prints += block["payload_bytes"].astype(np.uint64) * _PAYLOAD_FACTOR
    prints += block["data_type"].astype(np.uint64) * _TYPE_FACTOR
    prints += value.astype(np.uint64) * _VALUE_FACTOR
    return prints


def _kind_name(kind: int) -> str:
    known = {each.value: each.name for each in MessageKind}
    return known.get(kind, f"message {kind}")
