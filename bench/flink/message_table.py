"""What a tap or a capture saw of a job: its messages as columns, and counts as Flink counts them.

Flink's counters, of the tasks of one vertex (read from the code of 2.3):

- numRecordsOut: records emitted.
- numBytesOut: bytes of records with their length prefixes; when a buffer is finished.
- numBuffersOut: buffers finished, which is when they are full or an event follows. A flush does not
  finish a buffer: what lies in it leaves as a message, the rest follows in another one. So this is
  less than the messages on the wire. Events do not count in any of the three.
- numBuffersInRemote, numBytesInRemote: messages with a payload that the task took from channels to
  other TaskManagers, data and events, and the bytes of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.run import open_run

IntArray = NDArray[np.int64]

_COLUMNS = (
    *("at_ns", "channel", "point", "kind", "data_type", "sequence_number", "payload_bytes"),
    *("records", "backlog_buffers", "value"),
)
_COMPARED = _COLUMNS[3:]
"""All but instants, place and index of the channel, which two observers may tell differently."""


@dataclass(frozen=True, slots=True)
class MessageTable:
    """All messages of a run, in the order in which they passed; columns of equal length.

    Args:
        columns: by name.
        receivers: id of the receiver of each channel, by index.
    """

    columns: dict[str, IntArray]
    receivers: dict[int, str]

    def __len__(self) -> int:
        return len(self.columns["at_ns"])

    def total(self, name: str) -> int:
        """The sum of a column."""
        return int(self.columns[name].sum())

    def where(self, mask: NDArray[np.bool_]) -> MessageTable:
        """Some of the messages."""
        chosen = {name: column[mask] for name, column in self.columns.items()}
        return MessageTable(chosen, self.receivers)

    def responses(self) -> MessageTable:
        """What producers sent with a payload: data and events."""
        kind, payload = self.columns["kind"], self.columns["payload_bytes"]
        return self.where((kind == MessageKind.BUFFER_RESPONSE) & (payload > 0))

    def is_data(self) -> NDArray[np.bool_]:
        """Which messages carry records."""
        return np.isin(self.columns["data_type"], [int(each) for each in IS_BUFFER])

    def data(self) -> MessageTable:
        """Messages that carry records."""
        return self.responses().where(self.responses().is_data())


def read(run: Path) -> MessageTable:
    """The messages of a run directory; each once, where it was sent or first seen.

    Raises:
        TraceError: a file cannot be read.
    """
    opened = open_run(run)
    parts: list[dict[str, IntArray]] = []
    for reader in opened.readers():
        with reader:
            parts += reader.events((*_COLUMNS, "order"))
    columns = {
        name: np.concatenate([part[name].astype(np.int64) for part in parts])
        if parts
        else np.empty(0, np.int64)
        for name in (*_COLUMNS, "order")
    }
    order = np.lexsort((columns["order"], columns["at_ns"]))
    columns = {name: column[order] for name, column in columns.items()}
    is_message = np.isin(columns["point"], (int(TracePoint.SENT), int(TracePoint.RECEIVED)))
    receivers = (
        {c.index: c.receiver_id for c in opened.manifest.channels} if opened.manifest else {}
    )
    return MessageTable(columns, receivers).where(is_message)


def first(table: MessageTable, responses: int) -> MessageTable:
    """So many messages with a payload, from the beginning.

    Flink's counters are read before a job ends; what it sends at its end they do not know. At that
    instant no records are on their way, so that only events can lie on both sides of the cut.
    """
    with_payload = table.responses()
    return with_payload.where(np.arange(len(with_payload)) < responses)


def finished(table: MessageTable, segment_bytes: int) -> tuple[int, int]:
    """numBuffersOut and numBytesOut as they follow from the messages.

    Between two events the bytes of a channel filled so many segments, and the event finished the
    last of them. Behind the last event only full segments are finished.
    """
    responses = table.responses()
    is_data = responses.is_data()
    buffers = finished_bytes = 0
    for channel in np.unique(responses.columns["channel"]):
        of_channel = responses.columns["channel"] == channel
        payload = np.where(is_data, responses.columns["payload_bytes"], 0)[of_channel]
        part = np.cumsum(~is_data[of_channel])
        filled = np.bincount(part, payload).astype(np.int64)
        filled[-1] -= filled[-1] % segment_bytes
        buffers += int(np.sum(-(-filled // segment_bytes)))
        finished_bytes += int(filled.sum())
    return buffers, finished_bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """How two tables of the same run differ, but for instants and credit, which depend on where the
    two directions were seen.

    Args:
        channels: of which one knows and the other does not.
        messages: that stand in one at a place where the other has another one, or none.
        compared: in the longer of the two.
    """

    channels: int
    messages: int
    compared: int


def difference(left: MessageTable, right: MessageTable) -> Difference:
    """Compare each channel and direction, message by message."""
    a, b = (_by_stream(table) for table in (left, right))
    channels = {receiver for receiver, _ in a} ^ {receiver for receiver, _ in b}
    messages = compared = 0
    for stream in a.keys() | b.keys():
        rows = [each.get(stream, np.empty((0, len(_COMPARED)), np.int64)) for each in (a, b)]
        shared, longer = sorted(map(len, rows))
        compared += longer
        unequal = np.any(rows[0][:shared] != rows[1][:shared], axis=1)
        messages += longer - shared + int(np.count_nonzero(unequal))
    return Difference(len(channels), messages, compared)


def _by_stream(table: MessageTable) -> dict[tuple[str, int], NDArray[Any]]:
    rows = np.column_stack([table.columns[name] for name in _COMPARED])
    channel, point = table.columns["channel"], table.columns["point"]
    streams = {}
    for index, at in {(int(c), int(p)) for c, p in zip(channel, point, strict=True)}:
        receiver = table.receivers.get(index, "")
        streams[receiver, at] = rows[(channel == index) & (point == at)]
    return streams
