"""Peer: flinknet as one end of an exchange whose other end is a TaskManager of Flink, or anything
else that speaks its protocol (see peer_ends).

A peer is a job with one end outside: its plan has both ends, and the usual TaskExecutor runs ours.
There is one process and no JobManager, as the other end is not under our control. Peer sends the
TaskExecutor the messages that a JobManager would send, as the command line demands; a cancellation
sends the other end what a cancelled task would send. The other end chooses the ids of its
partitions and channels itself.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinknet.config import NetworkConfig, Scenario
from flinknet.core.wire.ids import ExecutionAttemptID, ResultPartitionID
from flinknet.errors import ConfigError, FlinknetError
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job import TaskDeploymentDescriptor
from flinknet.job.load.plan import LoadPlan, listed_load_plan
from flinknet.job.load.sink import MEASURED, STAMPED
from flinknet.job.scheduling import PartitionState, RequestPartitionState
from flinknet.results import PeerChannel, PeerResult
from flinknet.trace.manifest import ProcessInfo
from flinknet.trace.recorder import MessageCounts
from flinknet.trace.run_directory import RunDirectory, seal_run
from flinknet.trace.writer import EventWriter
from flinknet.whole_files import work_directory

from ..clock import monotonic_ns, timestamp_epoch_ns, wall_clock_iso
from ..connection_manager import PeerProtocol
from ..host import available_cores, environment
from ..shuffle_environment import ShuffleEnvironment
from . import control_messages as messages
from .cluster_process import TaskManagerProcessSpec, kind_of
from .collected import channel_infos, manifest_of
from .control_connection import ControlConnection
from .task_executor import TaskExecutor

PRODUCERS, CONSUMERS = 0, 1
"""TaskManagers of the writers and the readers."""


def consumer_plan(
    scenario: Scenario, partition_ids: Sequence[ResultPartitionID], subpartitions: Sequence[int]
) -> LoadPlan:
    """One consumer that reads these subpartitions of each of these partitions. Raises: ConfigError
    if one is named twice.
    """
    _check_distinct("--subpartition", subpartitions)
    return _plan(scenario, partition_ids, 1, [(0, each) for each in subpartitions])


def producers_plan(scenario: Scenario, partition_ids: Sequence[ResultPartitionID]) -> LoadPlan:
    """One producer per partition, with a subpartition per consumer of the workload; receiver ids
    are placeholders for those that the consumers will choose. Raises: ConfigError if a partition is
    named twice.
    """
    consumers = scenario.workload.consumers
    return _plan(scenario, partition_ids, consumers, [(each, each) for each in range(consumers)])


def _plan(
    scenario: Scenario,
    partition_ids: Sequence[ResultPartitionID],
    consumers: int,
    read: Sequence[tuple[int, int]],
) -> LoadPlan:
    """A plan whose channels read, of each partition, by this consumer this subpartition."""
    _check_distinct("--partition", partition_ids)
    places = (PRODUCERS,) * len(partition_ids), (CONSUMERS,) * consumers
    channels = ((at, *each) for at in range(len(partition_ids)) for each in read)
    return listed_load_plan(scenario, places, dict(enumerate(channels)), partition_ids)


def _check_distinct(option: str, values: Sequence[object]) -> None:
    for each in values:
        if values.count(each) > 1:
            raise ConfigError(f"{option}: {each} is given twice")


POLL_INTERVAL_NS = 5_000_000
"""A limit or an interrupt is noticed this late at most."""

SAMPLE_INTERVAL_NS = 100_000_000
"""The loss of a reader is noticed this late at most."""

CLOSE_WAIT_NS = 2_000_000_000
"""How long the peer may take to close the connection after the last message."""

TASK_MANAGERS = 2
"""Ours and the peer's."""

END_OF_PARTITION, CANCELLED, FAILED = "end of partition", "cancelled", "failed"


class LocalControl(ControlConnection):
    """The control connection of a TaskExecutor that is driven from its own process."""

    def __init__(self) -> None:
        super().__init__("")
        self.sent: deque[Any] = deque()

    def send(self, message: Any) -> None:
        self.sent.append(message)


class Peer:
    """The common part of both ends: a TaskExecutor and its commands. The base class of two kinds
    that differ in what they send and wait for.

    Args:
        load: plan of the exchange; our tasks are those of TaskManager `index`.
        directory: directory of the trace and its manifest; None: nothing is recorded.
        interrupts: signals received so far (signals.interrupts_noted).
    """

    role: str
    index: int
    cancelled: str
    """The cause that the other end receives after an early end."""

    _records = MEASURED

    def __init__(
        self,
        load: LoadPlan,
        network: NetworkConfig,
        directory: Path | None,
        interrupts: Sequence[int],
    ) -> None:
        self.end = FAILED
        self._load = load
        self._network = network
        self._directory = directory
        self._interrupts = interrupts
        self._process = ProcessInfo(self.role, f"{self.role}.fnt", os.getpid())
        if directory is not None:
            self._run_directory = RunDirectory(directory)
        self._channel_of: dict[bytes, int] = {}
        self._environment = ShuffleEnvironment(
            self._network,
            load.scenario.flow_control,
            self.role,
            task_managers=TASK_MANAGERS,
            channel_of=self._channel_of,
            may_spin=available_cores() > 1,
            protocol=self._create_protocol,
            counting=self._create_counts,
        )
        self._connections = self._environment.connections
        self._create_counts(None)  # until there is a trace
        self._control = LocalControl()
        spec = TaskManagerProcessSpec(
            *("", TASK_MANAGERS, len(self._tasks), network, load.scenario.flow_control),
            *(sys.maxsize, SAMPLE_INTERVAL_NS, self.index),
        )
        self._executor = TaskExecutor(spec, self._environment, self._control)
        self._states: dict[ExecutionAttemptID, ExecutionState] = {}
        self._failure: Exception | None = None
        self._is_over = False
        self._started_at = wall_clock_iso()
        self.start_ns = self.end_ns = monotonic_ns()
        self._save_manifest()

    @property
    def peer(self) -> str:
        """Address of the other end, or ours if it connects to us."""
        raise NotImplementedError

    def run(self) -> None:
        """Run the exchange to its end. Raises: the first failure."""
        cause, scenario = self.cancelled, self._load.scenario
        trace_dir = None if self._directory is None else str(self._directory)
        with ExitStack() as stack:
            try:
                spill_dir = None
                if scenario.workload.is_blocking and self.index == PRODUCERS:
                    spill_dir = str(stack.enter_context(work_directory("spill")))
                load = messages.SubmitLoad(scenario, self._records)
                graph_id = self._load.plan.graph.id
                self._send(messages.InitializeJob(graph_id, load, trace_dir, spill_dir, None))
                self._begin()
                self._environment.loop.call_at(0, self._turn)
                self._executor.serve()
                if self._failure is not None:
                    raise self._failure
            except FlinknetError as error:
                cause = str(error)
                raise
            finally:
                self.end_ns = monotonic_ns()
                self._executor.release(cause)
                self._drain()

    def result(self) -> PeerResult:
        """The totals of the exchange; call this after `run`, however that ended."""
        self._environment.recorder.flush()
        visited = self._connections.strangers().warning()
        decoder = self._protocol.decoder
        return PeerResult(
            role=self.role,
            peer=self.peer,
            end=self.end,
            elapsed_ns=self.end_ns - self.start_ns,
            layout=decoder.layout if decoder is not None else None,
            channels=tuple(self._channels()),
            trace=str(self._directory) if self._directory is not None else None,
            warnings=() if visited is None else (visited,),
        )

    def close(self) -> None:
        """Close the trace and all connections. Raises: TraceError if the trace is incomplete."""
        self._environment.close()
        self._save_manifest(is_over=True)
        self._environment.recorder.close()
        if self._directory is not None:
            seal_run(self._directory)
            self._run_directory.release()

    def _begin(self) -> None:
        """Send the first commands."""
        raise NotImplementedError

    def _advance(self, now_ns: int) -> None:
        raise NotImplementedError

    @property
    def _tasks(self) -> list[TaskDeploymentDescriptor]:
        return self._load.tasks_on(self.index)

    def _start(self) -> messages.Start:
        self.start_ns = now_ns = monotonic_ns()
        duration_ns = self._load.scenario.workload.duration_ns
        end_ns = None if duration_ns is None else now_ns + duration_ns
        return messages.Start(now_ns, now_ns, None, end_ns, timestamp_epoch_ns())

    def _stop(self, end: str) -> None:
        self.end = end
        self._is_over = True
        self._send(messages.Disconnect())

    def _send(self, *orders: Any) -> None:
        self._control.received.extend(orders)

    def _are_all(self, *states: ExecutionState) -> bool:
        return all(self._states.get(each.attempt_id) in states for each in self._tasks)

    def _turn(self) -> None:
        """Handle the messages of the TaskExecutor, and send the commands that are due."""
        sent = self._control.sent
        while sent:
            message = sent.popleft()
            if isinstance(message, messages.TaskStateChanged):
                self._states[message.attempt_id] = message.state
                if message.state is ExecutionState.FAILED and self._failure is None:
                    self._failure = _failure_of(message)
            elif isinstance(message, RequestPartitionState):  # nobody can be asked: it may run
                asked = message.attempt_id, message.partition_id
                self._send(PartitionState(*asked, ExecutionState.RUNNING))
        if self._failure is not None:
            self._stop(FAILED)
        elif self._interrupts:
            self._stop(CANCELLED)
        else:
            self._advance(monotonic_ns())
        if not self._is_over:
            self._environment.loop.call_at(monotonic_ns() + POLL_INTERVAL_NS, self._turn)

    def _drain(self) -> None:
        """Send the queued bytes and let the peer close: closing first while bytes are on their way
        resets the connection and loses the last message.
        """
        loop = self._environment.loop
        loop.tasks = ()
        self._connections.close_port()
        until_ns = monotonic_ns() + CLOSE_WAIT_NS
        while loop.transports and monotonic_ns() < until_ns:
            loop.run_once(until_ns=min(until_ns, monotonic_ns() + SAMPLE_INTERVAL_NS))

    def _create_protocol(self, *arguments: Any) -> PeerProtocol:
        self._protocol = PeerProtocol(self._load, *arguments)
        return self._protocol

    def _create_counts(self, writer: EventWriter | None) -> MessageCounts:
        is_consumer = self.index == CONSUMERS
        channels = len(self._load.channels)
        self._counts = MessageCounts(channels, is_consumer=is_consumer, writer=writer)
        return self._counts

    def _channels(self) -> Iterator[PeerChannel]:
        """The totals of each channel, from its messages and from the counts of our tasks."""
        load, counts = self._executor.attempts.load, self._counts
        sent = {} if load is None else {x.channel: x for x in load.producer_channels()}
        read = {} if load is None else {x.channel: x for x in load.consumer_channels()}
        for index, channel in enumerate(self._load.channels):
            taken, backlog = read.get(index), int(counts.backlog_max[index])
            written = sent[index].sent_records if index in sent else 0
            disorder: tuple[int | None, ...] = (None, None, None)
            if taken is not None and self._records == STAMPED:
                disorder = taken.lost, taken.repeated, taken.reordered
            yield PeerChannel(
                *(index, str(channel.partition_id), channel.subpartition),
                written if taken is None else taken.records,
                None if taken is None else taken.value_bytes,
                None if taken is None else taken.other_elements,
                *(counts.buffers(index), int(counts.buffer_bytes[index]), counts.events(index)),
                *(int(counts.credit[index]), int(counts.credit_messages[index])),
                backlog if backlog >= 0 else None,
                *disorder,
            )

    def _save_manifest(self, *, is_over: bool = False) -> None:
        if self._directory is None:
            return
        load = self._load
        receivers = {index: receiver.hex() for receiver, index in self._channel_of.items()}
        channels = (
            replace(
                each,
                receiver_id=receivers.get(each.index, each.receiver_id),
                producer_process="producer",
                consumer_process="consumer",
                connection="producer->consumer",
            )
            for each in channel_infos(load.sinks)
        )
        manifest_of(
            load.scenario.to_dict(),
            load.scenario.network,
            (self._process,),
            channels,
            seed=load.scenario.seed,
            host=environment(),
            started_at=self._started_at,
            measured_from_ns=self.start_ns if is_over else None,
            measured_to_ns=self.end_ns + 1 if is_over else None,
        ).save(self._directory)


def _failure_of(message: messages.TaskStateChanged) -> Exception:
    kind = kind_of(message.kind) if message.kind else RuntimeError
    try:
        return kind(message.error)
    except TypeError:  # its constructor needs more than a text
        return FlinknetError(message.error)
