"""Where the time of each channel of a run went, for `diagnose`."""

from __future__ import annotations

from flinknet.core.probe import TracePoint
from flinknet.trace import ChannelInfo

from ..observe.observed import ObservedRun
from ..observe.regimes import REGIMES
from ..observe.summaries import spent_by_channel
from .diagnose import ChannelTime
from .edges import ends_of

_WRITER_WAITS = (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES)


def channel_times(observed: ObservedRun) -> list[ChannelTime]:
    """The channels of a run with their time by regime."""
    run, rows = observed.run, observed.rows
    edge, times = ends_of(run.manifest, run.edge).name, []
    waited = {row.channel for row in rows.messages if row.point in _WRITER_WAITS}
    held_up = {info.producer for info in run.manifest.channels if info.index in waited}
    records = {row.channel: row.count for row in rows.latency}
    spent = spent_by_channel(rows)
    for info in run.manifest.channels:
        times.append(
            ChannelTime(
                edge=edge,
                channel=info.index,
                producer=info.producer,
                consumer=info.consumer,
                records=records.get(info.index, 0),
                spent_ns=spent.get(info.index) or dict.fromkeys(REGIMES, 0),
                is_held_up=info.producer in held_up,
            )
        )
    return times


def times_between(observed: ObservedRun) -> list[ChannelTime]:
    """The channels of a run that was recorded between processes, with the time that shows there.

    A channel of a task that was restarted goes on as that of its next attempt.
    """
    run, rows = observed.run, observed.rows
    edge = ends_of(run.manifest, run.edge).name
    starved = {row.channel: row.starved_ns for row in rows.credit_starved}
    blocked = {row.channel: row.blocked_ns for row in rows.blocked}
    passed = {row.channel: row.records for row in rows.throughput_by_channel}
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
