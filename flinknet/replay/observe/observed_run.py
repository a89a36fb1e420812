"""Observations of a run: the rows of its summary, each declared with its question, and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from flinknet.results import Measured

from ..read import RecordedRun
from ..spark.frames import Rows
from .arrivals import ArrivalsRow
from .checkpoints import BarrierRow, MilestoneRow, known_barriers, thinned_barriers
from .latency import LatencyRow
from .one_pass import WorkRow
from .question import Summary
from .regimes import RegimeRow
from .stretches import ChannelTime
from .task_times import TaskTimeRow, known_task_times
from .traffic import BacklogWindow, MessagesRow, ThroughputWindow, writer_waits

_CHANNEL = ("channel",)
_WINDOW = ("from_ns", "width_ns")


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Rows of all tables that the summary of a run needs.

    Lists have a row for each window or kind of message. Rows by channel are columns of all
    channels; those of `latency`, `backlog_by_channel` and `messages_by_channel`, which describe
    single channels, are limited to those that an answer shows.

    Attributes:
        totals: latency over all channels; empty without records.
        milestones: first instant on any channel, recorded between processes.
        waited: channels on which a writer noted that it waited for a buffer.
        unanswered, without_credit, blocked: recorded between processes.
        channels_omitted: active channels without detailed rows.
    """

    messages: Annotated[list[MessagesRow], Summary("messages", over=_CHANNEL)]
    throughput: Annotated[list[ThroughputWindow], Summary("throughput", over=_CHANNEL)]
    backlog: Annotated[list[BacklogWindow], Summary("backlog", over=_CHANNEL)]
    totals: Annotated[list[LatencyRow], Summary("latency", over=_CHANNEL)]
    arrivals: Annotated[list[ArrivalsRow], Summary("arrivals", over=_CHANNEL)]
    milestones: Annotated[list[MilestoneRow], Summary("milestones", over=_CHANNEL)]
    barriers: Annotated[
        list[BarrierRow], Summary("barriers", keep=known_barriers, thin=thinned_barriers)
    ]
    work: Annotated[list[WorkRow], Summary("work")]
    throughput_by_channel: Annotated[
        Rows[ThroughputWindow],
        Summary(
            "throughput",
            over=_WINDOW,
            columns=("run", "channel", "records", "payload_bytes", "uncounted_bytes"),
        ),
    ]
    consumed: Annotated[
        Rows[LatencyRow],
        Summary("latency", columns=("run", "channel", "latency_ns.count", "latency_ns.p99")),
    ]
    waited: Annotated[
        Rows[MessagesRow], Summary("messages", keep=writer_waits, columns=("run", "channel"))
    ]
    credit_starved: Annotated[Rows[ChannelTime], Summary("credit_starved")]
    regimes: Annotated[Rows[RegimeRow], Summary("regimes", over=("from_ns",))]
    blocked: Annotated[Rows[ChannelTime], Summary("blocked")]
    unanswered: Annotated[Rows[ChannelTime], Summary("unanswered")]
    without_credit: Annotated[Rows[ChannelTime], Summary("without_credit")]
    task_times: Annotated[Rows[TaskTimeRow], Summary("task_times", keep=known_task_times)]
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
    channels_omitted: int = 0

    @property
    def total_latency(self) -> LatencyRow | None:
        """Latency over all channels; None without records."""
        return self.totals[0] if self.totals else None


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """Observations of a run: its figures, and the rows from which they are computed."""

    run: RecordedRun
    measured: Measured
    rows: ObservedRows
