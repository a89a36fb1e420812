"""One side of some channels: the events that one process would have recorded, slice by slice.

Producer and consumer of a channel see the same buffers; each side makes them for itself and keeps
its own half, so that files can be made apart. Events that a slice sets off beyond its end wait for
the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.trace.schema import ROW_DTYPE

from .channel import ANNOUNCE_NS, WAY_NS, Buffers, ChannelLaw, SyntheticChannel

Values = dict[str, IntArray | int]

_ABSENT = dict.fromkeys((name for name, _ in ROW_DTYPE), -1) | {
    "data_type": 0,
    "reason": 0,
    "payload_bytes": 0,
    "records": 0,
}
_END_BYTES = 4
_DATA = {"kind": MessageKind.BUFFER_RESPONSE, "data_type": DataType.DATA_BUFFER}
_END = {
    "kind": MessageKind.BUFFER_RESPONSE,
    "data_type": DataType.END_OF_PARTITION,
    "payload_bytes": _END_BYTES,
}


class ChannelEnd:
    """One end of a channel.

    Args:
        law: of the channel.
        is_producer: which end.
        opened_ns: when the consumer asks for the partition.
        pool_buffers: of the partition or gate.
    """

    def __init__(
        self, law: ChannelLaw, *, is_producer: bool, opened_ns: int, pool_buffers: int
    ) -> None:
        self._law = law
        self._is_producer = is_producer
        self._channel = SyntheticChannel(law)
        self._pool_buffers = pool_buffers
        self._credit = law.credit
        self._later: npt.NDArray[np.void] = self._opening(opened_ns)

    def until(self, until_ns: int) -> npt.NDArray[np.void]:
        """The events before an instant, in their order."""
        return self._before(until_ns, self._rows_of(self._channel.until(until_ns)))

    def end(self, end_ns: int) -> npt.NDArray[np.void]:
        """What is left, and the end of the partition."""
        buffers = self._channel.until(end_ns, is_end=True)
        rows = [self._rows_of(buffers), self._ending(end_ns)]
        return self._before(None, np.concatenate(rows))

    def _before(self, until_ns: int | None, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        rows = np.concatenate([self._later, rows])
        rows = rows.take(np.argsort(rows["at_ns"], kind="stable"))
        count = len(rows)
        if until_ns is not None:
            count = int(np.searchsorted(rows["at_ns"], until_ns))
        self._later = rows[count:]
        rows = rows[:count]
        if self._is_producer:
            self._account(rows)
        return rows

    def _account(self, rows: npt.NDArray[np.void]) -> None:
        """The producer's credit before and after each of its messages."""
        is_buffer = rows["kind"] == MessageKind.BUFFER_RESPONSE
        is_data = is_buffer & (rows["data_type"] == DataType.DATA_BUFFER)
        is_credit = rows["kind"] == MessageKind.ADD_CREDIT
        change = is_credit.astype(np.int64) - is_data
        after = self._credit + np.cumsum(change)
        changes = is_buffer | is_credit
        rows["credit_before"][changes] = (after - change)[changes]
        rows["credit_after"][changes] = after[changes]
        if len(after):
            self._credit = int(after[-1])

    def _rows_of(self, buffers: Buffers) -> npt.NDArray[np.void]:
        number, size = buffers.sequence_number, buffers.payload_bytes
        sent: Values = {**_DATA, "sequence_number": number, "payload_bytes": size}
        records: Values = {
            "records": buffers.records,
            "first_record_ns": buffers.first_record_ns,
            "last_record_ns": buffers.last_record_ns,
        }
        credit: Values = {"kind": MessageKind.ADD_CREDIT, "value": 1}
        backlog = buffers.backlog_buffers
        available = np.maximum(self._pool_buffers - 1 - backlog, 0)
        pool: Values = {
            "pool_size_buffers": self._pool_buffers,
            "pool_available_buffers": available,
        }
        if self._is_producer:  # credit first: with it comes what waited for it
            return np.concatenate(
                [
                    self._rows(buffers.credit_received_ns, TracePoint.RECEIVED, **credit),
                    self._rows(
                        buffers.sent_ns,
                        TracePoint.SENT,
                        **sent,
                        **records,
                        **pool,
                        reason=buffers.reason,
                        backlog_buffers=backlog,
                    ),
                ]
            )
        free = buffers.free_buffers
        return np.concatenate(
            [
                self._rows(
                    buffers.received_ns,
                    TracePoint.RECEIVED,
                    **sent,
                    records=-1,
                    backlog_buffers=backlog,
                    credit_before=free,
                    credit_after=free - 1,
                    pool_size_buffers=self._pool_buffers,
                    pool_available_buffers=self._pool_buffers,
                ),
                self._rows(buffers.consumed_ns, TracePoint.CONSUMED, **sent, **records),
                self._rows(
                    buffers.credit_ns, TracePoint.SENT, **credit, credit_before=1, credit_after=0
                ),
            ]
        )

    def _opening(self, opened_ns: int) -> npt.NDArray[np.void]:
        request = {"kind": MessageKind.PARTITION_REQUEST, "value": self._law.credit}
        at_ns = np.array([opened_ns])
        if self._is_producer:
            credit = {"credit_before": 0, "credit_after": self._law.credit}
            return self._rows(at_ns + WAY_NS, TracePoint.RECEIVED, **request, **credit)
        return self._rows(at_ns, TracePoint.SENT, **request)

    def _ending(self, end_ns: int) -> npt.NDArray[np.void]:
        """The end of the partition goes behind the last buffer."""
        number = self._channel.buffers
        common = {**_END, "sequence_number": number}
        sent_ns = np.array([max(self._channel.last_sent_ns, end_ns)])
        received_ns = np.maximum(sent_ns + WAY_NS, self._channel.last_received_ns)
        if self._is_producer:
            how = {"reason": FlushReason.END, "backlog_buffers": 0}
            return self._rows(sent_ns, TracePoint.SENT, **common, **how)
        consumed_ns = np.maximum(received_ns, self._channel.last_consumed_ns) + ANNOUNCE_NS
        return np.concatenate(
            [
                self._rows(
                    received_ns, TracePoint.RECEIVED, **common, records=-1, backlog_buffers=0
                ),
                self._rows(consumed_ns, TracePoint.CONSUMED, **common),
            ]
        )

    def _rows(
        self, at_ns: IntArray, point: TracePoint, **values: IntArray | int
    ) -> npt.NDArray[np.void]:
        rows = np.empty(len(at_ns), ROW_DTYPE)
        given: Values = {
            **_ABSENT,
            "at_ns": at_ns,
            "channel": self._law.channel,
            "point": point,
            **values,
        }
        for name, value in given.items():
            rows[name] = value
        return rows


def in_order(parts: Sequence[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Rows of several channels as one process would have recorded them."""
    rows = np.concatenate(parts) if parts else np.empty(0, ROW_DTYPE)
    return rows.take(np.argsort(rows["at_ns"], kind="stable"))
