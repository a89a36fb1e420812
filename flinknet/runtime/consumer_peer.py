"""ConsumerPeer: reads partitions of a TaskManager that is not flinknet's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flinknet.core.consumer import SingleInputGate
from flinknet.job.debloating import BufferDebloating, debloated_gates
from flinknet.job.gates import create_gates
from flinknet.job.load.assembly import LoadTasks, delay_of
from flinknet.job.load.counting import CountingSink, StampedSink
from flinknet.job.load.peer import PRODUCERS
from flinknet.job.load.plan import LoadPlan
from flinknet.job.stream_task import StreamTask
from flinknet.results import PeerChannel

from .client_factory import ConnectionID, PartitionRequestClientFactory
from .clock import monotonic_ns, timestamp_epoch_ns
from .peer import CANCELLED, END_OF_PARTITION, LOOK_EVERY_NS, Peer
from .record_spill import RecordSpills


class ConsumerPeer(Peer):
    """Reads partitions of a TaskManager to their end, or as far as the workload's `records` (of all
    channels) or `duration_ns` go; then the channels are cancelled.

    Args:
        address: host and port of its data port.
        is_stamped: the records are of flinknet's form: check that each comes once and in order.
    """

    role = "consumer"

    def __init__(
        self,
        load: LoadPlan,
        address: tuple[str, int],
        *,
        is_stamped: bool,
        directory: Path | None,
        interrupts: Sequence[int],
    ) -> None:
        super().__init__(load, directory, interrupts)
        self._address = address
        # This process ends, so that no other channel will want the connection.
        network = replace(self.network, reuse_connections=False)
        self._clients = PartitionRequestClientFactory(
            network, self.loop, self.protocol, monotonic_ns
        )
        self._spills = RecordSpills().create
        sink = StampedSink if is_stamped else CountingSink
        self._sinks = tuple(sink() for _ in load.channels)

    @property
    def peer(self) -> str:
        """Where the producer is."""
        return f"{self._address[0]}:{self._address[1]}"

    def run(self) -> None:
        """Read until the end.

        Raises: the error of a channel: PartitionNotFoundError after Flink's repetitions,
            PartitionConnectionError, ProducerFailedError with the producer's reason,
            TransportError, RemoteProtocolError.
        """
        workload = self.load.scenario.workload
        connection_id = ConnectionID(PRODUCERS, self._address)
        (descriptor,) = self.load.sinks
        (gate,) = create_gates(
            descriptor,
            self.network,
            self.pool,
            partitions=self.partitions,
            connect=lambda _: self._clients.create_client(connection_id),
            probe=self.recorder,
        )
        delay_ns = delay_of(0, workload.slow_consumers)
        for sink in self._sinks:
            sink.set_delay(max(delay_ns, 0))
        self.start_ns = monotonic_ns()
        tasks = LoadTasks(
            self.network,
            start_ns=self.start_ns,
            timestamp_epoch_ns=timestamp_epoch_ns(),
            spills=self._spills,
        )
        task = tasks.sink(
            descriptor, gate, self._sinks, self.recorder, delay_ns_per_record=delay_ns
        )
        gate.request_partitions(now_ns=self.start_ns)
        self.loop.tasks = (task,)
        try:
            self._read(task, gate)
        finally:
            self.end_ns = monotonic_ns()
            task.cancel()
            gate.close()
            self.say_farewell()
            self._clients.close()

    def _read(self, task: StreamTask, gate: SingleInputGate) -> None:
        debloating = BufferDebloating(
            debloated_gates((task,), self.network, now_ns=self.start_ns),
            self.network.debloating_period_ns,
            start_ns=self.start_ns,
        )
        while not task.is_finished:
            if self.interrupts or self._has_enough():
                self.end = CANCELLED
                return
            now_ns = monotonic_ns()
            due = (self._clients.next_deadline_ns(), debloating.next_deadline_ns())
            until_ns = min([now_ns + LOOK_EVERY_NS, *(each for each in due if each is not None)])
            self.loop.run_once(until_ns=until_ns)
            now_ns = monotonic_ns()
            self._clients.handle_deadline(now_ns=now_ns)
            debloating.handle_deadline(now_ns=now_ns)
            gate.handle_deadline(now_ns=now_ns)
        self.end = END_OF_PARTITION

    def _has_enough(self) -> bool:
        workload = self.load.scenario.workload
        if workload.records is not None:
            return sum(sink.records for sink in self._sinks) >= workload.records
        return (
            workload.duration_ns is not None
            and monotonic_ns() - self.start_ns >= workload.duration_ns
        )

    def channel_result(self, index: int) -> PeerChannel:
        """What was read on one channel."""
        sink = self._sinks[index]
        sink.settle()
        return self.counted(index, sink.records, sink)
