"""SubmittedJob: a job of a client, from its submission to the files in its run directory (Flink:
the state of a job in Dispatcher and JobMaster).
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinknet import results
from flinknet.errors import FlinknetError
from flinknet.graph import execution_graph_of, job_graph_of, load_program
from flinknet.graph.execution_graph import ExecutionGraph, initialize_on_master
from flinknet.graph.program import files_of_modules
from flinknet.options import effective_flink_keys
from flinknet.trace.manifest import RESULT_NAME
from flinknet.trace.run_directory import seal_run
from flinknet.whole_files import whole_file

from ..clock import timestamp_epoch_ns, wall_clock_iso
from ..metrics_log import MetricsLog
from . import control_messages as messages
from . import job_files
from .cluster_process import TaskManagerProcess
from .control_connection import ControlConnection
from .host_clock import error_between_ns
from .job_manager import JobLead, JobManager
from .job_master import JobMaster
from .job_measurements import Measurements
from .job_state import JobState
from .measured_ledger import verdict_on_job
from .placement import Deployment
from .reports import Statistics

START_DELAY_NS = 100_000_000
"""From the deployment to the first generated record, so that every task runs by then."""

CLOSE_WAIT_NS = 10_000_000_000
"""How long TaskManagers may take to close their traces."""


class SubmittedJob(JobLead):
    """One job of a cluster.

    Args:
        run: id of the job, unique among all runs.
        is_joining: the cluster was not started for this job.

    Attributes:
        own: the TaskManagers of the cluster when it was submitted.
        others: names of the jobs that ran at the same time.
        end: its final state; None while it runs or is being saved.

    Raises: ConfigError for a program that is invalid, if a slot has fewer resources than its
        subtasks need, or if a cached file cannot be copied; OSError if its run directory cannot be
        written.
    """

    def __init__(
        self,
        manager: JobManager,
        message: messages.SubmitJob,
        run: str,
        submitter: ControlConnection,
        contact: job_files.Contact,
        *,
        is_joining: bool,
        now_ns: int,
    ) -> None:
        self.submission = message
        self.job_id = run
        self.run_dir = Path(message.run_dir)
        self.submitter = submitter
        self.watchers = [submitter]
        self.end: messages.JobEnded | None = None
        self.submitted_ns = now_ns
        self.own = [each for each in manager.task_managers if each.is_alive]
        self.slots_each = manager.shared.slots_each
        log = MetricsLog(self.run_dir) if message.records_trace else None
        self.measurements = Measurements(log, started_at=wall_clock_iso())
        self._manager = manager
        self._is_joining = is_joining
        self._uses = uses = manager.shared.connections
        self._epoch_ns = timestamp_epoch_ns()
        self.others: dict[str, None] = {}
        self._clock_error_ns = 0
        graph, self._warnings = _graph_of(message, run)
        modules = files_of_modules(Path(message.path)) if manager.workers is not None else {}
        self.name = graph.job.name
        master = JobMaster(
            graph, len(self.own), manager.shared, now_ns=now_ns, is_joining=is_joining
        )
        spill_dir = job_files.spill_directory(self.run_dir)
        spill_dir.mkdir(exist_ok=True)
        cached = job_files.copy_to_cache(graph.job.artifacts, self.run_dir)
        if manager.workers is not None:
            manager.write_files(
                messages.spill_name(graph.id),
                {f"{messages.CACHED}/{name}": path for name, path in cached.items()}
                | {f"{messages.MODULES}/{name}": path for name, path in modules.items()},
            )
        replace(contact, job_id=run, name=self.name).save(self.run_dir)
        trace_dir = message.run_dir if message.records_trace else None
        out_dir = message.run_dir if is_joining else None
        prepare = messages.InitializeJob(graph.id, message, trace_dir, str(spill_dir), out_dir)
        super().__init__(prepare, master)
        manager.submit(self)
        uses.begin(run, self.name)

    def stop(self) -> str:
        """End the sources once all tasks run. Returns: why that cannot be; empty if it can."""
        graph = self.master.graph.job
        if graph.is_batch:
            return "a batch job ends when its input does; cancel it instead"
        if names := graph.unstoppable_sources:
            return f"{', '.join(names)} cannot be stopped; cancel the job instead"
        self.is_stopping = True
        return ""

    def turn(self, *, now_ns: int) -> None:
        self._manager.advance(self, now_ns)
        if self.master.state.is_terminal and self.end is None:
            self._close(now_ns)

    def status(self, cluster: results.ClusterStatus, *, now_ns: int) -> results.JobStatus:
        """The status of the job in its cluster."""
        master, measurements, checkpoints = self.master, self.measurements, self.checkpoints
        latency = measurements.latency()
        return results.JobStatus(
            self.job_id,
            self.name,
            master.state.name,
            master.shortage() or job_files.canceling(master) or master.reason,
            master.restarts,
            (measurements.ended_ns or now_ns) - self.submitted_ns,
            0 if checkpoints is None else checkpoints.completed,
            measurements.vertices_now(),
            cluster.task_managers,
            latency.percentile(0.5),
            latency.percentile(0.99),
            job_files.failed_attempts(master),
            self._uses.of(self.job_id),
            tuple(each for each in cluster.jobs if each.job_id != self.job_id),
        )

    def summary(self) -> results.ClusterJob:
        slots = sum(self.master.slots_in_use(each.index) for each in self._manager.task_managers)
        state = self.master.state.name
        return results.ClusterJob(self.job_id, self.name, state, str(self.run_dir), slots)

    def tidy(self) -> None:
        """Remove the files that a job has only while it runs. The directory of the job that the
        cluster was started for belongs to the cluster, whose processes may still write there.
        """
        if self.measurements.metrics_log is not None:
            self.measurements.metrics_log.close()
        shutil.rmtree(job_files.spill_directory(self.run_dir), ignore_errors=True)
        if self._is_joining:
            remove_empty(self.run_dir)
        with suppress(OSError):
            (self.run_dir / job_files.CONTACT_NAME).unlink(missing_ok=True)

    def receive(self, task_manager: TaskManagerProcess, message: Any, now_ns: int) -> None:
        if isinstance(message, messages.JobClosed):
            self.measurements.reports[task_manager.index] = message.report
        elif isinstance(message, Statistics):
            self.measurements.add(task_manager.index, message)
            self._uses.update(self.job_id, task_manager.index, message.connections)

    def deploy(self, deployments: Sequence[Deployment], now_ns: int) -> None:
        """Save the manifest with the channels of tasks that are deployed."""
        for deployment in deployments:
            if self.start is None:
                self._begin(deployment, now_ns)
            self.measurements.deploy(deployment.plan, deployment.tasks)
            try:
                self._save_manifest()
            except (FlinknetError, OSError) as error:  # does not affect other jobs
                self.master.fail(f"its manifest cannot be saved: {error}", now_ns=now_ns)

    def _begin(self, deployment: Deployment, now_ns: int) -> None:
        start_ns = now_ns + START_DELAY_NS
        measured_from_ns = start_ns + self.submission.warmup_ns
        duration_ns = self.submission.duration_ns
        end_ns = None if duration_ns is None else measured_from_ns + duration_ns
        start = messages.Start(start_ns, measured_from_ns, None, end_ns, self._epoch_ns)
        self._manager.begin(self, start)
        self.measurements.begin(start, now_ns)
        self.begin_checkpoints(start, is_batch=deployment.plan.stages > 1, is_bench=False)

    def _close(self, now_ns: int) -> None:
        """Let TaskManagers close and forget the job, which is over; then save everything."""
        measurements, task_managers = self.measurements, self._manager.task_managers
        if measurements.ended_ns is None:
            measurements.ended_ns = now_ns
            self._manager.end(self, now_ns)
            task_managers.send_to_all(messages.CloseJob(self.id))
        asked = [each.index for each in task_managers if each.is_registered]
        is_complete = all(each in measurements.reports for each in asked)
        if not is_complete and now_ns - measurements.ended_ns < CLOSE_WAIT_NS:
            return
        self._manager.jobs.pop(self.id, None)
        self._uses.end(self.job_id)
        is_well = self.master.state is JobState.FINISHED
        faults = [] if is_well else [self.master.reason]
        faults += self._save_all()
        text = "; ".join(filter(None, faults))
        exit_code = int(not is_well or bool(faults))
        self.end = messages.JobEnded(self.master.state.name, text, exit_code)

    def _save_manifest(self) -> None:
        if not self.submission.records_trace:
            return
        workers, clocks = self._manager.workers, []
        if workers is not None and self.start is not None and self.master.state.is_terminal:
            clocks = workers.clocks(self.start.start_ns)
            self._clock_error_ns = error_between_ns(clocks)
        job_files.save_manifest(
            self.run_dir, self.submission, self.master, self.measurements, self.own, clocks
        )

    def _save_all(self) -> list[str]:
        """Save the result and seal the trace. Returns: the error, if there was one."""
        what, also = "the results could not be saved", list[str]()
        faults = self._manager.fetch(self.id, self.run_dir)
        try:
            if self.start is not None:
                self._save_manifest()
            with whole_file(self.run_dir / RESULT_NAME) as file:
                file.write(json.dumps(self._result().to_dict(), indent=1).encode() + b"\n")
            what, also = "its trace is not complete", faults
            if self.submission.records_trace and self.start is not None:
                seal_run(self.run_dir)
        except (FlinknetError, OSError) as error:
            return [f"{what}: {'; '.join([*also, str(error)])}"]
        return []

    def _result(self) -> results.JobResult:
        """The result of a job that is over."""
        master, measurements, error_ns = self.master, self.measurements, self._clock_error_ns
        vertices, edges = measurements.vertices(), measurements.edges()
        deployed_ns, ended_ns = measurements.deployed_ns, measurements.ended_ns
        has_run = deployed_ns is not None and ended_ns is not None
        measured_ns = (ended_ns or 0) - measurements.measured_from_ns
        found = verdict_on_job(vertices, edges) if measured_ns > 0 else None
        latency_ns = measurements.latency().summary().known_within(error_ns)
        warnings = [*results.clock_warnings(error_ns), *self._warnings]
        if self.others:
            text = (
                "other jobs ran on its TaskManagers at the same time:"
                f" {', '.join(self.others)}; they took processor time and network memory"
            )
            warnings.append(results.RunWarning("shared-cluster", text))
        warnings += measurements.warnings()
        warnings += job_files.warnings_of(master.state, measurements, has_run, self._is_joining)
        warnings += job_files.lost_records(master, vertices, edges)
        return results.JobResult(
            job_id=self.job_id,
            name=self.name,
            path=self.submission.path,
            arguments=self.submission.arguments,
            state=master.state.value,
            reason="" if master.state is JobState.FINISHED else master.reason,
            restarts=master.restarts,
            duration_ns=(ended_ns or 0) - (deployed_ns or 0) if has_run else 0,
            measured_ns=measured_ns if has_run and measured_ns > 0 else None,
            config=dict(effective_flink_keys(master.graph.job.config.network)),
            vertices=tuple(
                replace(each, latency_ns=each.latency_ns and each.latency_ns.known_within(error_ns))
                for each in vertices
            ),
            edges=edges,
            connections=measurements.connections(),
            task_managers=tuple(
                results.TaskManagerMeasured(
                    *(each.name, each.process.pid, each.state.value, self.slots_each),
                    dict(measurements.memory.get(each.index, {})),
                )
                for each in self.own
            ),
            checkpoints=self.checkpoint_summary(),
            limited_by="" if found is None else f"{found.text}.",
            verdict=found,
            warnings=tuple(warnings),
            trace=str(self.run_dir) if self.submission.records_trace else None,
            latency_ns=latency_ns if latency_ns.count else None,
        )


def _graph_of(
    message: messages.SubmitJob, run: str
) -> tuple[ExecutionGraph, list[results.RunWarning]]:
    """Run the program to obtain its graph, with warnings about it. Raises: ConfigError."""
    with redirect_stdout(sys.stderr):  # standard output carries the protocol
        program = load_program(
            Path(message.path), message.settings, message.arguments, source=message.source
        )
    job_graph = job_graph_of(program.stream_graph)
    initialize_on_master(job_graph)
    warnings = list(program.warnings)
    graph = execution_graph_of(
        job_graph, run, warn=lambda text: warnings.append(results.RunWarning("no-json-plan", text))
    )
    return graph, warnings


def remove_empty(directory: Path) -> None:
    for pattern in ("*.log", "*.out"):
        for path in directory.glob(pattern):
            with suppress(OSError):
                if not path.stat().st_size:
                    path.unlink()
