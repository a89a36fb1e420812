"""Figures of a run, as `flinknet bench` would measure them, from observed rows.

Where the records of buffers could not be counted, as after a gap of a capture, they are estimated
by their bytes, with the ratio of the other buffers of the channel, or of the run where a channel
has no others; the answer states the share of these bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.predict.exchange import is_max_rate
from flinknet.results import (
    BacklogSummary,
    ChannelMeasured,
    CreditSummary,
    FlushCounts,
    LatencySummary,
    Measured,
    TraceLoss,
    sustained_per_s,
)
from flinknet.units import human_bytes, human_number

from ..read import RecordedRun
from ..spark.frames import Rows
from .checkpoints import checkpoints_of, with_reported
from .observed_run import ObservedRows, ObservedRun
from .traffic import BacklogWindow, MessagesRow, ThroughputWindow

UNCOUNTED = "uncounted_bytes"
"""Kind of the loss that is reported for uncounted records."""


def measured_of(run: RecordedRun, rows: ObservedRows) -> Measured:
    """The figures of a run, from its trace alone.

    `bytes` are bytes of record values: payload less the overhead of each record. A trace has no
    uncorrected latency.
    """
    total = rows.total_latency
    duration_ns = max(run.to_ns, total.consumed_to_ns if total else 0) - run.from_ns
    records = total.latency_ns.count if total else 0
    value_bytes = round(total.payload_bytes - OVERHEAD_BYTES * records) if total else 0
    if run.counted_at == TracePoint.SENT:
        records = sum(row.records for row in rows.throughput)
        payload_bytes = sum(row.payload_bytes for row in rows.throughput)
        value_bytes = payload_bytes - OVERHEAD_BYTES * records
    sent = [row for row in rows.messages if row.point == TracePoint.SENT]
    responses = [row for row in sent if row.kind == MessageKind.BUFFER_RESPONSE]
    data = [row for row in responses if row.data_type in IS_BUFFER]
    counted_at = TracePoint.RECEIVED if run.counted_at == TracePoint.SENT else TracePoint.SENT
    credit = [
        row
        for row in rows.messages
        if row.kind == MessageKind.ADD_CREDIT and row.point == counted_at
    ]
    throughput = sustained_per_s(
        records,
        duration_ns,
        run.duration_ns,
        [taken_per_s(rows.throughput, run.duration_ns)],
        is_max_rate=is_max_rate(run.manifest),
    )
    return Measured(
        records=records,
        bytes=value_bytes,
        buffers=_messages(data),
        events=_messages(responses) - _messages(data),
        duration_ns=duration_ns,
        throughput_records_per_s=throughput,
        throughput_bytes_per_s=None if throughput is None else throughput * value_bytes / records,
        latency_ns=total.latency_ns if total else LatencySummary(count=0),
        latency_uncorrected_ns=LatencySummary(count=0),
        backlog_buffers=backlog_summary(rows.backlog),
        credits=CreditSummary(
            announced=sum(row.credit for row in credit),
            messages=_messages(credit),
            starved_ns=int(rows.credit_starved["ns"].sum()) if run.is_credit_known else None,
        ),
        flushes=FlushCounts(
            full=_left_because(data, FlushReason.FULL),
            timeout=_left_because(data, FlushReason.FLUSH),
            event=_left_because(data, FlushReason.EVENT, FlushReason.END),
        ),
        checkpoints=with_reported(
            checkpoints_of(
                rows.barriers,
                {info.index: info.consumer for info in run.manifest.channels}
                if rows.barriers
                else {},
                (run.from_ns, run.to_ns),
                is_from_between=run.manifest.is_from_between,
            ),
            run,
        ),
    )


def taken_per_s(windows: Sequence[ThroughputWindow], part_ns: int) -> float:
    """Records per second that were consumed in the whole windows of a part."""
    whole = [row for row in windows if row.from_ns + row.width_ns <= part_ns]
    covered_ns = max((row.from_ns + row.width_ns for row in whole), default=1)
    return sum(row.records for row in whole) * 1e9 / covered_ns


def channels_of(observed: ObservedRun) -> list[ChannelMeasured]:
    """The shown channels of the manifest that carried records or buffers."""
    rows, of_all = observed.rows, observed.measured
    throughput = of_all.throughput_records_per_s or 0.0
    backlog = {row.channel: row for row in rows.backlog_by_channel}
    latency = {row.channel: row for row in rows.latency}
    measured = []
    for info in observed.run.manifest.channels:
        row = latency.get(info.index)
        if row is None and info.index not in backlog:
            continue
        latency_ns = row.latency_ns if row else LatencySummary(count=0)
        records = latency_ns.count
        measured.append(
            ChannelMeasured(
                channel=info.index,
                producer=info.producer,
                consumer=info.consumer,
                records=records,
                throughput_records_per_s=throughput * records / of_all.records
                if records and of_all.records
                else None,
                latency_ns=latency_ns,
                backlog_buffers=backlog_summary(
                    [backlog[info.index]] if info.index in backlog else []
                ),
            )
        )
    return measured


def _messages(rows: Sequence[MessagesRow]) -> int:
    return sum(row.messages for row in rows)


def _left_because(rows: Sequence[MessagesRow], *reasons: FlushReason) -> int:
    return _messages([row for row in rows if row.reason in reasons])


def backlog_summary(rows: Sequence[BacklogWindow]) -> BacklogSummary:
    """Mean and maximum of the backlog over all samples; None without samples."""
    buffers = sum(row.buffers for row in rows)
    if not buffers:
        return BacklogSummary(None, None)
    return BacklogSummary(
        mean=sum(row.backlog_buffers_sum for row in rows) / buffers,
        max=max(row.backlog_buffers_max for row in rows),
    )


def filled_windows(rows: Sequence[ThroughputWindow], records: int) -> list[ThroughputWindow]:
    """Windows with the estimated records added, so that all have `records` together."""
    missing = sum(each.uncounted_bytes for each in rows)
    if not missing:
        return list(rows)
    ratio = (records - sum(each.records for each in rows)) / missing
    added = _added(np.array([each.uncounted_bytes for each in rows], np.int64) * ratio).tolist()
    return [replace(row, records=row.records + more) for row, more in zip(rows, added, strict=True)]


def filled_channels(rows: Rows[ThroughputWindow]) -> Rows[ThroughputWindow]:
    """Channels with the estimated records added."""
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
    """The loss of records that could not be counted; empty without any."""
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
    """Round numbers so that their sums stay the same."""
    reached = np.rint(np.cumsum(records)).astype(np.int64)
    added: IntArray = reached - np.r_[0, reached[:-1]]
    return added
