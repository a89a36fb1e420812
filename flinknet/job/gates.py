"""Gates and partitions with their pools, built from descriptors; shared by both drivers. The tasks
between them come from `program_tasks` and `load.load_tasks`. Connections have flow control by
credit, or that of Flink before 1.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from flinknet.config import TCP, NetworkConfig
from flinknet.core.buffers import ExclusiveReservation, LocalBufferPool, NetworkBufferPool
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.core.connection import WriteWaterMarks
from flinknet.core.consumer import (
    ConsumerConnection,
    InputChannel,
    LocalInputChannel,
    RemoteInputChannel,
    SingleInputGate,
    UnionInputGate,
)
from flinknet.core.consumer.input_gate import DecompressingInputGate
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    BlockingStorage,
    BoundedData,
    ProducerConnection,
    ResultPartition,
    ResultPartitionFactory,
    ResultPartitionManager,
)
from flinknet.core.producer.result_partition_factory import in_memory
from flinknet.core.producer.subpartition import UNLIMITED_BYTES
from flinknet.core.wire.compression import CompressionCodec, check_codec
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ExclusiveBuffersTimeoutError, InsufficientBuffersError
from flinknet.units import NS_PER_MS

from .descriptor import (
    InputChannelDescriptor,
    InputGateDeploymentDescriptor,
    TaskDeploymentDescriptor,
)


def create_producer_connection(
    network: NetworkConfig,
    flow_control: str,
    partitions: ResultPartitionManager,
    probe: Probe,
    channel_of: Mapping[bytes, int],
) -> ProducerConnection:
    """The producer's end of a connection; `tcp` has the water marks of Flink before 1.5."""
    classic = WriteWaterMarks.classic(network.segment_size_bytes)
    return ProducerConnection(
        partitions,
        probe,
        channel_of,
        partition_request_timeout_ns=network.partition_request_timeout_ns,
        is_credit_based=flow_control != TCP,
        water_marks=classic if flow_control == TCP else None,
    )


def create_consumer_connection(
    network: NetworkConfig, flow_control: str, peer: str, probe: Probe
) -> ConsumerConnection:
    connection = ConsumerConnection(peer, probe, is_credit_based=flow_control != TCP)
    connection.backoff_policy = request_backoff_of(network)
    return connection


Connect = Callable[[InputChannelDescriptor], ConsumerConnection]
"""Returns a channel's connection, opened when it is first requested."""


def create_partitions(
    descriptor: TaskDeploymentDescriptor,
    network: NetworkConfig,
    memory: NetworkBufferPool,
    manager: ResultPartitionManager,
    *,
    storage: BlockingStorage | None = None,
) -> tuple[ResultPartition, ...]:
    """The result partitions of a task, in the order of its outputs, registered and with their
    pools. Without a storage each blocking partition keeps its data in memory. Raises:
    InsufficientBuffersError; the partitions created so far are released.
    """
    factory = ResultPartitionFactory(
        memory,
        manager,
        network.exclusive_buffers,
        network.floating_buffers,
        network.max_buffers_per_channel,
        network.max_overdraft_buffers,
        storage or blocking_storage(network),
        CompressionCodec(network.compression_codec),
        network.sort_shuffle_min_buffers,
        network.starting_segment_size_bytes if network.debloating_enabled else UNLIMITED_BYTES,
    )
    made: list[ResultPartition] = []
    try:
        for output in descriptor.outputs:
            partition = factory.create(
                output.partition_id,
                output.partition_type,
                output.subpartitions,
                target_key_groups=output.target_key_groups,
            )
            partition.setup()
            made.append(partition)
    except Exception:
        for partition in made:
            manager.release(partition)
        raise
    return tuple(made)


def blocking_storage(
    network: NetworkConfig, create_data: Callable[[ResultPartitionID, str], BoundedData] = in_memory
) -> BlockingStorage:
    """Storage shared by the blocking partitions of a TaskManager, with a data store for each."""
    return BlockingStorage(
        BatchShuffleReadBufferPool(network.batch_shuffle_read_bytes, network.segment_size_bytes),
        create_data,
    )


class GateSetup:
    """Memory of a task's gates: their pools, and the exclusive segments of their channels. Segments
    are waited for up to taskmanager.network.memory.buffers-request-timeout (Flink:
    SingleInputGate.setup).

    Differs from Flink in that nothing sleeps: the driver polls `is_complete` and runs other tasks
    in between.

    Raises: InsufficientBuffersError, at once, if the memory is reserved by others.
    """

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        network: NetworkConfig,
        memory: NetworkBufferPool,
        *,
        now_ns: int,
    ) -> None:
        self._described = descriptor.inputs
        self._network = network
        self._memory = memory
        self._until_ns = now_ns + network.buffers_request_timeout_ns
        self._pools: list[LocalBufferPool] = []
        self._promised: dict[int, ExclusiveReservation] = {}
        try:
            for gate in descriptor.inputs:
                size = gate.buffers.pool
                pool = memory.create_buffer_pool(size.required_buffers, size.max_buffers)
                self._pools.append(pool)
                for channel in gate.channels:
                    if not channel.is_local:
                        self._promised[channel.index] = memory.reserve_exclusive_segments(
                            gate.buffers.exclusive_per_channel
                        )
        except InsufficientBuffersError:
            self.cancel()
            raise

    def is_complete(self, *, now_ns: int) -> bool:
        """Whether all segments are there. Raises: ExclusiveBuffersTimeoutError if not in time."""
        for each in self._promised.values():
            if not each.collect():
                if now_ns >= self._until_ns:
                    self.cancel()
                    memory = self._memory
                    raise ExclusiveBuffersTimeoutError(
                        memory.total_buffers,
                        memory.segment_size_bytes,
                        self._network.buffers_request_timeout_ns // NS_PER_MS,
                    )
                return False
        return True

    def cancel(self) -> None:
        """Return all segments and pools."""
        for each in self._promised.values():
            each.cancel()
        for pool in self._pools:
            pool.destroy()

    def gates(
        self, *, partitions: ResultPartitionManager, connect: Connect, probe: Probe | None = None
    ) -> tuple[SingleInputGate, ...]:
        """The input gates of the task with their channels, in the order of its inputs. No channel
        has requested its partition yet; a remote one connects when it does. Call once, after
        `is_complete`.
        """
        return tuple(
            self._gate(index, described, partitions, connect, probe or NullProbe())
            for index, described in enumerate(self._described)
        )

    def _gate(
        self,
        index: int,
        described: InputGateDeploymentDescriptor,
        partitions: ResultPartitionManager,
        connect: Connect,
        probe: Probe,
    ) -> SingleInputGate:
        network, pool = self._network, self._pools[index]
        backoff = request_backoff_of(network)
        codec = CompressionCodec(network.compression_codec)
        count = len(described.channels)
        gate = SingleInputGate(index, channels=count, pool=pool)
        # only complete partitions may be compressed
        is_blocking = described.partition_type.is_blocking_or_blocking_persistent
        if is_blocking and codec is not CompressionCodec.NONE:
            check_codec(codec)
            gate = reading = DecompressingInputGate(
                index, channels=len(described.channels), pool=pool
            )
            reading.codec, reading.segment_size_bytes = codec, network.segment_size_bytes

        def create(position: int, each: InputChannelDescriptor) -> InputChannel:
            known = each.index, each.receiver_id, each.partition_id, each.subpartition
            if each.is_local:
                return LocalInputChannel(
                    *(*known, gate.queue_channel, position),
                    partitions.create_subpartition_view,
                    probe,
                    backoff=backoff,
                )
            return RemoteInputChannel(
                *(*known, gate.queue_channel, position),
                self._memory,
                pool,
                described.buffers.exclusive_per_channel,
                exclusive_segments=self._promised[each.index].segments,
                connect=partial(connect, each),
            )

        gate.set_channels([create(*each) for each in enumerate(described.channels)])
        return gate


def create_gates(
    descriptor: TaskDeploymentDescriptor,
    network: NetworkConfig,
    memory: NetworkBufferPool,
    *,
    partitions: ResultPartitionManager,
    connect: Connect,
    probe: Probe | None = None,
) -> tuple[SingleInputGate, ...]:
    """The input gates of a task where no other task holds buffers; see GateSetup. Raises:
    InsufficientBuffersError; ExclusiveBuffersTimeoutError if another task does hold some.
    """
    at_once = replace(network, buffers_request_timeout_ns=0)
    setup = GateSetup(descriptor, at_once, memory, now_ns=0)
    setup.is_complete(now_ns=0)
    return setup.gates(partitions=partitions, connect=connect, probe=probe)


def request_backoff_of(network: NetworkConfig) -> RequestBackoffPolicy:
    """How often and how long to request a partition that does not exist yet."""
    return RequestBackoffPolicy(
        network.request_backoff_initial_ms * NS_PER_MS,
        network.request_backoff_max_ms * NS_PER_MS,
        network.partition_request_timeout_ns,
    )


def input_of(gates: Sequence[SingleInputGate]) -> SingleInputGate | UnionInputGate:
    """The input of a task: its only gate, or the union of its gates."""
    return gates[0] if len(gates) == 1 else UnionInputGate(gates)
