# mypyc
"""Buffer debloating: every period each gate of a TaskManager announces a size to its producers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.results import DebloatingSample
from flinknet.units import NS_PER_MS

from .stream_task import StreamTask


class ThroughputCalculator:
    """Bytes per second that a gate delivers while it has data (Flink: ThroughputCalculator). It
    takes totals rather than every buffer, so the hot path pays nothing.
    """

    def __init__(self, *, now_ns: int) -> None:
        self.bytes_per_s = 0
        self._at_ns = now_ns
        self._bytes = 0
        self._idle_ns = 0

    def evaluate(self, total_bytes: int, total_idle_ns: int, *, now_ns: int) -> int:
        """Throughput since the last evaluation, in bytes per second; the previous value if less
        than a millisecond counts. The totals are those of buffers and events, and of time without
        data.
        """
        counted_ns = now_ns - self._at_ns - (total_idle_ns - self._idle_ns)
        counted_ms = counted_ns // NS_PER_MS
        if counted_ms > 0:
            self.bytes_per_s = (total_bytes - self._bytes) * 1000 // counted_ms
        self._at_ns, self._bytes, self._idle_ns = now_ns, total_bytes, total_idle_ns
        return self.bytes_per_s


class BufferDebloater:
    """Derives a buffer size from throughput (Flink: BufferDebloater with BufferSizeEMA).

    Invariants: min_segment_size_bytes <= buffer_size_bytes <= segment_size_bytes; the size at most
    doubles in one step.
    """

    def __init__(self, network: NetworkConfig) -> None:
        self._network = network
        self._alpha = 2 / (network.debloating_samples + 1)
        self._size_bytes = float(network.starting_segment_size_bytes)
        self.announced_bytes = network.starting_segment_size_bytes
        self.consume_ns = 0

    @property
    def buffer_size_bytes(self) -> int:
        """The smoothed size, announced or not."""
        return int(self._size_bytes + 0.5)

    def recalculate(self, throughput_bytes_per_s: int, buffers_in_use: int) -> int | None:
        """Take a sample: the throughput of the gate since the last one, and the buffers queued, and
        wanted beyond the initial credit, in all its channels.

        Sets `consume_ns`, the time to consume all buffers at the new size (Flink:
        estimatedTimeToConsumeBuffersMs).

        Returns: the size in bytes to announce to every producer; None if the change is too small.
        """
        network = self._network
        buffers = max(1, buffers_in_use)
        desired_total = throughput_bytes_per_s * (network.debloating_target_ns // NS_PER_MS) // 1000
        desired = min(desired_total / buffers, 2 * self._size_bytes)
        size = self._size_bytes + self._alpha * (desired - self._size_bytes)
        self._size_bytes = max(size, network.min_segment_size_bytes)
        self._size_bytes = min(self._size_bytes, network.segment_size_bytes)
        new, change = self.buffer_size_bytes, abs(self.buffer_size_bytes - self.announced_bytes)
        self.consume_ns = new * buffers * 1000 // max(1, throughput_bytes_per_s) * NS_PER_MS
        is_bound = new <= network.min_segment_size_bytes or new >= network.segment_size_bytes
        least = self.announced_bytes * network.debloating_threshold_percent // 100
        if not change or (change < least and not is_bound):
            return None
        self.announced_bytes = new
        return new


SAMPLES_MAX = 4096
"""Samples kept per gate."""


class GateDebloating:
    """Buffer sizes of one gate (Flink: SingleInputGate.triggerDebloating).

    Differs from Flink in that throughput counts data without events, and in that its clock stops
    while the task is idle. Flink's stops as soon as the gate is empty, even if the task then waits
    for its output.

    Attributes:
        samples: one per evaluation; long runs keep every second, fourth, … one.
    """

    def __init__(
        self, task: StreamTask, gate: SingleInputGate, network: NetworkConfig, *, now_ns: int
    ) -> None:
        self.task_name = task.name
        self.samples: list[DebloatingSample] = []
        self._evaluations = 0
        self._sample_every = 1
        self.gate = gate
        assert task.network_input is not None
        self._read_bytes = task.network_input.checkpoints.read_bytes
        self._idle = task.times.idle
        self._throughput = ThroughputCalculator(now_ns=now_ns)
        self.debloater = BufferDebloater(network)

    @property
    def name(self) -> str:
        return self.task_name + (f" gate {self.gate.index}" if self.gate.index else "")

    def evaluate(self, *, now_ns: int) -> None:
        """Take a sample, unless the gate has ended, and announce the size if it changed enough."""
        gate, debloater = self.gate, self.debloater
        if gate.is_finished or gate.is_closed:
            return
        throughput = self._throughput.evaluate(
            sum(self._read_bytes[each.index_in_input] for each in gate.channels),
            self._idle.accumulated_until(now_ns),
            now_ns=now_ns,
        )
        in_use = sum(channel.buffers_in_use for channel in gate.channels)
        # queued here or in local subpartitions, and the backlog announced by remote producers
        in_flight_bytes = sum(channel.queued_bytes for channel in gate.channels)
        in_flight_bytes += debloater.announced_bytes * sum(
            channel.buffers_in_use - channel.queued_elements
            for channel in gate.channels
            if not channel.is_local
        )
        size = debloater.recalculate(throughput, in_use)
        if self._evaluations % self._sample_every == 0:
            if len(self.samples) == SAMPLES_MAX:
                self.samples = self.samples[::2]
                self._sample_every *= 2
            self.samples.append(
                DebloatingSample(
                    now_ns,
                    debloater.announced_bytes,
                    throughput,
                    in_flight_bytes,
                    debloater.consume_ns,
                )
            )
        self._evaluations += 1
        if size is not None:
            for channel in gate.channels:
                if not channel.is_released:
                    channel.set_buffer_size(size, now_ns=now_ns)


def debloated_gates(
    tasks: Iterable[StreamTask], network: NetworkConfig, *, now_ns: int
) -> list[GateDebloating]:
    """All gates of these tasks; none if debloating is off."""
    if not network.debloating_enabled:
        return []
    return [
        GateDebloating(task, gate, network, now_ns=now_ns) for task in tasks for gate in task.gates
    ]


class BufferDebloating:
    """Evaluates the gates of a TaskManager every period (Flink: StreamTask.debloat). The next
    period begins after the evaluation, so delays add up, as in Flink.
    """

    def __init__(self, gates: Sequence[GateDebloating], period_ns: int, *, start_ns: int) -> None:
        self.gates = gates
        self._period_ns = period_ns
        self._due_ns = start_ns + period_ns

    def next_deadline_ns(self) -> int | None:
        """When to evaluate next; None for a TaskManager without gates."""
        return self._due_ns if self.gates else None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Evaluate all gates if a period has passed."""
        if self.gates and now_ns >= self._due_ns:
            for gate in self.gates:
                gate.evaluate(now_ns=now_ns)
            self._due_ns = now_ns + self._period_ns
