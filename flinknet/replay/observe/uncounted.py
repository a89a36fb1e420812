"""Records in buffers where they could not be counted, as behind a gap of a capture.

Figures take them to be as many for their bytes as in the other buffers of the channel, or of the
run where a channel has no others; the answer states the share of the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.results import TraceLoss
from flinknet.units import human_bytes, human_number

from ..spark.frames import Rows
from .observed_run import ChannelRecords, ObservedRun
from .windowed import ThroughputWindow

UNCOUNTED = "uncounted_bytes"
"""The kind of the loss."""


def filled_windows(rows: Sequence[ThroughputWindow], records: int) -> list[ThroughputWindow]:
    """The windows with the records of all their buffers, as many as all channels have."""
    missing = sum(each.uncounted_bytes for each in rows)
    if not missing:
        return list(rows)
    ratio = (records - sum(each.records for each in rows)) / missing
    added = _added(np.array([each.uncounted_bytes for each in rows], np.int64) * ratio).tolist()
    return [replace(row, records=row.records + more) for row, more in zip(rows, added, strict=True)]


def filled_channels(rows: Rows[ChannelRecords]) -> Rows[ChannelRecords]:
    """The channels with the records of all their buffers."""
    if not rows[UNCOUNTED].any():
        return rows
    records, missing_bytes = rows["records"], rows[UNCOUNTED]
    counted_bytes = rows["payload_bytes"] - missing_bytes
    ratio = np.full(len(rows), records.sum() / max(int(counted_bytes.sum()), 1))
    is_known = records > 0
    ratio[is_known] = records[is_known] / counted_bytes[is_known]
    place = rows.table.schema.get_field_index("records")
    filled = pa.array(records + _added(missing_bytes * ratio))
    return Rows(rows.kind, rows.table.set_column(place, "records", filled))


def uncounted_loss(observed: ObservedRun) -> tuple[TraceLoss, ...]:
    """The share of bytes in buffers whose records could not be counted; empty without any."""
    rows = observed.rows.throughput
    missing = sum(each.uncounted_bytes for each in rows)
    if not missing:
        return ()
    share = 100 * missing / sum(each.payload_bytes for each in rows)
    text = f"the records in {human_number(share)}% of the bytes ({human_bytes(missing)}) could not"
    text += (
        " be counted; figures have as many there as in the rest"
        if observed.measured.records
        else " be counted: figures in records are unknown"
    )
    return (TraceLoss(str(observed.run.path), None, UNCOUNTED, missing, text),)


def _added(records: npt.NDArray[np.floating]) -> IntArray:
    """Whole numbers that add up as the records do."""
    reached = np.rint(np.cumsum(records)).astype(np.int64)
    added: IntArray = reached - np.r_[0, reached[:-1]]
    return added
