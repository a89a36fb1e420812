"""The launcher: leads the TaskManagers of a run through it and collects what they measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flinknet.config import Scenario
from flinknet.errors import TraceError
from flinknet.job.checkpoint_coordinator import CheckpointCoordinator
from flinknet.job.load.plan import LoadPlan, load_plan_of, task_name
from flinknet.results import Progress, RunResult, Warning
from flinknet.trace.manifest import MANIFEST_NAME
from flinknet.trace.run_directory import seal_run

from . import messages as say
from .bystanders import Bystanders
from .clock import monotonic_ns, timestamp_epoch_ns
from .cluster import Cluster
from .fill_levels import FillTimeline
from .measure import assemble, check_records, with_checkpoints
from .progress import ProgressMeter
from .signals import terminations_unwind
from .stages import is_staged, lead_stages, with_stages

START_DELAY_NS = 50_000_000
"""From the word "start" to the first record, so that every process has heard it."""

SILENCE_MAX_S = 60.0
"""A TaskManager that says nothing for so long is lost. While tasks run it speaks five times a
second; starting takes seconds at most."""

SAMPLE_INTERVAL_NS = 200_000_000

DRAIN_MAX_NS = 10_000_000_000
"""Records that fell due in a run of a given length are sent for so long behind its end. A rate far
beyond what the stack takes would go on for days."""


def run_scenario(
    scenario: Scenario,
    *,
    out_dir: Path | None,
    trace: bool,
    on_progress: Callable[[Progress], None] | None = None,
    silence_max_s: float = SILENCE_MAX_S,
    sample_interval_ns: int = SAMPLE_INTERVAL_NS,
    drain_max_ns: int = DRAIN_MAX_NS,
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
        drain_max_ns: how long behind the measured part records are sent that fell due in it.

    Raises:
        ConfigError, TransportError, TraceError: it could not start.
        RunFailedError: a process died or hangs, or records were lost, repeated or out of order.
        KeyboardInterrupt, SystemExit (SIGTERM, SIGHUP): every process has ended; a note says where
            what was recorded is.
    """
    load = load_plan_of(scenario)
    load.check_memory()
    if scenario.network.is_tls and load.task_managers > 1:
        from .tls import create_tls

        create_tls(scenario.network)  # every TaskManager makes its own; a fault is told once
    trace_dir = out_dir if trace else None
    try:
        with (
            terminations_unwind(),
            Cluster(load, trace_dir, silence_max_s, sample_interval_ns) as cluster,
        ):
            result = _lead(cluster, on_progress or (lambda _: None), drain_max_ns)
            summary = None if cluster.checkpoints is None else cluster.checkpoints.summary()
            result = with_checkpoints(result, summary, scenario)
    except (KeyboardInterrupt, SystemExit) as end:
        if trace_dir is not None and (trace_dir / MANIFEST_NAME).is_file():
            end.add_note(f"what was recorded until then is in {trace_dir}")
        raise
    return result if trace_dir is None else _sealed(result, trace_dir)


def _sealed(result: RunResult, trace_dir: Path) -> RunResult:
    """The result of a run whose trace is complete, or with a warning that it is not."""
    try:
        seal_run(trace_dir)
    except TraceError as error:
        incomplete = Warning("trace-incomplete", str(error))
        return replace(result, warnings=(*result.warnings, incomplete))
    return result


def _lead(
    cluster: Cluster, on_progress: Callable[[Progress], None], drain_max_ns: int
) -> RunResult:
    load = cluster.load
    meter = ProgressMeter(load)
    timeline = FillTimeline(cluster.sample_interval_ns)
    on_progress(meter.progress("starting", monotonic_ns()))
    ports = cluster.collect(say.Bound)
    host = load.scenario.network.bind_host
    cluster.tell(say.Connect({index: (host, bound.port) for index, bound in enumerate(ports)}))
    cluster.collect(say.Ready)
    bystanders = Bystanders(load.scenario.task_managers)
    start = _instants(load.scenario, drain_max_ns)
    cluster.save_manifest(None)
    cluster.tell(start)
    meter.start = start
    cluster.checkpoints = _checkpoints_of(load, start)

    is_measured = False

    def sampled(index: int, message: object) -> None:
        nonlocal is_measured
        if isinstance(message, say.Sample):
            if not is_measured and monotonic_ns() >= start.measured_from_ns:
                is_measured = True  # so that a run that is interrupted has its measured part
                cluster.save_manifest(start)
            meter.add(index, message, monotonic_ns())
            if message.fill is not None:
                timeline.add(index, message.fill)
                cluster.log_metrics(index, message, message.fill.at_ns)
            on_progress(meter.progress(None, monotonic_ns()))

    stages = []
    if is_staged(load.scenario):
        stages = lead_stages(cluster, load, sampled)
    reports = cluster.collect(say.Report, sampled)
    taken = bystanders.taken()
    cluster.tell(say.Exit())
    last_ns = max(
        (each.last_measured_ns for report in reports for each in report.consumer_channels),
        default=0,
    )
    cluster.save_manifest(start, start.measured_to_ns or last_ns + 1, taken)
    on_progress(meter.progress("finished", monotonic_ns()))
    check_records(load, reports)
    trace = str(cluster.trace_dir) if cluster.trace_dir is not None else None
    buffering = timeline.buffering(start.start_ns, [report.fill_bounds for report in reports])
    result = assemble(load, reports, start, trace, buffering, taken)
    if cluster.metrics_error is not None:
        incomplete = Warning("trace-incomplete", cluster.metrics_error)
        result = replace(result, warnings=(*result.warnings, incomplete))
    if not load.scenario.workload.is_blocking:
        return result
    return with_stages(result, load, stages, reports, start)


def _checkpoints_of(load: LoadPlan, start: say.Start) -> CheckpointCoordinator | None:
    """Who leads the checkpoints of a run; None if they are off, or an exchange is blocking, as in a
    batch job of Flink.
    """
    network = load.scenario.network
    if network.checkpoint_interval_ns is None or load.scenario.workload.is_blocking:
        return None
    return CheckpointCoordinator(
        map(task_name, load.tasks),
        interval_ns=network.checkpoint_interval_ns,
        timeout_ns=network.checkpoint_timeout_ns,
        start_ns=start.start_ns,
        end_ns=start.end_ns,
        measured_from_ns=start.measured_from_ns,
        measured_to_ns=start.measured_to_ns,
        epoch_ns=start.timestamp_epoch_ns,
    )


def _instants(scenario: Scenario, drain_max_ns: int) -> say.Start:
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
    give_up_ns = to_ns + drain_max_ns if to_ns is not None and workload.records is None else None
    return say.Start(start_ns, measured_from_ns, to_ns, to_ns, timestamp_epoch_ns(), give_up_ns)
