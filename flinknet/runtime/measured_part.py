"""MeasuredPart: what one TaskManager counts between the instants that results are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.job.load.assembly import run_input_of
from flinknet.job.stream_task import StreamTask
from flinknet.job.task_metrics import Metrics, TaskManagerMetrics

from .clock import monotonic_ns
from .connection_manager import ConnectionManager, LocalConnectionManager


class MeasuredPart:
    """The part of a run between `begin` and `end`; what it was stands here from the end on.

    `starved_ns` is the time that each channel of producers here waited for credit,
    `taken_per_s` the records that sinks here took from each channel. `unread_share` is the part of
    the time in which a socket was not read for want of a buffer, and `metrics` are those of the
    tasks and of the memory at the end.
    """

    def __init__(
        self,
        connections: ConnectionManager | LocalConnectionManager,
        sinks: Sequence[StreamTask],
        metrics: TaskManagerMetrics,
    ) -> None:
        self._connections = connections
        self._sinks = sinks
        self._task_metrics = metrics
        self._since_ns = 0
        self._starved_before_ns: Mapping[int, int] = {}
        self._taken_before: Mapping[int, int] = {}
        self._unread_before_ns = 0
        self._is_over = False
        self.starved_ns: Mapping[int, int] = {}
        self.taken_per_s: Mapping[int, float] = {}
        self.unread_share = 0.0
        self.metrics: tuple[dict[str, Metrics], Metrics] = ({}, {})

    def begin(self) -> None:
        """What is counted from now on is measured."""
        self._starved_before_ns = self._starved_until_now_ns()
        self._taken_before = self._taken_records()
        self._unread_before_ns = self._unread_until_now_ns()
        self._since_ns = monotonic_ns()
        self._task_metrics.start_window(now_ns=self._since_ns)

    def end(self, *, is_drained: bool) -> None:
        """Note what was counted by now; a second call changes nothing.

        Args:
            is_drained: whether no data is left anywhere.
        """
        if self._is_over:
            return
        self._is_over = True
        elapsed_ns = max(1, monotonic_ns() - self._since_ns)
        self.unread_share = (self._unread_until_now_ns() - self._unread_before_ns) / elapsed_ns
        self.taken_per_s = {
            channel: (count - self._taken_before.get(channel, 0)) / elapsed_ns * 1e9
            for channel, count in self._taken_records().items()
        }
        self.metrics = self._task_metrics.sample_end(now_ns=monotonic_ns(), is_drained=is_drained)
        self.starved_ns = {
            channel: starved_ns - self._starved_before_ns.get(channel, 0)
            for channel, starved_ns in self._starved_until_now_ns().items()
        }

    def _starved_until_now_ns(self) -> dict[int, int]:
        """Credit-starved time of each channel that was ever read from here, so far."""
        now_ns = monotonic_ns()
        return {
            channel.channel: channel.starved_ns
            for accepted in self._connections.accepted
            for channel in accepted.connection.snapshot(now_ns=now_ns)
        }

    def _taken_records(self) -> dict[int, int]:
        """Records that each channel's task has taken so far."""
        taken = {}
        for task in self._sinks:
            reading = run_input_of(task)
            for channel, sink in zip(reading.gate.channels, reading.receivers, strict=True):
                sink.settle()
                taken[channel.index] = sink.records
        return taken

    def _unread_until_now_ns(self) -> int:
        """How long sockets were not read so far, for want of a buffer; the longest time of any."""
        now_ns = monotonic_ns()
        clients = self._connections.clients
        return max((each.snapshot(now_ns=now_ns).unread_ns for each in clients), default=0)
