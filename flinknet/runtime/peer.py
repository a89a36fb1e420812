"""flinknet as one end of an exchange whose other end is a TaskManager of Flink, or anything else
that speaks its protocol.

No launcher, no control pipe, one process: the peer is not ours to lead. A JobManager would tell
both ends what to do; here the command line does, and a cancellation by it is what a cancelled task
would send.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.producer import BufferWritingResultPartition, ResultPartitionManager
from flinknet.core.producer.adopting_connection import AdoptingProducerConnection
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.layout_detection import LayoutDetectingDecoder
from flinknet.core.wire.response_decoder import ResponseSink
from flinknet.errors import FlinknetError
from flinknet.options import effective_flink_keys
from flinknet.results import PeerChannel, PeerResult
from flinknet.tasks import SinkTask, SourceTask
from flinknet.tasks.assembly import create_gate, create_partition, request_backoff_of, segments_of
from flinknet.tasks.checkpoints import barrier_of
from flinknet.tasks.debloating import BufferDebloating, debloated_gates
from flinknet.tasks.peer import PRODUCERS, PeerDeployment
from flinknet.tasks.sink import delay_of
from flinknet.tasks.task_assembly import create_sink, create_source
from flinknet.trace.manifest import ChannelInfo, ClockInfo, ProcessInfo, RunManifest
from flinknet.trace.message_counts import MessageCounts
from flinknet.trace.recorder import TraceRecorder
from flinknet.trace.writer import TraceWriter
from flinknet.units import NS_PER_MS
from flinknet.workload.counting import CountingSink, StampedSink

from .client_factory import ConnectionID, PartitionRequestClientFactory
from .clock import monotonic_ns, timestamp_epoch_ns, wall_clock_iso
from .connection_manager import DataServer
from .event_loop import EventLoop
from .host import available_cores, environment, host_id
from .protocol import DataProtocol
from .record_spill import RecordSpills
from .spill_file import create_spill_directory, create_spill_file

LOOK_EVERY_NS = 100_000_000
"""How late a limit, an interrupt or an error may be noticed."""

FAREWELL_NS = 2_000_000_000
"""How long the peer may take to close the connection after the last word."""

END_OF_PARTITION, CANCELLED, FAILED = "end of partition", "cancelled", "failed"


class PeerProtocol(DataProtocol):
    """Connections to strangers: the layout of what comes is found out, and channels are known by
    the ids that their consumers choose.
    """

    decoder: LayoutDetectingDecoder | None = None

    def __init__(
        self,
        deployment: PeerDeployment,
        partitions: ResultPartitionManager,
        recorder: TraceRecorder,
    ) -> None:
        network = deployment.scenario.network
        self._deployment = deployment
        self._partition_manager = partitions
        self._recorder = recorder
        self._timeout_ns = network.partition_request_timeout_ns
        self.channel_of: dict[bytes, int] = {}
        super().__init__(
            deployment.scenario.flow_control,
            partitions,
            recorder,
            self.channel_of,
            partition_request_timeout_ns=self._timeout_ns,
            segment_size_bytes=network.segment_size_bytes,
            request_backoff=request_backoff_of(network),
        )
        if network.is_tls:
            from .tls import create_tls

            self.tls = create_tls(network)

    def server_connection(self) -> AdoptingProducerConnection:
        """The producer's end of a connection that was accepted."""
        return AdoptingProducerConnection(
            self._partition_manager,
            self._recorder,
            self.channel_of,
            adopt=self._adopt,
            partition_request_timeout_ns=self._timeout_ns,
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
        """The consumer's end of a connection to a stranger."""
        address = peer.rpartition(" at ")[2]
        connection = ConsumerConnection(address, self._recorder, self._create_decoder)
        connection.request_backoff = request_backoff_of(self._deployment.scenario.network)
        return connection

    def _create_decoder(self, sink: ResponseSink) -> LayoutDetectingDecoder:
        self.decoder = LayoutDetectingDecoder(sink)
        return self.decoder

    def _adopt(
        self, partition_id: ResultPartitionID, subpartition: int, receiver_id: bytes
    ) -> None:
        index = self._deployment.find_channel(partition_id, subpartition)
        if index is not None:
            self.channel_of[receiver_id] = index


class _Peer:
    """What both ends have: network memory, an event loop, a trace.

    Args:
        directory: gets the trace and its manifest; None: nothing is recorded.
        interrupts: signals that have come (signals.interrupts_noted).

    Attributes:
        end: how the exchange ended.
    """

    role: str

    def __init__(
        self, deployment: PeerDeployment, directory: Path | None, interrupts: Sequence[int]
    ) -> None:
        self.end = FAILED
        self._deployment = deployment
        self._network = deployment.scenario.network
        self._directory = directory
        self._interrupts = interrupts
        self._process = ProcessInfo(self.role, f"{self.role}.fnt", os.getpid())
        writer = None
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            writer = TraceWriter(directory / self._process.file, self._process)
        self._counts = MessageCounts(
            len(deployment.channels), is_consumer=self.role == "consumer", writer=writer
        )
        self._recorder = TraceRecorder(self._counts)
        self._pool = NetworkBufferPool(segments_of(self._network), self._network.segment_size_bytes)
        self._partitions = ResultPartitionManager()
        self._protocol = PeerProtocol(deployment, self._partitions, self._recorder)
        self._loop = EventLoop(may_spin=available_cores() > 1, transport=self._network.transport)
        self._started_at = wall_clock_iso()
        self._start_ns = monotonic_ns()
        self._end_ns = self._start_ns
        self._save_manifest()

    @property
    def peer(self) -> str:
        """Where the other end is, or where it finds us."""
        raise NotImplementedError

    def result(self) -> PeerResult:
        """What passed; to be asked for after `run`, however that ended."""
        self._recorder.flush()
        decoder = self._protocol.decoder
        return PeerResult(
            role=self.role,
            peer=self.peer,
            end=self.end,
            elapsed_ns=self._end_ns - self._start_ns,
            layout=decoder.layout if decoder is not None else None,
            channels=tuple(map(self._channel_result, range(len(self._deployment.channels)))),
            trace=str(self._directory) if self._directory is not None else None,
        )

    def close(self) -> None:
        """End the trace and all that is open. Raises: TraceError if something was not recorded."""
        self._loop.close()
        self._save_manifest(is_over=True)
        self._recorder.close()

    def _channel_result(self, index: int) -> PeerChannel:
        raise NotImplementedError

    def _counted(
        self, index: int, records: int, sink: CountingSink | StampedSink | None = None
    ) -> PeerChannel:
        counts, channel = self._counts, self._deployment.channels[index]
        is_checked = isinstance(sink, StampedSink)
        backlog = int(counts.backlog_max[index])
        return PeerChannel(
            index=index,
            partition=str(self._deployment.partition_id(channel.producer)),
            subpartition=channel.subpartition,
            records=records,
            value_bytes=sink.value_bytes if sink is not None else None,
            other_elements=sink.other_elements if sink is not None else None,
            buffers=counts.buffers(index),
            buffer_bytes=int(counts.buffer_bytes[index]),
            events=counts.events(index),
            credit=int(counts.credit[index]),
            credit_messages=int(counts.credit_messages[index]),
            backlog_max=backlog if backlog >= 0 else None,
            lost=sink.disorder.lost if sink is not None and is_checked else None,
            repeated=sink.disorder.repeated if sink is not None and is_checked else None,
            reordered=sink.disorder.reordered if sink is not None and is_checked else None,
        )

    def _say_farewell(self) -> None:
        """Let what is said leave, and the peer close: who closes first while bytes are on their
        way resets the connection, and the last word is lost with it.
        """
        self._loop.tasks = ()
        until_ns = monotonic_ns() + FAREWELL_NS
        while self._loop.transports and monotonic_ns() < until_ns:
            self._loop.run_once(until_ns=min(until_ns, monotonic_ns() + LOOK_EVERY_NS))

    def _save_manifest(self, *, is_over: bool = False) -> None:
        if self._directory is None:
            return
        deployment, host = self._deployment, environment()
        receivers = {index: receiver for receiver, index in self._protocol.channel_of.items()}
        RunManifest(
            scenario=deployment.scenario.to_dict(),
            flink_keys=dict(effective_flink_keys(self._network)),
            host=host,
            versions={"flinknet": host["flinknet"], "python": host["python"]},
            seed=deployment.scenario.seed,
            clock=ClockInfo(host_id=host_id()),
            started_at=self._started_at,
            measured_from_ns=self._start_ns if is_over else None,
            measured_to_ns=self._end_ns + 1 if is_over else None,
            processes=(self._process,),
            channels=tuple(
                ChannelInfo(
                    index=channel.index,
                    receiver_id=receivers.get(channel.index, channel.receiver_id).hex(),
                    producer=channel.producer,
                    consumer=channel.consumer,
                    producer_process="producer",
                    consumer_process="consumer",
                    connection="producer->consumer",
                    subpartition=channel.subpartition,
                    partition=deployment.partition_id(channel.producer).encode().hex(),
                    is_local=False,
                )
                for channel in deployment.channels
            ),
        ).save(self._directory)


class ConsumerPeer(_Peer):
    """Reads partitions of a TaskManager to their end, or as far as the workload's `records` (of all
    channels) or `duration_ns` go; then the channels are cancelled.

    Args:
        address: host and port of its data port.
        is_stamped: the records are of flinknet's form: check that each comes once and in order.
    """

    role = "consumer"

    def __init__(
        self,
        deployment: PeerDeployment,
        address: tuple[str, int],
        *,
        is_stamped: bool,
        directory: Path | None,
        interrupts: Sequence[int],
    ) -> None:
        super().__init__(deployment, directory, interrupts)
        self._address = address
        self._clients = PartitionRequestClientFactory(
            self._network, self._loop, self._protocol, monotonic_ns
        )
        self._spills = RecordSpills()
        sink = StampedSink if is_stamped else CountingSink
        self._sinks = tuple(sink() for _ in deployment.channels)

    @property
    def peer(self) -> str:
        """Where the producer is."""
        return f"{self._address[0]}:{self._address[1]}"

    def run(self) -> None:
        """Read until the end.

        Raises: the error of a channel: PartitionNotFoundError after Flink's repetitions,
            ProducerFailedError with the producer's reason, TransportError, RemoteProtocolError.
        """
        workload = self._deployment.scenario.workload
        client = self._clients.create_client(ConnectionID(PRODUCERS, self._address))
        client.references = 0
        client.is_reusable = False  # this process ends: the last channel closes the connection
        gate = create_gate(
            self._deployment,
            0,
            self._pool,
            connect=lambda _: self._refer_to(client),
            probe=self._recorder,
        )
        delay_ns = delay_of(0, workload.slow_consumers)
        for sink in self._sinks:
            sink.set_delay(max(delay_ns, 0))
        self._start_ns = monotonic_ns()
        task = create_sink(
            self._deployment,
            0,
            gate,
            self._sinks,
            self._recorder,
            delay_ns_per_record=delay_ns,
            start_ns=self._start_ns,
            spills=self._spills,
            timestamp_epoch_ns=timestamp_epoch_ns(),
        )
        gate.request_partitions(now_ns=self._start_ns)
        self._loop.tasks = (task,)
        try:
            self._read(task, gate)
        finally:
            self._end_ns = monotonic_ns()
            task.cancel()
            gate.close()
            self._say_farewell()
            self._clients.close()

    def _refer_to(self, client: ConsumerConnection) -> ConsumerConnection:
        client.references += 1
        return client

    def _read(self, task: SinkTask, gate: SingleInputGate) -> None:
        debloating = BufferDebloating(
            debloated_gates((task,), self._network, now_ns=self._start_ns),
            self._network.debloating_period_ns,
            start_ns=self._start_ns,
        )
        while not task.is_finished:
            if self._interrupts or self._has_enough():
                self.end = CANCELLED
                return
            now_ns = monotonic_ns()
            due = (self._clients.next_deadline_ns(), debloating.next_deadline_ns())
            until_ns = min([now_ns + LOOK_EVERY_NS, *(each for each in due if each is not None)])
            self._loop.run_once(until_ns=until_ns)
            now_ns = monotonic_ns()
            self._clients.handle_deadline(now_ns=now_ns)
            debloating.handle_deadline(now_ns=now_ns)
            gate.handle_deadline(now_ns=now_ns)
        self.end = END_OF_PARTITION

    def _has_enough(self) -> bool:
        workload = self._deployment.scenario.workload
        if workload.records is not None:
            return sum(sink.records for sink in self._sinks) >= workload.records
        return (
            workload.duration_ns is not None
            and monotonic_ns() - self._start_ns >= workload.duration_ns
        )

    def _channel_result(self, index: int) -> PeerChannel:
        sink = self._sinks[index]
        sink.settle()
        return self._counted(index, sink.records, sink)


class ProducerPeer(_Peer):
    """Writes partitions that a TaskManager requests.

    A pipelined partition is written from the moment on when each of its subpartitions was
    requested, a blocking one before anybody can request it.

    Args:
        on_listening: told the address when partitions can be requested.
        on_requested: told when pipelined partitions begin to be written.
    """

    role = "producer"

    def __init__(
        self,
        deployment: PeerDeployment,
        *,
        directory: Path | None,
        interrupts: Sequence[int],
        on_listening: Callable[[str], None],
        on_requested: Callable[[], None],
    ) -> None:
        super().__init__(deployment, directory, interrupts)
        self._on_listening = on_listening
        self._on_requested = on_requested
        self._server = DataServer(self._network, self._loop, self._protocol)
        self._port = 0
        self._sources: tuple[SourceTask, ...] = ()
        self._written: tuple[BufferWritingResultPartition, ...] = ()
        self._checkpoint_id = 0
        self._next_checkpoint_ns: int | None = None

    @property
    def peer(self) -> str:
        """Where consumers find it."""
        return f"{self._network.bind_host}:{self._port}"

    def run(self) -> None:
        """Write, and serve until everything was consumed.

        Raises: TransportError when a consumer goes away with channels open, or the address cannot
            be listened on.
        """
        is_blocking = self._deployment.scenario.workload.is_blocking
        spill_dir = create_spill_directory() if is_blocking else None
        try:
            directory = Path(spill_dir.name) if spill_dir is not None else None
            self._written = tuple(
                create_partition(
                    self._deployment,
                    producer,
                    self._pool,
                    self._partitions,
                    create_data=partial(create_spill_file, directory),
                )
                for producer in range(len(self._deployment.partition_ids))
            )
            self._produce(is_blocking=is_blocking)
        finally:
            if spill_dir is not None:
                spill_dir.cleanup()

    def _produce(self, *, is_blocking: bool) -> None:
        try:
            if is_blocking:
                self._start_sources()
                self._turn_until(lambda: all(each.is_finished for each in self._sources))
            self._port = self._server.start()
            self._on_listening(self.peer)
            if not is_blocking:
                self._turn_until(self._is_requested)
                self._start_sources()
                self._on_requested()
            self._turn_until(self._is_consumed)
            if self.end != CANCELLED:
                is_whole = all(each.is_finished for each in self._sources)
                self.end = END_OF_PARTITION if is_whole else CANCELLED
        except FlinknetError as error:
            self._fail(str(error))
            raise
        finally:
            self._end_ns = monotonic_ns()
            if self._interrupts:
                self._fail("the producing task was cancelled")
            self._server.close()
            self._say_farewell()

    def _turn_until(self, is_done: Callable[[], bool]) -> None:
        """Go on until then, or until an interrupt."""
        while not is_done():
            if self._interrupts:
                self.end = CANCELLED
                return
            now_ns = monotonic_ns()
            until_ns = now_ns + LOOK_EVERY_NS
            if self._next_checkpoint_ns is not None:
                until_ns = min(until_ns, self._next_checkpoint_ns)
            self._loop.run_once(until_ns=until_ns)
            self._trigger_checkpoint(monotonic_ns())
            for accepted in self._server.accepted:
                if accepted.connection.loss is not None:
                    raise accepted.loss_error(self._deployment)

    def _is_requested(self) -> bool:
        return all(each.has_view for partition in self._written for each in partition.subpartitions)

    def _is_consumed(self) -> bool:
        """Whether nobody reads any more: all was consumed, or cancelled by its consumers."""
        return all(
            partition.is_consumed or all(each.is_consumed for each in partition.subpartitions)
            for partition in self._written
        )

    def _start_sources(self) -> None:
        if self._interrupts:
            return
        scenario = self._deployment.scenario
        self._start_ns = start_ns = monotonic_ns()
        duration_ns = scenario.workload.duration_ns
        self._sources = tuple(
            create_source(
                self._deployment,
                producer,
                partition,
                self._recorder,
                start_ns=start_ns,
                measured_from_ns=start_ns,
                end_ns=None if duration_ns is None else start_ns + duration_ns,
                timestamp_epoch_ns=timestamp_epoch_ns(),
            )
            for producer, partition in enumerate(self._written)
        )
        self._loop.tasks = self._sources
        interval_ns = self._network.checkpoint_interval_ns
        if interval_ns is not None and not scenario.workload.is_blocking:
            self._next_checkpoint_ns = start_ns + interval_ns

    def _trigger_checkpoint(self, now_ns: int) -> None:
        """Send barriers when they are due, as if a JobManager had asked for a checkpoint."""
        if self._next_checkpoint_ns is None or now_ns < self._next_checkpoint_ns:
            return
        assert self._network.checkpoint_interval_ns is not None
        self._next_checkpoint_ns = now_ns + self._network.checkpoint_interval_ns
        self._checkpoint_id += 1
        barrier = barrier_of(
            self._network,
            self._deployment.edges[0].partitioner,
            self._checkpoint_id,
            (now_ns - timestamp_epoch_ns()) // NS_PER_MS,
        )
        for source in self._sources:
            source.trigger_checkpoint(barrier, now_ns=now_ns)

    def _fail(self, cause: str) -> None:
        """Tell whoever reads."""
        for partition in self._written:
            partition.fail(cause)

    def _channel_result(self, index: int) -> PeerChannel:
        channel = self._deployment.channels[index]
        records = 0
        if self._sources:
            records = self._sources[channel.producer].sent_records.get(channel.subpartition, 0)
        return self._counted(index, records)
