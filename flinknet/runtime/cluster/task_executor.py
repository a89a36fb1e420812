# mypyc
"""TaskExecutor: the process of a TaskManager (Flink: TaskExecutor).

Registers at the JobManager, runs attempts that it is told to, connects to the TaskManagers that
they read from, answers heart-beats. Tasks, network and control connection take turns on one event
loop: a function of the program that does not return holds all of them up, and is noticed by the
heart-beats.
"""

from __future__ import annotations

import gc
import os
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import FlinknetError, PartitionConnectionError, TraceError
from flinknet.graph.execution import ExecutionState
from flinknet.job.checkpoint_coordinator import AbortCheckpoint, TriggerCheckpoint
from flinknet.job.debloating import BufferDebloating, debloated_gates
from flinknet.job.descriptor import InputChannelDescriptor, TaskDeploymentDescriptor
from flinknet.job.gates import blocking_storage, create_gates, create_partitions
from flinknet.job.producer_states import PartitionState, ProducerStateChecks
from flinknet.job.stream_task import StreamTask

from ..client_factory import ConnectionID
from ..clock import monotonic_ns
from ..shuffle_environment import ShuffleEnvironment
from ..spill_file import create_spill_file
from . import control_messages as say
from .child import TaskManagerProcessSpec
from .control_connection import ControlConnection
from .dumps import dump_of
from .load_run import LoadRun
from .running_task import RunningTask, told
from .sampling import Sampler, report_of
from .task_factory import LoadFactory, TaskFactory, factory_of
from .task_io import ProcessIO, reader_of

STATISTICS_PAUSE = 20
"""Of so many times what they take: telling them costs a twentieth of the time at most, however many
channels there are.
"""

OPENING_LOOK_NS = 1_000_000
"""How late an open channel, or the first output of a task, is noticed: no socket tells of it."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An attempt whose task begins with the run."""

    descriptor: TaskDeploymentDescriptor
    partitions: tuple[ResultPartition, ...]
    gates: tuple[SingleInputGate, ...]


class TaskExecutor:
    """Everything one process owns."""

    def __init__(self, spec: TaskManagerProcessSpec) -> None:
        self._spec = spec
        self._network = spec.network
        self._readers: dict[bytes, int] = {}
        self._reader_names: dict[int, str] = {}
        self._environment = ShuffleEnvironment(
            spec.network,
            spec.flow_control,
            spec.name,
            task_managers=spec.task_managers,
            trace_path=None if spec.trace_path is None else Path(spec.trace_path),
            channels=0,
            channel_of=self._readers,
            may_spin=spec.has_own_core,
        )
        self._loop = self._environment.loop
        self._pool = self._environment.pool
        self._partitions = self._environment.partitions
        self._statistics = self._environment.statistics
        self._connections = self._environment.connections
        self._io = ProcessIO()
        self._control = ControlConnection(spec.token, role="task manager")
        self._producers = ProducerStateChecks(self._control.send, self._cancel)
        self._sampler = Sampler(self._connections, self._pool)
        self._waiting: list[_Waiting] = []
        self._tasks: dict[ExecutionAttemptID, RunningTask] = {}
        self._running: list[RunningTask] = []
        self._written: dict[ExecutionAttemptID, RunningTask] = {}
        self._told_consumable: set[ExecutionAttemptID] = set()
        self._factory: TaskFactory | None = None
        self._load: LoadRun | None = None
        self._spill_dir = None if spec.spill_dir is None else Path(spec.spill_dir)
        self._storage = blocking_storage(spec.network, partial(create_spill_file, self._spill_dir))
        self._has_ended = False
        self._is_asked_for_channels = False
        self._heard_ns = monotonic_ns()
        self._next_statistics_ns = 0
        self._next_flush_ns = 0
        self._gate_deadline_ns: int | None = None

    def run(self) -> None:
        """Live from registration to the word that ends it."""
        port = self._connections.start()
        sock = connected(self._spec)
        self._loop.add_transport(sock, self._control)
        spec, host = self._spec, self._network.bind_host
        self._control.send(say.RegisterTaskManager(spec.index, os.getpid(), spec.slots, host, port))
        loop, control, io = self._loop, self._control, self._io
        due_ns = 0
        while not self._has_ended:
            loop.run_once(until_ns=due_ns)
            now_ns = monotonic_ns()
            is_quiet = now_ns < due_ns and control.is_quiet and not io.has_lines
            if is_quiet and not self._is_any_over():
                continue
            self._turn(now_ns)
            due_ns = self._next_deadline_ns()
        self._end()

    def save_trace(self) -> None:
        """Keep what was recorded; for the way out after an error."""
        with suppress(FlinknetError):
            self._environment.recorder.close()

    def fail(self, error: FlinknetError) -> None:
        """This process cannot go on: whoever reads its partitions is told why, as far as the
        sockets take it now.
        """
        for running in self._running:
            for partition in running.partitions:
                partition.fail(str(error))
        self._flush()

    def _is_any_over(self) -> bool:
        for running in self._running:  # noqa: SIM110 - in each turn; a generator takes longer
            if running.has_ended:
                return True
        return False

    def _next_deadline_ns(self) -> int:
        due = [self._next_statistics_ns, self._next_flush_ns]
        wanted = [self._connections.next_deadline_ns(), self._gate_deadline_ns]
        wanted.append(self._producers.next_deadline_ns())
        wanted += [each.next_deadline_ns() for each in self._running]
        if self._load is not None:
            wanted.append(self._load.next_deadline_ns())
        if self._waiting or self._is_asked_for_channels or self._tells_first_output:
            wanted.append(monotonic_ns() + OPENING_LOOK_NS)
        due += [each for each in wanted if each is not None]
        return min(due)

    def _turn(self, now_ns: int) -> None:
        received = self._control.received
        while received:
            self._heard_ns = now_ns
            self._receive(received.popleft(), now_ns)
        if self._control.loss is not None:
            self._has_ended = True
            if self._spill_dir is not None:  # nobody else may be there to do it
                shutil.rmtree(self._spill_dir, ignore_errors=True)
        elif now_ns - self._heard_ns > self._spec.silence_max_ns:
            print("the JobManager has sent no heart-beat in time", file=sys.stderr)
            self._has_ended = True
        self._connections.handle_deadline(now_ns=now_ns)
        self._producers.handle_deadline(now_ns=now_ns)
        if self._gate_deadline_ns is not None and now_ns >= self._gate_deadline_ns:
            self._repeat_requests(now_ns)
        if self._load is not None:
            self._load.handle_deadline(now_ns=now_ns)
        if self._waiting:
            self._check_waiting(now_ns)
        if self._is_asked_for_channels and self._are_channels_open:
            self._is_asked_for_channels = False
            self._control.send(say.ChannelsOpen())
        if self._tells_first_output:
            self._tell_first_output()
        for task in [each for each in self._running if each.has_ended]:
            self._task_ended(task)
        self._io.flush()
        if now_ns >= self._next_statistics_ns:
            self._tell_statistics()
        self._next_flush_ns = self._environment.flush_trace(now_ns=now_ns)

    def _receive(self, message: Any, now_ns: int) -> None:
        if isinstance(message, say.SubmitTask):
            self._submit(message, now_ns)
        elif isinstance(message, say.ExpectReaders):
            self._expect(message.readers)
            self._control.send(say.ReadersExpected())
        elif isinstance(message, say.CancelTask):
            self._cancel(message.attempt_id)
        elif isinstance(message, PartitionState):
            self._producers.receive(message, now_ns=now_ns)
        elif isinstance(message, say.Heartbeat):
            self._control.send(say.HeartbeatAnswer(message.number))
        elif isinstance(message, TriggerCheckpoint | AbortCheckpoint):
            for each in self._running:
                each.task.obey(message, now_ns=now_ns)
        elif isinstance(message, say.ReleasePartitions):
            for attempt_id in message.attempt_ids:
                self._release(attempt_id)
        elif isinstance(message, say.DescribeTasks):
            kept = self._partitions.partitions
            self._control.send(dump_of(self._spec.index, self._running, kept))
        elif isinstance(message, say.InitializeJob):
            self._factory = factory_of(message.job)
            self._network = self._factory.network
            gc.freeze()  # what is alive now stays; cycle collection need not look at it again
            self._control.send(say.JobInitialized())
        elif isinstance(message, say.AwaitChannels):
            self._is_asked_for_channels = True
        elif isinstance(message, say.Start):
            begun, self._waiting = self._waiting, []
            for attempt in begun:
                self._start(attempt, message, now_ns)
        elif isinstance(message, say.CloseTrace):
            self._control.send(self._report())
        elif isinstance(message, say.Disconnect):
            self._has_ended = True

    # Attempts

    def _submit(self, message: say.SubmitTask, now_ns: int) -> None:
        descriptor = message.task
        try:
            waiting = self._open(descriptor, message, now_ns)
        except (Exception, SystemExit) as error:
            self._tell_failure(descriptor.attempt_id, error)
            return
        self._tell_state(descriptor.attempt_id, ExecutionState.INITIALIZING)
        if message.start is None:
            self._waiting.append(waiting)
        else:
            self._start(waiting, message.start, now_ns)

    def _open(
        self, descriptor: TaskDeploymentDescriptor, message: say.SubmitTask, now_ns: int
    ) -> _Waiting:
        """Partitions and gates; these ask for what they read."""
        own = [channel.index for gate in descriptor.inputs for channel in gate.channels]
        written = [channel for output in descriptor.outputs for channel in output.channels]
        self._statistics.grow(1 + max([*own, *written], default=-1))
        partitions = create_partitions(
            descriptor,
            self._network,
            self._pool,
            self._partitions,
            storage=self._storage,
        )
        try:
            gates = create_gates(
                descriptor,
                self._network,
                self._pool,
                partitions=self._partitions,
                connect=partial(self._connect, message),
                probe=self._environment.recorder,
                check_producer=partial(self._producers.check, descriptor.attempt_id),
            )
        except BaseException as error:
            for partition in partitions:
                partition.fail(told(error))
            raise
        for gate in gates:
            gate.request_partitions(now_ns=now_ns)
            deadline_ns = gate.next_deadline_ns()
            if deadline_ns is not None:
                self._gate_deadline_ns = min(deadline_ns, self._gate_deadline_ns or deadline_ns)
        return _Waiting(descriptor, partitions, gates)

    def _start(self, waiting: _Waiting, start: say.Start, now_ns: int) -> None:
        """Create the task of an attempt, which runs from now on."""
        factory, descriptor = self._factory, waiting.descriptor
        assert factory is not None
        self._statistics.measured_from_ns = start.measured_from_ns
        is_load = isinstance(factory, LoadFactory)
        try:
            task = factory.create(
                descriptor,
                waiting.partitions,
                waiting.gates,
                start,
                self._environment,
                self._control.send,
                self._io,
                now_ns=now_ns,
            )
        except (Exception, SystemExit) as error:
            for partition in waiting.partitions:
                partition.fail(told(error))
            for gate in waiting.gates:
                gate.close()
            self._tell_failure(descriptor.attempt_id, error)
            return
        begin_ns = start.start_ns if is_load else max(start.start_ns, now_ns)
        running = RunningTask(
            task,
            descriptor,
            waiting.partitions,
            [reader_of(self._loop, text) for text in task.text_inputs],
            start_ns=begin_ns,
            debloating=self._debloating_of(task, begin_ns),
            is_detailed=self._network.detailed_metrics,
            waits_for_readers=is_load,
        )
        self._tell_state(descriptor.attempt_id, ExecutionState.RUNNING)
        self._tasks[descriptor.attempt_id] = running
        if isinstance(factory, LoadFactory):
            if self._load is None:
                self._load = LoadRun(self._environment, factory.scenario, start)
            self._load.add(running)
        self._follow_tasks()

    def _debloating_of(self, task: StreamTask, start_ns: int) -> BufferDebloating | None:
        gates = debloated_gates([task], self._network, now_ns=start_ns)
        if not gates:
            return None
        return BufferDebloating(gates, self._network.debloating_period_ns, start_ns=start_ns)

    def _tell_state(self, attempt_id: ExecutionAttemptID, state: ExecutionState) -> None:
        self._control.send(say.TaskStateChanged(attempt_id, state))

    def _tell_failure(self, attempt_id: ExecutionAttemptID, error: BaseException) -> None:
        kind = type(error).__name__ if isinstance(error, FlinknetError) else ""
        failed = say.TaskStateChanged(attempt_id, ExecutionState.FAILED, told(error), False, kind)
        self._control.send(failed)

    def _follow_tasks(self) -> None:
        """The loop steps those that are there."""
        self._running = sorted(self._tasks.values(), key=_key)
        self._loop.tasks = self._running
        self._loop.has_local_channels = any(
            channel.is_local
            for each in self._running
            for gate in each.task.gates
            for channel in gate.channels
        )

    def _task_ended(self, running: RunningTask) -> None:
        """An attempt has finished or failed: its last figures, then how it ended."""
        attempt_id = running.attempt_id
        self._control.send(self._sampler.statistics_of([running], is_last=True))
        del self._tasks[attempt_id]
        if running.error is None and self._load is not None:
            self._load.ended(running)
        running.release(running.error)
        self._follow_tasks()
        if running.error is None:
            self._keep_blocking(running)
            self._tell_state(attempt_id, ExecutionState.FINISHED)
        else:
            self._control.send(
                say.TaskStateChanged(
                    attempt_id,
                    ExecutionState.FAILED,
                    running.error,
                    running.is_consequence,
                    running.kind,
                )
            )

    def _keep_blocking(self, running: RunningTask) -> None:
        """What it wrote for later stays until the JobManager says otherwise; the rest goes when it
        has been read.
        """
        types = (each.partition_type for each in running.partitions)
        if any(each.is_blocking_or_blocking_persistent for each in types):
            self._written[running.attempt_id] = running

    def _cancel(self, attempt_id: ExecutionAttemptID) -> None:
        running = self._tasks.pop(attempt_id, None)
        if running is None:  # it has not begun, or has ended, and was told so
            self._cancel_waiting(attempt_id)
            return
        self._control.send(self._sampler.statistics_of([running], is_last=True))
        running.release("it was canceled")
        self._follow_tasks()
        self._tell_state(attempt_id, ExecutionState.CANCELED)

    def _cancel_waiting(self, attempt_id: ExecutionAttemptID) -> None:
        found = [each for each in self._waiting if each.descriptor.attempt_id == attempt_id]
        for waiting in found:
            self._waiting.remove(waiting)
            for partition in waiting.partitions:
                partition.fail("it was canceled")
            for gate in waiting.gates:
                gate.close()
            self._tell_state(attempt_id, ExecutionState.CANCELED)

    def _release(self, attempt_id: ExecutionAttemptID) -> None:
        running = self._written.pop(attempt_id, None)
        if running is not None:
            for partition in running.partitions:
                self._partitions.release(partition)

    @property
    def _tells_first_output(self) -> bool:
        """Whether there are tasks whose readers wait for their first output."""
        return self._factory is not None and self._factory.tells_first_output

    def _tell_first_output(self) -> None:
        for attempt_id, running in self._tasks.items():
            if attempt_id in self._told_consumable or not running.partitions:
                continue
            if all(_has_output(each) for each in running.partitions):
                self._told_consumable.add(attempt_id)
                self._control.send(say.OutputConsumable(attempt_id))

    # Channels

    def _connect(self, message: say.SubmitTask, channel: InputChannelDescriptor) -> Any:
        """The shared client that a channel is requested with: its TaskManager is connected to
        when the first channel asks.
        """
        address = message.addresses[channel.task_manager]
        connection_id = ConnectionID(channel.task_manager, address, channel.connection_index)
        client: ConsumerConnection = self._connections.create_client(connection_id)
        return client

    def _expect(self, readers: dict[str, tuple[int, int]]) -> None:
        """Know the channels that will be asked for, so that the trace names them."""
        for receiver_id, (channel, task_manager) in readers.items():
            self._readers[bytes.fromhex(receiver_id)] = channel
            self._reader_names[channel] = f"tm-{task_manager}"
            self._statistics.grow(1 + channel)

    @property
    def _are_channels_open(self) -> bool:
        return all(
            subpartition.has_view
            for each in self._waiting
            for partition in each.partitions
            for subpartition in partition.subpartitions
        )

    def _repeat_requests(self, now_ns: int) -> None:
        """Local channels whose partition was not there."""
        due: list[int] = []
        gates = [gate for each in self._running for gate in each.task.gates]
        gates += [gate for each in self._waiting for gate in each.gates]
        for gate in gates:
            gate.handle_deadline(now_ns=now_ns)
            deadline_ns = gate.next_deadline_ns()
            if deadline_ns is not None:
                due.append(deadline_ns)
        self._gate_deadline_ns = min(due, default=None)

    def _check_waiting(self, now_ns: int) -> None:
        """Raises: what keeps tasks from beginning."""
        self._connections.check_accepting()
        gates = [gate for each in self._waiting for gate in each.gates]
        channels = [channel.error for gate in gates for channel in gate.channels]
        errors = [client.error for client in self._connections.clients] + channels
        # an error that names the partition first: its client's does not
        errors.sort(key=lambda error: not isinstance(error, PartitionConnectionError))
        for error in errors:
            if error is not None:
                raise error
        self._check_readers()

    def _check_channels(self) -> None:
        """Fail tasks of a load whose channels have failed, also while they read nothing."""
        for running in self._running:
            running.check_channels()
        self._check_readers()

    def _check_readers(self) -> None:
        """Raises: TransportError for a reader that has gone away with channels open."""
        for accepted in self._connections.accepted:
            if accepted.connection.loss is not None:
                raise accepted.loss_error(self._reader_names)

    # What is told

    def _tell_statistics(self) -> None:
        began_ns = monotonic_ns()
        load = self._load
        if load is not None:
            self._check_channels()
        if self._running:
            fill = None if load is None else load.fill_sample()
            statistics = self._sampler.statistics_of(self._running, fill=fill)
            if load is not None:
                load.note_memory(statistics.memory)
            self._control.send(statistics)
        took_ns = monotonic_ns() - began_ns
        pause_ns = max(self._spec.sample_interval_ns, STATISTICS_PAUSE * took_ns)
        self._next_statistics_ns = began_ns + pause_ns

    def _report(self) -> say.Report:
        error = None
        try:
            self._environment.recorder.close()
        except TraceError as fault:
            error = str(fault)
        strangers = self._connections.strangers()
        if self._load is None:
            return report_of(self._statistics, strangers, error)
        return self._load.report(strangers, error)

    def _flush(self) -> None:
        for transport in list(self._loop.transports):
            transport.pump()

    def _end(self) -> None:
        """Everything ends with this process."""
        for running in self._running:
            running.release("its TaskManager ends")
        self._io.flush()
        self._flush()
        self.save_trace()
        self._environment.close()


def _key(running: RunningTask) -> tuple[int, int]:
    return running.descriptor.key


def _has_output(partition: ResultPartition) -> bool:
    return partition.is_finished or any(each.buffers_in_backlog for each in partition.subpartitions)


def connected(spec: TaskManagerProcessSpec) -> socket.socket:
    """A connection to the control port."""
    sock = socket.create_connection(("127.0.0.1", spec.control_port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
