"""MessageCounts: messages of each channel, at one of its ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint

from .statistics import IS_DATA, CountingWriter, EventWriter


class MessageCounts(CountingWriter):
    """Counts messages by channel and passes them on.

    Arrays are indexed by channel; events without a channel are not counted. A consumer counts what
    it received and the credit it announced; a producer what it sent and the credit it received.
    Figures are up to date after the recorder is flushed.

    Attributes:
        data_types: buffers and events, by channel and data type.
        buffer_bytes: payload of the data buffers.
        credit: initial and added credit; at a producer, the credit it accepted.
        credit_messages: number of AddCredits.
        backlog_max: largest backlog; -1 before the first.
        announcements: number of BacklogAnnouncements.
    """

    def __init__(self, channels: int, *, is_consumer: bool, writer: EventWriter | None) -> None:
        self._channels = channels
        super().__init__(writer)
        self._data_point = TracePoint.RECEIVED if is_consumer else TracePoint.SENT
        self._credit_point = TracePoint.SENT if is_consumer else TracePoint.RECEIVED
        self.data_types = np.zeros((channels, len(DataType)), np.int64)
        self.buffer_bytes = np.zeros(channels, np.int64)
        self.credit = np.zeros(channels, np.int64)
        self.credit_messages = np.zeros(channels, np.int64)
        self.backlog_max = np.full(channels, -1, np.int64)
        self.announcements = np.zeros(channels, np.int64)

    def buffers(self, channel: int) -> int:
        """Number of data buffers of a channel."""
        return int(self.data_types[channel, IS_DATA[: len(DataType)]].sum())

    def events(self, channel: int) -> dict[str, int]:
        """Number of events of a channel, by name of the data type; without zeros."""
        counts = self.data_types[channel].tolist()
        return {
            data_type.name: counts[data_type]
            for data_type in DataType
            if not data_type.is_buffer and counts[data_type]
        }

    def count(self, rows: NDArray[np.void]) -> None:
        """Add rows to the counts."""
        point, kind = rows["point"].copy(), rows["kind"].copy()
        is_known = rows["channel"] >= 0
        is_data_point = is_known & (point == self._data_point)
        is_credit_point = is_known & (point == self._credit_point)

        passed = np.flatnonzero(is_data_point & (kind == MessageKind.BUFFER_RESPONSE))
        channel, data_type = _of(rows, "channel", passed), rows["data_type"][passed]
        np.add.at(self.data_types, (channel, data_type), 1)
        np.maximum.at(self.backlog_max, channel, _of(rows, "backlog_buffers", passed))
        self._add(self.buffer_bytes, rows, passed[IS_DATA[data_type]], "payload_bytes")

        announced = np.flatnonzero(is_data_point & (kind == MessageKind.BACKLOG_ANNOUNCEMENT))
        channel = _of(rows, "channel", announced)
        backlog = np.maximum(_of(rows, "backlog_buffers", announced), _of(rows, "value", announced))
        np.maximum.at(self.backlog_max, channel, backlog)
        np.add.at(self.announcements, channel, 1)

        added = np.flatnonzero(is_credit_point & (kind == MessageKind.ADD_CREDIT))
        self._add(self.credit, rows, added, "value")
        np.add.at(self.credit_messages, _of(rows, "channel", added), 1)
        is_request = is_credit_point & (kind == MessageKind.PARTITION_REQUEST)
        if self._credit_point == TracePoint.RECEIVED:
            is_request &= rows["credit_after"] != -1  # otherwise the producer refused it
        requests = np.flatnonzero(is_request)
        self._add(self.credit, rows, requests, "value")

    def _add(
        self, sums: NDArray[np.int64], rows: NDArray[np.void], kept: IntArray, column: str
    ) -> None:
        values = rows[column][kept]
        sums += np.bincount(rows["channel"][kept], values, self._channels).astype(np.int64)


def _of(rows: NDArray[np.void], column: str, kept: IntArray) -> IntArray:
    """A column of some rows; int64, because `ufunc.at` takes ten times as long if it converts."""
    values: IntArray = rows[column][kept].astype(np.int64)
    return values
