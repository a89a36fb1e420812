# mypyc
"""TaskExecutor: the process of a TaskManager (Flink: TaskExecutor).

Registers at the JobManager, passes its commands to the attempts of the process (Attempts), answers
heartbeats, sends statistics. Tasks, network and control connection take turns on one event loop.
The functions of a program run in a thread per task: a function that does not return blocks that
task, and nothing else.
"""

from __future__ import annotations

import gc
import os
import shutil
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinknet.config import RECORDED
from flinknet.core.connection import Connection
from flinknet.core.producer import ResultPartition
from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.errors import ConfigError, FlinknetError, TransportError
from flinknet.job.scheduling import PartitionState
from flinknet.job.sources import NextInputSplit
from flinknet.loopback import bound_host, loopback
from flinknet.results import GateDump, PartitionDump, TaskDump, TaskManagerDump
from flinknet.units import format_address

from ..clock import adjust, monotonic_ns, process_time_ns
from ..host import stay_on_core
from ..shuffle_environment import ShuffleEnvironment
from . import control_messages as messages
from .attempt import Attempt
from .attempts import OPENING_POLL_NS, Attempts
from .cluster_process import TaskManagerProcessSpec
from .control_connection import ControlConnection
from .host_clock import ClockLine
from .hosted_job import HostedJob
from .reports import Report

STATISTICS_PAUSE = 20
"""Pause after sampling statistics, in multiples of its CPU time: at most a twentieth of the CPU."""


class TaskExecutor:
    """The state of one process."""

    def __init__(
        self,
        spec: TaskManagerProcessSpec,
        environment: ShuffleEnvironment | None = None,
        control: ControlConnection | None = None,
    ) -> None:
        self._spec = spec
        self._environment = environment or ShuffleEnvironment(
            spec.network,
            spec.flow_control,
            spec.name,
            task_managers=spec.task_managers,
            channel_of={},
            may_spin=spec.has_own_core,
        )
        self._loop = self._environment.loop
        self._connections = self._environment.connections
        self._control = control or ControlConnection(spec.token, role="task manager")
        self.attempts = Attempts(self._environment, self._control.send)
        self._has_ended = False
        self._awaited_channels: messages.AwaitChannels | None = None
        self._last_message_ns = monotonic_ns()
        self._next_statistics_ns = self._statistics_pause_ns = 0
        self._next_flush_ns = 0

    def run(self) -> None:
        """Run from the registration to the command to end."""
        port = self._environment.start()
        self._loop.add_transport(connected(self._spec), _wrapped(self._control, self._spec))
        spec, host = self._spec, bound_host(self._spec.network.bind_host)
        self._control.send(
            messages.RegisterTaskManager(spec.index, os.getpid(), spec.slots, host, port)
        )
        self.serve()
        self.release("its TaskManager ends")
        self.save_trace()
        self._environment.close()

    def serve(self) -> None:
        """Carry out the commands of the JobManager, up to the command to end."""
        loop, control, attempts = self._loop, self._control, self.attempts
        due_ns = 0
        while not self._has_ended:
            loop.run_once(until_ns=due_ns)
            now_ns = monotonic_ns()
            is_quiet = now_ns < due_ns and control.is_quiet and not attempts.has_lines
            if is_quiet and not attempts.has_unreported_change:
                continue
            self._turn(now_ns)
            due_ns = self._next_deadline_ns()

    def release(self, cause: str) -> None:
        """End all attempts; their readers receive the cause, as far as sockets accept it now."""
        self.attempts.release(cause)
        self.attempts.flush_lines()
        self._loop.pump()

    def fail(self, error: FlinknetError) -> None:
        """Fail all partitions, as `release` does, but send nothing to the producers."""
        self.attempts.fail_partitions(str(error))
        self._loop.pump()

    def save_trace(self) -> None:
        with suppress(FlinknetError):
            self._environment.recorder.close()

    def _next_deadline_ns(self) -> int:
        due = [self._connections.next_deadline_ns(), self.attempts.next_deadline_ns()]
        if self._awaited_channels is not None:
            due.append(monotonic_ns() + OPENING_POLL_NS)
        due += self._next_statistics_ns, self._next_flush_ns
        return min(each for each in due if each is not None)

    def _turn(self, now_ns: int) -> None:
        attempts, received = self.attempts, self._control.received
        while received:
            self._last_message_ns = now_ns
            self._receive(received.popleft(), now_ns)
        if self._control.loss is not None:
            self._has_ended = True
            for job in attempts.jobs.values():  # in case no other process is left to do it
                if job.spill_dir is not None:
                    shutil.rmtree(job.spill_dir, ignore_errors=True)
        elif now_ns - self._last_message_ns > self._spec.silence_max_ns:
            print("the JobManager has sent no heartbeat in time", file=sys.stderr)
            self._has_ended = True
        self._connections.handle_deadline(now_ns=now_ns)
        attempts.handle_deadline(now_ns=now_ns)
        if self._awaited_channels is not None and attempts.are_channels_open:
            self._control.send(messages.ChannelsOpen(self._awaited_channels.job))
            self._awaited_channels = None
        if now_ns >= self._next_statistics_ns:
            self._send_statistics()
        self._next_flush_ns = self._environment.flush_trace(now_ns=now_ns)

    def _receive(self, message: Any, now_ns: int) -> None:
        attempts = self.attempts
        if isinstance(message, messages.SubmitTask):
            attempts.submit(message, now_ns=now_ns)
        elif isinstance(message, messages.UpdatePartitions):
            attempts.update_partitions(message)
        elif isinstance(message, messages.ExpectReaders):
            if (job := attempts.jobs.get(message.job)) is not None:
                attempts.expect(job, message.readers)
            self._control.send(messages.ReadersExpected())
        elif isinstance(message, messages.CancelTask):
            attempts.cancel(message.attempt_id)
        elif isinstance(message, NextInputSplit):
            attempts.receive_split(message)
        elif isinstance(message, PartitionState):
            attempts.producers.receive(message, now_ns=now_ns)
        elif isinstance(message, messages.Heartbeat):
            self._control.send(messages.HeartbeatAnswer(message.number))
        elif isinstance(message, messages.JobCommand):
            for each in attempts.of_job(message.job):
                each.task.execute(message.command, now_ns=now_ns)
        elif isinstance(message, messages.StopTasks):
            for each in attempts.of_job(message.job):
                each.task.stop()
        elif isinstance(message, messages.ReleasePartitions):
            for attempt_id in message.attempt_ids:
                attempts.release_partitions(attempt_id)
        elif isinstance(message, messages.DescribeTasks):
            kept = self._environment.partitions.partitions
            self._control.send(dump_of(self._spec.index, attempts.running, kept))
        elif isinstance(message, messages.InitializeJob):
            self._initialize(message)
        elif isinstance(message, messages.AwaitChannels):
            self._awaited_channels = message
        elif isinstance(message, messages.Start):
            attempts.start(message, now_ns=now_ns)
        elif isinstance(message, messages.CloseJob):
            self._close(message.job)
        elif isinstance(message, ClockLine):
            adjust(message.at_ns, message.offset_ns, message.drift)
        elif isinstance(message, messages.Disconnect):
            self._has_ended = True
        else:
            raise TypeError(f"no message for a TaskManager: {type(message).__name__}")

    def _initialize(self, message: messages.InitializeJob) -> None:
        """Prepare for the tasks of a job. Raises: FlinknetError if a load cannot be prepared."""
        try:
            job = HostedJob(on_worker(message, self._spec), self._environment, self._spec.index)
        except FlinknetError as error:
            if isinstance(message.submission, messages.SubmitLoad):
                raise
            self._control.send(messages.JobInitialized(message.job, str(error)))
            return
        if not self.attempts.jobs:  # live objects stay: keep the garbage collector away from them
            if gc.get_freeze_count():  # collect the remains of earlier jobs
                gc.unfreeze()
                gc.collect()
            gc.freeze()
        self.attempts.jobs[job.id] = job
        self._control.send(messages.JobInitialized(message.job))

    def _close(self, job_id: ExecutionGraphID) -> None:
        job = self.attempts.jobs.get(job_id)
        report = Report()  # if the job could not be loaded here
        if job is not None:
            report = job.report()
            self.attempts.forget(job)
        if self._spec.work_dir is not None:  # no other process tidies up there
            spilled = Path(self._spec.work_dir, messages.spill_name(job_id))
            shutil.rmtree(spilled, ignore_errors=True)
        self._control.send(messages.JobClosed(job_id, report))

    def _send_statistics(self) -> None:
        began_ns, began_cpu_ns = monotonic_ns(), process_time_ns()
        attempts = self.attempts
        for job in attempts.jobs.values():
            running, load = attempts.of_job(job.id), job.load
            if load is not None:
                for each in running:  # channels can fail while they are not read
                    each.check_channels()
                attempts.check_readers()
            if running:
                statistics = job.statistics_of(
                    running,
                    connections=attempts.used(running),
                    fill=None if load is None else load.fill_sample(),
                )
                self._control.send(statistics)
            if load is not None:
                memory = statistics.memory if running else {}
                load.note_statistics(memory, within_ns=self._statistics_pause_ns)
        took_ns = process_time_ns() - began_cpu_ns
        pause_ns = max(self._spec.sample_interval_ns, STATISTICS_PAUSE * took_ns)
        self._statistics_pause_ns = pause_ns
        self._next_statistics_ns = began_ns + pause_ns


def connected(spec: TaskManagerProcessSpec) -> socket.socket:
    """Connect to the control port. Raises: TransportError."""
    address = spec.control_host or loopback(), spec.control_port
    try:
        sock = socket.create_connection(address, CONNECT_WAIT_S)
    except OSError as error:
        there = f"the JobManager at {format_address(*address)}"
        raise TransportError(f"{there} cannot be reached ({error.strerror or error})") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _wrapped(control: ControlConnection, spec: TaskManagerProcessSpec) -> Connection:
    if not (spec.control_host and spec.network.ssl_internal_enabled):
        return control
    from ..tls import create_tls

    return create_tls(spec.network).around(control, is_server=False)


def on_worker(
    message: messages.InitializeJob, spec: TaskManagerProcessSpec
) -> messages.InitializeJob:
    """A message with directories on this host, if a worker hosts the TaskManager. Raises:
    ConfigError for a program, if it runs none.
    """
    submission = message.submission
    if isinstance(submission, messages.SubmitJob) and not spec.takes_code:
        raise ConfigError("its worker runs no programs (--no-code)")
    if spec.work_dir is None:
        return message
    directory = str(Path(spec.work_dir, str(message.job)))
    spill_dir = str(Path(spec.work_dir, messages.spill_name(message.job)))
    for each in directory, spill_dir:
        Path(each).mkdir(parents=True, exist_ok=True)
    out_dir = None
    if isinstance(submission, messages.SubmitJob):
        submission, out_dir = replace(submission, run_dir=directory), directory
    elif submission.scenario.workload.arrivals.startswith(RECORDED):
        arrivals = RECORDED + str(Path(spec.work_dir, messages.ARRIVALS))
        workload = replace(submission.scenario.workload, arrivals=arrivals)
        submission = replace(submission, scenario=replace(submission.scenario, workload=workload))
    return replace(
        message,
        submission=submission,
        trace_dir=message.trace_dir and directory,
        spill_dir=message.spill_dir and spill_dir,
        out_dir=out_dir,
    )


def dump_of(
    index: int, tasks: Sequence[Attempt], registered: Sequence[ResultPartition]
) -> TaskManagerDump:
    """Describe the tasks of a TaskManager as they are now, and all `registered` partitions."""
    own = {id(partition) for task in tasks for partition in task.partitions}
    kept = (_partition(each) for each in registered if id(each) not in own)
    return TaskManagerDump(index, tuple(map(_task, tasks)), tuple(kept))


def _task(running: Attempt) -> TaskDump:
    return TaskDump(
        running.task.name,
        str(running.attempt_id),
        running.descriptor.slot,
        tuple(_partition(each) for each in running.partitions),
        tuple(
            GateDump(
                described.edge + 1,
                str(described.data_set_id),
                sum(each.initial_credit for each in gate.remote_channels),
                tuple(
                    (x.partition_id.partition_id.partition_number, x.subpartition, x.is_local)
                    for x in gate.channels
                ),
            )
            for described, gate in zip(running.descriptor.inputs, running.task.gates, strict=True)
        ),
    )


def _partition(partition: ResultPartition) -> PartitionDump:
    return PartitionDump(
        str(partition.partition_id), partition.partition_type.name, len(partition.subpartitions)
    )


CONNECT_WAIT_S = 10.0
"""How long a TaskManager waits for the JobManager's host."""

REPORT_WAIT_S = 2.0
"""How long the JobManager may take to read the failure."""


def run_task_manager(spec: TaskManagerProcessSpec) -> None:
    """Run the process."""
    sys.path[:] = spec.module_path
    adjust(0, spec.clock_offset_ns, 0.0)
    if spec.has_own_core:
        stay_on_core(spec.core)
    executor: TaskExecutor | None = None
    try:
        executor = TaskExecutor(spec)
        executor.run()
        return
    except FlinknetError as error:
        exit_code, text, kind = error.exit_code, str(error), type(error).__name__
        if executor is not None:
            executor.fail(error)
    except Exception:  # a bug; the JobManager's side shows the traceback
        exit_code, text, kind = 1, traceback.format_exc(), ""
    is_told = _report_failure(spec, text, kind)
    if spec.control_host or not is_told:
        print(text, file=sys.stderr)  # the last line, which its worker reports
    if executor is not None:
        executor.save_trace()
    sys.exit(exit_code)


def _report_failure(spec: TaskManagerProcessSpec, error: str, kind: str) -> bool:
    """Report to the JobManager why this process ends, over a connection of its own, as there may be
    none yet. Waits until the message was read. Returns: whether it was.
    """
    connection = ControlConnection(spec.token, role="task manager")
    connection.send(messages.TaskManagerFailed(spec.index, os.getpid(), error, kind))
    wrapped, until_ns = _wrapped(connection, spec), monotonic_ns() + round(REPORT_WAIT_S * 1e9)
    with suppress(OSError, FlinknetError), connected(spec) as sock:
        sock.settimeout(REPORT_WAIT_S)
        while monotonic_ns() < until_ns:
            sock.sendall(b"".join(wrapped.data_to_send(now_ns=monotonic_ns())))
            if not (data := sock.recv(1 << 16)):
                return True
            wrapped.receive_data(memoryview(data), now_ns=monotonic_ns())
    return False
