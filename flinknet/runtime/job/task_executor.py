"""TaskExecutor: the process of a TaskManager that runs tasks of a job (Flink: TaskExecutor).

Registers at the JobManager, runs attempts that it is told to, connects to the TaskManagers that
they read from, answers heart-beats. Tasks, network and control connection take turns on one event
loop: a function of the program that does not return holds all of them up, and is noticed by the
heart-beats.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import FlinknetError, TraceError
from flinknet.graph import JobGraph, job_graph_of, load_program
from flinknet.graph.execution import ExecutionState
from flinknet.graph.job_config import job_config
from flinknet.job import TaskDeploymentDescriptor
from flinknet.job.assembly import create_task, network_of
from flinknet.job.checkpoint_coordinator import AbortCheckpoint, TriggerCheckpoint
from flinknet.job.debloating import BufferDebloating, debloated_gates
from flinknet.job.descriptor import InputChannelDescriptor
from flinknet.job.gates import create_gates, create_partitions
from flinknet.job.stream_task import StreamTask

from ..client_factory import ConnectionID
from ..clock import monotonic_ns
from ..host import stay_on_core
from ..shuffle_environment import ShuffleEnvironment
from ..spill_file import create_spill_file
from . import control_messages as say
from .child import TaskManagerProcessSpec
from .control_connection import ControlConnection
from .job_files import spill_directory
from .running_task import RunningTask, told
from .sampling import statistics_of, trace_closed
from .task_io import ProcessIO, reader_of

STATISTICS_INTERVAL_NS = 200_000_000
STATISTICS_PAUSE = 20
"""Of so many times what they take: telling them costs a twentieth of the time at most, however many
channels there are.
"""


class TaskExecutor:
    """Everything one process owns."""

    def __init__(self, spec: TaskManagerProcessSpec) -> None:
        self._spec = spec
        config, _ = job_config(spec.settings)
        self._config, self._network = config, config.network
        self._readers: dict[bytes, int] = {}
        self._environment = ShuffleEnvironment(
            self._network,
            config.flow_control,
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
        self._spills = self._environment.spills
        self._statistics = self._environment.statistics
        self._recorder = self._environment.recorder
        self._connections = self._environment.connections
        self._io = ProcessIO()
        self._control = ControlConnection(spec.token, role="task manager")
        self._tasks: dict[ExecutionAttemptID, RunningTask] = {}
        self._written: dict[ExecutionAttemptID, RunningTask] = {}
        self._job: JobGraph | None = None
        self._seed = 0
        self._spill_dir = spill_directory(Path(spec.run_dir))
        self._epoch_ns = 0
        self._has_ended = False
        self._heard_ns = monotonic_ns()
        self._next_statistics_ns = 0
        self._next_flush_ns = 0
        self._gate_deadline_ns: int | None = None

    def run(self) -> None:
        """Live from registration to the word that ends it."""
        port = self._connections.start()
        sock = socket.create_connection(("127.0.0.1", self._spec.control_port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop.add_transport(sock, self._control)
        host = self._network.bind_host
        spec = self._spec
        self._control.send(say.RegisterTaskManager(spec.index, os.getpid(), spec.slots, host, port))
        while not self._has_ended:
            self._loop.run_once(until_ns=self._next_deadline_ns())
            self._turn(monotonic_ns())
        self._end()

    def save_trace(self) -> None:
        """Keep what was recorded; for the way out after an error."""
        with suppress(FlinknetError):
            self._recorder.close()

    def _next_deadline_ns(self) -> int:
        due = [self._next_statistics_ns, self._next_flush_ns]
        wanted = [self._connections.next_deadline_ns(), self._gate_deadline_ns]
        wanted += [each.next_deadline_ns() for each in self._tasks.values()]
        due += [each for each in wanted if each is not None]
        return min(due)

    def _turn(self, now_ns: int) -> None:
        received = self._control.received
        while received:
            self._heard_ns = now_ns
            self._receive(received.popleft(), now_ns)
        if self._control.loss is not None:
            self._has_ended = True
        elif now_ns - self._heard_ns > self._config.heartbeat_timeout_ns:
            print("the JobManager has sent no heart-beat in time", file=sys.stderr)
            self._has_ended = True
        self._connections.handle_deadline(now_ns=now_ns)
        if self._gate_deadline_ns is not None and now_ns >= self._gate_deadline_ns:
            self._repeat_requests(now_ns)
        ended = [each for each in self._tasks.values() if each.has_ended]
        for task in ended:
            self._task_ended(task, now_ns)
        self._io.flush()
        if now_ns >= self._next_statistics_ns:
            began_ns = monotonic_ns()
            if self._tasks:
                self._control.send(self._sample(self._tasks.values(), now_ns))
            took_ns = monotonic_ns() - began_ns
            pause_ns = max(STATISTICS_INTERVAL_NS, STATISTICS_PAUSE * took_ns)
            self._next_statistics_ns = began_ns + pause_ns
        self._next_flush_ns = self._environment.flush_trace(now_ns=now_ns)

    def _receive(self, message: Any, now_ns: int) -> None:
        if isinstance(message, say.SubmitTask):
            self._submit(message, now_ns)
        elif isinstance(message, say.ExpectReaders):
            self._expect(message.readers)
            self._control.send(say.ReadersExpected())
        elif isinstance(message, say.CancelTask):
            self._cancel(message.attempt_id)
        elif isinstance(message, say.Heartbeat):
            self._control.send(say.HeartbeatAnswer(message.number))
        elif isinstance(message, TriggerCheckpoint | AbortCheckpoint):
            for each in list(self._tasks.values()):
                each.task.obey(message, now_ns=now_ns)
        elif isinstance(message, say.ReleasePartitions):
            for attempt_id in message.attempt_ids:
                self._release(attempt_id)
        elif isinstance(message, say.InitializeJob):
            self._initialize(message)
        elif isinstance(message, say.CloseTrace):
            self._control.send(self._close_trace())
        elif isinstance(message, say.Disconnect):
            self._has_ended = True

    def _initialize(self, message: say.InitializeJob) -> None:
        """Run the program: functions do not travel, the program does."""
        job = message.job
        with redirect_stdout(sys.stderr):
            program = load_program(Path(job.path), job.settings, job.arguments, source=job.source)
        self._job = job_graph_of(program.stream_graph)
        self._network = network_of(self._job)
        self._epoch_ns = message.timestamp_epoch_ns
        self._seed = job.seed
        gc.freeze()  # what is alive now stays; cycle collection need not look at it again
        self._control.send(say.JobInitialized())

    def _submit(self, message: say.SubmitTask, now_ns: int) -> None:
        descriptor = message.task
        attempt_id = descriptor.attempt_id
        try:
            task = self._create(descriptor, message, now_ns)
        except (Exception, SystemExit) as error:
            self._tell_state(attempt_id, ExecutionState.FAILED, told(error))
            return
        self._tell_state(attempt_id, ExecutionState.RUNNING)
        self._tasks[attempt_id] = task
        self._follow_tasks()

    def _create(
        self, descriptor: TaskDeploymentDescriptor, message: say.SubmitTask, now_ns: int
    ) -> RunningTask:
        """Partitions, gates and the task between them; then the gates ask for their partitions."""
        assert self._job is not None
        own = [channel.index for gate in descriptor.inputs for channel in gate.channels]
        written = [channel for output in descriptor.outputs for channel in output.channels]
        self._statistics.grow(1 + max([*own, *written], default=-1))
        self._statistics.measured_from_ns = message.measured_from_ns
        partitions = create_partitions(
            descriptor,
            self._network,
            self._pool,
            self._partitions,
            create_data=partial(create_spill_file, self._spill_dir),
        )
        gates: tuple[SingleInputGate, ...] = ()
        try:
            gates = create_gates(
                descriptor,
                self._network,
                self._pool,
                partitions=self._partitions,
                connect=partial(self._connect, message),
                probe=self._recorder,
            )
            self._tell_state(descriptor.attempt_id, ExecutionState.INITIALIZING)
            task = create_task(
                descriptor,
                self._job,
                partitions,
                gates,
                self._recorder,
                self._control.send,
                io=self._io,
                start_ns=message.start_ns,
                end_ns=message.end_ns,
                measured_from_ns=message.measured_from_ns,
                timestamp_epoch_ns=self._epoch_ns,
                seed=self._seed,
                spills=self._spills,
            )
        except BaseException as error:
            for partition in partitions:
                partition.fail(told(error))
            for gate in gates:
                gate.close()
            raise
        readers = [reader_of(self._loop, text) for text in task.text_inputs]
        for gate in gates:
            gate.request_partitions(now_ns=now_ns)
            deadline_ns = gate.next_deadline_ns()
            if deadline_ns is not None:
                self._gate_deadline_ns = min(deadline_ns, self._gate_deadline_ns or deadline_ns)
        return RunningTask(
            task,
            descriptor,
            partitions,
            readers,
            start_ns=message.start_ns,
            debloating=self._debloating_of(task, now_ns),
            is_detailed=self._network.detailed_metrics,
        )

    def _debloating_of(self, task: StreamTask, now_ns: int) -> BufferDebloating | None:
        gates = debloated_gates([task], self._network, now_ns=now_ns)
        if not gates:
            return None
        return BufferDebloating(gates, self._network.debloating_period_ns, start_ns=now_ns)

    def _tell_state(
        self,
        attempt_id: ExecutionAttemptID,
        state: ExecutionState,
        error: str = "",
        *,
        is_consequence: bool = False,
    ) -> None:
        self._control.send(say.TaskStateChanged(attempt_id, state, error, is_consequence))

    def _follow_tasks(self) -> None:
        """The loop steps those that are there."""
        ordered = sorted(self._tasks.values(), key=lambda each: each.descriptor.key)
        self._loop.tasks = ordered
        self._loop.has_local_channels = any(
            channel.is_local
            for each in ordered
            for gate in each.task.gates
            for channel in gate.channels
        )

    def _connect(self, message: say.SubmitTask, channel: InputChannelDescriptor) -> Any:
        """The shared client that a channel is requested with: its TaskManager is connected to
        when the first channel asks.
        """
        address = message.addresses[channel.task_manager]
        connection_id = ConnectionID(channel.task_manager, address, channel.connection_index)
        client: ConsumerConnection = self._connections.create_client(connection_id)
        return client

    def _expect(self, readers: dict[str, int]) -> None:
        """Know the channels that will be asked for, so that the trace names them."""
        self._readers.update((bytes.fromhex(each), index) for each, index in readers.items())
        self._statistics.grow(1 + max(readers.values(), default=-1))

    def _repeat_requests(self, now_ns: int) -> None:
        """Local channels whose partition was not there."""
        due: list[int] = []
        for each in self._tasks.values():
            for gate in each.task.gates:
                gate.handle_deadline(now_ns=now_ns)
                deadline_ns = gate.next_deadline_ns()
                if deadline_ns is not None:
                    due.append(deadline_ns)
        self._gate_deadline_ns = min(due, default=None)

    def _task_ended(self, running: RunningTask, now_ns: int) -> None:
        """An attempt has finished or failed: its last figures, then how it ended."""
        attempt_id = running.attempt_id
        self._control.send(self._sample([running], now_ns))
        del self._tasks[attempt_id]
        running.release(running.error)
        self._follow_tasks()
        if running.error is None:
            self._keep_blocking(running)
            self._tell_state(attempt_id, ExecutionState.FINISHED)
        else:
            self._tell_state(
                attempt_id,
                ExecutionState.FAILED,
                running.error,
                is_consequence=running.is_consequence,
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
        if running is None:  # it has ended, and was told so
            return
        self._control.send(self._sample([running], monotonic_ns()))
        running.release("it was canceled")
        self._follow_tasks()
        self._tell_state(attempt_id, ExecutionState.CANCELED)

    def _release(self, attempt_id: ExecutionAttemptID) -> None:
        running = self._written.pop(attempt_id, None)
        if running is not None:
            for partition in running.partitions:
                self._partitions.release(partition)

    def _sample(self, tasks: Iterable[RunningTask], now_ns: int) -> say.Statistics:
        environment = self._environment
        return statistics_of(tasks, environment.connections, environment.pool, now_ns=now_ns)

    def _close_trace(self) -> say.TraceClosed:
        error = None
        try:
            self._recorder.close()
        except TraceError as fault:
            error = str(fault)
        return trace_closed(self._statistics, self._connections.strangers(), error)

    def _end(self) -> None:
        """Everything ends with this process."""
        for running in list(self._tasks.values()):
            running.release("its TaskManager ends")
        self._io.flush()
        for transport in list(self._loop.transports):
            transport.pump()
        self.save_trace()
        self._environment.close()


def run_task_executor(spec: TaskManagerProcessSpec) -> None:
    """Entry of the process."""
    if spec.has_own_core:
        stay_on_core(spec.index)
    executor: TaskExecutor | None = None
    try:
        executor = TaskExecutor(spec)
        executor.run()
    except FlinknetError as error:
        print(f"{spec.name}: {error}", file=sys.stderr, flush=True)
        _save_trace(executor)
        sys.exit(error.exit_code)
    except Exception:  # a bug; the log shows it
        traceback.print_exc()
        _save_trace(executor)
        sys.exit(1)


def _save_trace(executor: TaskExecutor | None) -> None:
    if executor is not None:
        executor.save_trace()
