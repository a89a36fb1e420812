"""Assembly: what a Deployment says, as objects of the network stack. Both drivers build their
TaskManagers with it.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from flinknet.core.producer import (
    BoundedData,
    BufferWritingResultPartition,
    ResultPartitionFactory,
    ResultPartitionManager,
    partition_type_of,
)
from flinknet.core.producer.key_groups import default_max_parallelism
from flinknet.core.producer.result_partition_factory import in_memory
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import ResultPartitionID

from .deployment import Deployment
from .memory import buffers_of_gate, segments_of

__all__ = ["create_gate", "create_partition", "segments_of"]


def create_partition(
    deployment: Deployment,
    producer: int,
    memory: NetworkBufferPool,
    manager: ResultPartitionManager,
    *,
    edge: int = 0,
    create_data: Callable[[ResultPartitionID, int], BoundedData] = in_memory,
) -> BufferWritingResultPartition:
    """The result partition of a subtask for an edge, set up: with its pool, and registered.

    Args:
        create_data: where a subpartition of a blocking partition keeps its bytes.
    """
    scenario, network = deployment.scenario, deployment.scenario.network
    factory = ResultPartitionFactory(
        memory,
        manager,
        network.exclusive_buffers,
        network.floating_buffers,
        network.max_buffers_per_channel,
        network.max_overdraft_buffers,
        CompressionCodec(network.compression_codec),
        create_data,
    )
    consumers = deployment.vertices[deployment.edges[edge].target].parallelism
    partition = factory.create(
        deployment.partition_id(producer, edge),
        partition_type_of(scenario.workload.partition_type),
        len(deployment.channels_of_producer(producer, edge)),
        target_key_groups=default_max_parallelism(consumers),
    )
    partition.setup()
    return partition


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
