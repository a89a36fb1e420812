"""Assembly: what a Deployment says, as objects of the network stack. Both drivers build their
TaskManagers with it.
"""

from __future__ import annotations

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from flinknet.core.producer import PipelinedResultPartition

from .deployment import Deployment
from .flow_control import exclusive_buffers_of, gate_pool_buffers


def create_partition(
    deployment: Deployment, producer: int, memory: NetworkBufferPool
) -> PipelinedResultPartition:
    """The result partition of a producer, with its pool."""
    network = deployment.scenario.network
    subpartitions = len(deployment.channels_of_producer(producer))
    pool = memory.create_buffer_pool(
        subpartitions + 1,
        subpartitions * network.exclusive_buffers + network.floating_buffers,
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

    Of the floating buffers one is required, the others are a wish, as in Flink.
    """
    network, flow_control = deployment.scenario.network, deployment.scenario.flow_control
    deployed = deployment.channels_of_consumer(consumer)
    gate = SingleInputGate()
    pool = memory.create_buffer_pool(*gate_pool_buffers(flow_control, network, len(deployed)))
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
                exclusive_buffers_of(flow_control, network),
            )
            for position, each in enumerate(deployed)
        ]
    )
    return gate


def segments_of(network: NetworkConfig) -> int:
    """Segments of one TaskManager's network memory."""
    return network.network_memory_bytes // network.segment_size_bytes
