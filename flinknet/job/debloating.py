# mypyc
"""Buffer debloating in a TaskManager: every period each gate announces a buffer size to its
producers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.core.consumer.buffer_debloater import (
    BufferDebloater,
    DebloatingConfig,
    ThroughputCalculator,
)
from flinknet.results import DebloatingSample

from .stream_task import StreamTask

SAMPLES_MAX = 4096
"""Samples kept per gate."""


def debloating_config(network: NetworkConfig) -> DebloatingConfig | None:
    """Debloating settings from the options; None if debloating is off."""
    if not network.debloating_enabled:
        return None
    return DebloatingConfig(
        target_ns=network.debloating_target_ns,
        period_ns=network.debloating_period_ns,
        samples=network.debloating_samples,
        threshold_percent=network.debloating_threshold_percent,
        smallest_buffer_bytes=network.min_segment_size_bytes,
        largest_buffer_bytes=network.segment_size_bytes,
        starting_buffer_bytes=network.starting_segment_size_bytes,
    )


class GateDebloating:
    """Buffer sizes of one gate (Flink: SingleInputGate.triggerDebloating).

    Differs from Flink in that throughput counts data without events, and in that its clock stops
    while the task is idle. Flink's stops as soon as the gate is empty, even if the task then waits
    for its output.

    Attributes:
        task_name: the task that reads the gate.
        samples: one per evaluation; long runs keep every second, fourth, … one.
    """

    def __init__(
        self, task: StreamTask, gate: SingleInputGate, config: DebloatingConfig, *, now_ns: int
    ) -> None:
        self.task_name = task.name
        self.config = config
        self.samples: list[DebloatingSample] = []
        self._evaluations = 0
        self._sample_every = 1
        self.gate = gate
        assert task.network_input is not None
        self._read_bytes = task.network_input.checkpoints.read_bytes
        self._idle = task.times.idle
        self._throughput = ThroughputCalculator(now_ns=now_ns)
        self._debloater = BufferDebloater(config)

    @property
    def name(self) -> str:
        """Name of the gate: its task, and its number unless it is the first."""
        return self.task_name + (f" gate {self.gate.index}" if self.gate.index else "")

    @property
    def announced_bytes(self) -> int:
        """The size announced to the producers last (Flink: debloatedBufferSize)."""
        return self._debloater.announced_bytes

    @property
    def consume_ns(self) -> int:
        """Time to consume the data in flight (Flink: estimatedTimeToConsumeBuffersMs)."""
        return self._debloater.consume_ns

    def evaluate(self, *, now_ns: int) -> None:
        """Take a sample, and announce the size if it changed enough. Does nothing once the gate has
        ended.
        """
        gate, debloater = self.gate, self._debloater
        if gate.is_finished or gate.is_closed:
            return
        throughput = self._throughput.evaluate(
            sum(self._read_bytes[each.index_in_input] for each in gate.channels),
            self._idle.accumulated_until(now_ns),
            now_ns=now_ns,
        )
        in_use = sum(channel.buffers_in_use for channel in gate.channels)
        in_flight_bytes = self._in_flight_bytes()
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

    def _in_flight_bytes(self) -> int:
        """Data queued in the gate or in local subpartitions, plus the remote producers' announced
        backlog in buffers of the announced size.
        """
        size, found = self._debloater.announced_bytes, 0
        for channel in self.gate.channels:
            found += channel.queued_bytes
            if not channel.is_local:
                found += (channel.buffers_in_use - channel.queued_elements) * size
        return found


def debloated_gates(
    tasks: Iterable[StreamTask], network: NetworkConfig, *, now_ns: int
) -> list[GateDebloating]:
    """All gates of these tasks; none if debloating is off."""
    config = debloating_config(network)
    if config is None:
        return []
    return [
        GateDebloating(task, gate, config, now_ns=now_ns) for task in tasks for gate in task.gates
    ]


class BufferDebloating:
    """Evaluates the gates of a TaskManager every period (Flink: StreamTask.debloat).

    The next period begins after the evaluation, so delays add up, as in Flink.
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
