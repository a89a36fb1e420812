"""From the reports of all TaskManagers to one RunResult: totals, per channel, what limited the run,
what to doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from flinknet.config import TCP, Scenario
from flinknet.core.probe import FlushReason
from flinknet.errors import RunFailedError
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.arrivals import RECORDED
from flinknet.job.load.assembly import scheduled_records
from flinknet.job.load.plan import LoadPlan
from flinknet.job.task_metrics import back_pressure_level
from flinknet.options import effective_flink_keys
from flinknet.results import (
    CORES_SHARED,
    DISTURBED,
    P99_DISTURBED,
    BacklogSummary,
    Buffering,
    ChannelMeasured,
    CheckpointSummary,
    CreditSummary,
    DebloatedGate,
    FlushCounts,
    Measured,
    ProcessorUse,
    RunMetrics,
    RunResult,
    Strangers,
    Taken,
    Warning,
    Wiring,
)
from flinknet.units import human_count, human_duration

from .asked_rate import KEPT, AskedRate, asked_rate
from .fill_levels import SAMPLES_MAX
from .messages import ConsumerChannelReport, ProducerChannelReport, Report, Start

SCHEDULE_MISSED_NS = 10_000_000
"""A source that emits a record this late did not keep its schedule."""

DISTURBED_SHARE = 0.05
"""A task manager that lacked a processor for more of the run than this was disturbed."""

P99_DISTURBED_SHARE = 0.01
"""More than this is as much as p99 speaks of."""

P99_SAFE_NS = 50_000_000
"""What others take for less than DISTURBED_SHARE of the time comes in pieces of some ms at most,
and does not make such a p99."""

SATURATED_SHARE = 0.9
"""An event loop that is busy for more of its time has no room for more load."""

IDLE_SHARE = 0.5
"""An event loop that is busy for less of its time does not hold up a run."""

STARVED_SHARE = 0.05
"""Producers that lacked credit for more of the time were held up by their consumers."""

FEW_SAMPLES = 500
"""Below this no p99 is given."""


def check_records(load: LoadPlan, reports: Sequence[Report]) -> None:
    """Every record came once and in order on its channel.

    Raises: RunFailedError that counts what did not.
    """
    sent = {
        each.channel: each.sent_records for report in reports for each in report.producer_channels
    }
    faults = []
    for report in reports:
        for channel in report.consumer_channels:
            # A loss that the record numbers showed is one that the totals show too.
            missing = sent[channel.channel] - channel.records
            lost, repeated = channel.lost, channel.repeated
            if missing > 0:
                lost += missing
            elif missing < 0:
                repeated -= missing
            if lost or repeated or channel.reordered:
                faults.append(
                    f"channel {channel.channel}: {lost} lost, {repeated} repeated,"
                    f" {channel.reordered} out of order"
                )
    if faults:
        raise RunFailedError("records did not arrive once and in order: " + "; ".join(faults[:5]))


def assemble(
    load: LoadPlan,
    reports: Sequence[Report],
    start: Start,
    trace: str | None,
    buffering: Buffering | None = None,
    taken: Taken | None = None,
) -> RunResult:
    """One result from what every TaskManager reported, in the order of their index.

    Args:
        taken: of the processors meanwhile; None if nobody looked.
    """
    scenario = load.scenario
    consumers = [each for report in reports for each in report.consumer_channels]
    producers = {each.channel: each for report in reports for each in report.producer_channels}
    latency, uncorrected = LogLinearHistogram(), LogLinearHistogram()
    last = [each for each in consumers if load.is_last(load.channels[each.channel])]
    for each in last:
        latency.merge(LogLinearHistogram.from_bytes(each.latency))
        uncorrected.merge(LogLinearHistogram.from_bytes(each.uncorrected))
    records = sum(each.measured_records for each in last)
    last_ns = max((each.last_measured_ns for each in last), default=0)
    duration_ns = max(last_ns, start.measured_to_ns or 0) - start.measured_from_ns
    duration_ns = duration_ns if records else (start.measured_to_ns or 0) - start.measured_from_ns
    duration_ns = max(duration_ns, 1)
    size = sum(each.measured_bytes for each in last)
    reasons = [sum(report.reasons[i] for report in reports if report.reasons) for i in range(5)]
    is_max_rate = scenario.workload.is_max_rate
    measured = Measured(
        records=records,
        bytes=size,
        buffers=sum(report.buffers for report in reports),
        events=sum(report.events for report in reports),
        duration_ns=duration_ns,
        throughput_records_per_s=records / duration_ns * 1e9 if records else None,
        throughput_bytes_per_s=size / duration_ns * 1e9 if records else None,
        latency_ns=latency.summary(),
        latency_uncorrected_ns=(latency if is_max_rate else uncorrected).summary(),
        backlog_buffers=_backlog(list(producers.values())),
        credits=CreditSummary(
            announced=sum(report.credit_announced for report in reports),
            messages=sum(report.credit_messages for report in reports),
            starved_ns=sum(each.starved_ns for each in producers.values()),
        ),
        flushes=FlushCounts(
            full=reasons[FlushReason.FULL],
            timeout=reasons[FlushReason.FLUSH],
            event=reasons[FlushReason.EVENT] + reasons[FlushReason.END],
        ),
    )
    within_ns = _within_ns(measured, start)
    asked = (
        None
        if scenario.workload.is_blocking
        else asked_rate(
            scenario, last, within_ns=within_ns, throughput=measured.throughput_records_per_s or 0.0
        )
    )
    processors = ProcessorUse(
        busy_share={f"tm-{index}": report.busy_share for index, report in enumerate(reports)},
        lacked_share={f"tm-{index}": report.stolen_share for index, report in enumerate(reports)},
        **(asdict(taken) if taken is not None else {}),
    )
    pace = _pace(scenario, measured, reports, load, asked, processors, within_ns=within_ns)
    given_up = _given_up(load, measured, reports, start, pace)
    return RunResult(
        config=dict(effective_flink_keys(scenario.network)),
        workload=describe_workload(scenario),
        measured=measured,
        channels=tuple(
            _channel(load, each, producers[each.channel], duration_ns) for each in consumers
        ),
        limited_by=_limited_by(
            scenario,
            measured,
            load,
            asked,
            processors,
            pace,
            within_ns=within_ns,
            has_given_up=bool(given_up),
        ),
        warnings=(
            *given_up,
            *_warnings(scenario, measured, reports, asked, processors, pace),
        ),
        trace=trace,
        buffering=buffering,
        wiring=_wiring(load, consumers),
        debloating=_debloating(scenario, reports, start),
        metrics=_metrics(reports),
        processors=processors,
    )


def with_checkpoints(
    result: RunResult, summary: CheckpointSummary | None, scenario: Scenario
) -> RunResult:
    """The result with what became of the checkpoints, or with why there were none."""
    if summary is not None:
        return replace(result, measured=replace(result.measured, checkpoints=summary))
    if scenario.network.checkpoint_interval_ns is None:
        return result
    text = (
        "a blocking exchange has no checkpoints: its consumers begin when its producers have ended;"
        " leave --checkpoint-interval out, or use --partition-type pipelined-bounded"
    )
    return replace(result, warnings=(*result.warnings, Warning("no-checkpoints", text)))


def _debloating(
    scenario: Scenario, reports: Sequence[Report], start: Start
) -> tuple[DebloatedGate, ...]:
    """The evaluations of each gate, from the start of the run on."""
    return tuple(
        DebloatedGate(
            name,
            scenario.network.debloating_target_ns,
            tuple(
                replace(each, at_ns=each.at_ns - start.start_ns)
                for each in samples[:: 1 + max(0, len(samples) - 1) // SAMPLES_MAX]
            ),
        )
        for report in reports
        for name, samples in report.debloating
    )


def _metrics(reports: Sequence[Report]) -> RunMetrics:
    return RunMetrics(
        {
            name: {**found, "backpressureLevel": back_pressure_level(found)}
            for report in reports
            for name, found in report.tasks.items()
        },
        {f"tm-{index}": report.memory for index, report in enumerate(reports)},
    )


def describe_workload(scenario: Scenario) -> dict[str, Any]:
    """The workload as JSON-ready plain data, with the seed."""
    described: dict[str, Any] = scenario.to_dict()["workload"]
    described["slow_consumers"] = [dict(each) for each in described["slow_consumers"]]
    if scenario.workload.is_max_rate:
        described["rate_per_s"] = "max"
    described["task_managers"] = scenario.task_managers
    described["placement"] = scenario.placement
    described["flow_control"] = scenario.flow_control
    described["seed"] = scenario.seed
    return described


def _backlog(channels: Sequence[ProducerChannelReport]) -> BacklogSummary:
    buffers = sum(each.buffers for each in channels)
    if not buffers:
        return BacklogSummary(None, None)
    return BacklogSummary(
        sum(each.backlog_sum for each in channels) / buffers,
        max(each.backlog_max for each in channels),
    )


def _channel(
    load: LoadPlan,
    consumer: ConsumerChannelReport,
    producer: ProducerChannelReport,
    duration_ns: int,
) -> ChannelMeasured:
    deployed = load.channels[consumer.channel]
    records = consumer.measured_records
    return ChannelMeasured(
        channel=consumer.channel,
        producer=deployed.producer,
        consumer=deployed.consumer,
        records=records,
        throughput_records_per_s=records / duration_ns * 1e9 if records else None,
        latency_ns=LogLinearHistogram.from_bytes(consumer.latency).summary(),
        backlog_buffers=_backlog([producer]),
        taken_records_per_s=consumer.taken_records_per_s,
        edge=deployed.edge,
        is_local=deployed.is_local,
    )


def _wiring(load: LoadPlan, consumers: Sequence[ConsumerChannelReport]) -> Wiring:
    bytes_in = {each.channel: each.bytes_in for each in consumers}
    local = [each.index for each in load.channels if each.is_local]
    bytes_in_local = sum(bytes_in.get(index, 0) for index in local)
    return Wiring(
        local_channels=len(local),
        remote_channels=len(load.channels) - len(local),
        connections=load.connections(),
        bytes_in_local=bytes_in_local,
        bytes_in_remote=sum(bytes_in.values()) - bytes_in_local,
    )


def _within_ns(measured: Measured, start: Start) -> int:
    """The measured part by the clock, in which credit-starved time and taken records are counted:
    the drain behind it is left out.
    """
    if start.measured_to_ns is None:
        return measured.duration_ns
    return max(start.measured_to_ns - start.measured_from_ns, 1)


@dataclass(frozen=True, slots=True)
class _Pace:
    """What can set the pace of a run, as shares of the time.

    Attributes:
        upstream, downstream: in which the busiest event loop of each side was busy.
        starved: in which a channel had data but no credit, on average.
        unread: without credit, the most in which a socket was not read.
        is_overloaded: the run itself held its sources up, so that a lower rate helps; if not, what
            was late was so because of the machine. One answer for all that is said of the run.
    """

    upstream: float
    downstream: float
    starved: float
    unread: float
    is_overloaded: bool

    @property
    def busy(self) -> str:
        """How busy both sides were, in words."""
        return (
            f"producers' event loops were busy {self.upstream:.0%} of the time,"
            f" consumers' {self.downstream:.0%}"
        )

    @property
    def advice(self) -> str:
        """What to do about records that were late."""
        if self.is_overloaded:
            return "Lower --rate if the load should not saturate the stack."
        return "The run was not at its limit, so it was the machine: run again on a quiet one."


def _pace(
    scenario: Scenario,
    measured: Measured,
    reports: Sequence[Report],
    load: LoadPlan,
    asked: AskedRate | None,
    processors: ProcessorUse,
    *,
    within_ns: int,
) -> _Pace:
    """What set the pace.

    Args:
        asked: the rate asked for, and what came of it.
        within_ns: how long credit-starved time was counted on each channel.
    """
    upstream = max(reports[each.task_manager].busy_share for each in load.sources)
    downstream = max(reports[each.task_manager].busy_share for each in load.sinks)
    busiest = max(report.busy_share for report in reports)
    remote = sum(not each.is_local for each in load.channels)
    starved = (measured.credits.starved_ns or 0) / (within_ns * max(1, remote))
    unread = max(report.unread_share for report in reports)
    is_kept = asked is not None and asked.is_kept
    return _Pace(
        upstream,
        downstream,
        starved,
        unread,
        is_overloaded=busiest >= SATURATED_SHARE
        # a consumer without a processor gives no credit either
        or max(starved, unread) > max(STARVED_SHARE, processors.taken_share)
        or (not is_kept and (busiest >= IDLE_SHARE or bool(scenario.workload.slow_consumers))),
    )


def _limited_by(
    scenario: Scenario,
    measured: Measured,
    load: LoadPlan,
    asked: AskedRate | None,
    processors: ProcessorUse,
    pace: _Pace,
    *,
    within_ns: int,
    has_given_up: bool,
) -> str:
    """One sentence on what held the run back.

    Args:
        asked: the rate asked for, and what came of it.
        within_ns: the measured part by the clock.
        has_given_up: records were due that nobody could send in time.
    """
    workload, busy = scenario.workload, pace.busy
    slow = ", ".join(str(each.index) for each in workload.slow_consumers)
    if measured.throughput_records_per_s is None:
        if slow:
            return f"the slow consumer ({slow}): no record was measured; nothing came through."
        if has_given_up:
            return "the load: no record was measured; the stack never got past the warm-up."
        return "its length: no record was measured; the run was shorter than its latency."
    if asked is not None and asked.is_kept:
        late = ""
        behind_ns = measured.duration_ns - within_ns
        if behind_ns > 0 and measured.throughput_records_per_s < KEPT * asked.offered_per_s:
            late = f" (its last records came {human_duration(behind_ns)} behind the measured part)"
        return f"the rate asked for, which was kept{late}; {busy}."
    if slow:
        if all(each.is_local for each in load.channels):
            return f"the slow consumer ({slow}): producers waited for buffers; {busy}."
        if scenario.flow_control == TCP:
            return (
                f"the slow consumer ({slow}): for want of a buffer a connection was not read for"
                f" {pace.unread:.0%} of the time, and none of its channels went on."
            )
        return (
            f"the slow consumer ({slow}): channels had data but no credit for {pace.starved:.0%} of"
            " the time."
        )
    if not pace.is_overloaded:
        return _held_up_from_outside(processors, busy)
    held_up = STARVED_SHARE if max(pace.upstream, pace.downstream) < IDLE_SHARE else 0.2
    if pace.starved > held_up:
        return (
            f"credit: channels had data but no credit for {pace.starved:.0%} of the time, so the"
            f" consumers' side set the pace; {busy}."
        )
    if pace.unread > held_up:
        return (
            f"buffers: a connection was not read for {pace.unread:.0%} of the time, so the"
            f" consumers' side set the pace; {busy}."
        )
    if pace.upstream > pace.downstream + 0.05:
        return f"the producers' processor: {busy}."
    if pace.downstream > pace.upstream + 0.05:
        return f"the consumers' processor: {busy}."
    return f"the processor on both sides: {busy}."


def _held_up_from_outside(processors: ProcessorUse, busy: str) -> str:
    """The sentence on a run that had time, credit and buffers to spare, and still fell behind."""
    taken = processors.taken_share
    if taken <= DISTURBED_SHARE:
        return f"nothing in the run: it had time and credit to spare; {busy}."
    if _shares_cores(processors):
        return (
            f"too few cores: a task manager wanted one that others of the run had for {taken:.0%}"
            f" of the time; {busy}."
        )
    return (
        "other processes (or the host): they had a processor that a task manager wanted for"
        f" {taken:.0%} of the time; {busy}."
    )


def _warnings(
    scenario: Scenario,
    measured: Measured,
    reports: Sequence[Report],
    asked: AskedRate | None,
    processors: ProcessorUse,
    pace: _Pace,
) -> list[Warning]:
    found = []
    if asked is not None and (growing := asked.warning(pace.advice)) is not None:
        found.append(growing)
    late_ns = max(report.late_ns_max for report in reports)
    if not scenario.workload.is_max_rate and late_ns > SCHEDULE_MISSED_NS:
        found.append(
            Warning(
                "schedule-missed",
                f"a source emitted a record {human_duration(late_ns)} after its intended instant;"
                " latency counts that wait, the uncorrected figure does not."
                f" {pace.advice}",
            )
        )
    if (disturbed := _disturbed(processors, measured.latency_ns.p99)) is not None:
        found.append(disturbed)
    strangers = sum((report.strangers for report in reports), Strangers())
    if (visited := strangers.warning()) is not None:
        found.append(visited)
    if measured.records < FEW_SAMPLES:
        found.append(
            Warning(
                "few-samples",
                f"too few records for p99: {measured.records} of at least {FEW_SAMPLES}; use a"
                " longer --duration or more --records.",
            )
        )
    for index, report in enumerate(reports):
        if report.trace_error:
            found.append(Warning("trace-incomplete", f"tm-{index}: {report.trace_error}"))
    return found


def _given_up(
    load: LoadPlan,
    measured: Measured,
    reports: Sequence[Report],
    start: Start,
    pace: _Pace,
) -> Sequence[Warning]:
    """What to doubt if records of a rate were due and never sent."""
    workload = load.scenario.workload
    if start.give_up_ns is None or start.measured_to_ns is None or workload.is_max_rate:
        return ()
    if workload.arrivals.startswith(RECORDED):  # all of them are sent
        return ()
    due = scheduled_records(workload.rate_per_s, None, start.start_ns, start.end_ns)
    due *= workload.producers * workload.copies
    sent = sum(
        each.sent_records
        for report in reports
        for each in report.producer_channels
        if load.channels[each.channel].edge == 0
    )
    if sent >= due:
        return ()
    drain_ns = start.give_up_ns - start.measured_to_ns
    others = ": latency and throughput are those of the others" if measured.records else ""
    return (
        Warning(
            "given-up",
            f"{human_count(due - sent)} of {human_count(due)} records that were due had not been"
            f" sent {human_duration(drain_ns)} after the end and were given up{others}."
            f" {pace.advice}",
        ),
    )


def _disturbed(processors: ProcessorUse, p99_ns: float | None) -> Warning | None:
    """How much of the time a TaskManager wanted a processor in vain, if it matters."""
    taken = processors.taken_share
    if taken <= P99_DISTURBED_SHARE:
        return None
    task_managers, cores = len(processors.lacked_share), processors.cores or 0
    if _shares_cores(processors):
        return Warning(
            CORES_SHARED,
            f"{task_managers} task managers share {cores} core{'s' if cores > 1 else ''}, and one"
            f" wanted a core that others had for {taken:.0%} of the time, so throughput may be too"
            " low and latency too high for machines of their own; use fewer --task-managers, or"
            " more cores.",
        )
    if taken > DISTURBED_SHARE:
        return Warning(
            DISTURBED,
            f"other processes (or the host) took the processor from a task manager for {taken:.0%}"
            " of the time, so throughput may be too low and latency too"
            " high; run again on a quiet machine.",
        )
    if p99_ns is not None and p99_ns >= P99_SAFE_NS:
        return None
    return Warning(
        P99_DISTURBED,
        f"other processes (or the host) took the processor from a task manager for {taken:.1%} of"
        " the time, and p99 speaks of 1 %: it may be the machine's; run again, or on a quiet"
        " machine.",
    )


def _shares_cores(processors: ProcessorUse) -> bool:
    """Whether TaskManagers took the cores from each other, and the host took less."""
    cores = processors.cores
    return (
        cores is not None
        and len(processors.lacked_share) > cores
        and processors.taken_share > (processors.host_share or 0.0)
    )
