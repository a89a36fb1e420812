"""Gates and partitions with their pools, as both drivers build their TaskManagers from them; the
tasks between them come from `assembly` and `load.assembly`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.buffers.pool_sizes import GateBuffers, SortShuffle
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
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
    BlockingStorage,
    BoundedData,
    ResultPartition,
    ResultPartitionFactory,
    ResultPartitionManager,
    partition_type_of,
)
from flinknet.core.producer.key_groups import default_max_parallelism
from flinknet.core.producer.result_partition_factory import in_memory
from flinknet.core.producer.subpartition import UNLIMITED_BYTES
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID
from flinknet.units import NS_PER_MS

from .load.deployment import DeployedChannel, Deployment
from .load.memory import buffers_of_gate, segments_of

__all__ = [
    "GateChannel",
    "blocking_storage",
    "create_gate",
    "create_partition",
    "gate_of",
    "input_of",
    "partition_factory",
    "segments_of",
]

Connect = Callable[[DeployedChannel], ConsumerConnection]
"""The connection that a channel comes over, opened when it is first asked for."""


def create_partition(
    deployment: Deployment,
    producer: int,
    memory: NetworkBufferPool,
    manager: ResultPartitionManager,
    *,
    edge: int = 0,
    storage: BlockingStorage | None = None,
) -> ResultPartition:
    """The result partition of a subtask for an edge, set up: with its pool, and registered.

    Args:
        storage: of the TaskManager; None to keep a blocking partition in memory of its own.
    """
    scenario = deployment.scenario
    consumers = deployment.vertices[deployment.edges[edge].target].parallelism
    partition = partition_factory(scenario.network, memory, manager, storage).create(
        deployment.partition_id(producer, edge),
        partition_type_of(scenario.workload.partition_type),
        len(deployment.channels_of_producer(producer, edge)),
        target_key_groups=default_max_parallelism(consumers),
    )
    partition.setup()
    return partition


def partition_factory(
    network: NetworkConfig,
    memory: NetworkBufferPool,
    manager: ResultPartitionManager,
    storage: BlockingStorage | None = None,
) -> ResultPartitionFactory:
    """What makes the partitions of a TaskManager."""
    return ResultPartitionFactory(
        memory,
        manager,
        network.exclusive_buffers,
        network.floating_buffers,
        network.max_buffers_per_channel,
        network.max_overdraft_buffers,
        storage or blocking_storage(network),
        CompressionCodec(network.compression_codec),
        SortShuffle(network.sort_shuffle_min_buffers, network.sort_shuffle_min_parallelism),
        network.starting_segment_size_bytes if network.debloating_enabled else UNLIMITED_BYTES,
    )


def blocking_storage(
    network: NetworkConfig,
    create_data: Callable[[ResultPartitionID, str], BoundedData] = in_memory,
) -> BlockingStorage:
    """What the blocking partitions of a TaskManager share.

    Args:
        create_data: where a partition keeps its bytes.
    """
    return BlockingStorage(
        BatchShuffleReadBufferPool(network.batch_shuffle_read_bytes, network.segment_size_bytes),
        create_data,
    )


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
    return gate_of(
        [
            GateChannel(
                each.index,
                each.receiver_id,
                deployment.partition_id(each.producer, edge),
                each.subpartition,
                deployment.is_local(each),
                None if connect is None else partial(connect, each),
            )
            for each in deployed
        ],
        deployment.scenario.network,
        buffers_of_gate(deployment.scenario, len(deployed)),
        memory,
        index=index,
        is_blocking=deployment.scenario.workload.is_blocking,
        partitions=partitions,
        probe=probe,
    )


@dataclass(frozen=True, slots=True)
class GateChannel:
    """A channel of a gate that is to be made.

    Attributes:
        index: in the run.
        connect: gives a remote channel its connection when it is requested.
    """

    index: int
    receiver_id: InputChannelID
    partition_id: ResultPartitionID
    subpartition: int
    is_local: bool
    connect: Callable[[], ConsumerConnection] | None


def gate_of(
    channels: Sequence[GateChannel],
    network: NetworkConfig,
    buffers: GateBuffers,
    memory: NetworkBufferPool,
    *,
    index: int,
    is_blocking: bool,
    partitions: ResultPartitionManager | None = None,
    probe: Probe | None = None,
) -> SingleInputGate:
    """A gate with its pool and channels (see `create_gate`).

    Args:
        is_blocking: the partitions it reads are complete, and may be compressed.
    """
    pool = memory.create_buffer_pool(buffers.pool.required_buffers, buffers.pool.max_buffers)
    backoff = request_backoff_of(network)
    codec = CompressionCodec(network.compression_codec)
    gate = SingleInputGate(index, channels=len(channels), pool=pool)
    if is_blocking and codec is not CompressionCodec.NONE:
        gate = DecompressingInputGate(
            index,
            codec=codec,
            segment_size_bytes=network.segment_size_bytes,
            channels=len(channels),
            pool=pool,
        )

    def create(position: int, each: GateChannel) -> InputChannel:
        if each.is_local:
            assert partitions is not None
            return LocalInputChannel(
                each.index,
                each.receiver_id,
                each.partition_id,
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
            each.partition_id,
            each.subpartition,
            gate,
            position,
            memory,
            pool,
            buffers.exclusive_per_channel,
            connect=each.connect,
        )

    gate.set_channels([create(position, each) for position, each in enumerate(channels)])
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
