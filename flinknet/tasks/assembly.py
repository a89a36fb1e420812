"""Assembly: what a Deployment says, as objects of the network stack. Both drivers build their
TaskManagers with it.
"""

from __future__ import annotations

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from flinknet.core.producer import PipelinedResultPartition

from .deployment import Deployment
from .memory import buffers_of_gate, partition_pool_size, segments_of

__all__ = ["create_gate", "create_partition", "segments_of"]


def create_partition(
    deployment: Deployment, producer: int, memory: NetworkBufferPool
) -> PipelinedResultPartition:
    """The result partition of a producer, with its pool."""
    network = deployment.scenario.network
    subpartitions = len(deployment.channels_of_producer(producer))
    size = partition_pool_size(deployment.scenario, subpartitions)
    pool = memory.create_buffer_pool(
        size.required_buffers,
        size.max_buffers,
        channels=subpartitions,
        max_buffers_per_channel=network.max_buffers_per_channel,
        max_overdraft_buffers=network.max_overdraft_buffers,
    )
    return PipelinedResultPartition(
        deployment.partition_id(producer),
        subpartitions,
        pool,
        exclusive_buffers=network.exclusive_buffers,
    )


def create_gate(
    deployment: Deployment, consumer: int, memory: NetworkBufferPool
) -> SingleInputGate:
    """The input gate of a consumer, with its pool and channels; none of them is requested yet.

    Differs from Flink, which waits for exclusive buffers up to
    taskmanager.network.memory.buffers-request-timeout: here all partitions and gates of a
    TaskManager are made before any task runs, and nobody could return a buffer meanwhile.
    """
    deployed = deployment.channels_of_consumer(consumer)
    gate = SingleInputGate()
    buffers = buffers_of_gate(deployment.scenario, len(deployed))
    pool = memory.create_buffer_pool(buffers.pool.required_buffers, buffers.pool.max_buffers)
    gate.set_channels(
        [
            RemoteInputChannel(
                each.index,
                each.receiver_id,
                deployment.partition_id(each.producer),
                each.subpartition,
                gate,
                position,
                memory,
                pool,
                buffers.exclusive_per_channel,
            )
            for position, each in enumerate(deployed)
        ]
    )
    return gate
