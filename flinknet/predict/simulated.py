"""What a simulation of a recorded exchange answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.histogram import LogLinearHistogram
from flinknet.results import BacklogSummary, CheckpointSummary


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointTimes:
    """What became of checkpoints none of which was aborted; adds up.

    Attributes:
        processed_bytes: data that consumers read between the first and the last barrier.
        overtaken_bytes: data that barriers overtook, of all together, and most of one.
        times: of checkpoints, start delays, alignments and travel of barriers, in this order.
    """

    triggered: int
    completed: int
    unaligned: int
    processed_bytes: int
    overtaken_bytes: int
    overtaken_bytes_max: int
    times: tuple[LogLinearHistogram, ...]

    def summary(self) -> CheckpointSummary:
        """As the coordinator's."""
        duration, start_delay, alignment, travel = (each.summary() for each in self.times)
        completed = self.completed
        return CheckpointSummary(
            triggered=self.triggered,
            completed=completed,
            aborted=0,
            unaligned=self.unaligned,
            duration_ns=duration,
            start_delay_ns=start_delay,
            alignment_ns=alignment,
            travel_ns=travel,
            overtaken_bytes_mean=self.overtaken_bytes / completed if completed else None,
            overtaken_bytes_max=self.overtaken_bytes_max if completed else None,
            processed_bytes_mean=self.processed_bytes / completed if completed else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedOutcome:
    """What a simulation of a RecordedExchange under some NetworkConfig came to.

    Attributes:
        latency: consume instant minus intended instant (at maximum rate: emit instant), of every
            record.
        records: records that reached their consumer.
        messages: data buffers sent.
        duration_ns: virtual time from the start of the window until the last record was consumed,
            less one buffer timeout, or the length of the window if that is longer. At maximum rate
            until the last record was consumed: when records came is then not given.
        backlog_buffers: backlog that the data messages carried.
        memory_bytes: most that the buffers of all partitions and gates can take.
        credits: announced by the consumers.
        credit_messages: that announced them.
        method: what computed it.
        latency_bounds: where the arrivals were assumed, the latency if every record had come as
            late as it can have, and as early.
        checkpoints: what became of them; None without any, and where it is not simulated.
    """

    latency: LogLinearHistogram
    records: int
    messages: int
    duration_ns: int
    backlog_buffers: BacklogSummary
    memory_bytes: int = 0
    credits: int = 0
    credit_messages: int = 0
    method: str = "simulator"
    latency_bounds: tuple[LogLinearHistogram, LogLinearHistogram] | None = None
    checkpoints: CheckpointSummary | None = None

    @property
    def throughput_records_per_s(self) -> float | None:
        """Records consumed per second of virtual time."""
        return self.records * 1e9 / self.duration_ns if self.duration_ns > 0 else None

    @property
    def buffers_per_s(self) -> float | None:
        """Data buffers sent per second of virtual time."""
        return self.messages * 1e9 / self.duration_ns if self.duration_ns > 0 else None


def added_checkpoints(parts: Sequence[CheckpointTimes]) -> CheckpointTimes:
    """Those of all parts of an exchange."""
    return CheckpointTimes(
        triggered=sum(each.triggered for each in parts),
        completed=sum(each.completed for each in parts),
        unaligned=sum(each.unaligned for each in parts),
        processed_bytes=sum(each.processed_bytes for each in parts),
        overtaken_bytes=sum(each.overtaken_bytes for each in parts),
        overtaken_bytes_max=max(each.overtaken_bytes_max for each in parts),
        times=tuple(merged(own) for own in zip(*(each.times for each in parts), strict=True)),
    )


def joined_outcomes(parts: Sequence[SimulatedOutcome]) -> SimulatedOutcome:
    """What the windows of an exchange came to together."""
    if len(parts) == 1:
        return parts[0]
    messages = sum(each.messages for each in parts)
    backlog = sum((each.backlog_buffers.mean or 0.0) * each.messages for each in parts)
    most = [each.backlog_buffers.max for each in parts if each.backlog_buffers.max is not None]
    bounds = [each.latency_bounds for each in parts if each.latency_bounds is not None]
    return SimulatedOutcome(
        latency=merged([each.latency for each in parts]),
        records=sum(each.records for each in parts),
        messages=messages,
        duration_ns=sum(each.duration_ns for each in parts),
        backlog_buffers=BacklogSummary(
            backlog / messages if messages else None, max(most, default=None)
        ),
        memory_bytes=max(each.memory_bytes for each in parts),
        credits=sum(each.credits for each in parts),
        credit_messages=sum(each.credit_messages for each in parts),
        method=next((each.method for each in parts if each.records), parts[0].method),
        latency_bounds=(merged([low for low, _ in bounds]), merged([high for _, high in bounds]))
        if bounds
        else None,
        checkpoints=parts[0].checkpoints,
    )


def merged(latencies: Sequence[LogLinearHistogram]) -> LogLinearHistogram:
    """All of them in one."""
    latency = LogLinearHistogram()
    for each in latencies:
        latency.merge(each)
    return latency
