"""The launcher: spawns the TaskManagers of a run, leads them through it, collects what they
measured, ends them.

No process outlives the run: TaskManagers watch the control pipe, and whatever happens here,
`finally` closes the pipes, waits a moment, and kills what is left.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from flinknet import errors
from flinknet.config import Scenario
from flinknet.errors import RunFailedError
from flinknet.options import effective_flink_keys
from flinknet.results import Progress, RunResult, Warning
from flinknet.tasks.deployment import Deployment, deploy
from flinknet.tasks.memory import check_memory
from flinknet.trace.manifest import ChannelInfo, ClockInfo, ProcessInfo, RunManifest

from . import messages as say
from .aftermath import Ending, error_of
from .checkpoints import CheckpointLead, create_lead, with_checkpoints
from .clock import monotonic_ns, timestamp_epoch_ns, wall_clock_iso
from .fill_levels import FillTimeline
from .host import available_cores, environment, host_id
from .measure import assemble, check_records
from .metrics_log import MetricsLog
from .progress import ProgressMeter
from .signals import interrupts_held, terminations_unwind
from .spill_file import create_spill_directory
from .stages import is_staged, lead_stages, with_stages
from .task_manager import main as task_manager_main

START_DELAY_NS = 50_000_000
"""From the word "start" to the first record, so that every process has heard it."""

EXIT_WAIT_S = 2.0

LAST_WORDS_NS = 2_000_000_000
"""How long the others may take to notice that one is gone."""

SILENCE_MAX_S = 60.0
"""A TaskManager that says nothing for so long is lost. While tasks run it speaks five times a
second; starting takes seconds at most."""

SAMPLE_INTERVAL_NS = 200_000_000

_T = TypeVar("_T")


def run_scenario(
    scenario: Scenario,
    *,
    out_dir: Path | None,
    trace: bool,
    on_progress: Callable[[Progress], None] | None = None,
    silence_max_s: float = SILENCE_MAX_S,
    sample_interval_ns: int = SAMPLE_INTERVAL_NS,
) -> RunResult:
    """Run a scenario over real sockets.

    Args:
        out_dir: the run directory, created if need be; gets the manifest and the traces. None:
            nothing is written.
        trace: record every message into `out_dir`.
        on_progress: called several times a second.
        silence_max_s: how long a process may say nothing before it counts as lost.
        sample_interval_ns: how often each process tells where it stands; progress and fill levels
            are no finer.

    Raises:
        ConfigError, TransportError, TraceError: it could not start.
        RunFailedError: a process died or hangs, or records were lost, repeated or out of order.
        KeyboardInterrupt, SystemExit (SIGTERM, SIGHUP): every process has ended.
    """
    deployment = deploy(scenario)
    check_memory(deployment)
    if scenario.network.is_tls and deployment.task_managers > 1:
        from .tls import create_tls

        create_tls(scenario.network)  # every TaskManager makes its own; a fault is told once
    trace_dir = out_dir if trace else None
    with (
        terminations_unwind(),
        _Cluster(deployment, trace_dir, silence_max_s, sample_interval_ns) as cluster,
    ):
        result = _lead(cluster, on_progress or (lambda _: None))
        result = with_checkpoints(result, cluster.checkpoints, scenario)
    return result


def _lead(cluster: _Cluster, on_progress: Callable[[Progress], None]) -> RunResult:
    deployment = cluster.deployment
    meter = ProgressMeter(deployment)
    timeline = FillTimeline(cluster.sample_interval_ns)
    on_progress(meter.progress("starting", monotonic_ns()))
    ports = cluster.collect(say.Bound)
    host = deployment.scenario.network.bind_host
    cluster.tell(say.Connect({index: (host, bound.port) for index, bound in enumerate(ports)}))
    cluster.collect(say.Ready)
    start = _instants(deployment.scenario)
    cluster.save_manifest(None)
    cluster.tell(start)
    meter.start = start
    cluster.checkpoints = create_lead(deployment, start, cluster.tell)

    def sampled(index: int, message: object) -> None:
        if isinstance(message, say.Sample):
            meter.add(index, message, monotonic_ns())
            if message.fill is not None:
                timeline.add(index, message.fill)
                cluster.log_metrics(index, message, message.fill.at_ns)
            on_progress(meter.progress(None, monotonic_ns()))

    stages = []
    if is_staged(deployment):
        stages = lead_stages(cluster, deployment, sampled)
    reports = cluster.collect(say.Report, sampled)
    cluster.tell(say.Exit())
    last_ns = max(
        (each.last_measured_ns for report in reports for each in report.consumer_channels),
        default=0,
    )
    cluster.save_manifest(start, start.measured_to_ns or last_ns + 1)
    on_progress(meter.progress("finished", monotonic_ns()))
    check_records(deployment, reports)
    trace = str(cluster.trace_dir) if cluster.trace_dir is not None else None
    buffering = timeline.buffering(start.start_ns, [report.fill_bounds for report in reports])
    result = assemble(deployment, reports, start, trace, buffering)
    if cluster.metrics_error is not None:
        incomplete = Warning("trace-incomplete", cluster.metrics_error)
        result = replace(result, warnings=(*result.warnings, incomplete))
    if not deployment.scenario.workload.is_blocking:
        return result
    return with_stages(result, deployment, stages, reports, start)


def _instants(scenario: Scenario) -> say.Start:
    """When the run starts, when its measured part begins and ends, when sources stop."""
    workload = scenario.workload
    start_ns = monotonic_ns() + START_DELAY_NS
    measured_from_ns = start_ns + workload.warmup_ns
    to_ns: int | None = None
    if workload.records is None:
        assert workload.duration_ns is not None
        to_ns = measured_from_ns + workload.duration_ns
    elif not workload.is_max_rate and workload.arrivals == "constant":
        to_ns = measured_from_ns + round(workload.records / workload.rate_per_s * 1e9)
    elif workload.duration_ns is not None:
        to_ns = measured_from_ns + workload.duration_ns
    return say.Start(start_ns, measured_from_ns, to_ns, to_ns, timestamp_epoch_ns())


class _Cluster:
    """The processes of one run and their pipes."""

    def __init__(
        self,
        deployment: Deployment,
        trace_dir: Path | None,
        silence_max_s: float,
        sample_interval_ns: int,
    ) -> None:
        self.deployment = deployment
        self.sample_interval_ns = sample_interval_ns
        self.trace_dir = trace_dir
        self.checkpoints: CheckpointLead | None = None
        self._silence_max_ns = round(silence_max_s * 1e9)
        self._started_at = wall_clock_iso()
        self._processes: list[BaseProcess] = []
        self._pipes: list[Pipe] = []
        self._spill_dir: TemporaryDirectory[str] | None = None
        self._metrics = MetricsLog(trace_dir) if trace_dir is not None else None
        self._has_begun = False

    def __enter__(self) -> _Cluster:
        try:
            self._spawn()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(EXIT_WAIT_S)
            if process.is_alive():
                process.kill()
                process.join()
        if self._spill_dir is not None:
            self._spill_dir.cleanup()
        if self._metrics is not None:
            self._metrics.close()
        if self.trace_dir is not None and not self._has_begun:
            self._remove_traces(self.trace_dir)

    def _spawn(self) -> None:
        if self.trace_dir is not None:
            try:
                self.trace_dir.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise errors.TraceError(
                    f"{self.trace_dir}: cannot be made a run directory ({error.strerror});"
                    " give another --out"
                ) from error
        if self.deployment.scenario.workload.is_blocking:
            self._spill_dir = create_spill_directory()
        context = multiprocessing.get_context("spawn")
        has_own_core = available_cores() >= self.deployment.scenario.task_managers
        for index in range(self.deployment.scenario.task_managers):
            ours, theirs = context.Pipe()
            path = _trace_of(self.trace_dir, index) if self.trace_dir is not None else None
            spec = say.TaskManagerSpec(
                index,
                self.deployment,
                path,
                has_own_core,
                self.sample_interval_ns,
                Path(self._spill_dir.name) if self._spill_dir is not None else None,
            )
            process = context.Process(
                target=task_manager_main, args=(theirs, spec), name=spec.name, daemon=True
            )
            self._pipes.append(ours)
            with interrupts_held():
                process.start()
            self._processes.append(process)
            theirs.close()

    def tell(self, message: object) -> None:
        """Say something to every TaskManager. One that has died is noticed when its answer is
        collected.
        """
        for pipe in self._pipes:
            try:
                pipe.send(message)
            except OSError:
                continue

    def collect(
        self, kind: type[_T], other: Callable[[int, object], None] = lambda *_: None
    ) -> list[_T]:
        """Wait until every TaskManager has said something of this kind; also one that has can end.

        Raises: RunFailedError or the error a TaskManager ended with.
        """
        answers: dict[int, _T] = {}
        heard_ns = [monotonic_ns()] * len(self._pipes)
        while len(answers) < len(self._pipes):
            waiting = [index for index in range(len(self._pipes)) if index not in answers]
            self._check_silence(waiting, heard_ns)
            for index in self._ready(range(len(self._pipes)), self._patience_ns()):
                heard_ns[index] = monotonic_ns()
                message = self._receive(index)
                if isinstance(message, kind):
                    answers[index] = message
                elif isinstance(message, Ending):
                    told = self.trace_dir if self._has_begun else None
                    raise error_of(self._last_words(message), told)
                else:
                    if self.checkpoints is not None:
                        self.checkpoints.receive(message)
                    other(index, message)
            if self.checkpoints is not None:
                self.checkpoints.advance()
        return [answers[index] for index in range(len(self._pipes))]

    def log_metrics(self, index: int, sample: say.Sample, at_ns: int) -> None:
        """Keep the metrics of a TaskManager in the run directory, if there is one."""
        if self._metrics is not None and sample.tasks:
            self._metrics.add(index, sample, now_ns=at_ns)

    @property
    def metrics_error(self) -> str | None:
        """Why there are metrics that could not be kept."""
        return None if self._metrics is None else self._metrics.error

    def save_manifest(self, start: say.Start | None, measured_to_ns: int | None = None) -> None:
        """Write the manifest of the run directory: before the run, and again with its measured
        part.
        """
        if self.trace_dir is None:
            return
        self._has_begun = True
        scenario = self.deployment.scenario
        host = environment()
        RunManifest(
            scenario=scenario.to_dict(),
            flink_keys=dict(effective_flink_keys(scenario.network)),
            host=host,
            versions={"flinknet": host["flinknet"], "python": host["python"]},
            seed=scenario.seed,
            clock=ClockInfo(host_id=host_id()),
            started_at=self._started_at,
            measured_from_ns=start.measured_from_ns if start is not None else None,
            measured_to_ns=measured_to_ns,
            processes=tuple(
                ProcessInfo(f"tm-{index}", f"tm-{index}.fnt", process.pid or 0)
                for index, process in enumerate(self._processes)
            ),
            channels=tuple(self._channel_infos()),
        ).save(self.trace_dir)

    def _remove_traces(self, directory: Path) -> None:
        """Of a run that never began nothing is worth a look, and its place can be used again."""
        for index in range(len(self._pipes)):
            _trace_of(directory, index).unlink(missing_ok=True)
        with suppress(OSError):  # there is more in it, that is not ours
            directory.rmdir()

    def _channel_infos(self) -> Iterable[ChannelInfo]:
        deployment = self.deployment
        for channel in deployment.channels:
            producer = f"tm-{deployment.producer_task_manager(channel)}"
            consumer = f"tm-{deployment.consumer_task_manager(channel)}"
            yield ChannelInfo(
                index=channel.index,
                receiver_id=channel.receiver_id.hex(),
                producer=channel.producer,
                consumer=channel.consumer,
                producer_process=producer,
                consumer_process=consumer,
                connection=f"{producer}->{consumer}",
                subpartition=channel.subpartition,
                partition=deployment.partition_id(channel.producer, channel.edge).encode().hex(),
                is_local=deployment.is_local(channel),
                edge=channel.edge,
            )

    def _last_words(self, first: Ending) -> list[Ending]:
        """How the others ended after the first one did. If that may be why, they get a moment to
        say so.
        """
        endings = {first.index: first}
        if not (first.is_death or first.is_consequence):
            return [first]
        until_ns = monotonic_ns() + LAST_WORDS_NS
        while len(endings) < len(self._pipes) and (left_ns := until_ns - monotonic_ns()) > 0:
            waiting = [index for index in range(len(self._pipes)) if index not in endings]
            for index in self._ready(waiting, left_ns):
                message = self._receive(index)
                if isinstance(message, Ending):
                    endings[index] = message
        return list(endings.values())

    def _patience_ns(self) -> int:
        """How long to wait for somebody to say something: not beyond the next checkpoint."""
        due_ns = None if self.checkpoints is None else self.checkpoints.next_deadline_ns()
        if due_ns is None:
            return self._silence_max_ns
        return min(max(0, due_ns - monotonic_ns()), self._silence_max_ns)

    def _ready(self, waiting: Iterable[int], timeout_ns: int) -> list[int]:
        """Which of these have said something or ended; waits for it, but not longer."""
        ready = wait([self._pipes[index] for index in waiting], timeout_ns / 1e9)
        return [index for index in waiting if self._pipes[index] in ready]

    def _check_silence(self, waiting: list[int], heard_ns: list[int]) -> None:
        for index in waiting:
            silent_ns = monotonic_ns() - heard_ns[index]
            if silent_ns >= self._silence_max_ns:
                raise RunFailedError(
                    f"tm-{index} (pid {self._processes[index].pid}) has said nothing for"
                    f" {silent_ns / 1e9:.0f} s and counts as lost; what it had recorded is in the"
                    " run directory"
                )

    def _receive(self, index: int) -> object:
        """What a TaskManager said, or how it ended."""
        process = self._processes[index]
        try:
            message: object = self._pipes[index].recv()
        except (EOFError, OSError):
            process.join(EXIT_WAIT_S)
            return Ending(index, process.pid, exit_code=process.exitcode)
        if isinstance(message, say.Failed):
            return Ending(index, process.pid, failed=message)
        return message


def _trace_of(directory: Path, index: int) -> Path:
    return directory / f"tm-{index}.fnt"
