# mypyc
"""Attempts: those that a TaskManager runs, from the order to run one to how it ended (Flink:
TaskSlotTable, and the part of TaskExecutor that submits, cancels and releases).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.errors import FlinknetError
from flinknet.graph.execution import ExecutionState
from flinknet.job.checkpoint_coordinator import Answer
from flinknet.job.debloating import BufferDebloating, debloated_gates
from flinknet.job.producer_states import ProducerStateChecks
from flinknet.job.scheduling import has_output
from flinknet.job.stream_task import StreamTask

from ..clock import monotonic_ns
from ..shuffle_environment import ShuffleEnvironment
from . import control_messages as say
from .attempt_channels import AttemptChannels
from .hosted_job import HostedJob
from .load_run import LoadRun
from .prepared_attempts import OpenedAttempt, PreparedAttempts
from .running_task import RunningTask, told
from .task_factory import LoadFactory
from .task_io import reader_of

FAREWELL_NS = 500_000_000
"""How long a process that ends waits for functions that are in work, so that files are written."""

FAREWELL_LOOK_S = 0.001


class Attempts:
    """All attempts of one process.

    Args:
        send: tells the JobManager.

    Attributes:
        running: attempts that the event loop steps, in the order of their tasks.
        jobs: whose attempts they are, by id.
        load: what follows them while they are those of a load, which has its cluster for itself.
        tells_first_output: whether there are tasks whose readers wait for an output that has not
            been told.
        producers: what is asked of producers that do not have a partition.
        prepared: attempts that have no task yet.
    """

    def __init__(
        self,
        environment: ShuffleEnvironment,
        channels: AttemptChannels,
        send: Callable[[Any], None],
    ) -> None:
        self.running: list[RunningTask] = []
        self.jobs: dict[ExecutionGraphID, HostedJob] = {}
        self.load: LoadRun | None = None
        self.tells_first_output = False
        self.producers = ProducerStateChecks(send, self.cancel)
        self.prepared = PreparedAttempts(environment, channels, self.producers.check)
        self._environment = environment
        self._channels = channels
        self._send = send
        self._begun: say.Start | None = None
        self._tasks: dict[ExecutionAttemptID, RunningTask] = {}
        self._written: dict[ExecutionAttemptID, RunningTask] = {}
        self._ending: list[tuple[RunningTask, say.TaskStateChanged | None]] = []
        self._told_consumable: set[tuple[ExecutionAttemptID, int]] = set()

    @property
    def gates(self) -> list[SingleInputGate]:
        """Of all that run or wait."""
        return [gate for each in self.running for gate in each.task.gates] + self.prepared.gates

    @property
    def has_news(self) -> bool:
        """Whether there are some that have opened or ended, and were not seen to."""
        for running in self.running:
            if running.has_news:
                return True
        return bool(self._ending)

    @property
    def have_lines(self) -> bool:
        """Whether printed lines wait to leave."""
        for job in self.jobs.values():  # noqa: SIM110 - in each turn; a generator takes longer
            if job.io.has_lines:
                return True
        return False

    def initialize(self, job: HostedJob) -> None:
        """A job is known, whose attempts will come."""
        self.jobs[job.id] = job

    def forget(self, job: HostedJob) -> None:
        """A job is over: nothing of it stays but functions in work, up to their end."""
        self._ending = [
            (running, None if job.owns(running.attempt_id) else told_then)
            for running, told_then in self._ending
        ]
        for attempt_id in [each for each in self._tasks if job.owns(each)]:
            running = self._tasks.pop(attempt_id)
            running.release("its job is over")
            self._end(running, None)
        self.prepared.forget(job)
        for attempt_id in [each for each in self._written if job.owns(each)]:
            del self._written[attempt_id]
        self._told_consumable = {each for each in self._told_consumable if not job.owns(each[0])}
        registered = self._environment.partitions
        for partition in registered.partitions:
            if job.owns(partition.partition_id.producer_id):
                registered.release(partition)
        del self.jobs[job.id]
        self._follow_tasks()
        job.close()

    def of_job(self, job: HostedJob) -> list[RunningTask]:
        """Those of one job that run."""
        if len(self.jobs) == 1:
            return self.running
        return [each for each in self.running if job.owns(each.attempt_id)]

    def flush_lines(self) -> None:
        """Let printed lines leave."""
        for job in self.jobs.values():
            job.io.flush()

    def submit(self, message: say.SubmitTask, *, now_ns: int) -> None:
        """Run an attempt, at once or from the start of the run on."""
        descriptor = message.task
        job = self.jobs.get(descriptor.attempt_id.execution_graph_id)
        if job is None:  # it is over
            return
        try:
            self.prepared.set_up(job, message, now_ns=now_ns)
        except (Exception, SystemExit) as error:
            self._tell_failure(descriptor.attempt_id, error)
            return
        self.advance_setups(now_ns=now_ns)

    def advance_setups(self, *, now_ns: int) -> None:
        """Go on with attempts for whose gates there is memory now."""
        for attempt_id, found in self.prepared.advance(now_ns=now_ns):
            if isinstance(found, BaseException):
                self._tell_failure(attempt_id, found)
                continue
            self._tell_state(attempt_id, ExecutionState.INITIALIZING)
            start = found.start or self._begun
            if start is None:
                self.prepared.wait(found)
            else:
                self._start(found, start, now_ns)

    def update_partitions(self, message: say.UpdatePartitions, *, now_ns: int) -> None:
        """Request what an attempt can read now and could not when it began."""
        self.prepared.note_readable(message.attempt_id, message.edges)
        running = self._tasks.get(message.attempt_id)
        if running is not None:
            for described, gate in zip(running.descriptor.inputs, running.task.gates, strict=True):
                if described.edge in message.edges and gate.is_state_consumed:
                    self._channels.request([gate], now_ns=now_ns)

    def start(self, start: say.Start, *, now_ns: int) -> None:
        """The run starts."""
        self._begun = start
        for attempt in self.prepared.begin():
            self._start(attempt, start, now_ns)

    def handle_news(self) -> None:
        """Tell of those that have opened, let go of those that have finished or failed."""
        for running in [each for each in self.running if each.has_news]:
            if not running.is_told_running and running.task.is_open:
                running.is_told_running = True
                self._tell_state(running.attempt_id, ExecutionState.RUNNING)
            if running.has_ended:
                self._task_ended(running)
        if self._ending:
            ending, self._ending = self._ending, []
            for running, told_then in ending:
                self._end(running, told_then)

    def cancel(self, attempt_id: ExecutionAttemptID) -> None:
        """End one that may still run."""
        if self.prepared.cancel(attempt_id):
            self._tell_state(attempt_id, ExecutionState.CANCELED)
            return
        running = self._tasks.pop(attempt_id, None)
        if running is None:  # it has ended, and was told so
            return
        self._tell_last(running)
        running.release("it was canceled")
        self._follow_tasks()
        self._end(running, say.TaskStateChanged(attempt_id, ExecutionState.CANCELED))

    def release_partitions(self, attempt_id: ExecutionAttemptID) -> None:
        """Nobody will read what one has kept."""
        running = self._written.pop(attempt_id, None)
        if running is not None:
            for partition in running.partitions:
                self._environment.partitions.release(partition)

    def release(self, cause: str) -> None:
        """All end with their process, which waits a moment for functions to return; also those that
        have not begun, and what some have kept.
        """
        for running in self.running:
            running.release(cause)
        self.prepared.release(cause)
        self.fail_partitions(cause)
        ending = [*self.running, *(running for running, _ in self._ending)]
        until_ns = monotonic_ns() + FAREWELL_NS
        while monotonic_ns() < until_ns:
            ending = [each for each in ending if not each.let_go()]
            if not ending:
                break
            sleep(FAREWELL_LOOK_S)

    def fail_partitions(self, cause: str) -> None:
        """Whoever reads something here is told why it ends."""
        for partition in self._environment.partitions.partitions:
            partition.fail(cause)

    def tell_first_output(self) -> None:
        """Name those that readers wait for no longer."""
        is_any_untold = False
        for attempt_id, running in self._tasks.items():
            for output, partition in enumerate(running.partitions):
                told_of = attempt_id, output
                if told_of in self._told_consumable:
                    continue
                if not has_output(partition):
                    is_any_untold = True
                    continue
                self._told_consumable.add(told_of)
                self._send(say.OutputConsumable(attempt_id, output))
        self.tells_first_output = is_any_untold

    def _start(self, opened: OpenedAttempt, start: say.Start, now_ns: int) -> None:
        """Create the task of an attempt, which runs from now on."""
        job, descriptor = opened.job, opened.descriptor
        factory = job.factory
        job.trace.statistics.measured_from_ns = start.measured_from_ns
        is_load = isinstance(factory, LoadFactory)
        try:
            task = factory.create(
                descriptor,
                opened.partitions,
                opened.gates,
                start,
                self._environment,
                partial(self._answer, job.id),
                job.io,
                now_ns=now_ns,
            )
        except (Exception, SystemExit) as error:
            opened.cancel(told(error))
            self._tell_failure(descriptor.attempt_id, error)
            return
        begin_ns = start.start_ns if is_load else max(start.start_ns, now_ns)
        loop = self._environment.loop
        running = RunningTask(
            task,
            descriptor,
            opened.partitions,
            [reader_of(loop, text) for text in task.text_inputs],
            start_ns=begin_ns,
            debloating=_debloating_of(task, job.network, begin_ns),
            is_detailed=job.network.detailed_metrics,
            waits_for_readers=is_load,
        )
        self._tasks[descriptor.attempt_id] = running
        if factory.tells_first_output:
            self.tells_first_output = True
        if isinstance(factory, LoadFactory):
            if job.load is None:
                job.load = self.load = LoadRun(
                    self._environment, job.trace.statistics, factory.scenario, start
                )
            job.load.add(running)
        self._follow_tasks()

    def _job_of(self, attempt_id: ExecutionAttemptID) -> HostedJob:
        """Messages of a job come between those that begin it and end it."""
        return self.jobs[attempt_id.execution_graph_id]

    def _answer(self, job: ExecutionGraphID, answer: Answer) -> None:
        self._send(say.JobAnswer(job, answer))

    def _tell_last(self, running: RunningTask) -> None:
        """The last figures of an attempt that has ended."""
        job = self._job_of(running.attempt_id)
        others = [each for each in self.of_job(job) if each is not running]
        connections = self._channels.used(others)
        self._send(job.sampler.statistics_of([running], is_last=True, connections=connections))

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
        self.prepared.end(attempt_id)
        self._tell_last(running)
        del self._tasks[attempt_id]
        if running.error is None and self.load is not None:
            self.load.ended(running)
        running.release(running.error)
        self._follow_tasks()
        if running.error is None:
            self._keep_blocking(running)
            self._tell_state(attempt_id, ExecutionState.FINISHED)
        else:
            self._end(
                running,
                say.TaskStateChanged(
                    attempt_id,
                    ExecutionState.FAILED,
                    running.error,
                    running.is_consequence,
                    running.kind,
                ),
            )

    def _end(self, running: RunningTask, told_then: say.TaskStateChanged | None) -> None:
        """Tell how one has ended as soon as no function of it is in work: until then it would be in
        the way of the next attempt (Flink: CANCELING; task.cancellation.timeout is the
        JobManager's).

        Args:
            told_then: None where its job is over, and nobody is told.
        """
        if running.let_go():
            if told_then is not None:
                self._send(told_then)
        else:
            self._ending.append((running, told_then))

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


def _debloating_of(
    task: StreamTask, network: NetworkConfig, start_ns: int
) -> BufferDebloating | None:
    gates = debloated_gates([task], network, now_ns=start_ns)
    if not gates:
        return None
    return BufferDebloating(gates, network.debloating_period_ns, start_ns=start_ns)
