"""Assembly: what a Deployment says, as partitions and gates. Both drivers build their TaskManagers
with it; the tasks between them come from `task_assembly`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import (
    ConsumerConnection,
    InputChannel,
    LocalInputChannel,
    RemoteInputChannel,
    SingleInputGate,
    UnionInputGate,
)
from flinknet.core.consumer.decompression import DecompressingInputGate
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    BoundedData,
    BufferWritingResultPartition,
    ResultPartitionFactory,
    ResultPartitionManager,
    partition_type_of,
)
from flinknet.core.producer.key_groups import default_max_parallelism
from flinknet.core.producer.result_partition_factory import in_memory
from flinknet.core.producer.subpartition import UNLIMITED_BYTES
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.units import NS_PER_MS

from .deployment import DeployedChannel, Deployment
from .memory import buffers_of_gate, segments_of

__all__ = ["create_gate", "create_partition", "input_of", "segments_of"]

Connect = Callable[[DeployedChannel], ConsumerConnection]
"""The connection that a channel comes over, opened when it is first asked for."""


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
        network.starting_segment_size_bytes if network.debloating_enabled else UNLIMITED_BYTES,
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
    deployment: Deployment,
    consumer: int,
    memory: NetworkBufferPool,
    *,
    edge: int = 0,
    index: int = 0,
    partitions: ResultPartitionManager | None = None,
    connect: Connect | None = None,
    probe: Probe | None = None,
) -> SingleInputGate:
    """The input gate of a consumer of an edge, with its pool and channels; none of them is
    requested yet.

    Differs from Flink, which waits for exclusive buffers up to
    taskmanager.network.memory.buffers-request-timeout: here all partitions and gates of a
    TaskManager are made before any task runs, and nobody could return a buffer meanwhile.

    Args:
        index: of the gate among those of its task.
        partitions: those of the consumer's TaskManager, for local channels.
        connect: gives a remote channel its connection when it is requested.
        probe: of local channels; those of connections have their own.
    """
    deployed = deployment.channels_of_consumer(consumer, edge)
    network = deployment.scenario.network
    buffers = buffers_of_gate(deployment.scenario, len(deployed))
    pool = memory.create_buffer_pool(buffers.pool.required_buffers, buffers.pool.max_buffers)
    backoff = request_backoff_of(network)
    codec = CompressionCodec(network.compression_codec)
    gate = SingleInputGate(index, channels=len(deployed), pool=pool)
    if deployment.scenario.workload.is_blocking and codec is not CompressionCodec.NONE:
        gate = DecompressingInputGate(
            index,
            codec=codec,
            segment_size_bytes=network.segment_size_bytes,
            channels=len(deployed),
            pool=pool,
        )

    def create(position: int, each: DeployedChannel) -> InputChannel:
        partition_id = deployment.partition_id(each.producer, edge)
        if deployment.is_local(each):
            assert partitions is not None
            return LocalInputChannel(
                each.index,
                each.receiver_id,
                partition_id,
                each.subpartition,
                gate,
                position,
                partitions,
                probe or NullProbe(),
                backoff=backoff,
            )
        return RemoteInputChannel(
            each.index,
            each.receiver_id,
            partition_id,
            each.subpartition,
            gate,
            position,
            memory,
            pool,
            buffers.exclusive_per_channel,
            connect=None if connect is None else partial(connect, each),
        )

    gate.set_channels([create(position, each) for position, each in enumerate(deployed)])
    return gate


def request_backoff_of(network: NetworkConfig) -> RequestBackoffPolicy:
    """How patiently partitions are asked for that are not there."""
    return RequestBackoffPolicy(
        network.request_backoff_initial_ms * NS_PER_MS,
        network.request_backoff_max_ms * NS_PER_MS,
        network.partition_request_timeout_ns,
    )


def input_of(gates: Sequence[SingleInputGate]) -> SingleInputGate | UnionInputGate:
    """What a task reads: its one gate, or the union of them."""
    return gates[0] if len(gates) == 1 else UnionInputGate(gates)
