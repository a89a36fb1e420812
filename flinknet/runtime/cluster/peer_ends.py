"""ConsumerPeer reads partitions of a TaskManager of Flink; ProducerPeer writes them for Flink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from flinknet.core.producer import ResultPartition
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job.checkpoint_coordinator import TriggerCheckpoint
from flinknet.job.load.plan import LoadPlan
from flinknet.job.load.sink import COUNTED, STAMPED
from flinknet.loopback import bound_host
from flinknet.units import NS_PER_MS, format_address

from ..clock import timestamp_epoch_ns
from . import control_messages as messages
from .attempt import have_readers
from .peer import CANCELLED, CONSUMERS, END_OF_PARTITION, PRODUCERS, Peer


class ConsumerPeer(Peer):
    """Reads partitions of a TaskManager to their end, or as far as the workload's `records` (of all
    channels) or `duration_ns` go; then the channels are cancelled.

    Args:
        address: host and port of the TaskManager's data port.
        is_stamped: the records have flinknet's format: check that each arrives once, in order.
    """

    role, index = "consumer", CONSUMERS
    cancelled = "the consuming task was cancelled"

    def __init__(
        self,
        load: LoadPlan,
        address: tuple[str, int],
        *,
        is_stamped: bool,
        directory: Path | None,
        interrupts: Sequence[int],
    ) -> None:
        # This process ends, so no other channel will reuse the connection.
        network = replace(load.scenario.network, reuse_connections=False)
        super().__init__(load, network, directory, interrupts)
        self._address = address
        self._records = STAMPED if is_stamped else COUNTED

    @property
    def peer(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def _begin(self) -> None:
        addresses, start = {PRODUCERS: self._address}, self._start()
        self._send(*(messages.SubmitTask(each, addresses, start) for each in self._tasks))

    def _advance(self, now_ns: int) -> None:
        if self._are_all(ExecutionState.FINISHED):
            self._stop(END_OF_PARTITION)
        elif self._has_enough(now_ns):
            self._stop(CANCELLED)

    def _has_enough(self, now_ns: int) -> bool:
        workload = self._load.scenario.workload
        if workload.records is None:
            duration_ns = workload.duration_ns
            return duration_ns is not None and now_ns - self.start_ns >= duration_ns
        running = self._executor.attempts.running
        taken: int = sum(sink.records for each in running for sink in each.task.receivers)
        return taken >= workload.records


WAITING_NOTE_NS = 10_000_000_000
"""How often to report what it waits for."""


class ProducerPeer(Peer):
    """Writes partitions that a TaskManager requests.

    A pipelined partition is written once each of its subpartitions has been requested, a blocking
    one before it can be requested.

    Args:
        on_listening: called with the address when partitions can be requested.
        on_waiting: called every `note_every_ns` with what it waits for.
    """

    role, index = "producer", PRODUCERS
    cancelled = "the producing task was cancelled"

    def __init__(
        self,
        load: LoadPlan,
        *,
        directory: Path | None,
        interrupts: Sequence[int],
        on_listening: Callable[[str], None],
        on_writing: Callable[[], None],
        on_waiting: Callable[[str], None],
        note_every_ns: int = WAITING_NOTE_NS,
    ) -> None:
        super().__init__(load, load.scenario.network, directory, interrupts)
        self._is_blocking = load.scenario.workload.is_blocking
        self._on_listening = on_listening
        self._on_writing = on_writing
        self._on_waiting = on_waiting
        self._note_every_ns = note_every_ns
        self._next_note_ns = 0
        self._port = 0
        self._partitions: tuple[ResultPartition, ...] = ()
        self._is_writing = False
        self._checkpoint_id = 0
        self._next_checkpoint_ns: int | None = None

    @property
    def peer(self) -> str:
        return format_address(bound_host(self._network.bind_host), self._port)

    def _begin(self) -> None:
        readers = {x.receiver_id.hex(): (x.index, CONSUMERS) for x in self._load.channels}
        self._send(messages.ExpectReaders(self._load.plan.graph.id, readers))
        start = self._write() if self._is_blocking else None
        self._send(*(messages.SubmitTask(each, {}, start) for each in self._tasks))

    def _advance(self, now_ns: int) -> None:
        begun = ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED
        if not self._partitions and self._are_all(*begun):
            self._partitions = self._environment.partitions.partitions
        if not self._port:
            ready = ExecutionState.FINISHED if self._is_blocking else ExecutionState.INITIALIZING
            if self._are_all(ready):
                self._port = self._environment.start()
                self._next_note_ns = now_ns + self._note_every_ns
                self._on_listening(self.peer)
            return
        self._executor.attempts.check_readers()
        if not self._is_writing and have_readers(self._partitions):
            self._send(self._write())
        if self._is_writing and all(  # consumed, or cancelled by the consumers
            partition.is_consumed or all(each.is_consumed for each in partition.subpartitions)
            for partition in self._partitions
        ):
            is_whole = all(each.task.is_finished for each in self._executor.attempts.running)
            self._stop(END_OF_PARTITION if is_whole else CANCELLED)
        elif now_ns >= self._next_note_ns:
            self._next_note_ns = now_ns + self._note_every_ns
            self._on_waiting(self._waiting_for())
        self._trigger_checkpoint(now_ns)

    def _write(self) -> messages.Start:
        self._is_writing = True
        start = self._start()
        interval_ns = self._network.checkpoint_interval_ns
        if interval_ns is not None and not self._is_blocking:
            self._next_checkpoint_ns = start.start_ns + interval_ns
        self._on_writing()
        return start

    def _waiting_for(self) -> str:
        found = [each for partition in self._partitions for each in partition.subpartitions]
        unread = [each for each in found if not each.is_consumed]
        unrequested = sum(not each.has_view for each in unread)
        if unrequested:
            return f"{unrequested} of {len(found)} subpartitions to be requested from {self.peer}"
        return f"{len(unread)} of {len(found)} subpartitions to be read to their end"

    def _trigger_checkpoint(self, now_ns: int) -> None:
        """Send barriers when they are due, as if a JobManager had asked for a checkpoint."""
        if self._next_checkpoint_ns is None or now_ns < self._next_checkpoint_ns:
            return
        assert self._network.checkpoint_interval_ns is not None
        self._next_checkpoint_ns = now_ns + self._network.checkpoint_interval_ns
        self._checkpoint_id += 1
        timestamp_ms = (now_ns - timestamp_epoch_ns()) // NS_PER_MS
        trigger = TriggerCheckpoint(self._checkpoint_id, timestamp_ms)
        self._send(messages.JobCommand(self._load.plan.graph.id, trigger))
