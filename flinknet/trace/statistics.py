"""EventStatistics: totals over rows of events, kept while they pass by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint

_DATA_TYPES = [int(data_type) for data_type in DataType if data_type.is_buffer]

_BY_CHANNEL = (
    *("channel_bytes_in", "channel_buffers"),
    *("channel_backlog_sum", "channel_backlog_max"),
)


class EventWriter(Protocol):
    """Where full blocks of rows go (writer.TraceWriter)."""

    def events_in_steps(self, rows: NDArray[np.void]) -> Iterator[None]:
        """Write rows, a step at a time."""

    def close(self, *, dropped_events: int = 0) -> None:
        """End the file."""


class EventStatistics:
    """An EventWriter that counts what passes and hands it on.

    Counts the events from measured_from_ns on, the drain included, which carries the last records
    of the measured part: data buffers sent, why they left, their backlog, bytes of the buffers
    received, and credit announced.
    Backlog is summed per channel, arrays are indexed by channel.

    Args:
        channels: number of channels in the run.
        writer: where rows go next; None to end here (a run without trace).
    """

    def __init__(self, channels: int, writer: EventWriter | None) -> None:
        self._writer = writer
        self.measured_from_ns = 0
        self.buffers = 0
        self.buffer_bytes = 0
        self.events = 0
        self.reasons = np.zeros(len(FlushReason), np.int64)
        self.credit_announced = 0
        self.credit_messages = 0
        self.channel_bytes_in = np.zeros(channels, np.int64)
        self.channel_buffers = np.zeros(channels, np.int64)
        self.channel_backlog_sum = np.zeros(channels, np.int64)
        self.channel_backlog_max = np.zeros(channels, np.int64)

    def grow(self, channels: int) -> None:
        """There are more channels now, numbered below `channels`."""
        more = channels - len(self.channel_buffers)
        if more > 0:
            for name in _BY_CHANNEL:
                setattr(self, name, np.pad(getattr(self, name), (0, more)))

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
        """Add rows to the totals."""
        at_ns = rows["at_ns"]
        is_sent = (rows["point"] == TracePoint.SENT) & (at_ns >= self.measured_from_ns)
        kind = rows["kind"]
        is_received = rows["point"] == TracePoint.RECEIVED
        self._count_received(rows[is_received & (kind == MessageKind.BUFFER_RESPONSE)])
        credits = rows["value"][is_sent & (kind == MessageKind.ADD_CREDIT)]
        self.credit_announced += int(credits.sum())
        self.credit_messages += len(credits)
        sent = rows[is_sent & (kind == MessageKind.BUFFER_RESPONSE)]
        is_data = np.isin(sent["data_type"], _DATA_TYPES)
        self.events += int(np.count_nonzero(~is_data))
        data = sent[is_data]
        if not len(data):
            return
        self.buffers += len(data)
        self.buffer_bytes += int(data["payload_bytes"].sum(dtype=np.int64))
        self.reasons += np.bincount(data["reason"], minlength=len(FlushReason))
        channels = len(self.channel_buffers)
        channel, backlog = data["channel"], data["backlog_buffers"]
        known = channel >= 0
        channel, backlog = channel[known], backlog[known]
        self.channel_buffers += np.bincount(channel, minlength=channels)
        self.channel_backlog_sum += np.bincount(channel, backlog, channels).astype(np.int64)
        np.maximum.at(self.channel_backlog_max, channel, backlog)

    def _count_received(self, rows: NDArray[np.void]) -> None:
        known = (rows["channel"] >= 0) & (rows["at_ns"] >= self.measured_from_ns)
        channels = len(self.channel_bytes_in)
        received = np.bincount(rows["channel"][known], rows["payload_bytes"][known], channels)
        self.channel_bytes_in += received.astype(np.int64)
