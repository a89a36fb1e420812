"""What says that a state was reached: a probe for what goes over channels, an observer for what
cannot be seen there.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, Probe, TracePoint
from flinknet.errors import FlinknetError, RunFailedError
from flinknet.simulator.cluster import START_NS, Cluster
from tests.faults import DrawnLostTriggers, DrawnLostWakeups, FaultPlan

from .trial import Marks

SENT, RECEIVED, CONSUMED = (
    int(TracePoint.SENT),
    int(TracePoint.RECEIVED),
    int(TracePoint.CONSUMED),
)
BUFFER_RESPONSE, PARTITION_REQUEST = (
    int(MessageKind.BUFFER_RESPONSE),
    int(MessageKind.PARTITION_REQUEST),
)
DATA_BUFFER, FLUSH = int(DataType.DATA_BUFFER), int(FlushReason.FLUSH)

_OF_MESSAGES: dict[tuple[int, int], str] = {
    (MessageKind.BACKLOG_ANNOUNCEMENT, RECEIVED): "a backlog was announced",
    (MessageKind.RESUME_CONSUMPTION, RECEIVED): "a producer was resumed",
    (MessageKind.CANCEL_PARTITION_REQUEST, RECEIVED): "a request was cancelled",
    (MessageKind.ERROR_RESPONSE, RECEIVED): "a producer answered with an error",
    (MessageKind.NEW_BUFFER_SIZE, RECEIVED): "a buffer size was announced",
    (MessageKind.ACK_ALL_USER_RECORDS_PROCESSED, RECEIVED): "the end of data was acknowledged",
}
_OF_TYPES: dict[tuple[int, int], str] = {
    (DataType.PRIORITIZED_EVENT_BUFFER, SENT): "a priority event left",
    (DataType.PRIORITIZED_EVENT_BUFFER, CONSUMED): "a priority event was consumed",
    (DataType.ALIGNED_CHECKPOINT_BARRIER, SENT): "an aligned barrier left",
    (DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, SENT): "a barrier left that may time out",
}


class MarkingProbe:
    """A Probe that notes what it sees and hands it on."""

    def __init__(self, marks: Marks, probe: Probe) -> None:
        self._marks = marks
        self._record = probe.record
        self._requested: set[int] = set()

    def record(self, *row: int) -> None:
        """An event; `core.probe.Probe` says what is where in it."""
        marks, point, kind = self._marks, row[2], row[3]
        if kind == BUFFER_RESPONSE:
            data_type = row[4]
            if row[6] < -1:
                marks["a sequence number wrapped"] += 1
            if point == SENT:
                if row[5] == FLUSH:
                    marks["a flush sent a part of a buffer"] += 1
                if not row[7]:
                    marks["an empty buffer carried a backlog"] += 1
                if row[13] == 0 and row[11] > 0:
                    marks["data waited for credit"] += 1
            if data_type != DATA_BUFFER and (name := _OF_TYPES.get((data_type, point))) is not None:
                marks[name] += 1
        else:
            channel = row[1]
            if (name := _OF_MESSAGES.get((kind, point))) is not None:
                marks[name] += 1
            if kind == PARTITION_REQUEST and point == SENT:
                if channel in self._requested:
                    marks["a request was repeated"] += 1
                self._requested.add(channel)
        self._record(*row)


class Observer:
    """Looks at clusters while they run, and at what became of them."""

    def __init__(self, marks: Marks, clusters: Sequence[Cluster]) -> None:
        self._marks = marks
        self._clusters = clusters
        self._seen: set[str] = set()

    def look(self) -> None:
        """At what pools, links and tasks are like now; each state counts once in a run."""
        seen = self._seen
        for cluster in self._clusters:
            for partition in cluster.partition_of.values():
                pool = partition.pool
                if pool is not None and pool.requested_buffers > pool.size_buffers:
                    seen.add("a pool holds more than its size")
            for stepped in cluster.tasks.values():
                if stepped.outputs and stepped.is_blocked:
                    seen.add("a writer waits for buffers")
            for link in cluster.links.values():
                if link.producer_end.unsent_bytes:
                    seen.add("a socket is full")
                if not link.consumer_end.connection.wants_data:
                    seen.add("a socket is not read")
        for task_manager in self._clusters[0].task_managers:
            if not task_manager.memory.available_buffers:
                seen.add("the network memory is used up")

    def note_end(self, faults: FaultPlan) -> None:
        """At the end: what of the plan has happened, and how the jobs ended."""
        marks, first = self._marks, self._clusters[0]
        for name in self._seen:
            marks[name] += 1
        marks[self._end_of(first.error, faults)] += 1
        if len(self._clusters) > 1:
            marks["two jobs shared their hosts"] += 1
            if first.error is not None and self._clusters[1].error is None:
                marks["a job failed and its neighbour finished"] += 1
        end_ns = first.now_ns
        ran_ns = end_ns - START_NS
        for name, intervals in (
            ("a link stood still", faults.stalls),
            ("a consumer paused", faults.pauses),
            ("another task took the memory", faults.exhaustions),
        ):
            marks[name] += any(each.from_ns < ran_ns for each in intervals)
        marks["buffers of another task came back late"] += faults.late_buffers_ns > 0 and any(
            each.to_ns < ran_ns for each in faults.exhaustions
        )
        is_early = first.error is not None
        marks["gates were closed before their tasks"] += is_early and faults.closes_gates_first
        marks["a connection broke behind a cancelled job"] += any(
            at_ns < ran_ns for _, at_ns in faults.resets for _ in faults.cancels_at_ns
        )
        marks["bytes came in pieces"] += bool(faults.piece_bytes_max)
        marks["requests came before their partitions"] += faults.late_partitions_ns is not None
        for clock in faults.clocks:
            marks["clocks of two hosts drifted"] += clock.host_ns(end_ns) != end_ns
            leaps = [each.ahead_ns for each in clock.changes if each.at_ns < end_ns]
            marks["a clock jumped"] += max(leaps, default=0) > 0
            marks["a clock stood"] += min(leaps, default=0) < 0
        for task_manager in first.task_managers:
            if isinstance(task_manager.woken_ns, DrawnLostWakeups):
                marks["a wake-up was lost"] += task_manager.woken_ns.lost
        self._note_job(first)

    def _note_job(self, cluster: Cluster) -> None:
        marks, scenario = self._marks, cluster.job
        if any(gate.channels and gate.channels[0].is_local for gate in cluster.gates):
            marks["a channel within a TaskManager"] += 1
        if scenario.flow_control == "tcp":
            marks["flow control tcp"] += 1
        for partition in cluster.partitions:
            if 0 < partition.stored_data_bytes < partition.data_bytes:
                marks["a compressed partition was written"] += 1
        if cluster.checkpoints is not None:
            drawn = cluster.checkpoints.is_next_lost
            assert isinstance(drawn, DrawnLostTriggers)
            marks["a source heard nothing of a checkpoint"] += drawn.lost
            summary = cluster.checkpoints.coordinator.summary()
            marks["a checkpoint was completed"] += summary.completed
            marks["an unaligned checkpoint was completed"] += summary.unaligned
            marks["a checkpoint was aborted"] += summary.aborted or 0
            marks["a barrier overtook data"] += bool(summary.overtaken_bytes_max)

    def _end_of(self, error: FlinknetError | None, faults: FaultPlan) -> str:
        if error is None:
            return "a job finished"
        if isinstance(error, RunFailedError):
            return "a job was cancelled"
        if faults.crashes:
            return "a TaskManager crashed"
        if faults.half_opens:
            return (
                "a half-open connection was found by heartbeats"
                if "heartbeat" in str(error)
                else "a half-open connection was found by its end"
            )
        if faults.resets:
            return "a connection was reset"
        if faults.injections:
            return "a malformed message ended a job"
        return "a disk ended a job"
