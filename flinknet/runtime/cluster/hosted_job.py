"""HostedJob: the state of one job on a TaskManager besides its attempts (Flink: JobTable.Job)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from flinknet.config import NetworkConfig, Scenario
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import TraceError
from flinknet.histogram import LogLinearHistogram
from flinknet.job.channel_input import ChannelInput
from flinknet.job.checkpoint_coordinator import Answer
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.gates import blocking_storage
from flinknet.job.load.load_tasks import create_load_task
from flinknet.job.scheduling import SchedulingType, scheduling_of
from flinknet.job.stream_task import StreamTask
from flinknet.job.task_metrics import memory_metrics
from flinknet.results import FillSample

from ..clock import monotonic_ns, process_time_ns, wall_clock_iso
from ..shuffle_environment import ShuffleEnvironment, create_spill_file
from ..task_thread import TaskThread
from . import control_messages as messages
from . import reports
from .attempt import Attempt
from .load_run import LoadRun, totals_of
from .task_io import ProcessIO

if TYPE_CHECKING:
    from flinknet.graph import JobGraph


METRICS_PAUSE = 100
"""Pause after sampling metrics, in multiples of its CPU time: at most 1% of the CPU."""


class HostedJob:
    """One job on one TaskManager: a program, which runs here again because functions are not sent
    between processes; or the load of a scenario, whose tasks follow from their descriptors.

    Attributes:
        scenario: of a load; None: it is a program.
        reports_first_output: whether readers of a task wait for its first output.
        storage: storage of its blocking partitions; `spill_dir`: their directory.
        load: follows its tasks while they generate a load.
        readers: receiver ids of the channels on other TaskManagers that read its partitions.

    Raises: ConfigError for an invalid program; TraceError if the trace cannot be written.
    """

    def __init__(
        self, message: messages.InitializeJob, environment: ShuffleEnvironment, index: int
    ) -> None:
        self.id = message.job
        self.spill_dir = None if message.spill_dir is None else Path(message.spill_dir)
        self._submission = submission = message.submission
        self.scenario: Scenario | None = None
        self._job: JobGraph | None = None
        self.reports_first_output = False
        if isinstance(submission, messages.SubmitLoad):
            self.scenario = scenario = submission.scenario
            self.network, when = scenario.network, scheduling_of(scenario)
            self.reports_first_output = when is SchedulingType.ON_FIRST_OUTPUT
        else:
            self._job, self.network = _loaded(submission, self.spill_dir)
        trace_dir = None if message.trace_dir is None else Path(message.trace_dir)
        self.trace = environment.open_trace(trace_dir)
        self.storage = blocking_storage(self.network, partial(create_spill_file, self.spill_dir))
        self._out: IO[str] | None = None
        run_dir = getattr(submission, "run_dir", "")
        self._log = Path(run_dir) / f"tm-{index}.log" if run_dir else None
        if message.out_dir is not None:
            with suppress(OSError):  # then lines go to standard output
                path = Path(message.out_dir) / f"tm-{index}.out"
                self._out = open(path, "a", encoding="utf-8")  # noqa: SIM115 - until close
        self.io = ProcessIO(self._out)
        self.load: LoadRun | None = None
        self.readers: list[bytes] = []
        self._information: dict[int | None, Any] = {}
        self._environment = environment
        self._strangers_before = environment.connections.strangers()
        self._next_metrics_ns = 0

    def owns(self, attempt_id: ExecutionAttemptID) -> bool:
        return attempt_id.execution_graph_id == self.id

    def complete(self, task: TaskDeploymentDescriptor) -> TaskDeploymentDescriptor:
        """The descriptor with the information on job and vertex, which came with this task or an
        earlier one (Flink: TaskDeploymentDescriptor.loadBigData).
        """
        known = self._information
        if task.job_information is not None:
            known[None] = task.job_information
        if task.task_information is not None:
            known[task.vertex] = task.task_information
        return replace(task, job_information=known[None], task_information=known[task.vertex])

    def create_task(
        self, attempt: Attempt, start: messages.Start, send: Callable[[Any], None], *, now_ns: int
    ) -> StreamTask:
        """Create the task of an attempt; that of a program, if it starts later than the run,
        generates records from then on. Raises: ConfigError, TaskFailedError.
        """
        submission, environment = self._submission, self._environment

        def respond(answer: Answer) -> None:
            send(messages.JobAnswer(self.id, answer))

        ends = attempt.partitions, attempt.gates, environment.recorder, respond
        if isinstance(submission, messages.SubmitLoad):
            return create_load_task(
                attempt.descriptor,
                submission.scenario,
                *ends,
                start=start,
                spills=environment.spills,
                records=submission.records,
            )
        from flinknet.job import create_task

        assert self._job is not None
        return create_task(
            attempt.descriptor,
            self._job,
            *ends,
            io=self.io,
            start=replace(start, start_ns=max(start.start_ns, now_ns)),
            seed=submission.seed,
            spills=environment.spills,
            worker=partial(TaskThread, environment.loop),
            request_split=send,
        )

    def statistics_of(
        self,
        tasks: Sequence[Attempt],
        *,
        connections: tuple[reports.UsedConnection, ...] = (),
        is_last: bool = False,
        fill: FillSample | None = None,
    ) -> reports.Statistics:
        """Sample tasks and their channels, and the memory of the process; without metrics if they
        were sampled recently and are so many that it would cost too much, unless the tasks have
        ended.
        """
        now_ns, began_ns = monotonic_ns(), process_time_ns()
        has_metrics = is_last or now_ns >= self._next_metrics_ns
        counts = tuple(_counts(each, has_metrics, now_ns) for each in tasks)
        memory = memory_metrics(self._environment.pool) if has_metrics else {}
        if has_metrics and not is_last:
            self._next_metrics_ns = now_ns + METRICS_PAUSE * (process_time_ns() - began_ns)
        own = {at for each in tasks for output in each.task.outputs.each for at in output.channels}
        written = (
            reports.WrittenChannel(x.channel, x.backlog_buffers, x.credits_available, x.starved_ns)
            for accepted in self._environment.connections.accepted
            for x in accepted.connection.snapshot(now_ns=now_ns)
            if x.channel in own
        )
        read = tuple(channel for each in tasks for channel in _read(each))
        return reports.Statistics(now_ns, counts, read, tuple(written), memory, fill, connections)

    def log(self, text: str, details: str) -> str:
        """Log a failure in the run directory. Returns: where, to be added to its line."""
        if self._log is None:
            return ""
        try:
            with open(self._log, "a", encoding="utf-8", errors="replace") as file:
                file.write(f"{wall_clock_iso()} {text}\n{details}")
        except OSError as error:
            return f" (its traceback cannot be saved: {error})"
        return f" (traceback: {self._log})"

    def report(self) -> reports.Report:
        """Close the trace and return the final report."""
        error = None
        try:
            self._environment.close_trace(self.trace)
        except TraceError as fault:
            error = str(fault)
        totals = totals_of(self.trace.statistics)
        found = totals if self.load is None else self.load.report(totals)
        strangers = self._environment.connections.strangers().since(self._strangers_before)
        return replace(found, trace_error=error, strangers=strangers)

    def close(self) -> None:
        self.io.flush()
        if self._out is not None:
            self._out.close()


def _counts(running: Attempt, has_metrics: bool, now_ns: int) -> reports.TaskCounts:
    latency, meters = LogLinearHistogram(), running.task.chain.latency_meters
    for meter in meters:
        if running.task.is_handed_over:
            meter.settle_soon()
        else:
            meter.settle()
        latency.merge(meter.latency)
    return reports.TaskCounts(
        running.attempt_id,
        running.task.name,
        running.metrics.sample(now_ns=now_ns) if has_metrics else {},
        latency.to_bytes() if latency.count else b"",
        sum(each.measured_records for each in meters),
        sum(each.measured_bytes for each in meters),
    )


def _read(running: Attempt) -> Iterable[reports.ReadChannel]:
    gate, network_input = running.task.gate, running.task.network_input
    if gate is None or network_input is None:
        return
    sizes = network_input.checkpoints.read_bytes
    for channel, receiver in zip(gate.channels, running.task.receivers, strict=True):
        of_program: tuple[int, ...] = ()
        if isinstance(receiver, ChannelInput):
            instants = receiver.waiting_since_ns, receiver.last_due_ns, receiver.last_read_ns
            of_program = receiver.measured_records, *instants
        size_bytes = sizes[channel.index_in_input]
        yield reports.ReadChannel(channel.index, receiver.records, size_bytes, *of_program)


def _loaded(
    submission: messages.SubmitJob, spill_dir: Path | None
) -> tuple[JobGraph, NetworkConfig]:
    """Run a program. Returns: its graph and its network settings. Raises: ConfigError."""
    from flinknet.graph import job_graph_of, load_program
    from flinknet.job import network_of

    modules = None if spill_dir is None else spill_dir / messages.MODULES
    with redirect_stdout(sys.stderr):
        program = load_program(
            Path(submission.path),
            submission.settings,
            submission.arguments,
            source=submission.source,
            cache=None if spill_dir is None else spill_dir / messages.CACHED,
            modules=modules if modules is not None and modules.is_dir() else None,
        )
    job = job_graph_of(program.stream_graph)
    return job, network_of(job)
