# mypyc
"""Attempts: the attempts of a TaskManager, from submission to their final state (Flink:
TaskSlotTable, and the part of TaskExecutor that submits, cancels and releases).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import sleep
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.errors import FlinknetError
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job.checkpoint_coordinator import Answer
from flinknet.job.debloating import BufferDebloating, debloated_gates
from flinknet.job.scheduling import ProducerStateChecks, has_output
from flinknet.job.sources import NextInputSplit, RequestedSplits
from flinknet.job.stream_task import StreamTask

from ..clock import monotonic_ns
from ..shuffle_environment import ShuffleEnvironment
from . import control_messages as messages
from .attempt import Attempt, error_text
from .attempt_channels import AttemptChannels, have_readers
from .hosted_job import HostedJob
from .load_run import LoadRun
from .task_io import reader_of

FUNCTIONS_WAIT_NS = 500_000_000
"""How long a process that ends waits for running functions to return, so that files are written."""

FUNCTIONS_POLL_S = 0.001


class Attempts:
    """All attempts of one process.

    Args:
        send: sends a message to the JobManager.

    Attributes:
        running: attempts that the event loop steps, in the order of their tasks.
        jobs: the jobs of the attempts, by id.
        load: follows the attempts of a load, which has its cluster to itself.
        awaits_first_output: whether readers wait for a first output that has not been reported.
        producers: state requests for producers whose partition was missing.
        prepared: attempts that have no task yet, in the order of their submission.
    """

    def __init__(
        self,
        environment: ShuffleEnvironment,
        channels: AttemptChannels,
        send: Callable[[Any], None],
    ) -> None:
        self.running: list[Attempt] = []
        self.jobs: dict[ExecutionGraphID, HostedJob] = {}
        self.load: LoadRun | None = None
        self.awaits_first_output = False
        self.producers = ProducerStateChecks(send, self.cancel)
        self.prepared: list[Attempt] = []
        self._environment = environment
        self._channels = channels
        self._send = send
        self._begun: messages.Start | None = None
        self._tasks: dict[ExecutionAttemptID, Attempt] = {}
        self._written: dict[ExecutionAttemptID, Attempt] = {}
        self._ending: list[tuple[Attempt, messages.TaskStateChanged | None]] = []
        self._reported_outputs: set[tuple[ExecutionAttemptID, int]] = set()

    @property
    def gates(self) -> list[SingleInputGate]:
        return [gate for each in (*self.running, *self.prepared) for gate in each.gates]

    @property
    def waiting_gates(self) -> list[SingleInputGate]:
        """The open gates of attempts that wait for the start of the run."""
        return [gate for each in self.prepared for gate in each.gates]

    @property
    def has_setups(self) -> bool:
        """Whether there are attempts whose gates wait for memory."""
        return any(not each.is_open for each in self.prepared)

    @property
    def are_channels_open(self) -> bool:
        """Whether every channel that attempts without a task write has its reader."""
        return not self.has_setups and have_readers(
            partition for each in self.prepared for partition in each.partitions
        )

    @property
    def has_unreported_change(self) -> bool:
        """Whether an attempt has opened or ended since `report_changes`."""
        for running in self.running:
            if running.has_unreported_change:
                return True
        return bool(self._ending)

    @property
    def has_lines(self) -> bool:
        """Whether printed lines wait to be written."""
        for job in self.jobs.values():  # noqa: SIM110 - in each turn; a generator takes longer
            if job.io.has_lines:
                return True
        return False

    def initialize(self, job: HostedJob) -> None:
        self.jobs[job.id] = job

    def forget(self, job: HostedJob) -> None:
        """Drop everything of a job that is over but running functions, which end first."""
        self._ending = [
            (running, None if job.owns(running.attempt_id) else final_state)
            for running, final_state in self._ending
        ]
        for attempt_id in [each for each in self._tasks if job.owns(each)]:
            running = self._tasks.pop(attempt_id)
            running.release("its job is over")
            self._end(running, None)
        self._drop_prepared(
            [each for each in self.prepared if job.owns(each.attempt_id)], "its job is over"
        )
        for attempt_id in [each for each in self._written if job.owns(each)]:
            del self._written[attempt_id]
        self._reported_outputs = {each for each in self._reported_outputs if not job.owns(each[0])}
        registered = self._environment.partitions
        for partition in registered.partitions:
            if job.owns(partition.partition_id.producer_id):
                registered.release(partition)
        del self.jobs[job.id]
        self._follow_tasks()
        job.close()

    def of_job(self, job: HostedJob) -> list[Attempt]:
        """The running attempts of one job."""
        if len(self.jobs) == 1:
            return self.running
        return [each for each in self.running if job.owns(each.attempt_id)]

    def flush_lines(self) -> None:
        """Write the printed lines."""
        for job in self.jobs.values():
            job.io.flush()

    def submit(self, message: messages.SubmitTask, *, now_ns: int) -> None:
        """Run an attempt, at once or from the start of the run."""
        job = self.jobs.get(message.task.attempt_id.execution_graph_id)
        if job is None:  # it is over
            return
        descriptor = job.complete(message.task)
        message = replace(message, task=descriptor)
        own = [channel.index for gate in descriptor.inputs for channel in gate.channels]
        written = [channel for output in descriptor.outputs for channel in output.channels]
        self._environment.traces.claim(job.trace, (*own, *written))
        try:
            prepared = Attempt(message, job.network, job.storage, self._environment, now_ns=now_ns)
        except (Exception, SystemExit) as error:
            self._send_failure(descriptor.attempt_id, error)
            return
        self.prepared.append(prepared)
        self.advance_setups(now_ns=now_ns)

    def advance_setups(self, *, now_ns: int) -> None:
        """Continue with attempts whose gates can have their memory now."""
        for each in [each for each in self.prepared if not each.is_open]:
            try:
                check = self.producers.check
                if not each.try_open(self._channels.connect, self._request, check, now_ns=now_ns):
                    continue
            except (Exception, SystemExit) as error:
                self._drop_prepared([each], error_text(error))
                self._send_failure(each.attempt_id, error)
                continue
            self._send_state(each.attempt_id, ExecutionState.INITIALIZING)
            if (start := each.start or self._begun) is not None:
                self.prepared.remove(each)
                self._start(each, start, now_ns)

    def update_partitions(self, message: messages.UpdatePartitions, *, now_ns: int) -> None:
        """Request partitions that were not readable when the attempt started."""
        for each in self.prepared:
            if each.attempt_id == message.attempt_id:
                each.unread.difference_update(message.edges)
        running = self._tasks.get(message.attempt_id)
        if running is not None:
            running.unread.difference_update(message.edges)
            for described, gate in zip(running.descriptor.inputs, running.gates, strict=True):
                if described.edge in message.edges and gate.is_state_consumed:
                    self._channels.request([gate], now_ns=now_ns)

    def receive_split(self, message: NextInputSplit) -> None:
        """Pass a split to the source that has requested it, if its attempt still runs."""
        running = self._tasks.get(message.attempt_id)
        source = None if running is None else running.task.sources[message.operator_id]
        if isinstance(source, RequestedSplits):
            source.receive(message.splits)

    def start(self, start: messages.Start, *, now_ns: int) -> None:
        """Start the run."""
        self._begun = start
        for each in [each for each in self.prepared if each.is_open]:
            self.prepared.remove(each)
            self._start(each, start, now_ns)

    def report_changes(self) -> None:
        """Report attempts that have opened, and remove those that have finished or failed."""
        for running in [each for each in self.running if each.has_unreported_change]:
            if not running.is_reported_running and running.task.is_open:
                running.is_reported_running = True
                self._send_state(running.attempt_id, ExecutionState.RUNNING)
            if running.has_ended:
                self._task_ended(running)
        if self._ending:
            ending, self._ending = self._ending, []
            for running, final_state in ending:
                self._end(running, final_state)

    def cancel(self, attempt_id: ExecutionAttemptID) -> None:
        """Cancel an attempt, if it still runs."""
        if prepared := [each for each in self.prepared if each.attempt_id == attempt_id]:
            self._drop_prepared(prepared, "it was canceled")
            self._send_state(attempt_id, ExecutionState.CANCELED)
            return
        running = self._tasks.pop(attempt_id, None)
        if running is None:  # it has ended, which was reported
            return
        self._send_last_statistics(running)
        running.release("it was canceled")
        self._follow_tasks()
        self._end(running, messages.TaskStateChanged(attempt_id, ExecutionState.CANCELED))

    def release_partitions(self, attempt_id: ExecutionAttemptID) -> None:
        """Release the partitions that an attempt has kept: they have no readers left."""
        running = self._written.pop(attempt_id, None)
        if running is not None:
            for partition in running.partitions:
                self._environment.partitions.release(partition)

    def release(self, cause: str) -> None:
        """End every attempt, started or not, and its kept partitions, before the process ends; wait
        briefly for running functions to return.
        """
        for running in self.running:
            running.release(cause)
        for each in self.prepared:
            each.release(cause)
        self.fail_partitions(cause)
        ending = [*self.running, *(running for running, _ in self._ending)]
        until_ns = monotonic_ns() + FUNCTIONS_WAIT_NS
        while monotonic_ns() < until_ns:
            ending = [each for each in ending if not each.try_cancel()]
            if not ending:
                break
            sleep(FUNCTIONS_POLL_S)

    def fail_partitions(self, cause: str) -> None:
        """Fail every partition, so that its readers receive the cause."""
        for partition in self._environment.partitions.partitions:
            partition.fail(cause)

    def report_first_outputs(self) -> None:
        """Report new first outputs, so that their readers can start."""
        is_any_missing = False
        for attempt_id, running in self._tasks.items():
            for output, partition in enumerate(running.partitions):
                key = attempt_id, output
                if key in self._reported_outputs:
                    continue
                if not has_output(partition):
                    is_any_missing = True
                    continue
                self._reported_outputs.add(key)
                self._send(messages.OutputConsumable(attempt_id, output))
        self.awaits_first_output = is_any_missing

    def _request(self, gate: SingleInputGate) -> None:
        self._channels.request([gate], now_ns=monotonic_ns())

    def _drop_prepared(self, attempts: Sequence[Attempt], cause: str) -> None:
        for each in attempts:
            self.prepared.remove(each)
            each.release(cause)

    def _start(self, opened: Attempt, start: messages.Start, now_ns: int) -> None:
        job, descriptor = self._job_of(opened.attempt_id), opened.descriptor
        job.trace.statistics.measured_from_ns = start.measured_from_ns
        is_load = job.scenario is not None
        respond = partial(self._answer, job.id)
        try:
            task = job.create_task(
                *(descriptor, opened.partitions, opened.gates, start, respond, self._send),
                now_ns=now_ns,
            )
        except (Exception, SystemExit) as error:
            opened.release(error_text(error))
            self._send_failure(descriptor.attempt_id, error)
            return
        begin_ns = start.start_ns if is_load else max(start.start_ns, now_ns)
        loop = self._environment.loop
        opened.begin(
            task,
            [reader_of(loop, text) for text in task.text_inputs],
            _debloating_of(task, job.network, begin_ns),
            start_ns=begin_ns,
            waits_for_readers=is_load,
        )
        self._tasks[descriptor.attempt_id] = opened
        if job.reports_first_output:
            self.awaits_first_output = True
        if job.scenario is not None:
            if job.load is None:
                job.load = self.load = LoadRun(
                    self._environment, job.trace.statistics, job.scenario, start
                )
            job.load.add(opened)
        self._follow_tasks()

    def _job_of(self, attempt_id: ExecutionAttemptID) -> HostedJob:
        """The job of an attempt; messages of a job come between its initialization and its end."""
        return self.jobs[attempt_id.execution_graph_id]

    def _answer(self, job: ExecutionGraphID, answer: Answer) -> None:
        self._send(messages.JobAnswer(job, answer))

    def _send_last_statistics(self, running: Attempt) -> None:
        job = self._job_of(running.attempt_id)
        others = [each for each in self.of_job(job) if each is not running]
        connections = self._channels.used(others)
        self._send(job.sampler.statistics_of([running], is_last=True, connections=connections))

    def _follow_tasks(self) -> None:
        loop = self._environment.loop
        self.running = sorted(self._tasks.values(), key=_key)
        loop.tasks = self.running
        loop.has_local_channels = any(
            channel.is_local
            for each in self.running
            for gate in each.gates
            for channel in gate.channels
        )

    def _task_ended(self, running: Attempt) -> None:
        """Handle the end of an attempt: send its final statistics, then its final state."""
        attempt_id = running.attempt_id
        self._send_last_statistics(running)
        del self._tasks[attempt_id]
        if running.error is None and self.load is not None:
            self.load.ended(running)
        running.release(running.error)
        self._follow_tasks()
        if running.error is None:
            self._keep_blocking(running)
            self._send_state(attempt_id, ExecutionState.FINISHED)
        else:
            error = running.error
            if running.details:
                error += self._job_of(attempt_id).log(
                    f"{running.task.name}: {error}", running.details
                )
            self._end(
                running,
                messages.TaskStateChanged(
                    attempt_id, ExecutionState.FAILED, error, running.is_consequence, running.kind
                ),
            )

    def _end(self, running: Attempt, final_state: messages.TaskStateChanged | None) -> None:
        """Send the final state of an attempt as soon as none of its functions runs: until then it
        would be in the way of the next attempt (Flink: CANCELING; task.cancellation.timeout is
        the JobManager's).

        Args:
            final_state: None if its job is over, and nothing is to be sent.
        """
        if running.try_cancel():
            if final_state is not None:
                self._send(final_state)
        else:
            self._ending.append((running, final_state))

    def _keep_blocking(self, running: Attempt) -> None:
        """Keep blocking partitions until the JobManager releases them; others go when read."""
        types = (each.partition_type for each in running.partitions)
        if any(each.is_blocking_or_blocking_persistent for each in types):
            self._written[running.attempt_id] = running

    def _send_state(self, attempt_id: ExecutionAttemptID, state: ExecutionState) -> None:
        self._send(messages.TaskStateChanged(attempt_id, state))

    def _send_failure(self, attempt_id: ExecutionAttemptID, error: BaseException) -> None:
        kind = type(error).__name__ if isinstance(error, FlinknetError) else ""
        failed = messages.TaskStateChanged(
            attempt_id, ExecutionState.FAILED, error_text(error), False, kind
        )
        self._send(failed)


def _key(running: Attempt) -> tuple[int, int]:
    return running.descriptor.key


def _debloating_of(
    task: StreamTask, network: NetworkConfig, start_ns: int
) -> BufferDebloating | None:
    gates = debloated_gates([task], network, now_ns=start_ns)
    if not gates:
        return None
    return BufferDebloating(gates, network.debloating_period_ns, start_ns=start_ns)
