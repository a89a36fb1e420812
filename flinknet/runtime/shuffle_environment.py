"""ShuffleEnvironment: the network state of a TaskManager, independent of its tasks: memory, event
loop, partitions, connections, and the recorder of events (Flink: NettyShuffleEnvironment).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import ResultPartitionManager
from flinknet.errors import LocalProtocolError
from flinknet.graph.network_memory import segments_of
from flinknet.job.gates import request_backoff_of
from flinknet.trace.job_traces import JobTrace, JobTraces
from flinknet.trace.manifest import ProcessInfo
from flinknet.trace.recorder import TraceRecorder
from flinknet.trace.statistics import EventWriter
from flinknet.trace.writer import TraceWriter

from .clock import monotonic_ns
from .connection_manager import ConnectionManager, LocalConnectionManager
from .event_loop import EventLoop
from .protocol import DataProtocol
from .spill_file import RecordSpills

FLUSH_INTERVAL_NS = 1_000_000_000
FLUSH_STEP_NS = 100_000
"""Longest uninterrupted work of a flush; one of some hundred steps of a block may take longer."""

FLUSH_PAUSE_NS = 5_000_000
"""Pause between such pieces of work. Longer than the waits that make an event loop poll, so that a
sleeping loop keeps sleeping."""


class ShuffleEnvironment:
    """The network state of one process.

    Args:
        name: name of the TaskManager, in logs and traces.
        task_managers: number of TaskManagers in the cluster; a single one has no port.
        channel_of: index of each channel in the run, by receiver id; may change meanwhile.
        may_spin: see EventLoop.
        protocol: creates the protocol of the data port, with the arguments of DataProtocol.
        counting: wraps the writer of events, to count them on their way (MessageCounts).

    Attributes:
        traces: the channels of each job.
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
        self.pool = NetworkBufferPool(segments_of(network), network.segment_size_bytes)
        self.partitions = ResultPartitionManager()
        self.spills = RecordSpills().create
        self._name = name
        self._counting = counting
        self.traces = JobTraces()
        self.recorder = TraceRecorder(self.traces)
        self._next_flush_ns = 0
        self._is_flushing = self._is_closed = False
        data_protocol = protocol(
            flow_control,
            self.partitions,
            self.recorder,
            channel_of,
            partition_request_timeout_ns=network.partition_request_timeout_ns,
            segment_size_bytes=network.segment_size_bytes,
            request_backoff=request_backoff_of(network),
        )
        self.connections: ConnectionManager | LocalConnectionManager = LocalConnectionManager()
        if task_managers > 1:
            self.connections = ConnectionManager(network, self.loop, data_protocol, monotonic_ns)

    def start(self) -> int:
        """Start the connections. Returns: the port to advertise; see ConnectionManager.

        Raises: LocalProtocolError if that was done before, or after `close`.
        """
        if self._is_closed:
            raise LocalProtocolError("the shuffle environment has already been shut down")
        return self.connections.start()

    def open_trace(self, directory: Path | None) -> JobTrace:
        """Begin to record the events of a job.

        Args:
            directory: directory of the trace; None: events are only counted.

        Raises: TraceError if the trace cannot be created.
        """
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
        at a time, to be called at the returned instants.

        Returns: when to call again.
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
