"""Where the time of a run's channels went, as shares that sum to 1 and for `diagnose`."""

from __future__ import annotations

from flinknet.core.probe import TracePoint
from flinknet.trace import ChannelInfo

from .diagnose import ChannelTime
from .edges import ends_of
from .observed import ObservedRows, latency_row
from .regimes import REGIMES
from .units import RecordedRun

_WRITER_WAITS = (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES)


def shares_of(rows: ObservedRows, channel: int) -> dict[str, float] | None:
    """Share of each regime in the time of one channel; None where nobody knows, as between
    processes."""
    return _shares(_spent_ns(rows, {channel}))


def shares_of_all(rows: ObservedRows) -> dict[str, float] | None:
    """The same of all channels together."""
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


def times_between(run: RecordedRun, rows: ObservedRows) -> list[ChannelTime]:
    """The channels of a run that was recorded between processes, with the time that shows there.

    A channel of a task that was restarted goes on as that of its next attempt.
    """
    edge = ends_of(run.manifest, run.edge).name
    starved = {row["channel"]: row["starved_ns"] for row in rows.credit_starved}
    blocked = {row["channel"]: row["blocked_ns"] for row in rows.blocked}
    passed = {row["channel"]: row["records"] for row in rows.throughput_by_channel}
    attempts: dict[tuple[int, int, int], list[ChannelInfo]] = {}
    for info in run.manifest.channels:
        is_known = info.producer >= 0 and info.consumer >= 0
        key = info.producer, info.consumer, -1 if is_known else info.index
        attempts.setdefault(key, []).append(info)
    times = []
    for (producer, consumer, _), own in attempts.items():
        indexes = [info.index for info in own]
        blocked_ns = min(sum(blocked.get(each, 0) for each in indexes), run.duration_ns)
        # Behind a barrier it is not credit that is waited for.
        starved_ns = min(
            sum(starved.get(each, 0) for each in indexes), run.duration_ns - blocked_ns
        )
        times.append(
            ChannelTime(
                edge=edge,
                channel=indexes[0],
                producer=producer,
                consumer=consumer,
                records=sum(passed.get(each, 0) for each in indexes),
                spent_ns={
                    "waiting_for_credit": starved_ns,
                    "blocked_by_alignment": blocked_ns,
                    "unknown": run.duration_ns - starved_ns - blocked_ns,
                },
            )
        )
    return times


def _spent_ns(rows: ObservedRows, channels: set[int] | None) -> dict[str, int]:
    spent = dict.fromkeys(REGIMES, 0)
    for row in rows.regimes:
        if channels is None or row["channel"] in channels:
            spent[row["regime"]] += row["ns"]
    return spent


def _shares(spent_ns: dict[str, int]) -> dict[str, float] | None:
    total = sum(spent_ns.values())
    if not total:
        return None
    return {name: ns / total for name, ns in spent_ns.items()}
