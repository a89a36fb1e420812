"""Gauges under Flink's names and formulas: pool usages and queue lengths.

They read the objects of the network stack on demand, so the hot path pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flinknet.core.buffers import UNLIMITED_BUFFERS, NetworkBufferPool
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from flinknet.core.producer import ResultPartition


def memory_metrics(memory: NetworkBufferPool) -> dict[str, float]:
    """Metrics of a TaskManager's network memory (Flink: Status.Shuffle.Netty)."""
    total, free = memory.total_buffers, memory.available_buffers
    segment_bytes = memory.segment_size_bytes
    return {
        "TotalMemorySegments": total,
        "AvailableMemorySegments": free,
        "UsedMemorySegments": total - free,
        "TotalMemory": total * segment_bytes,
        "AvailableMemory": free * segment_bytes,
        "UsedMemory": (total - free) * segment_bytes,
        "RequestedMemoryUsage": requested_memory_percent(memory),
    }


def requested_memory_percent(memory: NetworkBufferPool) -> int:
    """Buffers wanted by all pools, in percent of the memory. Above 100 not all can reach their
    maximum.

    Mirrors NetworkBufferPool: exclusive buffers belong to no pool and are not counted.
    """
    wanted = sum(
        2 * pool.required_buffers if pool.max_buffers >= UNLIMITED_BUFFERS else pool.max_buffers
        for pool in memory.pools
    )
    return 100 * wanted // memory.total_buffers if memory.total_buffers else 0


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


def queue_metrics(lengths: Iterable[int]) -> dict[str, float]:
    """Metrics of one gate or partition, from queue lengths (Flink: detailed metrics)."""
    found = list(lengths)
    return {
        "totalQueueLen": sum(found),
        "minQueueLen": min(found, default=0),
        "maxQueueLen": max(found, default=0),
        "avgQueueLen": sum(found) / len(found) if found else 0.0,
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
