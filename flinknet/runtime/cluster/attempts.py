# mypyc
"""Attempts: those that a TaskManager runs, from the order to run one to how it ended (Flink:
TaskSlotTable, and the part of TaskExecutor that submits, cancels and releases).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import FlinknetError
from flinknet.graph.execution import ExecutionState
from flinknet.job.debloating import BufferDebloating, debloated_gates
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.gates import blocking_storage, create_gates, create_partitions
from flinknet.job.stream_task import StreamTask

from ..shuffle_environment import ShuffleEnvironment
from ..spill_file import create_spill_file
from . import control_messages as say
from .attempt_channels import AttemptChannels, are_read, has_output
from .load_run import LoadRun
from .running_task import RunningTask, told
from .sampling import Sampler
from .task_factory import LoadFactory, TaskFactory
from .task_io import ProcessIO, reader_of


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An attempt whose task begins with the run."""

    descriptor: TaskDeploymentDescriptor
    partitions: tuple[ResultPartition, ...]
    gates: tuple[SingleInputGate, ...]


class Attempts:
    """All attempts of one process.

    Args:
        send: tells the JobManager.
        network: settings until those of the job are known.
        spill_dir: of what is stored of blocking partitions.

    Attributes:
        running: attempts that the event loop steps, in the order of their tasks.
        load: what follows them while they are those of a load.
    """

    def __init__(
        self,
        network: NetworkConfig,
        environment: ShuffleEnvironment,
        channels: AttemptChannels,
        sampler: Sampler,
        io: ProcessIO,
        send: Callable[[Any], None],
        spill_dir: Path | None,
    ) -> None:
        self.running: list[RunningTask] = []
        self.load: LoadRun | None = None
        self._factory: TaskFactory | None = None
        self._network = network
        self._environment = environment
        self._channels = channels
        self._sampler = sampler
        self._io = io
        self._send = send
        self._waiting: list[_Waiting] = []
        self._tasks: dict[ExecutionAttemptID, RunningTask] = {}
        self._written: dict[ExecutionAttemptID, RunningTask] = {}
        self._told_consumable: set[ExecutionAttemptID] = set()
        self._storage = blocking_storage(network, partial(create_spill_file, spill_dir))

    @property
    def is_any_waiting(self) -> bool:
        """Whether there are attempts that wait for the start of the run."""
        return bool(self._waiting)

    @property
    def gates(self) -> list[SingleInputGate]:
        """Of all that run or wait."""
        return [gate for each in self.running for gate in each.task.gates] + self.waiting_gates

    @property
    def waiting_gates(self) -> list[SingleInputGate]:
        """Of those that wait for the start of the run."""
        return [gate for each in self._waiting for gate in each.gates]

    @property
    def are_channels_open(self) -> bool:
        """Whether each channel that those that wait write has its reader."""
        return are_read(partition for each in self._waiting for partition in each.partitions)

    @property
    def is_any_over(self) -> bool:
        """Whether there are some that have ended, and were not seen to."""
        for running in self.running:  # noqa: SIM110 - in each turn; a generator takes longer
            if running.has_ended:
                return True
        return False

    @property
    def tells_first_output(self) -> bool:
        """Whether there are tasks whose readers wait for their first output."""
        return self._factory is not None and self._factory.tells_first_output

    def initialize(self, factory: TaskFactory) -> None:
        """The job is known, whose tasks these are."""
        self._factory = factory
        self._network = factory.network

    def submit(self, message: say.SubmitTask, *, now_ns: int) -> None:
        """Run an attempt, at once or from the start of the run on."""
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

    def start(self, start: say.Start, *, now_ns: int) -> None:
        """The run starts."""
        begun, self._waiting = self._waiting, []
        for attempt in begun:
            self._start(attempt, start, now_ns)

    def handle_ended(self) -> None:
        """Let go of those that have finished or failed."""
        for running in [each for each in self.running if each.has_ended]:
            self._task_ended(running)

    def cancel(self, attempt_id: ExecutionAttemptID) -> None:
        """End one that may still run."""
        running = self._tasks.pop(attempt_id, None)
        if running is None:  # it has ended, and was told so
            return
        self._send(self._sampler.statistics_of([running], is_last=True))
        running.release("it was canceled")
        self._follow_tasks()
        self._tell_state(attempt_id, ExecutionState.CANCELED)

    def release_partitions(self, attempt_id: ExecutionAttemptID) -> None:
        """Nobody will read what one has kept."""
        running = self._written.pop(attempt_id, None)
        if running is not None:
            for partition in running.partitions:
                self._environment.partitions.release(partition)

    def release(self, cause: str) -> None:
        """Those that run end with their process."""
        for running in self.running:
            running.release(cause)

    def fail_partitions(self, cause: str) -> None:
        """Whoever reads of those that run is told why it ends."""
        for running in self.running:
            for partition in running.partitions:
                partition.fail(cause)

    def tell_first_output(self) -> None:
        """Name those that readers wait for no longer."""
        for attempt_id, running in self._tasks.items():
            if attempt_id in self._told_consumable or not running.partitions:
                continue
            if all(has_output(each) for each in running.partitions):
                self._told_consumable.add(attempt_id)
                self._send(say.OutputConsumable(attempt_id))

    def _open(
        self, descriptor: TaskDeploymentDescriptor, message: say.SubmitTask, now_ns: int
    ) -> _Waiting:
        """Partitions and gates; these ask for what they read."""
        environment = self._environment
        own = [channel.index for gate in descriptor.inputs for channel in gate.channels]
        written = [channel for output in descriptor.outputs for channel in output.channels]
        environment.statistics.grow(1 + max([*own, *written], default=-1))
        partitions = create_partitions(
            descriptor,
            self._network,
            environment.pool,
            environment.partitions,
            storage=self._storage,
        )
        try:
            gates = create_gates(
                descriptor,
                self._network,
                environment.pool,
                partitions=environment.partitions,
                connect=partial(self._channels.connect, message.addresses),
                probe=environment.recorder,
            )
        except BaseException as error:
            for partition in partitions:
                partition.fail(told(error))
            raise
        self._channels.request(gates, now_ns=now_ns)
        return _Waiting(descriptor, partitions, gates)

    def _start(self, waiting: _Waiting, start: say.Start, now_ns: int) -> None:
        """Create the task of an attempt, which runs from now on."""
        factory, descriptor = self._factory, waiting.descriptor
        assert factory is not None
        self._environment.statistics.measured_from_ns = start.measured_from_ns
        is_load = isinstance(factory, LoadFactory)
        try:
            task = factory.create(
                descriptor,
                waiting.partitions,
                waiting.gates,
                start,
                self._environment,
                self._send,
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
        loop = self._environment.loop
        running = RunningTask(
            task,
            descriptor,
            waiting.partitions,
            [reader_of(loop, text) for text in task.text_inputs],
            start_ns=begin_ns,
            debloating=self._debloating_of(task, begin_ns),
            is_detailed=self._network.detailed_metrics,
            waits_for_readers=is_load,
        )
        self._tell_state(descriptor.attempt_id, ExecutionState.RUNNING)
        self._tasks[descriptor.attempt_id] = running
        if isinstance(factory, LoadFactory):
            if self.load is None:
                self.load = LoadRun(self._environment, factory.scenario, start)
            self.load.add(running)
        self._follow_tasks()

    def _debloating_of(self, task: StreamTask, start_ns: int) -> BufferDebloating | None:
        gates = debloated_gates([task], self._network, now_ns=start_ns)
        if not gates:
            return None
        return BufferDebloating(gates, self._network.debloating_period_ns, start_ns=start_ns)

    def _follow_tasks(self) -> None:
        """The loop steps those that are there."""
        loop = self._environment.loop
        self.running = sorted(self._tasks.values(), key=_key)
        loop.tasks = self.running
        loop.has_local_channels = any(
            channel.is_local
            for each in self.running
            for gate in each.task.gates
            for channel in gate.channels
        )

    def _task_ended(self, running: RunningTask) -> None:
        """An attempt has finished or failed: its last figures, then how it ended."""
        attempt_id = running.attempt_id
        self._send(self._sampler.statistics_of([running], is_last=True))
        del self._tasks[attempt_id]
        if running.error is None and self.load is not None:
            self.load.ended(running)
        running.release(running.error)
        self._follow_tasks()
        if running.error is None:
            self._keep_blocking(running)
            self._tell_state(attempt_id, ExecutionState.FINISHED)
        else:
            self._send(
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

    def _tell_state(self, attempt_id: ExecutionAttemptID, state: ExecutionState) -> None:
        self._send(say.TaskStateChanged(attempt_id, state))

    def _tell_failure(self, attempt_id: ExecutionAttemptID, error: BaseException) -> None:
        kind = type(error).__name__ if isinstance(error, FlinknetError) else ""
        failed = say.TaskStateChanged(attempt_id, ExecutionState.FAILED, told(error), False, kind)
        self._send(failed)


def _key(running: RunningTask) -> tuple[int, int]:
    return running.descriptor.key
