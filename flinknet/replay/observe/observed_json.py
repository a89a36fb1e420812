"""What was observed in a run, as JSON-ready plain data: messages by kind, each channel, and window
by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.results import Measured

from ..spark.units import RecordedRun
from .observed import ObservedRows, Row, channels_of
from .time_shares import shares_of
from .windows import WINDOWS_MAX, window_width_ns

_BETWEEN = frozenset({TracePoint.SENT, TracePoint.RECEIVED})
"""Where a message stands that was seen in passing, once: what leaves producers, what gets to
them."""


def messages_json(run: RecordedRun, rows: ObservedRows) -> list[dict[str, Any]]:
    """Messages by kind; buffers and events by data type. A message counts where it was sent, or
    where it was seen in passing."""
    messages: Counter[str] = Counter()
    payload_bytes: Counter[str] = Counter()
    for row in _counted(run, rows):
        kind = kind_name(row["kind"], row["data_type"])
        messages[kind] += row["messages"]
        payload_bytes[kind] += row["payload_bytes"]
    return [
        {"kind": kind, "messages": count, "payload_bytes": payload_bytes[kind]}
        for kind, count in messages.most_common()
    ]


def channels_json(run: RecordedRun, rows: ObservedRows, total: Measured) -> list[dict[str, Any]]:
    """Each channel that carried something: what bench tells of it, its messages by kind, and where
    its time went."""
    starved = {row["channel"]: row["starved_ns"] for row in rows.credit_starved}
    messages: dict[int, Counter[str]] = {}
    for row in _counted(run, rows):
        kind = kind_name(row["kind"], row["data_type"])
        messages.setdefault(row["channel"], Counter())[kind] += row["messages"]
    channels = channels_of(run, rows, total.duration_ns)
    if run.manifest.is_from_between:
        passed = {row["channel"]: row["records"] for row in rows.throughput_by_channel}
        channels = [
            replace(
                each,
                records=passed.get(each.channel, 0),
                throughput_records_per_s=passed.get(each.channel, 0) * 1e9 / total.duration_ns,
            )
            for each in channels
        ]
    return [
        asdict(each)
        | {
            "starved_ns": starved.get(each.channel),
            "regimes": shares_of(rows, each.channel),
            "messages": dict(messages.get(each.channel, Counter()).most_common()),
        }
        for each in channels
    ]


def over_time(rows: ObservedRows, measured_ns: int, duration_ns: int) -> list[dict[str, Any]]:
    """Throughput and backlog of every window until the last record of the measured part was done
    with. The last one may be shorter; if less than half were left, it is longer.

    Args:
        measured_ns: length of the measured part, which tells how wide the windows of the rows are;
            where many come behind it, several make one.
        duration_ns: until the last record.
    """
    narrow_ns = window_width_ns(measured_ns)
    width_ns = narrow_ns * max(-(-duration_ns // (narrow_ns * WINDOWS_MAX)), 1)
    sampled, taken = (_by_window(table, width_ns) for table in (rows.backlog, rows.throughput))
    starts_ns = list(range(0, duration_ns, width_ns))
    if len(starts_ns) > 1 and 2 * (duration_ns - starts_ns[-1]) < width_ns:
        rest_ns = starts_ns.pop()
        for table in (sampled, taken):
            table.setdefault(starts_ns[-1], []).extend(table.get(rest_ns, ()))
    windows = []
    for from_ns, to_ns in pairwise([*starts_ns, duration_ns]):
        own_width_ns = to_ns - from_ns
        records = sum(row["records"] for row in taken.get(from_ns, ()))
        samples = sampled.get(from_ns, ())
        buffers = sum(row["buffers"] for row in samples)
        backlog = {"mean": None, "max": None}
        if buffers:
            backlog = {
                "mean": sum(row["backlog_buffers_sum"] for row in samples) / buffers,
                "max": max(row["backlog_buffers_max"] for row in samples),
            }
        windows.append(
            {
                "from_ns": from_ns,
                "width_ns": own_width_ns,
                "throughput_records_per_s": records * 1e9 / own_width_ns,
                "backlog_buffers": backlog,
            }
        )
    return windows


def kind_name(kind: int, data_type: int) -> str:
    """Name of a message's kind; for a BufferResponse, of what it carries."""
    try:
        if kind == MessageKind.BUFFER_RESPONSE:
            return DataType(data_type).name
        return MessageKind(kind).name
    except ValueError:
        return f"kind {kind}, data type {data_type}"


def _counted(run: RecordedRun, rows: ObservedRows) -> Iterable[Row]:
    points = _BETWEEN if run.manifest.is_from_between else {TracePoint.SENT}
    return (row for row in rows.messages if row["point"] in points)


def _by_window(rows: Iterable[Row], width_ns: int) -> dict[int, list[Row]]:
    windows: dict[int, list[Row]] = {}
    for row in rows:
        windows.setdefault(row["from_ns"] // width_ns * width_ns, []).append(row)
    return windows
