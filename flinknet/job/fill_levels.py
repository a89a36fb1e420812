"""Fill levels of the stack's own queues between two operators: their bytes, and the most they can
hold.

The kernel's two queues and bytes not yet taken by the socket are known only to drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flinknet.core.buffers import LocalBufferPool
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.producer import ResultPartition


def subpartition_bytes(partitions: Iterable[ResultPartition]) -> int:
    """Bytes written and not yet passed to a connection. A buffer shared by several subpartitions
    counts in each.
    """
    return sum(each.queued_bytes for partition in partitions for each in partition.subpartitions)


def subpartition_bytes_by_channel(
    partitions: Iterable[ResultPartition], channels: Iterable[Sequence[int]]
) -> dict[int, int]:
    """The same for each channel, as its index in the job.

    Args:
        channels: of each partition those of its subpartitions.
    """
    return {
        channel: subpartition.queued_bytes
        for partition, own in zip(partitions, channels, strict=True)
        for subpartition, channel in zip(partition.subpartitions, own, strict=True)
    }


def subpartition_bytes_max(
    partitions: Iterable[ResultPartition], total_buffers: int, *, is_shared: bool
) -> int:
    """Capacity of these partitions' pools, overdraft included.

    Args:
        total_buffers: of the TaskManager; the limit of an unlimited pool.
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
    """Bytes that have arrived over connections and that no task has taken."""
    return sum(map(_received_bytes, _remote_channels(gates)))


def input_channel_bytes_by_channel(gates: Iterable[SingleInputGate]) -> dict[int, int]:
    """The same for each channel, as its index in the job."""
    return {channel.index: _received_bytes(channel) for channel in _remote_channels(gates)}


def input_channel_bytes_max(gates: Iterable[SingleInputGate]) -> int:
    """Capacity of the exclusive buffers and pools of these gates."""
    pools: dict[int, LocalBufferPool] = {}
    most = 0
    for channel in _remote_channels(gates):
        pool = channel.buffers.pool
        pools[id(pool)] = pool
        most += channel.initial_credit * pool.segment_size_bytes
    return most + sum(each.max_buffers * each.segment_size_bytes for each in pools.values())


def netty_inbound_bytes(connections: Iterable[ConsumerConnection]) -> int:
    """Bytes read and staged for lack of a buffer; always 0 with credit."""
    return sum(each.snapshot(now_ns=0).staged_bytes for each in connections)


def netty_inbound_bytes_max(
    connections: Iterable[ConsumerConnection], *, receive_bytes: int, segment_size_bytes: int
) -> int:
    """The most that one read and one partly received message leave staged.

    Args:
        receive_bytes: the most the driver passes on at once.
    """
    without_credit = sum(not each.is_credit_based for each in connections)
    return without_credit * (receive_bytes + segment_size_bytes)


def is_reading(connections: Iterable[ConsumerConnection]) -> bool:
    """Whether all of these connections want to be read."""
    return all(each.wants_data for each in connections)


def _received_bytes(channel: RemoteInputChannel) -> int:
    return sum(buffer.size_bytes for buffer, _ in channel.received if buffer.data_type in IS_BUFFER)


def _remote_channels(gates: Iterable[SingleInputGate]) -> Iterator[RemoteInputChannel]:
    for gate in gates:
        for channel in gate.channels:
            if isinstance(channel, RemoteInputChannel):
                yield channel
