"""MessageCounts: what passed on each channel, seen from one end of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint

from .statistics import EventWriter

_DATA_TYPES = [int(data_type) for data_type in DataType if data_type.is_buffer]


class MessageCounts:
    """An EventWriter that counts messages by channel and hands them on.

    Arrays are indexed by channel; what is of no known channel is not counted. Of a consumer, what
    it received is counted and the credit it announced; of a producer what it sent, and the credit
    it was given. Figures are up to date when the recorder was flushed.

    Attributes:
        data_types: by channel and data type, buffers and events.
        buffer_bytes: payload of the data buffers.
        credit: initial credit and what was added.
        credit_messages: AddCredits.
        backlog_max: -1 before the first.
        announcements: BacklogAnnouncements.
    """

    def __init__(self, channels: int, *, is_consumer: bool, writer: EventWriter | None) -> None:
        self._channels = channels
        self._writer = writer
        self._data_point = TracePoint.RECEIVED if is_consumer else TracePoint.SENT
        self._credit_point = TracePoint.SENT if is_consumer else TracePoint.RECEIVED
        self.data_types = np.zeros((channels, len(DataType)), np.int64)
        self.buffer_bytes = np.zeros(channels, np.int64)
        self.credit = np.zeros(channels, np.int64)
        self.credit_messages = np.zeros(channels, np.int64)
        self.backlog_max = np.full(channels, -1, np.int64)
        self.announcements = np.zeros(channels, np.int64)

    def buffers(self, channel: int) -> int:
        """Data buffers of a channel."""
        return int(self.data_types[channel, _DATA_TYPES].sum())

    def events(self, channel: int) -> dict[str, int]:
        """Events of a channel, by name of their data type; those that there were."""
        counts = self.data_types[channel].tolist()
        return {
            data_type.name: counts[data_type]
            for data_type in DataType
            if not data_type.is_buffer and counts[data_type]
        }

    def events_in_steps(self, rows: NDArray[np.void]) -> Iterator[None]:
        """Count the rows, then write them."""
        self.count(rows)
        yield
        if self._writer is not None:
            yield from self._writer.events_in_steps(rows)

    def close(self, *, dropped_events: int = 0) -> None:
        """End the file behind, if there is one."""
        if self._writer is not None:
            self._writer.close(dropped_events=dropped_events)

    def count(self, rows: NDArray[np.void]) -> None:
        """Add rows to the counts."""
        rows = rows[rows["channel"] >= 0]
        point, kind = rows["point"], rows["kind"]
        passed = rows[(point == self._data_point) & (kind == MessageKind.BUFFER_RESPONSE)]
        channel, data_type = passed["channel"], passed["data_type"]
        np.add.at(self.data_types, (channel, data_type), 1)
        np.maximum.at(self.backlog_max, channel, passed["backlog_buffers"])
        is_data = np.isin(data_type, _DATA_TYPES)
        self._add(self.buffer_bytes, passed[is_data], "payload_bytes")
        announced = rows[(point == self._data_point) & (kind == MessageKind.BACKLOG_ANNOUNCEMENT)]
        told = np.maximum(announced["backlog_buffers"], announced["value"])
        np.maximum.at(self.backlog_max, announced["channel"], told)
        np.add.at(self.announcements, announced["channel"], 1)
        given = rows[point == self._credit_point]
        added = given[given["kind"] == MessageKind.ADD_CREDIT]
        self._add(self.credit, added, "value")
        np.add.at(self.credit_messages, added["channel"], 1)
        self._add(self.credit, given[given["kind"] == MessageKind.PARTITION_REQUEST], "value")

    def _add(self, sums: NDArray[np.int64], rows: NDArray[np.void], column: str) -> None:
        found = np.bincount(rows["channel"], rows[column], self._channels)
        sums += found.astype(np.int64)
