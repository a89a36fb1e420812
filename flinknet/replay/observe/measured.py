"""Observations of a run: the rows of its summary, each declared with its question; the figures
that `flinknet bench` would measure; and the parts of its answer: messages by kind, channels,
windows of time, shares of regimes, the latency distribution.

Where the records of buffers could not be counted, as after a gap of a capture, they are estimated
by their bytes, with the ratio of the other buffers of the channel, or of the run where a channel
has no others; the answer states the share of these bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinknet import results
from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import IS_BUFFER, DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.predict.exchange import is_max_rate
from flinknet.trace.job_names import channel_names
from flinknet.units import human_bytes, human_number

from ..read import RecordedRun
from ..spark.frames import Merge, Rows
from .checkpoints import BarrierRow, checkpoints_in, thinned_barriers
from .credit import CreditRow, credit_paths
from .latency import LatencyRow
from .question import EVERY, Summary
from .record_times import WATERMARKS, TimesWindow
from .regimes import REGIMES, RegimeRow, TaskTimeRow
from .stretches import BLOCKED, STARVED, UNANSWERED, WITHOUT_CREDIT, ChannelTime
from .traffic import (
    WINDOWS_MAX,
    ArrivalsRow,
    BacklogWindow,
    MessagesRow,
    ThroughputWindow,
    window_width_ns,
)
from .tree import WorkRow

_CHANNEL = ("channel",)
_WINDOW = ("from_ns", "width_ns")


def _where(column: str, compare: Callable[..., pa.Array], value: int) -> Merge:
    return lambda rows: rows.filter(compare(rows[column], value))


def _in_state(state: int) -> Summary:
    return Summary("channel_times", keep=_where("state", pc.equal, state))


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Rows of all tables that the summary of a run needs. Lists have a row for each window or kind
    of message. Rows by channel are columns of all channels; details of single channels are limited
    to those that an answer shows, and other active ones are omitted. `unanswered`, `blocked` and
    `without_credit` are recorded between processes."""

    messages: Annotated[list[MessagesRow], Summary("messages", over=_CHANNEL)]
    throughput: Annotated[list[ThroughputWindow], Summary("throughput", over=_CHANNEL)]
    backlog: Annotated[list[BacklogWindow], Summary("backlog", over=_CHANNEL)]
    totals: Annotated[list[LatencyRow], Summary("latency", over=_CHANNEL)]
    arrivals: Annotated[list[ArrivalsRow], Summary("arrivals", over=_CHANNEL)]
    barriers: Annotated[
        list[BarrierRow],
        Summary("barriers", keep=_where("checkpoint", pc.greater_equal, 0), thin=thinned_barriers),
    ]
    work: Annotated[list[WorkRow], Summary("work")]
    record_times: Annotated[list[TimesWindow], Summary("record_times", over=_CHANNEL)]
    watermarks: Annotated[
        Rows[TimesWindow],
        Summary("record_times", columns=("run", "channel", "from_ns", *WATERMARKS)),
    ]
    throughput_by_channel: Annotated[
        Rows[ThroughputWindow],
        Summary(
            "throughput",
            over=_WINDOW,
            columns=("run", "channel", "records", "buffers", "payload_bytes", "uncounted_bytes"),
        ),
    ]
    consumed: Annotated[
        Rows[LatencyRow],
        Summary("latency", columns=("run", "channel", "latency_ns.count", "latency_ns.p99")),
    ]
    credit_starved: Annotated[Rows[ChannelTime], _in_state(STARVED)]
    regimes: Annotated[Rows[RegimeRow], Summary("regimes", over=("from_ns",))]
    blocked: Annotated[Rows[ChannelTime], _in_state(BLOCKED)]
    unanswered: Annotated[Rows[ChannelTime], _in_state(UNANSWERED)]
    without_credit: Annotated[Rows[ChannelTime], _in_state(WITHOUT_CREDIT)]
    task_times: Annotated[
        Rows[TaskTimeRow], Summary("task_times", keep=_where("amount", pc.greater, 0))
    ]
    latency: Annotated[
        Rows[LatencyRow],
        Summary(
            "latency",
            columns=("run", "channel", "payload_bytes", "consumed_to_ns", "latency_ns"),
            is_detail=True,
        ),
    ]
    backlog_by_channel: Annotated[
        Rows[BacklogWindow], Summary("backlog", over=_WINDOW, is_detail=True)
    ]
    messages_by_channel: Annotated[Rows[MessagesRow], Summary("messages", is_detail=True)]
    credit_trips: Annotated[Rows[CreditRow], Summary("credit_trips", is_detail=True)]
    channels_omitted: int = 0

    @property
    def total_latency(self) -> LatencyRow | None:
        return self.totals[0] if self.totals else None


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """Observations of a run: its figures, and the rows from which they are computed."""

    run: RecordedRun
    measured: results.Measured
    rows: ObservedRows

    @property
    def credit(self) -> tuple[results.CreditPath, ...]:
        rows, taken_ns = self.rows, self.measured.duration_ns
        taken = rows.throughput_by_channel
        return credit_paths(self.run, rows.credit_trips, taken, rows.credit_starved, taken_ns)


FLUSH_REASONS = {
    "full": (FlushReason.FULL,),
    "timeout": (FlushReason.FLUSH,),
    "event": (FlushReason.EVENT, FlushReason.END),
}
UNCOUNTED = "uncounted_bytes"


def measured_of(run: RecordedRun, rows: ObservedRows) -> results.Measured:
    """The figures of a run, from its trace alone. `bytes` are bytes of record values: payload less
    the overhead of each record. A trace has no uncorrected latency."""
    total = rows.total_latency or LatencyRow(run.run, EVERY, 0.0, 0, results.LatencySummary(0))
    duration_ns = max(run.to_ns, total.consumed_to_ns) - run.from_ns
    records, payload_bytes = total.latency_ns.count, total.payload_bytes
    if run.counted_at == TracePoint.SENT:
        records = sum(row.records for row in rows.throughput)
        payload_bytes = sum(row.payload_bytes for row in rows.throughput)
    value_bytes = round(payload_bytes - OVERHEAD_BYTES * records)
    sent = [row for row in rows.messages if row.point == TracePoint.SENT]
    responses = [row for row in sent if row.kind == MessageKind.BUFFER_RESPONSE]
    data = [row for row in responses if row.data_type in IS_BUFFER]
    counted_at = TracePoint.RECEIVED if run.counted_at == TracePoint.SENT else TracePoint.SENT
    announced = [row for row in rows.messages if row.kind == MessageKind.ADD_CREDIT]
    credit = [row for row in announced if row.point == counted_at]
    throughput = sustained_per_s(run, rows.throughput, records, duration_ns)
    return results.Measured(
        records=records,
        bytes=value_bytes,
        buffers=_messages(data),
        events=_messages(responses) - _messages(data),
        duration_ns=duration_ns,
        throughput_records_per_s=throughput,
        throughput_bytes_per_s=None if throughput is None else throughput * value_bytes / records,
        latency_ns=total.latency_ns.known_within(run.manifest.clock.error_ns),
        latency_uncorrected_ns=results.LatencySummary(count=0),
        backlog_buffers=backlog_summary(rows.backlog),
        credits=results.CreditSummary(
            announced=sum(row.credit for row in credit),
            messages=_messages(credit),
            starved_ns=int(rows.credit_starved["ns"].sum()) if run.is_credit_known else None,
        ),
        flushes=results.FlushCounts(
            **{
                name: _messages([row for row in data if row.reason in reasons])
                for name, reasons in FLUSH_REASONS.items()
            }
        ),
        checkpoints=checkpoints_in(run, rows.barriers),
    )


def sustained_per_s(
    run: RecordedRun, windows: Sequence[ThroughputWindow], records: int, duration_ns: int
) -> float | None:
    """Records per second of the measured part, with the time that they took."""
    whole = [row for row in windows if row.from_ns + row.width_ns <= run.duration_ns]
    covered_ns = max((row.from_ns + row.width_ns for row in whole), default=1)
    taken_per_s = [sum(row.records for row in whole) * 1e9 / covered_ns]
    is_max = is_max_rate(run.manifest)
    return results.sustained_per_s(
        records, duration_ns, run.duration_ns, taken_per_s, is_max_rate=is_max
    )


def _messages(rows: Sequence[MessagesRow]) -> int:
    return sum(row.messages for row in rows)


def backlog_summary(rows: Sequence[BacklogWindow]) -> results.BacklogSummary:
    buffers = sum(row.buffers for row in rows)
    if not buffers:
        return results.BacklogSummary(None, None)
    return results.BacklogSummary(
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


def uncounted_loss(observed: ObservedRun) -> tuple[results.TraceLoss, ...]:
    """The loss of records that could not be counted; empty without any."""
    rows = observed.rows.throughput
    missing = sum(each.uncounted_bytes for each in rows)
    if not missing:
        return ()
    share = 100 * missing / sum(each.payload_bytes for each in rows)
    text = f"the records in {human_number(share)}% of the bytes ({human_bytes(missing)}) could not"
    text += " be counted"
    if observed.measured.records:
        text += "; figures have as many there as in the rest"
    else:
        text += ": figures in records are unknown"
    return (results.TraceLoss(str(observed.run.path), None, UNCOUNTED, missing, text),)


def _added(records: npt.NDArray[np.floating]) -> IntArray:
    """Round numbers so that their sums stay the same."""
    reached = np.rint(np.cumsum(records)).astype(np.int64)
    added: IntArray = reached - np.r_[0, reached[:-1]]
    return added


def message_counts(observed: ObservedRun) -> tuple[results.MessageCount, ...]:
    """Messages by kind, buffers and events by data type, counted where they were sent."""
    messages, payload_bytes = Counter[str](), Counter[str]()
    for row in _counted(observed, observed.rows.messages):
        kind = kind_name(row.kind, row.data_type)
        messages[kind] += row.messages
        payload_bytes[kind] += row.payload_bytes
    return tuple(
        results.MessageCount(kind, count, payload_bytes[kind])
        for kind, count in messages.most_common()
    )


def replayed_channels(observed: ObservedRun) -> tuple[results.ReplayedChannel, ...]:
    """The shown channels of the manifest that carried records or buffers."""
    rows, run, of_all = observed.rows, observed.run, observed.measured
    is_between = run.counted_at == TracePoint.SENT
    backlog = {row.channel: row for row in rows.backlog_by_channel}
    latency = {row.channel: row.latency_ns for row in rows.latency}
    own = [each for each in run.manifest.channels if each.index in latency or each.index in backlog]
    shown = np.array([each.index for each in own], np.int64)
    names = channel_names(replace(run.manifest, channels=tuple(own)))
    taken = rows.throughput_by_channel.among(shown)
    passed = dict(zip(taken["channel"].tolist(), taken["records"].tolist(), strict=True))
    starved = {row.channel: row.ns for row in rows.credit_starved.among(shown)}
    messages: dict[int, Counter[str]] = {}
    for row in _counted(observed, rows.messages_by_channel):
        kind = kind_name(row.kind, row.data_type)
        messages.setdefault(row.channel, Counter())[kind] += row.messages
    spent = {
        row.channel: {name: getattr(row, name) for name in REGIMES}
        for row in rows.regimes.among(shown)
    }
    found = []
    for each in own:
        number = each.index
        latency_ns = latency.get(number, results.LatencySummary(count=0))
        latency_ns = latency_ns.known_within(run.manifest.clock.error_ns)
        records = passed.get(number, 0) if is_between else latency_ns.count
        rate_per_s = None
        if of_all.records and (is_between or records):
            rate_per_s = (of_all.throughput_records_per_s or 0.0) * records / of_all.records
        found.append(
            results.ReplayedChannel(
                channel=number,
                producer=each.producer,
                consumer=each.consumer,
                records=records,
                throughput_records_per_s=rate_per_s,
                latency_ns=latency_ns,
                backlog_buffers=backlog_summary([backlog[number]] if number in backlog else []),
                starved_ns=starved.get(number) if run.is_credit_known else None,
                regimes=_shares(spent.get(number, {})),
                messages=dict(messages.get(number, Counter()).most_common()),
                edge_number=run.ends.number,
                name=names.get(number),
            )
        )
    return tuple(found)


def over_time(observed: ObservedRun) -> tuple[results.WindowMeasured, ...]:
    """Throughput and backlog of each window until the last record of the measured part is consumed.
    The last window is longer if less than half were left. Where the drain is long, several windows
    of the rows make one."""
    rows, duration_ns = observed.rows, observed.measured.duration_ns
    narrow_ns = window_width_ns(observed.run.duration_ns)
    width_ns = narrow_ns * max(-(-duration_ns // (narrow_ns * WINDOWS_MAX)), 1)
    starts_ns = list(range(0, duration_ns, width_ns))
    stop_ns = len(starts_ns) * width_ns
    if len(starts_ns) > 1 and 2 * (duration_ns - starts_ns[-1]) < width_ns:
        starts_ns.pop()
    found = []
    for from_ns, end_ns in pairwise([*starts_ns, stop_ns]):
        length_ns = min(end_ns, duration_ns) - from_ns
        taken = [x.records for x in rows.throughput if from_ns <= x.from_ns < end_ns]
        sampled = [x for x in rows.backlog if from_ns <= x.from_ns < end_ns]
        rate_per_s = sum(taken) * 1e9 / length_ns
        found.append(
            results.WindowMeasured(from_ns, length_ns, rate_per_s, backlog_summary(sampled))
        )
    return tuple(found)


def regime_shares(rows: ObservedRows) -> dict[str, float] | None:
    """Share of each regime in the time of all channels; None if unknown, as between processes."""
    return _shares({name: int(rows.regimes[name].sum()) for name in REGIMES})


def kind_name(kind: int, data_type: int) -> str:
    try:
        if kind == MessageKind.BUFFER_RESPONSE:
            return DataType(data_type).name
        return MessageKind(kind).name
    except ValueError:
        return f"kind {kind}, data type {data_type}"


def _counted(observed: ObservedRun, rows: Iterable[MessagesRow]) -> Iterable[MessagesRow]:
    points = {TracePoint.SENT}
    if observed.run.counted_at == TracePoint.SENT:
        points |= {TracePoint.RECEIVED}  # between processes, what reaches the producers
    return (row for row in rows if row.point in points)


def _shares(spent: Mapping[str, int]) -> dict[str, float] | None:
    total = sum(spent.values())
    return {name: ns / total for name, ns in spent.items()} if total else None
