"""Records in buffers where they could not be counted, as behind a gap of a capture.

Figures take them to be as many for their bytes as in the other buffers of the channel, or of the
run where a channel has no others; the answer states the share of the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.results import TraceLoss
from flinknet.units import human_bytes, human_number

from ..spark.frames import Rows
from .observed_run import ChannelRecords, ObservedRun
from .windowed import ThroughputWindow

UNCOUNTED = "uncounted_bytes"
"""The kind of the loss."""


def filled_windows(rows: Sequence[ThroughputWindow]) -> list[ThroughputWindow]:
    """The windows with the records of all their buffers."""
    columns = [[each.records, each.payload_bytes, each.uncounted_bytes] for each in rows]
    records = _filled(*np.array(columns, np.int64).reshape(-1, 3).T)
    return [replace(row, records=count) for row, count in zip(rows, records.tolist(), strict=True)]


def filled_channels(rows: Rows[ChannelRecords]) -> Rows[ChannelRecords]:
    """The channels with the records of all their buffers."""
    names = "records", "payload_bytes", UNCOUNTED
    if not rows[UNCOUNTED].any():
        return rows
    records = _filled(*(rows[name] for name in names), is_each_its_own=True)
    place = rows.table.schema.get_field_index(names[0])
    return Rows(rows.kind, rows.table.set_column(place, names[0], pa.array(records)))


def uncounted_loss(observed: ObservedRun) -> tuple[TraceLoss, ...]:
    """What share of the bytes of a run is in buffers whose records could not be counted."""
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


def _filled(
    records: IntArray,
    payload_bytes: IntArray,
    uncounted_bytes: IntArray,
    *,
    is_each_its_own: bool = False,
) -> IntArray:
    """The records with those in uncounted bytes, in whole numbers that add up."""
    counted_bytes = payload_bytes - uncounted_bytes
    ratio = np.full(len(records), records.sum() / max(int(counted_bytes.sum()), 1))
    if is_each_its_own:
        is_known = records > 0
        ratio[is_known] = records[is_known] / counted_bytes[is_known]
    reached = np.rint(np.cumsum(uncounted_bytes * ratio)).astype(np.int64)
    filled: IntArray = records + np.diff(reached, prepend=0)
    return filled
