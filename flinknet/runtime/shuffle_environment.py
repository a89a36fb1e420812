"""ShuffleEnvironment: the network state of a TaskManager, independent of its tasks: memory, event
loop, partitions, connections, and the recorder of events (Flink: NettyShuffleEnvironment); and
bytes in files: of blocking partitions, of long records.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import ResultPartitionManager
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import LocalProtocolError, LocalTransportError
from flinknet.trace.manifest import ProcessInfo
from flinknet.trace.recorder import JobTrace, JobTraces, TraceRecorder
from flinknet.trace.writer import EventWriter, TraceWriter
from flinknet.whole_files import temporary_base

from .clock import monotonic_ns
from .connection_manager import ConnectionManager, DataProtocol, LocalConnectionManager
from .event_loop import EventLoop

WRITE_BUFFER_BYTES = 1024 * 1024
"""Bytes collected for one write: writing 32 KiB buffers one by one is mostly system calls."""

PIECES_MAX = 1024
"""The most pieces of memory in one system call (IOV_MAX)."""


class SpillFile:
    """A file (Flink: FileChannelBoundedData; a BoundedData), created with its first byte."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._unwritten: list[bytes | memoryview] = []
        self._unwritten_bytes = 0

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append; the memory may be reused. Raises: LocalTransportError if that fails."""
        self._unwritten_bytes += sum(map(len, pieces))
        if self._unwritten_bytes < WRITE_BUFFER_BYTES:
            self._unwritten += map(bytes, pieces)
        else:
            self._unwritten += pieces
            self._write_through()

    def finish(self) -> None:
        self._write_through()

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill pieces of memory in turn with the content from an offset on. Returns: number of
        bytes read; fewer than there is room only at the end. Raises: LocalTransportError.
        """
        start, left = offset, deque(into)
        try:
            while left and (
                count := os.preadv(self._descriptor, list(islice(left, PIECES_MAX)), offset)
            ):
                offset += count
                _drop(left, count)
        except OSError as error:
            raise LocalTransportError(f"{self.path}: cannot be read: {error.strerror}") from error
        return offset - start

    def release(self) -> None:
        self._unwritten.clear()
        self._unwritten_bytes = 0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            with suppress(FileNotFoundError):
                self.path.unlink()

    def _write_through(self) -> None:
        left = deque([memoryview(each) for each in self._unwritten])
        self._unwritten.clear()
        self._unwritten_bytes = 0
        try:
            if self._descriptor < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o600)
            while left:
                some = list(islice(left, PIECES_MAX))
                _drop(left, os.writev(self._descriptor, some))
        except OSError as error:
            raise LocalTransportError(
                f"{self.path}: a blocking exchange cannot be written there: {error.strerror};"
                " ask for fewer --records, or set TMPDIR to a directory with more room"
            ) from error


def _drop(pieces: deque[memoryview], count: int) -> None:
    """Drop `count` bytes from the front, and empty pieces."""
    while pieces and count >= len(pieces[0]):
        count -= len(pieces.popleft())
    if count:
        pieces[0] = pieces[0][count:]


def create_spill_file(
    directory: Path | None, partition_id: ResultPartitionID, name: str
) -> SpillFile:
    assert directory is not None, "a run with blocking exchanges has a directory for them"
    partition = hashlib.sha256(partition_id.encode()).hexdigest()[:32]
    return SpillFile(directory / f"{partition}.{name}")


def create_record_file(directory: Path) -> RecordFile:
    """Create the file of a record that is too long for memory (Flink: SpanningWrapper); with its
    directory a `core.consumer.record_reader.SpillStore`. Differs from Flink: its name is removed as
    soon as it is open, so that nothing remains however the process ends, and a whole record is
    mapped into memory, where Flink reads it through a buffer of 2 MiB. Raises: LocalTransportError.
    """
    try:
        return RecordFile(directory / f"{secrets.token_hex(20)}.inputchannel")
    except OSError as error:
        raise LocalTransportError(
            f"{directory}: no file can be made for a long record ({error.strerror}); set TMPDIR"
            " to a directory that takes some"
        ) from error


class RecordFile:
    """The file of one record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append. Raises: LocalTransportError if the disk is full."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self.descriptor, left) :]
        except OSError as error:
            self.delete()
            raise LocalTransportError(
                f"{self.path.parent}: a long record cannot be written ({error.strerror})"
            ) from error

    def take(self) -> memoryview:
        """Return the whole content, mapped into memory; it lives as long as the view."""
        whole = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
        self.delete()
        return memoryview(whole)

    def delete(self) -> None:
        """Delete the file; repeated calls have no effect."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


FLUSH_INTERVAL_NS = 1_000_000_000
FLUSH_STEP_NS = 100_000
"""Longest uninterrupted work of a flush; one of some hundred steps of a block may take longer."""

FLUSH_PAUSE_NS = 5_000_000
"""Pause between such pieces of work, so long that a sleeping event loop does not poll."""


class ShuffleEnvironment:
    """The network state of one process.

    Args:
        task_managers: number of TaskManagers in the cluster; a single one has no port.
        channel_of: index of each channel in the run, by receiver id; may change meanwhile.
        protocol: creates the protocol of the data port, with the arguments of DataProtocol.
        counting: wraps the writer of events, to count them on their way (MessageCounts).
    """

    def __init__(
        self,
        network: NetworkConfig,
        flow_control: str,
        name: str,
        *,
        task_managers: int,
        channel_of: dict[bytes, int],
        may_spin: bool,
        protocol: Callable[..., DataProtocol] = DataProtocol,
        counting: Callable[[EventWriter | None], EventWriter | None] = lambda writer: writer,
    ) -> None:
        self.channel_of = channel_of
        self.loop = EventLoop(may_spin=may_spin, transport=network.transport)
        self.pool = NetworkBufferPool(network.segments, network.segment_size_bytes)
        self.partitions = ResultPartitionManager()
        self.spills = partial(create_record_file, temporary_base())
        self._name = name
        self._counting = counting
        self.traces = JobTraces()
        self.recorder = TraceRecorder(self.traces)
        self._next_flush_ns = 0
        self._is_flushing = self._is_closed = False
        data_protocol = protocol(network, flow_control, self.partitions, self.recorder, channel_of)
        manager = ConnectionManager if task_managers > 1 else LocalConnectionManager
        self.connections = manager(network, self.loop, data_protocol)

    def start(self) -> int:
        """Start the connections. Returns: the port to advertise; see ConnectionManager. Raises:
        LocalProtocolError if that was done before, or after `close`.
        """
        if self._is_closed:
            raise LocalProtocolError("the shuffle environment has already been shut down")
        return self.connections.start()

    def open_trace(self, directory: Path | None) -> JobTrace:
        """Begin to record, or without a directory to count, a job's events. Raises: TraceError."""
        writer: EventWriter | None = None
        if directory is not None:
            path = directory / f"{self._name}.fnt"
            writer = TraceWriter(path, ProcessInfo(self._name, path.name, os.getpid()))
        return self.traces.open(self._counting(writer))

    def close_trace(self, trace: JobTrace) -> None:
        """End the trace of a job. Raises: TraceError with the number of events that were lost."""
        self.recorder.flush()
        self.traces.close_one(trace)

    def flush_trace(self, *, now_ns: int) -> int:
        """Write recorded events every second, so that a crash loses little more than that; one step
        at a time, to be called at the returned instants. Returns: when to call again.
        """
        if now_ns < self._next_flush_ns:
            return self._next_flush_ns
        if not self._is_flushing:
            self.recorder.begin_flush()
        begun_ns = monotonic_ns()
        self._is_flushing = self.recorder.step()
        while self._is_flushing and monotonic_ns() - begun_ns < FLUSH_STEP_NS:
            self._is_flushing = self.recorder.step()
        pause_ns = FLUSH_PAUSE_NS if self._is_flushing else FLUSH_INTERVAL_NS
        self._next_flush_ns = now_ns + pause_ns
        return self._next_flush_ns

    def close(self) -> None:
        """Close the data port and all connections, and release the partitions."""
        self._is_closed = True
        self.partitions.shut_down()
        self.connections.close()
        self.loop.close()
