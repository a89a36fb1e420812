"""Metrics of a task and of the network memory, under Flink's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flinknet.core.buffers import UNLIMITED_BUFFERS, NetworkBufferPool
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.graph.watermarks import MIN_WATERMARK_MS
from flinknet.units import NS_PER_MS

from .debloating import GateDebloating
from .stream_task import StreamTask, TaskState
from .times import Meter


def memory_metrics(memory: NetworkBufferPool) -> dict[str, float]:
    """Metrics of a TaskManager's network memory (Flink: Status.Shuffle.Netty).

    The requested memory is the buffers wanted by all pools, in percent: above 100 not all can reach
    their maximum. Exclusive buffers belong to no pool and are not counted.
    """
    wanted = sum(
        2 * pool.required_buffers if pool.max_buffers >= UNLIMITED_BUFFERS else pool.max_buffers
        for pool in memory.pools
    )
    total, free = memory.total_buffers, memory.available_buffers
    segment_bytes = memory.segment_size_bytes
    return {
        "TotalMemorySegments": total,
        "AvailableMemorySegments": free,
        "UsedMemorySegments": total - free,
        "TotalMemory": total * segment_bytes,
        "AvailableMemory": free * segment_bytes,
        "UsedMemory": (total - free) * segment_bytes,
        "RequestedMemoryUsage": 100 * wanted // total if total else 0,
    }


def output_metrics(partitions: Sequence[ResultPartition]) -> dict[str, float]:
    """Metrics of all outputs of a task (Flink: Shuffle.Netty.Output.Buffers)."""
    subpartitions = [each for partition in partitions for each in partition.subpartitions]
    return {
        "outputQueueLength": sum(each.queued_elements for each in subpartitions),
        "outputQueueSize": sum(each.queued_bytes for each in subpartitions),
        "outPoolUsage": _share(
            sum(each.pool.used_buffers for each in partitions),
            sum(each.pool.size_buffers for each in partitions),
        ),
    }


def input_metrics(gates: Sequence[SingleInputGate]) -> dict[str, float]:
    """Metrics of all inputs of a task (Flink: Shuffle.Netty.Input.Buffers). Usages cover remote
    channels only.
    """
    remote = [
        channel
        for gate in gates
        for channel in gate.channels
        if isinstance(channel, RemoteInputChannel)
    ]
    pools = list({id(each.buffers.pool): each.buffers.pool for each in remote}.values())
    size = sum(pool.size_buffers for pool in pools)
    used = sum(pool.used_buffers for pool in pools)
    lying_free = sum(each.buffers.floating_buffers for each in remote)
    floating = max(0, used - lying_free)
    total_exclusive = sum(each.initial_credit for each in remote)
    exclusive = total_exclusive - sum(
        each.buffers.available_buffers - each.buffers.floating_buffers for each in remote
    )
    return {
        "inputQueueLength": sum(each.queued_elements for gate in gates for each in gate.channels),
        "inputQueueSize": sum(each.queued_bytes for each in remote),
        "inputExclusiveBuffersUsage": _share(exclusive, total_exclusive),
        "inputFloatingBuffersUsage": _share(floating, size),
        "inPoolUsage": _share(floating + exclusive, size + total_exclusive),
    }


def queue_metrics(prefix: str, lengths: Iterable[int]) -> dict[str, float]:
    """Metrics of one gate or partition, from queue lengths (Flink: detailed metrics)."""
    found = list(lengths)
    return {
        f"{prefix}totalQueueLen": sum(found),
        f"{prefix}minQueueLen": min(found, default=0),
        f"{prefix}maxQueueLen": max(found, default=0),
        f"{prefix}avgQueueLen": sum(found) / len(found) if found else 0.0,
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


Metrics = dict[str, float]

HIGHEST_OK_MS, HIGHEST_LOW_MS = 100, 500
"""Back-pressured ms per second up to which Flink's web interface shows OK and LOW."""


def back_pressure_level(metrics: Mapping[str, float]) -> str:
    """OK, LOW or HIGH, as Flink's web interface shows it (JobVertexBackPressureHandler)."""
    waiting_ms = metrics["backPressuredTimeMsPerSecond"]
    if waiting_ms <= HIGHEST_OK_MS:
        return "OK"
    return "LOW" if waiting_ms <= HIGHEST_LOW_MS else "HIGH"


_LEVELS = ("QueueLength", "QueueSize", "PoolUsage", "BuffersUsage", "QueueLen", "isBackPressured")


class TaskMetrics:
    """The metrics of one task.

    Counters are totals since the task started. Rates and times cover the measured part until it is
    a minute long (see `times`). Differs from Flink, so that the hot path pays nothing:
    - bytes count when they are written and read, not by whole buffers, and without events; records
    when they are passed to the writer;
    - buffers count when they leave a subpartition, with events, and once per part if a flush split
    them; buffers of remote inputs include events, too.

    Args:
        is_detailed: include queue lengths of each gate and partition
            (taskmanager.network.detailed-metrics).
        debloating: of the task's gates.
    """

    def __init__(
        self,
        task: StreamTask,
        *,
        now_ns: int,
        is_detailed: bool = False,
        debloating: Sequence[GateDebloating] = (),
    ) -> None:
        self.name = task.name
        self._task = task
        self._is_detailed = is_detailed
        self._debloating = debloating
        self._meters: dict[str, Meter] = {}
        self._last: Metrics = {}
        self._start_meters(now_ns)

    def start_window(self, *, now_ns: int) -> None:
        """Begin the measured part."""
        self._task.times.start_window(now_ns=now_ns)
        self._start_meters(now_ns)

    def sample(self, *, now_ns: int) -> Metrics:
        """All metrics as of now."""
        task, counters = self._task, self._counters()
        task.times.update(now_ns=now_ns)
        found: Metrics = {}
        for name, count in counters.items():
            meter = self._meters[name]
            meter.update(count, now_ns=now_ns)
            found[name] = count
            found[f"{name}PerSecond"] = meter.per_second(count, now_ns=now_ns)
        if task.outputs.each:
            found |= output_metrics([output.partition for output in task.outputs.each])
            is_running = task.state is TaskState.RUNNING
            is_available = all(writer.is_available for writer in task.outputs.writers)
            found["isBackPressured"] = is_running and not is_available
        if task.network_input is not None:
            found |= input_metrics(task.gates)
            alignment = task.network_input.checkpoints.last_alignment
            if alignment is not None:
                found["checkpointAlignmentTime"] = alignment.duration_ns
                found["checkpointStartDelayNanos"] = alignment.start_delay_ns
            watermark_ms = task.chain.current_watermark_ms
            if watermark_ms != MIN_WATERMARK_MS:  # Flink shows -9223372036854775808
                found["currentInputWatermark"] = watermark_ms
        if self._debloating:  # of several gates, the one that takes longest to consume
            gates = [each.debloater for each in self._debloating]
            slowest = max(gates, key=lambda each: each.consume_ns)
            found["debloatedBufferSize"] = slowest.announced_bytes
            found["estimatedTimeToConsumeBuffersMs"] = slowest.consume_ns // NS_PER_MS
        if self._is_detailed:
            for gate in task.gates:
                lengths = (channel.queued_elements for channel in gate.remote_channels)
                found |= queue_metrics(f"Input.{gate.index}.", lengths)
            for number, output in enumerate(task.outputs.each):
                lengths = (each.queued_elements for each in output.partition.subpartitions)
                found |= queue_metrics(f"Output.{number}.", lengths)
        self._last = found | task.times.metrics(now_ns=now_ns)
        return self._last

    def sample_end(self, *, now_ns: int, is_drained: bool) -> Metrics:
        """All metrics at the end of the measured part.

        Args:
            is_drained: no data is left, so levels of pools and queues are taken from the previous
                sample, when records still flowed.
        """
        before, found = self._last, self.sample(now_ns=now_ns)
        if is_drained:
            found |= {each: value for each, value in before.items() if each.endswith(_LEVELS)}
        return found

    def _start_meters(self, now_ns: int) -> None:
        counters = self._counters()
        self._meters = {name: Meter(count, now_ns=now_ns) for name, count in counters.items()}

    def _counters(self) -> dict[str, int]:
        task, network_input = self._task, self._task.network_input
        for receiver in task.receivers:
            receiver.settle()
        records_in = sum(receiver.records for receiver in task.receivers)
        found = {
            "numRecordsIn": max(records_in, task.processed_records),  # those of sources, too
            "numRecordsOut": task.emitted_records,
        }
        if network_input is not None:
            read_bytes = network_input.checkpoints.read_bytes
            sizes, buffers = {True: 0, False: 0}, {True: 0, False: 0}
            for channel in network_input.gate.channels:
                sizes[channel.is_local] += read_bytes[channel.index_in_input]
                buffers[channel.is_local] += channel.buffers_handed_out
            found |= {
                "numBytesIn": sum(read_bytes),
                "numBytesInLocal": sizes[True],
                "numBytesInRemote": sizes[False],
                "numBuffersInLocal": buffers[True],
                "numBuffersInRemote": buffers[False],
            }
        if task.outputs.each:
            found["numBytesOut"] = sum(writer.written_bytes for writer in task.outputs.writers)
            found["numBuffersOut"] = sum(
                each.buffers_out
                for output in task.outputs.each
                for each in output.partition.subpartitions
            )
        return found
