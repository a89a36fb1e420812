"""Peer: flinknet as one end of an exchange whose other end is a TaskManager of Flink, or anything
else that speaks its protocol (see consumer_peer and producer_peer).

No launcher, no control pipe, one process: the peer is not ours to lead. A JobManager would tell
both ends what to do; here the command line does, and a cancellation by it is what a cancelled task
would send.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import ResultPartitionManager
from flinknet.graph.network_memory import segments_of
from flinknet.job.load.counting import CountingSink, StampedSink
from flinknet.job.load.plan import LoadPlan
from flinknet.results import PeerChannel, PeerResult
from flinknet.trace.manifest import ChannelInfo, ProcessInfo
from flinknet.trace.message_counts import MessageCounts
from flinknet.trace.recorder import TraceRecorder
from flinknet.trace.run_directory import RunDirectory, seal_run
from flinknet.trace.writer import TraceWriter

from .clock import monotonic_ns, wall_clock_iso
from .event_loop import EventLoop
from .host import available_cores, environment
from .manifest import manifest_of
from .peer_protocol import PeerProtocol

LOOK_EVERY_NS = 100_000_000
"""How late a limit, an interrupt or an error may be noticed."""

FAREWELL_NS = 2_000_000_000
"""How long the peer may take to close the connection after the last word."""

END_OF_PARTITION, CANCELLED, FAILED = "end of partition", "cancelled", "failed"


class Peer:
    """What both ends have: network memory, an event loop, a trace. A base class, whose two kinds
    differ in what they `run`.

    Args:
        directory: gets the trace and its manifest; None: nothing is recorded.
        interrupts: signals that have come (signals.interrupts_noted).

    Attributes:
        end: how the exchange ended.
    """

    role: str

    def __init__(self, load: LoadPlan, directory: Path | None, interrupts: Sequence[int]) -> None:
        self.end = FAILED
        self.load = load
        self.network = load.scenario.network
        self._directory = directory
        self.interrupts = interrupts
        self._process = ProcessInfo(self.role, f"{self.role}.fnt", os.getpid())
        writer = None
        if directory is not None:
            self._run_directory = RunDirectory(directory)
            writer = TraceWriter(directory / self._process.file, self._process)
        self._counts = MessageCounts(
            len(load.channels), is_consumer=self.role == "consumer", writer=writer
        )
        self.recorder = TraceRecorder(self._counts)
        self.pool = NetworkBufferPool(segments_of(self.network), self.network.segment_size_bytes)
        self.partitions = ResultPartitionManager()
        self.protocol = PeerProtocol(load, self.partitions, self.recorder)
        self.loop = EventLoop(may_spin=available_cores() > 1, transport=self.network.transport)
        self._started_at = wall_clock_iso()
        self.start_ns = monotonic_ns()
        self.end_ns = self.start_ns
        self._save_manifest()

    @property
    def peer(self) -> str:
        """Where the other end is, or where it finds us."""
        raise NotImplementedError

    def result(self) -> PeerResult:
        """What passed; to be asked for after `run`, however that ended."""
        self.recorder.flush()
        decoder = self.protocol.decoder
        return PeerResult(
            role=self.role,
            peer=self.peer,
            end=self.end,
            elapsed_ns=self.end_ns - self.start_ns,
            layout=decoder.layout if decoder is not None else None,
            channels=tuple(map(self.channel_result, range(len(self.load.channels)))),
            trace=str(self._directory) if self._directory is not None else None,
        )

    def close(self) -> None:
        """End the trace and all that is open. Raises: TraceError if something was not recorded,
        or is not there.
        """
        self.loop.close()
        self._save_manifest(is_over=True)
        self.recorder.close()
        if self._directory is not None:
            seal_run(self._directory)
            self._run_directory.release()

    def channel_result(self, index: int) -> PeerChannel:
        """What passed on one channel."""
        raise NotImplementedError

    def counted(
        self, index: int, records: int, sink: CountingSink | StampedSink | None = None
    ) -> PeerChannel:
        """The result of a channel, with what messages and, at a consumer, its sink tell."""
        counts, channel = self._counts, self.load.channels[index]
        is_checked = isinstance(sink, StampedSink)
        backlog = int(counts.backlog_max[index])
        return PeerChannel(
            index=index,
            partition=str(channel.partition_id),
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

    def say_farewell(self) -> None:
        """Let what is said leave, and the peer close: who closes first while bytes are on their
        way resets the connection, and the last word is lost with it.
        """
        self.loop.tasks = ()
        until_ns = monotonic_ns() + FAREWELL_NS
        while self.loop.transports and monotonic_ns() < until_ns:
            self.loop.run_once(until_ns=min(until_ns, monotonic_ns() + LOOK_EVERY_NS))

    def _save_manifest(self, *, is_over: bool = False) -> None:
        if self._directory is None:
            return
        load = self.load
        receivers = {index: receiver for receiver, index in self.protocol.channel_of.items()}
        manifest_of(
            load.scenario.to_dict(),
            self.network,
            (self._process,),
            (
                ChannelInfo(
                    index=channel.index,
                    receiver_id=receivers.get(channel.index, channel.receiver_id).hex(),
                    producer=channel.producer,
                    consumer=channel.consumer,
                    producer_process="producer",
                    consumer_process="consumer",
                    connection="producer->consumer",
                    subpartition=channel.subpartition,
                    partition=channel.partition_id.encode().hex(),
                    is_local=False,
                )
                for channel in load.channels
            ),
            seed=load.scenario.seed,
            host=environment(),
            started_at=self._started_at,
            measured_from_ns=self.start_ns if is_over else None,
            measured_to_ns=self.end_ns + 1 if is_over else None,
        ).save(self._directory)
