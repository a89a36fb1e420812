"""Where the time of a run's channels went, as shares that sum to 1 and for `diagnose`."""

from __future__ import annotations

from flinknet.core.probe import TracePoint

from .diagnose import ChannelTime
from .edges import ends_of
from .observed import ObservedRows, latency_row
from .regimes import REGIMES
from .units import RecordedRun

_WRITER_WAITS = (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES)


def shares_of(rows: ObservedRows, channel: int) -> dict[str, float]:
    """Share of each regime in the time of one channel."""
    return _shares(_spent_ns(rows, {channel}))


def shares_of_all(rows: ObservedRows) -> dict[str, float]:
    """Share of each regime in the time of all channels together."""
    return _shares(_spent_ns(rows, None))


def channel_times(run: RecordedRun, rows: ObservedRows) -> list[ChannelTime]:
    """The channels of a run with their time by regime."""
    edge, times = ends_of(run.manifest, run.edge).name, []
    waited = {row["channel"] for row in rows.messages if row["point"] in _WRITER_WAITS}
    held_up = {info.producer for info in run.manifest.channels if info.index in waited}
    for info in run.manifest.channels:
        latency = latency_row(rows, info.index)
        times.append(
            ChannelTime(
                edge=edge,
                channel=info.index,
                producer=info.producer,
                consumer=info.consumer,
                records=latency["count"] if latency else 0,
                spent_ns=_spent_ns(rows, {info.index}),
                is_held_up=info.producer in held_up,
            )
        )
    return times


def _spent_ns(rows: ObservedRows, channels: set[int] | None) -> dict[str, int]:
    spent = dict.fromkeys(REGIMES, 0)
    for row in rows.regimes:
        if channels is None or row["channel"] in channels:
            spent[row["regime"]] += row["ns"]
    return spent


def _shares(spent_ns: dict[str, int]) -> dict[str, float]:
    total = sum(spent_ns.values()) or 1
    return {name: ns / total for name, ns in spent_ns.items()}
