"""ShuffleEnvironment: what a TaskManager has of the network, whatever its tasks are: memory, event
loop, partitions, connections, and the recorder of what passes (Flink: NettyShuffleEnvironment).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import ResultPartitionManager
from flinknet.graph.network_memory import segments_of
from flinknet.job.gates import request_backoff_of
from flinknet.trace.manifest import ProcessInfo
from flinknet.trace.recorder import TraceRecorder
from flinknet.trace.statistics import EventStatistics, EventWriter
from flinknet.trace.writer import TraceWriter

from .clock import monotonic_ns
from .connection_manager import ConnectionManager, LocalConnectionManager
from .event_loop import EventLoop
from .protocol import DataProtocol
from .record_spill import RecordSpills

FLUSH_INTERVAL_NS = 1_000_000_000
FLUSH_STEP_NS = 100_000
"""Work of a flush without a break, or as long as one of some hundred steps of a block takes."""

FLUSH_PAUSE_NS = 5_000_000
"""After that. Longer than the waits that let an event loop poll, so that a loop that sleeps goes on
to do so."""


class ShuffleEnvironment:
    """Everything of the network that one process owns.

    Args:
        name: of the TaskManager, in logs and traces.
        task_managers: of the cluster; one alone has no port.
        trace_path: None: nothing is recorded, but counted.
        channels: of the run, as far as they are known; `statistics` can grow.
        channel_of: index of each channel in the run, by receiver id; may change meanwhile.
        may_spin: see EventLoop.
        protocol: makes the protocol of the data port, as DataProtocol is made.
        counting: makes what events go through on their way to what is given (MessageCounts).

    Raises: TraceError when the trace cannot be made.
    """

    def __init__(
        self,
        network: NetworkConfig,
        flow_control: str,
        name: str,
        *,
        task_managers: int,
        trace_path: Path | None,
        channels: int,
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
        writer: EventWriter | None = None
        if trace_path is not None:
            writer = TraceWriter(trace_path, ProcessInfo(name, trace_path.name, os.getpid()))
        self.statistics = EventStatistics(channels, counting(writer))
        self.recorder = TraceRecorder(self.statistics)
        self._next_flush_ns = 0
        self._is_flushing = False
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

    def flush_trace(self, *, now_ns: int) -> int:
        """Write what was recorded every second, so that a crash costs little more than that; a step
        at a time, to be called when it says.

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
        """The data port and all connections go, and what partitions hold."""
        self.partitions.shut_down()
        self.connections.close()
        self.loop.close()
