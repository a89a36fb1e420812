"""What was observed in a run: the rows that its summary is made from, and the summary."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.results import Measured

from ..read import RecordedRun
from ..spark.frames import Rows
from .arrivals import SliceRecords
from .blocking import BlockedRow, MilestoneRow
from .checkpoints import BarrierRow
from .credit import StarvedRow
from .latency import ChannelLatency
from .messages import MessagesRow
from .one_pass import WorkRow
from .regimes import ChannelRegimes
from .task_times import TaskTimeRow
from .unanswered import UnansweredRow, WithoutCreditRow
from .windowed import BacklogWindow, ThroughputWindow


@dataclass(frozen=True, slots=True)
class ChannelRecords:
    """Records and bytes of a channel in all windows; see `ThroughputWindow`."""

    run: int
    channel: int
    records: int
    payload_bytes: int
    uncounted_bytes: int


@dataclass(frozen=True, slots=True)
class ChannelBacklog:
    """Samples of the backlog of a channel in all windows."""

    run: int
    channel: int
    buffers: int
    backlog_buffers_sum: int
    backlog_buffers_max: int


@dataclass(frozen=True, slots=True)
class ChannelConsumed:
    """Records of a channel whose latency is known; `p99` of it in ns."""

    run: int
    channel: int
    count: int
    p99: float | None


@dataclass(frozen=True, slots=True)
class WaitedRow:
    """A channel on which the writer of its producer noted that it waited for a buffer."""

    run: int
    channel: int


@dataclass(frozen=True, slots=True)
class RunHistogram:
    """The latency of all records of a run."""

    run: int
    histogram: bytes


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """The rows of all tables that one run's summary needs.

    Lists have as many rows as there are windows, or kinds of messages. Those by channel are columns
    of all channels, but for the last three: they make an answer about a channel, and have the
    channels that an answer is given about.

    Attributes:
        messages, throughput, backlog: over all channels.
        histograms: of the latency over all channels; at most one.
        total_latency: the same in figures; None without records.
        arrivals: over all channels.
        blocked: by barriers; recorded between processes, as what was unanswered, the time without
            credit and the milestones are.
        milestones: when each first passed on any channel.
        work: of each unit.
        regimes: over all windows.
        channels_untold: how many carried something and are in none of the last three.
    """

    messages: list[MessagesRow]
    throughput: list[ThroughputWindow]
    backlog: list[BacklogWindow]
    histograms: list[RunHistogram]
    total_latency: ChannelLatency | None
    arrivals: list[SliceRecords]
    milestones: list[MilestoneRow]
    barriers: list[BarrierRow]
    work: list[WorkRow]
    throughput_by_channel: Rows[ChannelRecords]
    consumed: Rows[ChannelConsumed]
    waited: Rows[WaitedRow]
    credit_starved: Rows[StarvedRow]
    regimes: Rows[ChannelRegimes]
    blocked: Rows[BlockedRow]
    unanswered: Rows[UnansweredRow]
    without_credit: Rows[WithoutCreditRow]
    task_times: Rows[TaskTimeRow]
    latency: Rows[ChannelLatency]
    backlog_by_channel: Rows[ChannelBacklog]
    messages_by_channel: Rows[MessagesRow]
    channels_untold: int = 0


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What was observed in a run: its summary, and the rows it is made from."""

    run: RecordedRun
    measured: Measured
    rows: ObservedRows
