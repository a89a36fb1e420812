"""Assembly: what a Deployment says, as objects of the network stack. Both drivers build their
TaskManagers with it.
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
    SpillStore,
    UnionInputGate,
)
from flinknet.core.consumer.decompression import DecompressingInputGate
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    BROADCAST,
    BoundedData,
    BroadcastSelector,
    BufferWritingResultPartition,
    OutputFlusher,
    RecordWriter,
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
from flinknet.workload.forward import RecordForwarder
from flinknet.workload.sink import LatencySink

from .checkpoints import CheckpointResponder, ForwardingCheckpoints, ignore, reader_and_writer
from .deployment import DeployedChannel, Deployment
from .memory import buffers_of_gate, segments_of
from .partitioners import create_selector
from .relay import RelayTask

__all__ = ["create_gate", "create_partition", "create_relay", "input_of", "segments_of"]

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


def create_relay(
    deployment: Deployment,
    vertex: int,
    subtask: int,
    gate: SingleInputGate | UnionInputGate,
    partition: BufferWritingResultPartition,
    sinks: tuple[LatencySink, ...],
    flusher: OutputFlusher,
    probe: Probe,
    respond: CheckpointResponder = ignore,
    *,
    epoch_ns: int,
    spills: SpillStore | None = None,
    timestamp_epoch_ns: int = 0,
) -> RelayTask:
    """The task of a vertex between the first and the last, without anything that makes records.

    Args:
        epoch_ns: the instant that stamps of records count from.
        timestamp_epoch_ns: the instant that timestamps of barriers count from.
    """
    scenario = deployment.scenario
    (input_edge,), (output_edge,) = deployment.inputs_of(vertex), deployment.outputs_of(vertex)
    channels = deployment.channels_of_producer(subtask, output_edge.index)
    selector = create_selector(output_edge.partitioner, len(channels), scenario.seed + subtask)
    is_broadcast = isinstance(selector, BroadcastSelector)
    indices = tuple(each.index for each in channels)
    name = deployment.task_name(vertex, subtask)
    writer = RecordWriter(partition, selector, buffer_timeout_ns=scenario.network.buffer_timeout_ns)
    return RelayTask(
        subtask,
        (input_edge.index, output_edge.index),
        gate,
        sinks,
        writer,
        RecordForwarder((BROADCAST,) if is_broadcast else range(len(channels)), epoch_ns=epoch_ns),
        flusher,
        probe,
        indices,
        ForwardingCheckpoints(
            reader_and_writer(name),
            gate,
            writer,
            indices,
            output_edge.partitioner,
            scenario.network,
            respond,
            epoch_ns=timestamp_epoch_ns,
        ),
        delay_ns_per_record=scenario.workload.relay_delay_ns_per_record,
        spills=spills,
        start_ns=epoch_ns,
        name=name,
    )
