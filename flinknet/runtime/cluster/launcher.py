"""The launcher: runs a bench as a job. It drives the JobManager of a load in its own process, and
combines the measurements of the TaskManagers into one result.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from flinknet.config import RECORDED, Scenario
from flinknet.errors import ConfigError, RunFailedError, TraceError
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.job.scheduling import SchedulingType, scheduling_of
from flinknet.results import Progress, RunResult, RunWarning, Taken
from flinknet.trace.manifest import MANIFEST_NAME
from flinknet.trace.run_directory import RunDirectory, seal_run
from flinknet.whole_files import work_directory

from ..clock import monotonic_ns, timestamp_epoch_ns, wall_clock_iso
from ..fill_meter import FillTimeline
from ..host import environment
from ..metrics_log import MetricsLog
from ..other_processes import OtherProcesses
from ..signals import raise_dropped_termination, terminations_unwind
from . import control_messages as messages
from .cluster_process import (
    SAMPLE_INTERVAL_NS,
    Ending,
    TaskManagerProcess,
    TaskManagerProcessSpec,
    WorkersSpec,
    error_of,
    log,
)
from .collected import Collected, ProgressMeter, manifest_of
from .host_clock import ClockOfHost, error_between_ns, known_within
from .job_manager import JobLead, JobManager, take_all
from .job_master import START_WAIT_NS, JobMaster
from .job_measurements import first_deployed_ns, times_of
from .placement import Deployment, FixedPlan, SharedCluster
from .reports import Report, Statistics
from .resource_manager import ClusterSpec
from .run_result import assemble, check_records, with_stages

START_DELAY_NS = 50_000_000
"""From the start message to the first record, so that every process has received it."""

LOSS_WAIT_NS = 2_000_000_000
"""How long the others may take to notice the loss of a TaskManager."""

DRAIN_MAX_NS = 10_000_000_000
"""How long after the end of a run of given length records that fell due in it may be sent. At a
rate far beyond what the stack can take, it would go on for days."""


def run_scenario(
    scenario: Scenario,
    *,
    out_dir: Path | None,
    trace: bool,
    on_progress: Callable[[Progress], None] | None = None,
    sample_interval_ns: int = SAMPLE_INTERVAL_NS,
    drain_max_ns: int = DRAIN_MAX_NS,
    workers: WorkersSpec | None = None,
) -> RunResult:
    """Run a scenario over real sockets.

    Args:
        out_dir: the run directory, created if need be. None: nothing is written.
        trace: record every message into `out_dir`.
        sample_interval_ns: how often each process sends statistics; progress and fill levels have
            this resolution.
        drain_max_ns: see DRAIN_MAX_NS.

    Raises:
        ConfigError, TransportError, TraceError: the run could not start.
        RunFailedError: a process died or hangs, or records were lost, repeated or out of order.
        KeyboardInterrupt, SystemExit (SIGTERM, SIGHUP): every process has ended; a note names the
            directory of the trace.
    """
    plan = load_plan_of(scenario)
    plan.check_memory()
    if scenario.network.is_tls and plan.task_managers > 1:
        from ..tls import create_tls

        create_tls(scenario.network)  # every TaskManager creates its own; report a fault once
    trace_dir = out_dir if trace else None
    spilling = work_directory("spill") if scenario.workload.is_blocking else nullcontext()
    try:
        with terminations_unwind(), spilling as spill_dir, ExitStack() as stack:
            bench = _Bench(plan, trace_dir, spill_dir, sample_interval_ns)
            bench.begin(stack, workers)
            result = bench.lead(on_progress or (lambda _: None), drain_max_ns)
    except (KeyboardInterrupt, SystemExit) as end:
        if trace_dir is not None and (trace_dir / MANIFEST_NAME).is_file():
            end.add_note(f"what was recorded until then is in {trace_dir}")
        raise
    if trace_dir is not None:
        try:
            seal_run(trace_dir)
        except TraceError as error:
            incomplete = RunWarning("trace-incomplete", str(error))
            return replace(result, warnings=(*result.warnings, incomplete))
    return result


class _Bench(JobLead):
    """The job of one run, its processes and its directory."""

    _manager: JobManager

    def __init__(
        self,
        plan: LoadPlan,
        trace_dir: Path | None,
        spill_dir: Path | None,
        sample_interval_ns: int,
    ) -> None:
        self._clocks: Sequence[ClockOfHost] = ()
        self._plan = plan
        self._scenario = scenario = plan.scenario
        self._trace_dir = trace_dir
        self._sample_interval_ns = sample_interval_ns
        self._began_ns = monotonic_ns()
        self._started_at = wall_clock_iso()
        self._host = environment()  # takes a few milliseconds, which must not fall into the run
        self._collected = Collected(None if trace_dir is None else MetricsLog(trace_dir))
        self._collected.note_channels(plan.tasks)
        self._stage_begins_ns: list[int] = []
        self._meter = ProgressMeter(plan, self._collected)
        self._timeline = FillTimeline(sample_interval_ns)
        self._on_progress: Callable[[Progress], None] | None = None
        self._open: set[int] = set()
        self._has_begun = self._is_measured = False
        self._is_staged = scheduling_of(scenario) is not SchedulingType.ALL_AT_ONCE
        graph = plan.plan.graph
        traces = None if trace_dir is None else str(trace_dir)
        spills = None if spill_dir is None else str(spill_dir)
        stages = {x.vertex.id: x.index if self._is_staged else 0 for x in plan.plan.vertices}
        master = JobMaster(
            graph,
            scenario.task_managers,
            SharedCluster(plan.plan.slots_per_task_manager),
            now_ns=self._began_ns,
            fixed=FixedPlan(plan.plan, plan.tasks, stages),
        )
        load = messages.SubmitLoad(scenario)
        super().__init__(messages.InitializeJob(graph.id, load, traces, spills, None), master)

    def begin(self, stack: ExitStack, workers: WorkersSpec | None) -> None:
        """Start the TaskManagers, which end with the stack, at the latest by being killed."""
        if self._collected.metrics_log is not None:
            assert self._trace_dir is not None
            stack.callback(self._leave, RunDirectory(self._trace_dir))
            stack.callback(self._collected.metrics_log.close)
        scenario = self._scenario
        spec = TaskManagerProcessSpec(
            secrets.token_hex(32),
            scenario.task_managers,
            self._plan.plan.slots_per_task_manager,
            scenario.network,
            scenario.flow_control,
            scenario.heartbeat_timeout_ns,
            self._sample_interval_ns,
        )
        places = () if workers is None else places_of(self._plan, workers)
        others = None, scenario.link, scenario.seed, workers, places
        self._manager = manager = JobManager(
            ClusterSpec(spec, scenario.heartbeat_interval_ns, *others)
        )
        stack.callback(manager.close)
        stack.callback(self._fetch)
        stack.callback(manager.end_task_managers)
        arrivals = scenario.workload.arrivals
        if manager.workers is not None and arrivals.startswith(RECORDED):
            recorded = Path(arrivals.removeprefix(RECORDED)).glob("*.npy")
            manager.write_files(messages.ARRIVALS, {each.name: each for each in recorded})
        manager.task_managers.start(manager.port)

    def lead(self, on_progress: Callable[[Progress], None], drain_max_ns: int) -> RunResult:
        """Run the load from the registration of the TaskManagers to the result."""
        manager, scenario = self._manager, self._scenario
        on_progress(self._meter.progress("starting", monotonic_ns()))
        manager.submit(self)
        self._until(lambda: self.is_deployed)
        if not self._is_staged:
            manager.send_to_all(messages.AwaitChannels(self.id))
            self._until(lambda: len(self._open) == len(manager.task_managers))
        other_processes = OtherProcesses(scenario.task_managers)
        start = _instants(scenario, drain_max_ns)
        self.save_manifest(None)
        manager.begin(self, start)
        self._meter.start = start
        manager.send_to_all(start)
        self.begin_checkpoints(start, is_batch=scenario.workload.is_blocking, is_bench=True)
        self._on_progress = on_progress
        self._until(lambda: self.master.state.is_terminal)
        self._on_progress = None
        manager.send_to_all(messages.CloseJob(self.id))
        self._until(lambda: len(self._collected.reports) == len(manager.task_managers))
        processors = other_processes.taken()
        if manager.workers is not None:
            self._clocks = manager.workers.clocks(start.start_ns)
        reports = self._collected.reports_in_order
        last_ns = max(
            (each.last_measured_ns for report in reports for each in report.consumer_channels),
            default=0,
        )
        self.save_manifest(start, start.measured_to_ns or last_ns + 1, processors)
        on_progress(self._meter.progress("finished", monotonic_ns()))
        return self._result(reports, start, processors)

    def save_manifest(
        self,
        start: messages.Start | None,
        measured_to_ns: int | None = None,
        use: Taken | None = None,
    ) -> None:
        """Write the manifest of the run directory: before the run, again with its measured part,
        and at the end with the CPU time that other processes used meanwhile.
        """
        self._has_begun = True
        if self._trace_dir is None:
            return
        manifest_of(
            self._scenario.to_dict(),
            self._scenario.network,
            (each.info for each in self._manager.task_managers),
            self._collected.channels,
            seed=self._scenario.seed,
            host=self._host | (asdict(use) if use is not None else {}),
            started_at=self._started_at,
            measured_from_ns=start.measured_from_ns if start is not None else None,
            measured_to_ns=measured_to_ns,
            clocks=self._clocks,
        ).save(self._trace_dir)

    @property
    def _recorded_in(self) -> Path | None:
        """The directory of the trace, once something is worth a look."""
        return self._trace_dir if self._has_begun else None

    def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            raise_dropped_termination()
            now_ns = self._manager.run_once()
            self._check_endings()
            self._manager.advance(self, now_ns)

    def receive(self, task_manager: TaskManagerProcess, message: Any, now_ns: int) -> None:
        index, start = task_manager.index, self._meter.start
        if isinstance(message, messages.ChannelsOpen):
            self._open.add(index)
        elif isinstance(message, messages.JobClosed):
            self._collected.reports[index] = message.report
        elif isinstance(message, Statistics) and start is not None:
            if not self._is_measured and now_ns >= start.measured_from_ns:
                self._is_measured = True  # an interrupted run keeps its measured part
                self.save_manifest(start)
            self._meter.add(index, message, now_ns)
            if message.fill is not None:
                self._timeline.add(index, message.fill)
            if self._on_progress is not None:
                self._on_progress(self._meter.progress(None, monotonic_ns()))

    def deploy(self, deployments: Sequence[Deployment], now_ns: int) -> None:
        if self.is_deployed:
            self._stage_begins_ns.append(now_ns)

    def _check_endings(self) -> None:
        """Raises: the error of the run if a TaskManager has ended or failed."""
        endings = self._endings()
        self._manager.task_managers.check_link()
        if not endings:
            return
        if any(each.is_death or each.is_consequence for each in endings):
            self._on_progress = None
            until_ns = monotonic_ns() + LOSS_WAIT_NS  # another death may be the cause
            count = len(self._manager.task_managers)
            while len({x.index for x in endings}) < count and monotonic_ns() < until_ns:
                self._manager.run_once(until_ns=until_ns)
                endings += self._endings()
        known = {each.index: each for each in reversed(endings)}
        raise error_of(list(known.values()), self._recorded_in)

    def _endings(self) -> list[Ending]:
        """TaskManagers that ended since the last call. Raises: RunFailedError for a silent one."""
        found = [
            Ending(each.index, each.process.pid, error=message.error, kind=message.kind)
            for each, message in take_all(self._manager.failed)
        ]
        for each, _ in take_all(self._manager.lost):
            exit_code = each.process.poll()
            if each.worker_loss is not None:
                rest = "" if self._recorded_in is None else f"; the rest is in {self._recorded_in}"
                raise RunFailedError(f"{each.worker_loss}{rest}")
            if exit_code is None:
                raise self._silent(each, self._scenario.heartbeat_timeout_ns)
            found.append(
                Ending(each.index, each.process.pid, exit_code=exit_code, error=each.reason)
            )
        if not found and monotonic_ns() - self._began_ns > START_WAIT_NS:
            for each in self._manager.task_managers:
                if each.connection is None:
                    raise self._silent(each, START_WAIT_NS)
        return found

    def _silent(self, task_manager: TaskManagerProcess, silence_ns: int) -> RunFailedError:
        there = self._recorded_in
        return RunFailedError(
            f"{task_manager.process_name} has said nothing for {silence_ns / 1e9:g} s and counts as"
            f" lost{'' if there is None else f'; what it had recorded is in {there}'}"
        )

    def _result(
        self, reports: Sequence[Report], start: messages.Start, processors: Taken
    ) -> RunResult:
        """Raises: RunFailedError when records were lost, repeated or out of order."""
        plan, graph, start_ns = self._plan, self._plan.plan.graph, start.start_ns
        check_records(reports)
        trace = str(self._trace_dir) if self._trace_dir is not None else None
        buffering = self._timeline.buffering(start_ns, [each.fill_bounds for each in reports])
        checkpoints = self.checkpoint_summary()
        result = assemble(plan, self._collected, start, trace, buffering, processors, checkpoints)
        spans_ns = [] if self.checkpoints is None else self.checkpoints.spans_ns
        since_ns = first_deployed_ns(graph)
        result = replace(
            result,
            checkpoint_spans_ns=tuple((at - start_ns, to - start_ns) for at, to in spans_ns),
            deployments={each.name: times_of(each, since_ns) for each in graph.vertices.values()},
        )
        if self._scenario.workload.is_blocking:
            result = with_stages(result, plan, self._stage_begins_ns, reports, start)
        return known_within(result, error_between_ns(self._clocks))

    def _fetch(self) -> None:
        for fault in self._manager.fetch(self.id, self._recorded_in):
            log(fault)

    def _leave(self, directory: RunDirectory) -> None:
        if not self._has_begun:  # nothing is worth a look, and its place can be used again
            directory.clear(f"tm-{at}.fnt" for at in range(self._scenario.task_managers))
        directory.release()


def places_of(plan: LoadPlan, workers: WorkersSpec) -> tuple[int, ...]:
    """Number of the worker of each TaskManager: sources on the first, sinks on the others, unless
    it is set; those with other tasks, or with both, take turns. Raises: ConfigError for a place of
    sources or sinks where TaskManagers have both.
    """
    found, count = [], len(workers.addresses)
    others = cycle(range(min(1, count - 1), count))
    is_set = (workers.producers_on, workers.consumers_on) != (None, None)
    for index in range(max(plan.task_managers, plan.scenario.task_managers)):
        tasks = plan.tasks_on(index)
        has_sources = any(not each.inputs for each in tasks)
        has_sinks = any(not each.outputs for each in tasks)
        if has_sources and has_sinks and is_set:
            raise ConfigError(
                f"--producers-on, --consumers-on: tm-{index} has producers and consumers; leave"
                " them out, or --placement spread"
            )
        if has_sources == has_sinks:
            found.append(index % count)
        elif has_sources:
            found.append(workers.producers_on or 0)
        else:
            on = workers.consumers_on
            found.append(next(others) if on is None else on)
    return tuple(found)


def _instants(scenario: Scenario, drain_max_ns: int) -> messages.Start:
    """Set the instants of the run: its start, its measured part, the end of its sources."""
    workload = scenario.workload
    start_ns = monotonic_ns() + START_DELAY_NS
    measured_from_ns = start_ns + workload.warmup_ns
    to_ns, records = None, workload.records
    if records is not None and not workload.is_max_rate and workload.arrivals == "constant":
        to_ns = measured_from_ns + round(records / workload.rate_per_s * 1e9)
    elif workload.duration_ns is not None:
        to_ns = measured_from_ns + workload.duration_ns
    give_up_ns = to_ns + drain_max_ns if to_ns is not None and records is None else None
    return messages.Start(
        start_ns, measured_from_ns, to_ns, to_ns, timestamp_epoch_ns(), give_up_ns
    )
