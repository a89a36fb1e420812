"""Warnings about the figures of a bench run: the requested rate, late records, processors that
others used, too few samples.

Whether the requested rate was reached is judged by the queue: records taken in the measured part
against records that fell due in it. Throughput cannot show this: it counts until the last record
arrives, and the last flush may come one buffer timeout after the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from flinknet import results
from flinknet.config import ON_OFF, RECORDED, Scenario, WorkloadConfig, on_off_ns
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.job.load.load_tasks import scheduled_records
from flinknet.job.load.plan import LoadPlan
from flinknet.job.load.run_input import PAUSED_NS
from flinknet.results.bottleneck import LOADED_FROM
from flinknet.results.validity import FEW_SAMPLES, GIVEN_UP, RATE_NOT_REACHED, SCHEDULE_MISSED
from flinknet.units import counted, human_count, human_duration

from .control_messages import Start
from .reports import ConsumerChannelReport, Report

SCHEDULE_MISSED_NS = 10_000_000
"""Time after its intended instant from which a record counts as late."""

DISTURBED_SHARE = 0.05
"""Share of the run from which a TaskManager that lacked a CPU was disturbed."""

P99_DISTURBED_SHARE = 0.01
"""Share of the run without a CPU from which that can dominate p99."""

P99_SAFE_NS = 50_000_000
"""p99 that slices of a few ms, as others take in less than DISTURBED_SHARE, cannot cause."""

SAMPLES_MIN = 500
"""Fewest records for p99."""

REACHED_SHARE = 0.98
"""Share of the records due that has to be taken for a rate to be reached."""

_SIGMAS = 3.0
"""Standard deviations by which random arrivals may deviate from their mean."""


def rate_warning(
    scenario: Scenario, last: Sequence[ConsumerChannelReport], *, within_ns: int, throughput: float
) -> results.RunWarning | None:
    """The warning that the requested rate was not reached in the channels to the last tasks; None
    if it was. Throughput, in records/s, is used if taken records were not counted by the clock.
    """
    workload = scenario.workload
    if workload.is_max_rate or workload.is_blocking or not last:
        return None
    offered_per_s = workload.rate_per_s * workload.producers * workload.copies
    counted = [each.taken_records_per_s for each in last]
    taken_per_s = sum(each for each in counted if each is not None)
    within_s = within_ns / 1e9
    # the most records that can wait for a flush or a full buffer, over all stages
    network, rate_per_s = scenario.network, offered_per_s / len(last)
    waiting = network.segment_size_bytes / (workload.record_size.mean_bytes + OVERHEAD_BYTES)
    if network.buffer_timeout_ns >= 0:
        waiting = min(waiting, rate_per_s * network.buffer_timeout_ns / 1e9)
    waiting *= (1 + workload.relays) * len(last)
    if None in counted:
        taken_per_s, waiting = throughput, 0.0
    due = offered_per_s * within_s
    if workload.arrivals.startswith(ON_OFF):  # where in its period the measured part begins
        waiting += offered_per_s * on_off_ns(workload.arrivals)[1] / 1e9
    elif workload.arrivals != "constant":
        waiting += _SIGMAS * math.sqrt(due)
    queued = (offered_per_s - taken_per_s) * within_s - waiting
    if queued <= (1 - REACHED_SHARE) * due:
        return None
    share = f"{human_count(taken_per_s)} of {human_count(offered_per_s)} records/s"
    return results.RunWarning(
        RATE_NOT_REACHED,
        f"the requested rate was not reached: {share}; the queue grew by"
        f" {human_count(round(queued))} records in the measured part, so latency is mostly time in"
        " that queue.",
        f"rate not reached: {share} in the measured part; latency is queueing",
    )


def advice_on(
    verdict: results.Bottleneck | None, processors: results.ProcessorUse, workload: WorkloadConfig
) -> str:
    """Advice about late records: a lower rate helps where the run itself delayed its sources, and a
    quiet machine where others did. A consumer that pauses, as it is asked to, is cause enough."""
    if stood := _stood_still(processors):
        return f"Run again: {stood}."
    if any(each.delay_ns_per_record == PAUSED_NS for each in workload.slow_consumers):
        return "A consumer pauses, as the load asks, so records wait."
    taken, busy = processors.taken_share, processors.busy_share
    is_limited = verdict is not None and not verdict.is_healthy
    is_machine = verdict is not None and verdict.place in busy and verdict.edge is None
    if (is_machine or not is_limited) and max(busy.values(), default=0.0) < LOADED_FROM:
        return "The run was not at its limit, so the machine is the cause: use a quiet one."
    if taken > DISTURBED_SHARE:
        return (
            f"A TaskManager waited for a CPU {taken:.0%} of the time: run again on a quiet machine."
            " Lower --rate only if records are late there, too."
        )
    return "Lower --rate if the load should not saturate the stack."


def warnings_of(
    scenario: Scenario,
    measured: results.Measured,
    reports: Sequence[Report],
    behind: Sequence[results.RunWarning],
    processors: results.ProcessorUse,
    advice: str,
) -> Iterator[results.RunWarning]:
    """All warnings about the figures of a run, with advice about late records."""
    for each in behind:
        yield replace(each, text=f"{each.text} {advice}")
    late_ns = max(report.late_ns_max for report in reports)
    if not scenario.workload.is_max_rate and late_ns > SCHEDULE_MISSED_NS:
        yield results.RunWarning(
            SCHEDULE_MISSED,
            f"a source emitted a record {human_duration(late_ns)} after its intended instant;"
            f" latency counts that wait, the uncorrected figure does not. {advice}",
            f"a source was up to {human_duration(late_ns)} late with a record",
        )
    if stood := _stood_still(processors):
        yield results.RunWarning(
            results.STOOD_STILL,
            f"{stood}: they were stopped (SIGSTOP, Ctrl-Z), frozen, or asleep with the whole"
            " machine. Throughput is too low and latency too high; run again.",
            f"{stood}: stopped, frozen, or asleep with the machine",
        )
    if (disturbed := _disturbed(processors, measured.latency_ns.p99)) is not None:
        yield disturbed
    if measured.records < SAMPLES_MIN:
        yield results.RunWarning(
            FEW_SAMPLES,
            f"too few records for p99: {measured.records} of at least {SAMPLES_MIN}; use a longer"
            " --duration or more --records.",
        )


def _stood_still(processors: results.ProcessorUse) -> str:
    if not (stood_ns := processors.stood_still_ns):
        return ""
    is_all = len(stood_ns) == len(processors.lacked_share)
    which = "its processes" if is_all else " and ".join(stood_ns)
    return f"{which} stood still for {human_duration(max(stood_ns.values()))}"


def never_sent_warning(
    load: LoadPlan, measured: results.Measured, reports: Sequence[Report], start: Start
) -> results.RunWarning | None:
    """The warning about records of a rate that were due and never sent; None if all were."""
    workload = load.scenario.workload
    are_all_sent = workload.is_max_rate or workload.arrivals.startswith(RECORDED)
    if start.give_up_ns is None or start.measured_to_ns is None or are_all_sent:
        return None
    due = scheduled_records(workload.rate_per_s, None, start.start_ns, start.end_ns)
    due *= workload.producers * workload.copies
    sent = sum(
        each.sent_records
        for report in reports
        for each in report.producer_channels
        if load.channels[each.channel].edge == 0
    )
    if sent >= due:
        return None
    drain_ns = start.give_up_ns - start.measured_to_ns
    others = ": latency and throughput are those of the others" if measured.records else ""
    return results.RunWarning(
        GIVEN_UP,
        f"{human_count(due - sent)} of {human_count(due)} records that were due had not been"
        f" sent {human_duration(drain_ns)} after the end and were dropped{others}.",
        f"{human_count(due - sent)} of {human_count(due)} records were never sent",
    )


def _disturbed(processors: results.ProcessorUse, p99_ns: float | None) -> results.RunWarning | None:
    """The warning about a TaskManager that waited for a CPU, if that affects the figures."""
    taken = processors.taken_share
    if taken <= P99_DISTURBED_SHARE:
        return None
    task_managers, cores = len(processors.lacked_share), processors.cores
    if cores is not None and task_managers > cores and taken > (processors.host_share or 0.0):
        return results.RunWarning(
            results.CORES_SHARED,
            f"{task_managers} TaskManagers share {counted(cores, 'core')}, and one"
            f" waited for a core {taken:.0%} of the time: throughput may be lower and latency"
            " higher than on separate machines; use fewer --task-managers, or more cores.",
            f"too few cores: a TaskManager waited up to {taken:.0%} of the time for one",
        )
    if taken > DISTURBED_SHARE:
        return results.RunWarning(
            results.DISTURBED,
            f"a TaskManager waited for a CPU {taken:.0%} of the time because of other processes"
            " (or the host): throughput may be too low and latency too high; run again on a quiet"
            " machine.",
            f"other processes: a TaskManager waited up to {taken:.0%} of the time for a CPU",
        )
    if p99_ns is not None and p99_ns >= P99_SAFE_NS:
        return None
    return results.RunWarning(
        results.P99_DISTURBED,
        f"a TaskManager waited for a CPU {taken:.1%} of the time because of other processes (or"
        " the host), enough to dominate p99; run again, or on a quiet machine.",
        f"p99 may be too high: {taken:.1%} of the time without a CPU",
    )
