"""Plain data for the display and the result of a tap or a live capture, from its channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..channels import ChannelTable, ObservedChannel, later_attempts

CHANNELS_SHOWN = 64


@dataclass(slots=True)
class _Before:
    """Totals of a channel at the last look."""

    payload_bytes: int = 0
    records: int = 0
    data_buffers: int = 0
    starved_ns: int = 0
    exhausted_ns: int = 0
    blocked_ns: int = 0


class Meter:
    """Rates and shares since the last look, of every channel and of all together."""

    def __init__(self, now_ns: int) -> None:
        self._at_ns = now_ns
        self._before: dict[int, _Before] = {}
        self._open: list[ObservedChannel] = []
        self._known_channels = 0
        self._largest_buffer_bytes = 1

    def look(self, table: ChannelTable, now_ns: int) -> dict[str, Any]:
        """Plain data for the live view; triggers use its `metrics`."""
        span_ns = max(1, now_ns - self._at_ns)
        self._at_ns = now_ns
        self._open += table.channels[self._known_channels :]
        self._known_channels = len(table)
        rows = [self._row(each, now_ns, span_ns) for each in self._open]
        for channel in self._open:
            if channel.is_ended:
                del self._before[channel.index]
        self._open = [each for each in self._open if not each.is_ended]
        open_rows = [row for row in rows if not row["is_ended"]]
        counted = [row["records_per_s"] for row in rows if row["records_per_s"] is not None]
        bytes_per_s = sum(row["bytes_per_s"] for row in rows)
        metrics: dict[str, float] = {"throughput": bytes_per_s}
        if counted:
            metrics["records"] = sum(counted)
        if open_rows:
            metrics["credit_starved"] = max(row["starved_share"] for row in open_rows)
            metrics["no_credit"] = max(row["no_credit_share"] for row in open_rows)
            metrics["blocked"] = max(row["blocked_share"] for row in open_rows)
            metrics["backlog_buffers"] = max(row["backlog_buffers"] or 0 for row in open_rows)
        pressed = sorted(open_rows, key=_pressure)
        return {
            "channels_open": len(open_rows),
            "bytes_per_s": bytes_per_s,
            "records_per_s": sum(counted) if counted else None,
            "channels": sorted(pressed[:CHANNELS_SHOWN], key=lambda row: row["channel"]),
            "metrics": metrics,
        }

    def _row(self, channel: ObservedChannel, now_ns: int, span_ns: int) -> dict[str, Any]:
        before = self._before.get(channel.index) or _Before()
        now = _Before(
            channel.payload_bytes,
            channel.records,
            channel.data_buffers,
            channel.starved_until(now_ns),
            channel.exhausted_until(now_ns),
            channel.blocked_until(now_ns),
        )
        self._before[channel.index] = now
        self._largest_buffer_bytes = max(self._largest_buffer_bytes, channel.largest_buffer_bytes)
        buffers = now.data_buffers - before.data_buffers
        size = now.payload_bytes - before.payload_bytes
        is_counted = channel.uncounted_buffers < channel.data_buffers or not channel.data_buffers
        return {
            "channel": channel.index,
            "is_ended": channel.is_ended,
            "bytes_per_s": size * 1e9 / span_ns,
            "records_per_s": (now.records - before.records) * 1e9 / span_ns if is_counted else None,
            "backlog_buffers": channel.backlog_buffers,
            "credits_available": channel.credits_available,
            "starved_share": _share(now.starved_ns - before.starved_ns, span_ns),
            "no_credit_share": _share(now.exhausted_ns - before.exhausted_ns, span_ns),
            "blocked_share": _share(now.blocked_ns - before.blocked_ns, span_ns),
            "fill": size / buffers / self._largest_buffer_bytes if buffers else None,
        }


def _share(part_ns: int, span_ns: int) -> float:
    return min(1.0, max(0, part_ns) / span_ns)


def _pressure(row: dict[str, Any]) -> tuple[float, float, int]:
    return -row["starved_share"], -row["no_credit_share"], row["channel"]


def channel_rows(channels: Sequence[ObservedChannel], largest_bytes: int) -> list[dict[str, Any]]:
    """Rows of the result, one for each channel."""
    return [
        {
            "channel": each.index,
            "later_attempts": later,
            "connection": each.ends.connection,
            "receiver_id": each.receiver_id.hex(),
            "partition": None if each.partition_id is None else str(each.partition_id),
            "subpartitions": each.subpartitions,
            "initial_credit": each.initial_credit,
            "credits_available": each.credits_available,
            "in_flight_buffers": each.in_flight_buffers,
            "buffers": each.data_buffers,
            "payload_bytes": each.payload_bytes,
            "data_bytes": each.data_bytes,
            "records": each.records,
            "other_elements": each.other_elements,
            "uncounted_buffers": each.uncounted_buffers,
            "events": each.events,
            "events_by_kind": dict(each.events_by_kind),
            "last_checkpoints": [checkpoint for checkpoint, _ in each.barriers][-5:],
            "mean_fill": each.data_bytes / each.data_buffers / largest_bytes
            if each.data_buffers
            else None,
            "starved_ns": each.starved_ns,
            "no_credit_ns": each.exhausted_ns,
            "blocked_ns": each.blocked_ns,
        }
        for each, later in zip(channels, later_attempts(channels), strict=True)
    ]
