"""Sizes of records, by the buffers that carried them: what one record had cannot be seen, the mean
of those of a buffer can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.job.load.payload import OVERHEAD_BYTES, SMALLEST_VALUE_BYTES
from flinknet.trace import TraceReader
from flinknet.trace.event_block import EventColumns, is_data
from flinknet.trace.recordings import RunPlace, open_recordings

from .fit.window_rows import joined_rows, places_by_channel

ALIKE_SHARE = 0.9
"""Where as many buffers are as long as records of one size make them, all have that size."""

MANY_RECORDS = 10
"""With as many in a buffer, one that is cut at its end is no evidence of another size."""

_COLUMNS = (
    *("at_ns", "channel", "point", "kind", "data_type", "sequence_number"),
    *("payload_bytes", "records"),
)


@dataclass(frozen=True, slots=True, eq=False)
class SentBytes:
    """Of one channel, each stretch of buffers up to one in which a record ends; int64 columns.

    Attributes:
        at_ns: when the last buffer left, ascending.
        records: that ended in it.
        wire_bytes: of all its buffers.
    """

    at_ns: IntArray
    records: IntArray
    wire_bytes: IntArray

    def value_bytes(self, instants_ns: IntArray) -> IntArray:
        """For records that came at these instants, the mean size of the values in the buffer that
        was the next to leave; never less than what a record of flinknet needs.
        """
        place = np.searchsorted(self.at_ns, instants_ns).clip(max=len(self.at_ns) - 1)
        mean = np.round(self.wire_bytes / self.records).astype(np.int64) - OVERHEAD_BYTES
        found: IntArray = np.maximum(mean, SMALLEST_VALUE_BYTES)[place]
        return found


def sent_bytes(
    place: RunPlace, channels: Sequence[int], from_ns: int, to_ns: int
) -> dict[int, SentBytes]:
    """What these channels carried, by channel; those without a record are left out."""
    parts: list[EventColumns] = []
    for file in open_recordings(place).files:
        with TraceReader(file) as reader:
            for block in reader.events(_COLUMNS, list(channels), from_ns, to_ns):
                keep = is_data(block, TracePoint.SENT)
                parts.append({name: values[keep] for name, values in block.items()})
    rows = joined_rows(parts, _COLUMNS)
    found = {}
    for channel, own in places_by_channel(rows).items():
        own = own[np.lexsort((rows["sequence_number"][own], rows["at_ns"][own]))]
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
    """The size of all values, where they have one, but not less than what a record of flinknet
    needs; None if they differ.
    """
    records = np.concatenate([each.records for each in sent.values()])
    wire_bytes = np.concatenate([each.wire_bytes for each in sent.values()])
    size = round(float(wire_bytes.sum() / records.sum()))
    tolerance = np.where(records >= MANY_RECORDS, size, 0)
    is_alike = np.abs(wire_bytes - records * size) <= tolerance
    if is_alike.mean() < ALIKE_SHARE:
        return None
    return max(size - OVERHEAD_BYTES, SMALLEST_VALUE_BYTES)
