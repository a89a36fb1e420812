# mypyc
"""Attempts: the attempts of a TaskManager, from submission to their final state, with the channels
that they read and their readers on other TaskManagers (Flink: TaskSlotTable, and the part of
TaskExecutor that submits, cancels and releases).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import sleep
from typing import Any

from flinknet.core.consumer import SingleInputGate
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.errors import PartitionConnectionError
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job.scheduling import ProducerStateChecks, has_output
from flinknet.job.sources import NextInputSplit, RequestedSplits

from ..clock import monotonic_ns
from ..shuffle_environment import ShuffleEnvironment
from . import control_messages as messages
from .attempt import Attempt, error_text, failure_of, have_readers
from .hosted_job import HostedJob
from .load_run import LoadRun
from .reports import UsedConnection
from .task_io import reader_of

FUNCTIONS_WAIT_NS = 500_000_000
"""How long a process that ends waits for running functions to return, so that files are written."""

FUNCTIONS_POLL_S = 0.001

OPENING_POLL_NS = 1_000_000
"""An open channel or a first output is noticed this late at most: no socket signals it."""


class Attempts:
    """All attempts of one process.

    Attributes:
        running: attempts that the event loop steps, in the order of their tasks.
        load: follows the attempts of a load, which has its cluster to itself.
        awaits_first_output: whether readers wait for a first output that has not been reported.
        producers: state requests for producers whose partition was missing.
        prepared: attempts that have no task yet, in the order of their submission.
    """

    def __init__(self, environment: ShuffleEnvironment, send: Callable[[Any], None]) -> None:
        self.running: list[Attempt] = []
        self.jobs: dict[ExecutionGraphID, HostedJob] = {}
        self.load: LoadRun | None = None
        self.awaits_first_output = False
        self.producers = ProducerStateChecks(send, self.cancel)
        self.prepared: list[Attempt] = []
        self._environment = environment
        self._connections = environment.connections
        self._send = send
        self._begun: messages.Start | None = None
        self._tasks: dict[ExecutionAttemptID, Attempt] = {}
        self._written: dict[ExecutionAttemptID, Attempt] = {}
        self._ending: list[tuple[Attempt, messages.TaskStateChanged | None]] = []
        self._reported_outputs: set[tuple[ExecutionAttemptID, int]] = set()
        self._reader_names: dict[int, str] = {}
        self._requests_ns: int | None = None

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
        return bool(self._ending) or any(each.has_unreported_change for each in self.running)

    @property
    def has_lines(self) -> bool:
        return any(job.io.has_lines for job in self.jobs.values())

    def next_deadline_ns(self) -> int | None:
        """When to call `handle_deadline`, None for never."""
        due = [self._requests_ns, self.producers.next_deadline_ns()]
        due += [each.next_deadline_ns() for each in self.running]
        if self.load is not None:
            due.append(self.load.next_deadline_ns())
        if self.has_setups or self.awaits_first_output:
            due.append(monotonic_ns() + OPENING_POLL_NS)
        return min((each for each in due if each is not None), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        """Do what is due, and report changes. Raises: the first error of a waiting task."""
        self.producers.handle_deadline(now_ns=now_ns)
        if self._requests_ns is not None and now_ns >= self._requests_ns:
            self._repeat_requests(now_ns)
        if self.load is not None:
            self.load.handle_deadline(now_ns=now_ns)
        if self.has_setups:
            self.advance_setups(now_ns=now_ns)
        if any(each.is_open for each in self.prepared):
            self._check_channels()
        if self.awaits_first_output:
            self.report_first_outputs()
        self.report_changes()
        self.flush_lines()

    def forget(self, job: HostedJob) -> None:
        """Drop everything of a job that is over but running functions, which end first."""
        cause = "its job is over"
        self._ending = [(x, None if job.owns(x.attempt_id) else end) for x, end in self._ending]
        for attempt_id in [each for each in self._tasks if job.owns(each)]:
            running = self._tasks.pop(attempt_id)
            running.release(cause)
            self._end(running, None)
        self._drop_prepared([each for each in self.prepared if job.owns(each.attempt_id)], cause)
        for attempt_id in [each for each in self._written if job.owns(each)]:
            del self._written[attempt_id]
        self._reported_outputs = {each for each in self._reported_outputs if not job.owns(each[0])}
        registered = self._environment.partitions
        for partition in registered.partitions:
            if job.owns(partition.partition_id.producer_id):
                registered.release(partition)
        for receiver in job.readers:
            self._reader_names.pop(self._environment.channel_of.pop(receiver, -1), None)
        self._connections.forget_closed()
        del self.jobs[job.id]
        self._follow_tasks()
        job.close()

    def of_job(self, job_id: ExecutionGraphID) -> list[Attempt]:
        if list(self.jobs) == [job_id]:
            return self.running
        return [x for x in self.running if x.attempt_id.execution_graph_id == job_id]

    def flush_lines(self) -> None:
        for job in self.jobs.values():
            job.io.flush()

    def expect(self, job: HostedJob, readers: Mapping[str, tuple[int, int]]) -> None:
        """Register the channels of a job that will be requested, so that its trace names them."""
        for receiver_id, (channel, task_manager) in readers.items():
            receiver = bytes.fromhex(receiver_id)
            self._environment.channel_of[receiver] = channel
            self._reader_names[channel] = f"tm-{task_manager}"
            job.readers.append(receiver)
        self._environment.traces.claim(job.trace, (channel for channel, _ in readers.values()))

    def submit(self, message: messages.SubmitTask, *, now_ns: int) -> None:
        """Run an attempt, at once or from the start of the run."""
        job = self.jobs.get(message.task.attempt_id.execution_graph_id)
        if job is None:  # it is over
            return
        task = job.complete(message.task)
        read = [channel.index for gate in task.inputs for channel in gate.channels]
        written = [channel for output in task.outputs for channel in output.channels]
        self._environment.traces.claim(job.trace, (*read, *written))
        message = replace(message, task=task)
        try:
            prepared = Attempt(message, job.network, job.storage, self._environment, now_ns=now_ns)
        except (Exception, SystemExit) as error:
            self._send(failure_of(task.attempt_id, error))
            return
        self.prepared.append(prepared)
        self.advance_setups(now_ns=now_ns)

    def advance_setups(self, *, now_ns: int) -> None:
        """Continue with attempts whose gates can have their memory now."""
        for each in [each for each in self.prepared if not each.is_open]:
            try:
                if not each.try_open(self._request, self.producers.check, now_ns=now_ns):
                    continue
            except (Exception, SystemExit) as error:
                self._drop_prepared([each], error_text(error))
                self._send(failure_of(each.attempt_id, error))
                continue
            self._send_state(each.attempt_id, ExecutionState.INITIALIZING)
            if (start := each.start or self._begun) is not None:
                self.prepared.remove(each)
                self._start(each, start, now_ns)

    def update_partitions(self, message: messages.UpdatePartitions) -> None:
        """Request partitions that were not readable when the attempt started."""
        for each in self.prepared:
            if each.attempt_id == message.attempt_id:
                each.unread.difference_update(message.edges)
        running = self._tasks.get(message.attempt_id)
        if running is not None:
            running.unread.difference_update(message.edges)
            for described, gate in zip(running.descriptor.inputs, running.gates, strict=True):
                if described.edge in message.edges and gate.is_state_consumed:
                    self._request(gate)

    def receive_split(self, message: NextInputSplit) -> None:
        """Pass a split to the source that has requested it, if its attempt still runs."""
        running = self._tasks.get(message.attempt_id)
        source = None if running is None else running.task.sources[message.operator_id]
        if isinstance(source, RequestedSplits):
            source.receive(message.splits)

    def start(self, start: messages.Start, *, now_ns: int) -> None:
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
        """End every attempt and kept partition; wait briefly for running functions."""
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
        self.awaits_first_output = False
        for attempt_id, running in self._tasks.items():
            for output, partition in enumerate(running.partitions):
                if (attempt_id, output) in self._reported_outputs:
                    continue
                if has_output(partition):
                    self._reported_outputs.add((attempt_id, output))
                    self._send(messages.OutputConsumable(attempt_id, output))
                else:
                    self.awaits_first_output = True

    def used(self, tasks: Iterable[Attempt]) -> tuple[UsedConnection, ...]:
        """The connections that the open channels of these tasks use, in order."""
        counts: Counter[tuple[int, int]] = Counter(
            self._connections.number_of(channel.connection)
            for each in tasks
            for gate in each.gates
            for channel in gate.remote_channels
            if channel.connection is not None
            if channel.error is None and not channel.is_released  # else it may be forgotten
        )
        return tuple(UsedConnection(*key, count) for key, count in sorted(counts.items()))

    def check_readers(self) -> None:
        """Raises: TransportError if a reader disconnected while its channels were open."""
        for accepted in self._connections.accepted:
            if accepted.connection.loss is not None:
                raise accepted.loss_error(self._reader_names)

    def _check_channels(self) -> None:
        """Raises: the first error that prevents waiting tasks from starting."""
        self._connections.check_accepting()
        channels = (x for each in self.prepared for gate in each.gates for x in gate.channels)
        errors = [each.error for each in (*self._connections.clients, *channels)]
        # an error that names the partition first: its client's does not
        errors.sort(key=lambda error: not isinstance(error, PartitionConnectionError))
        for error in errors:
            if error is not None:
                raise error
        self.check_readers()

    def _request(self, gate: SingleInputGate) -> None:
        gate.request_partitions(now_ns=monotonic_ns())
        deadline_ns = gate.next_deadline_ns()
        if deadline_ns is not None:
            self._requests_ns = min(deadline_ns, self._requests_ns or deadline_ns)

    def _repeat_requests(self, now_ns: int) -> None:
        """Let local channels request again the partitions that were missing."""
        gates = [gate for each in (*self.running, *self.prepared) for gate in each.gates]
        for gate in gates:
            gate.handle_deadline(now_ns=now_ns)
        due = [each.next_deadline_ns() for each in gates]
        self._requests_ns = min((each for each in due if each is not None), default=None)

    def _drop_prepared(self, attempts: Sequence[Attempt], cause: str) -> None:
        for each in attempts:
            self.prepared.remove(each)
            each.release(cause)

    def _start(self, opened: Attempt, start: messages.Start, now_ns: int) -> None:
        job, attempt_id = self._job_of(opened.attempt_id), opened.attempt_id
        job.trace.statistics.measured_from_ns = start.measured_from_ns
        is_load = job.scenario is not None
        try:
            task = job.create_task(opened, start, self._send, now_ns=now_ns)
        except (Exception, SystemExit) as error:
            opened.release(error_text(error))
            self._send(failure_of(attempt_id, error))
            return
        loop = self._environment.loop
        opened.begin(
            task,
            [reader_of(loop, text) for text in task.text_inputs],
            start_ns=start.start_ns if is_load else max(start.start_ns, now_ns),
            waits_for_readers=is_load,
        )
        self._tasks[attempt_id] = opened
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
        return self.jobs[attempt_id.execution_graph_id]

    def _send_last_statistics(self, running: Attempt) -> None:
        job = self._job_of(running.attempt_id)
        connections = self.used([each for each in self.of_job(job.id) if each is not running])
        self._send(job.statistics_of([running], is_last=True, connections=connections))

    def _follow_tasks(self) -> None:
        loop = self._environment.loop
        self.running = sorted(self._tasks.values(), key=lambda each: each.descriptor.key)
        loop.tasks = self.running
        loop.has_local_channels = any(
            channel.is_local
            for each in self.running
            for gate in each.gates
            for channel in gate.channels
        )

    def _task_ended(self, running: Attempt) -> None:
        """Handle the end of an attempt: send its final statistics, then its final state."""
        attempt_id, failure = running.attempt_id, running.failure
        self._send_last_statistics(running)
        del self._tasks[attempt_id]
        if failure is None and self.load is not None:
            self.load.ended(running)
        running.release(None if failure is None else failure.error)
        self._follow_tasks()
        if failure is None:
            types = (each.partition_type for each in running.partitions)
            if any(each.is_blocking_or_blocking_persistent for each in types):
                self._written[attempt_id] = running  # others go when they have been read
            self._send_state(attempt_id, ExecutionState.FINISHED)
            return
        if running.details:
            line = f"{running.task.name}: {failure.error}"
            where = self._job_of(attempt_id).log(line, running.details)
            failure = replace(failure, error=failure.error + where)
        self._end(running, failure)

    def _end(self, running: Attempt, final_state: messages.TaskStateChanged | None) -> None:
        """Send the final state of an attempt, if there is one to send, as soon as none of its
        functions runs: until then it would be in the way of the next attempt (Flink: CANCELING;
        task.cancellation.timeout is the JobManager's).
        """
        if running.try_cancel():
            if final_state is not None:
                self._send(final_state)
        else:
            self._ending.append((running, final_state))

    def _send_state(self, attempt_id: ExecutionAttemptID, state: ExecutionState) -> None:
        self._send(messages.TaskStateChanged(attempt_id, state))
