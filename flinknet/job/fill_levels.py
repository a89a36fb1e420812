"""Fill levels: how many bytes lie in the places between two operators that are the stack's own, and
how many there can be.

The kernel's two places and what the socket has not taken are known to drivers only.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinknet.core.buffers import LocalBufferPool
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.connection import ConsumerSnapshot
from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.producer import BufferWritingResultPartition


def subpartition_bytes(partitions: Iterable[BufferWritingResultPartition]) -> int:
    """What was written and not handed to a connection. A buffer that several subpartitions share
    counts in each.
    """
    return sum(each.queued_bytes for partition in partitions for each in partition.subpartitions)


def subpartition_bytes_max(
    partitions: Iterable[BufferWritingResultPartition], total_buffers: int, *, is_shared: bool
) -> int:
    """What the pools of these partitions hold at most, overdraft and all.

    Args:
        total_buffers: of the TaskManager; a pool without a limit ends there.
        is_shared: whether all subpartitions of a partition share their buffers (broadcast).
    """
    most = 0
    for partition in partitions:
        copies = len(partition.subpartitions) if is_shared else 1
        pool = partition.pool
        buffers = min(pool.max_buffers + pool.max_overdraft_buffers, total_buffers)
        most += copies * buffers * pool.segment_size_bytes
    return most


def input_channel_bytes(gates: Iterable[SingleInputGate]) -> int:
    """Data that has arrived over connections and that no task has taken."""
    return sum(
        buffer.size_bytes
        for gate in gates
        for channel in gate.remote_channels
        for buffer, _ in channel.received
        if buffer.data_type in IS_BUFFER
    )


def input_channel_bytes_max(gates: Iterable[SingleInputGate]) -> int:
    """What exclusive buffers and the pools of these gates hold at most."""
    pools: dict[int, LocalBufferPool] = {}
    most = 0
    for gate in gates:
        for channel in gate.remote_channels:
            pool = channel.buffers.pool
            pools[id(pool)] = pool
            most += channel.initial_credit * pool.segment_size_bytes
    return most + sum(each.max_buffers * each.segment_size_bytes for each in pools.values())


def netty_inbound_bytes(connections: Iterable[ConsumerSnapshot]) -> int:
    """What was read and is staged for want of a buffer; never any with credit."""
    return sum(each.staged_bytes or 0 for each in connections)


def netty_inbound_bytes_max(
    connections: Iterable[ConsumerSnapshot], *, receive_bytes: int, segment_size_bytes: int
) -> int:
    """What one read and one message that had come in part leave staged at most.

    Args:
        receive_bytes: that the driver hands over in one go.
    """
    staging = sum(each.staged_bytes is not None for each in connections)
    return staging * (receive_bytes + segment_size_bytes)


def is_reading(connections: Iterable[ConsumerConnection]) -> bool:
    """Whether every one of these wants to be read."""
    return all(each.wants_data for each in connections)
