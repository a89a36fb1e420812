"""ProducerPeer: writes partitions for TaskManagers that are not flinknet's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from flinknet.core.producer import ResultPartition
from flinknet.errors import FlinknetError
from flinknet.job.gates import blocking_storage, create_partitions
from flinknet.job.load.assembly import LoadTasks, create_source
from flinknet.job.load.plan import LoadPlan
from flinknet.job.stream_task import StreamTask
from flinknet.results import PeerChannel, PeerResult
from flinknet.units import NS_PER_MS

from .clock import monotonic_ns, timestamp_epoch_ns
from .connection_manager import DataServer
from .peer import CANCELLED, END_OF_PARTITION, LOOK_EVERY_NS, Peer
from .spill_file import create_spill_directory, create_spill_file

WAITING_NOTE_NS = 10_000_000_000
"""How often to say what is waited for."""


class ProducerPeer(Peer):
    """Writes partitions that a TaskManager requests.

    A pipelined partition is written from the moment on when each of its subpartitions was
    requested, a blocking one before anybody can request it.

    Args:
        on_listening: told the address when partitions can be requested.
        on_writing: called when the partitions begin to be written.
        on_waiting: called every `note_every_ns` with what it waits for.
    """

    role = "producer"

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
        super().__init__(load, directory, interrupts)
        self._on_listening = on_listening
        self._on_writing = on_writing
        self._on_waiting = on_waiting
        self._note_every_ns = note_every_ns
        self._server = DataServer(self.network, self.loop, self.protocol)
        self._port = 0
        self._sources: tuple[StreamTask, ...] = ()
        self._written: tuple[ResultPartition, ...] = ()
        self._checkpoint_id = 0
        self._next_checkpoint_ns: int | None = None

    @property
    def peer(self) -> str:
        """Where consumers find it."""
        return f"{self.network.bind_host}:{self._port}"

    def run(self) -> None:
        """Write, and serve until everything was consumed.

        Raises: TransportError when a consumer goes away with channels open, or the address cannot
            be listened on.
        """
        is_blocking = self.load.scenario.workload.is_blocking
        spill_dir = create_spill_directory() if is_blocking else None
        try:
            directory = Path(spill_dir.name) if spill_dir is not None else None
            storage = blocking_storage(self.network, partial(create_spill_file, directory))
            self._written = tuple(
                partition
                for source in self.load.sources
                for partition in create_partitions(
                    source,
                    self.network,
                    self.pool,
                    self.partitions,
                    storage=storage,
                )
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
            self._turn_until(self._is_consumed)
            if self.end != CANCELLED:
                is_whole = all(each.is_finished for each in self._sources)
                self.end = END_OF_PARTITION if is_whole else CANCELLED
        except FlinknetError as error:
            self._fail(str(error))
            raise
        finally:
            self.end_ns = monotonic_ns()
            if self.interrupts:
                self._fail("the producing task was cancelled")
            self._server.close()
            self.say_farewell()

    def _turn_until(self, is_done: Callable[[], bool]) -> None:
        """Go on until then, or until an interrupt."""
        next_note_ns = monotonic_ns() + self._note_every_ns
        while not is_done():
            if self.interrupts:
                self.end = CANCELLED
                return
            now_ns = monotonic_ns()
            if self._port and now_ns >= next_note_ns:
                next_note_ns = now_ns + self._note_every_ns
                self._on_waiting(self.waiting_for())
            until_ns = now_ns + LOOK_EVERY_NS
            if self._next_checkpoint_ns is not None:
                until_ns = min(until_ns, self._next_checkpoint_ns)
            self.loop.run_once(until_ns=until_ns)
            self._trigger_checkpoint(monotonic_ns())
            for accepted in self._server.accepted:
                if accepted.connection.loss is not None:
                    names = {x.index: f"tm-{x.consumer_task_manager}" for x in self.load.channels}
                    raise accepted.loss_error(names)

    def waiting_for(self) -> str:
        """What consumers have not done yet."""
        found = [each for partition in self._written for each in partition.subpartitions]
        unread = [each for each in found if not each.is_consumed]
        unrequested = sum(not each.has_view for each in unread)
        if unrequested:
            return f"{unrequested} of {len(found)} subpartitions to be requested from {self.peer}"
        return f"{len(unread)} of {len(found)} subpartitions to be read to their end"

    def _is_requested(self) -> bool:
        return all(each.has_view for partition in self._written for each in partition.subpartitions)

    def _is_consumed(self) -> bool:
        """Whether nobody reads any more: all was consumed, or cancelled by its consumers."""
        return all(
            partition.is_consumed or all(each.is_consumed for each in partition.subpartitions)
            for partition in self._written
        )

    def _start_sources(self) -> None:
        if self.interrupts:
            return
        scenario = self.load.scenario
        self.start_ns = start_ns = monotonic_ns()
        duration_ns = scenario.workload.duration_ns
        tasks = LoadTasks(self.network, start_ns=start_ns, timestamp_epoch_ns=timestamp_epoch_ns())
        self._sources = tuple(
            create_source(
                tasks,
                scenario,
                source,
                partition,
                self.recorder,
                start_ns=start_ns,
                measured_from_ns=start_ns,
                end_ns=None if duration_ns is None else start_ns + duration_ns,
            )
            for source, partition in zip(self.load.sources, self._written, strict=True)
        )
        self.loop.tasks = self._sources
        self._on_writing()
        interval_ns = self.network.checkpoint_interval_ns
        if interval_ns is not None and not scenario.workload.is_blocking:
            self._next_checkpoint_ns = start_ns + interval_ns

    def _trigger_checkpoint(self, now_ns: int) -> None:
        """Send barriers when they are due, as if a JobManager had asked for a checkpoint."""
        if self._next_checkpoint_ns is None or now_ns < self._next_checkpoint_ns:
            return
        assert self.network.checkpoint_interval_ns is not None
        self._next_checkpoint_ns = now_ns + self.network.checkpoint_interval_ns
        self._checkpoint_id += 1
        timestamp_ms = (now_ns - timestamp_epoch_ns()) // NS_PER_MS
        for source in self._sources:
            source.trigger_checkpoint(self._checkpoint_id, timestamp_ms, now_ns=now_ns)

    def _fail(self, cause: str) -> None:
        """Tell whoever reads."""
        for partition in self._written:
            partition.fail(cause)

    def result(self) -> PeerResult:
        """What passed, and who came to the data port beside the consumers."""
        visited = self._server.visitors.strangers().warning()
        return replace(super().result(), warnings=() if visited is None else (visited,))

    def channel_result(self, index: int) -> PeerChannel:
        """What was written to one channel."""
        channel = self.load.channels[index]
        records = 0
        if self._sources:
            records = self._sources[channel.producer].sent_records.get(index, 0)
        return self.counted(index, records)
