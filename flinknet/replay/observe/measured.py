"""A run in plain numbers, as `flinknet bench` would measure it, from rows that were observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.results import (
    BacklogSummary,
    ChannelMeasured,
    CreditSummary,
    FlushCounts,
    LatencySummary,
    Measured,
)

from ..read import RecordedRun
from .checkpoints import checkpoints_of
from .latency import ChannelLatency
from .messages import MessagesRow
from .observed_run import ChannelBacklog, ObservedRows, ObservedRun
from .reported_checkpoints import with_reported
from .windowed import BacklogWindow


def measured_of(run: RecordedRun, rows: ObservedRows) -> Measured:
    """The summary of a run, from its trace alone.

    `bytes` are those of record values: payload less what the stream adds to each record. The
    uncorrected latency is not in a trace.
    """
    total = rows.total_latency
    duration_ns = max(run.to_ns, total.consumed_to_ns if total else 0) - run.from_ns
    records = total.count if total else 0
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
    return Measured(
        records=records,
        bytes=value_bytes,
        buffers=_messages(data),
        events=_messages(responses) - _messages(data),
        duration_ns=duration_ns,
        throughput_records_per_s=records * 1e9 / duration_ns if records else None,
        throughput_bytes_per_s=value_bytes * 1e9 / duration_ns if records else None,
        latency_ns=latency_summary(total),
        latency_uncorrected_ns=LatencySummary(count=0),
        backlog_buffers=backlog_summary(rows.backlog),
        credits=CreditSummary(
            announced=sum(row.credit for row in credit),
            messages=_messages(credit),
            starved_ns=int(rows.credit_starved["starved_ns"].sum())
            if run.is_credit_known
            else None,
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


def channels_of(observed: ObservedRun) -> list[ChannelMeasured]:
    """Each channel of the manifest that carried records or buffers, and is one to tell of."""
    rows, duration_ns = observed.rows, observed.measured.duration_ns
    backlog = {row.channel: row for row in rows.backlog_by_channel}
    latency = {row.channel: row for row in rows.latency}
    measured = []
    for info in observed.run.manifest.channels:
        row = latency.get(info.index)
        if row is None and info.index not in backlog:
            continue
        records = row.count if row else 0
        measured.append(
            ChannelMeasured(
                channel=info.index,
                producer=info.producer,
                consumer=info.consumer,
                records=records,
                throughput_records_per_s=records * 1e9 / duration_ns if records else None,
                latency_ns=latency_summary(row),
                backlog_buffers=backlog_summary(
                    [backlog[info.index]] if info.index in backlog else []
                ),
            )
        )
    return measured


def latency_summary(row: ChannelLatency | None) -> LatencySummary:
    """The fields of a LatencySummary out of a row that has them."""
    if row is None:
        return LatencySummary(count=0)
    return LatencySummary(**{each.name: getattr(row, each.name) for each in fields(LatencySummary)})


def _messages(rows: Sequence[MessagesRow]) -> int:
    return sum(row.messages for row in rows)


def _left_because(rows: Sequence[MessagesRow], *reasons: FlushReason) -> int:
    return _messages([row for row in rows if row.reason in reasons])


def backlog_summary(rows: Sequence[BacklogWindow | ChannelBacklog]) -> BacklogSummary:
    """Mean and maximum over samples; None without any."""
    buffers = sum(row.buffers for row in rows)
    if not buffers:
        return BacklogSummary(None, None)
    return BacklogSummary(
        mean=sum(row.backlog_buffers_sum for row in rows) / buffers,
        max=max(row.backlog_buffers_max for row in rows),
    )
