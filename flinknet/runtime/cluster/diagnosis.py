"""What limited a run, and the warnings about its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.config import TCP, Scenario
from flinknet.job.load.load_tasks import scheduled_records
from flinknet.job.load.plan import LoadPlan
from flinknet.job.load.recorded_load import RECORDED
from flinknet.results import (
    CORES_SHARED,
    DISTURBED,
    P99_DISTURBED,
    STOOD_STILL,
    Measured,
    ProcessorUse,
    RunWarning,
)
from flinknet.units import counted, human_count, human_duration

from .control_messages import Start
from .reports import Report
from .requested_rate import REACHED_SHARE, RequestedRate

SCHEDULE_MISSED_NS = 10_000_000
"""A source that emits a record later than this has missed its schedule."""

DISTURBED_SHARE = 0.05
"""A TaskManager that lacked a CPU for a larger share of the run was disturbed."""

P99_DISTURBED_SHARE = 0.01
"""A larger share can dominate p99."""

P99_SAFE_NS = 50_000_000
"""If others took less than DISTURBED_SHARE of the time, they took it in slices of a few ms, which
cannot cause a p99 this high."""

SATURATED_SHARE = 0.9
"""An event loop that is busy for a larger share of its time is saturated."""

IDLE_SHARE = 0.5
"""An event loop that is busy for a smaller share of its time does not limit a run."""

STARVED_SHARE = 0.05
"""Producers that lacked credit for a larger share of the time were limited by their consumers."""

FEW_SAMPLES = 500
"""Fewer records than this are too few for p99."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What can limit a run, as shares of the time.

    Attributes:
        upstream, downstream: busy share of the busiest event loop on each side.
        starved: share in which a channel had data but no credit, averaged over the channels.
        unread: without credit, the largest share in which a socket was not read.
        is_overloaded: the run itself delayed its sources, so that a lower rate helps; if not, the
            machine delayed them. All statements about the run share this one answer.
        waited: share in which a TaskManager waited for a CPU.
        stood_still: which processes stood still and for how long, in words; empty for none.
    """

    upstream: float
    downstream: float
    starved: float
    unread: float
    is_overloaded: bool
    waited: float = 0.0
    stood_still: str = ""

    @property
    def busy(self) -> str:
        """How busy both sides were, in words."""
        return (
            f"producers' event loops were busy {self.upstream:.0%} of the time,"
            f" consumers' {self.downstream:.0%}"
        )

    @property
    def advice(self) -> str:
        """Advice about late records."""
        if self.stood_still:
            return f"Run again: {self.stood_still}."
        if self.is_overloaded and self.waited > DISTURBED_SHARE:
            return (
                f"A TaskManager waited for a CPU {self.waited:.0%} of the time: run again on a"
                " quiet machine. Lower --rate only if records are late there, too."
            )
        if self.is_overloaded:
            return "Lower --rate if the load should not saturate the stack."
        return "The run was not at its limit, so the machine is the cause: use a quiet one."


def pace_of(
    scenario: Scenario,
    measured: Measured,
    reports: Sequence[Report],
    load: LoadPlan,
    requested: RequestedRate | None,
    processors: ProcessorUse,
    *,
    within_ns: int,
) -> Pace:
    """Determine what limited the run.

    Args:
        requested: the requested rate, and the rate reached.
        within_ns: time over which credit-starved time was counted on each channel.
    """
    upstream = max(reports[each.task_manager].busy_share for each in load.sources)
    downstream = max(reports[each.task_manager].busy_share for each in load.sinks)
    busiest = max(report.busy_share for report in reports)
    remote = sum(not each.is_local for each in load.channels)
    starved_ns = (measured.credits.starved_ns or 0) / max(1, remote)
    starved = min(1.0, starved_ns / within_ns)  # the last count may come after the end
    unread = max(report.unread_share for report in reports)
    is_reached = requested is not None and requested.is_reached
    return Pace(
        upstream,
        downstream,
        starved,
        unread,
        is_overloaded=busiest >= SATURATED_SHARE
        # a consumer without a processor gives no credit either
        or (
            not processors.stood_still_ns
            and max(starved, unread) > max(STARVED_SHARE, processors.taken_share)
        )
        or (not is_reached and (busiest >= IDLE_SHARE or bool(scenario.workload.slow_consumers))),
        waited=processors.taken_share,
        stood_still=_stood_still(processors),
    )


def limited_by(
    scenario: Scenario,
    measured: Measured,
    load: LoadPlan,
    requested: RequestedRate | None,
    processors: ProcessorUse,
    pace: Pace,
    *,
    within_ns: int,
    has_given_up: bool,
) -> str:
    """One sentence on what limited the run.

    Args:
        requested: the requested rate, and the rate reached.
        within_ns: length of the measured part, by the clock.
        has_given_up: whether records were due that could not be sent in time.
    """
    workload, busy = scenario.workload, pace.busy
    slow = ", ".join(str(each.index) for each in workload.slow_consumers)
    if measured.throughput_records_per_s is None:
        if slow:
            return f"the slow consumer ({slow}): no record was measured; nothing came through."
        if has_given_up:
            return "the load: no record was measured; the warm-up never ended."
        return "its length: no record was measured; the run was shorter than its latency."
    if requested is not None and requested.is_reached:
        late = ""
        behind_ns = measured.duration_ns - within_ns
        if (
            behind_ns > 0
            and measured.throughput_records_per_s < REACHED_SHARE * requested.offered_per_s
        ):
            late = f" (the last records came {human_duration(behind_ns)} after the measured part)"
        return f"the requested rate alone{late}; {busy}."
    if slow:
        if all(each.is_local for each in load.channels):
            return f"the slow consumer ({slow}): producers waited for buffers; {busy}."
        if scenario.flow_control == TCP:
            return (
                f"the slow consumer ({slow}): without a free buffer, a connection was not read for"
                f" {pace.unread:.0%} of the time, and all its channels stopped."
            )
        return (
            f"the slow consumer ({slow}): channels had data but no credit for {pace.starved:.0%} of"
            " the time."
        )
    if not pace.is_overloaded:
        if pace.stood_still:
            return f"nothing in the run: {pace.stood_still}; {busy}."
        return _limited_from_outside(processors, busy)
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
        return f"the producers' CPU: {busy}."
    if pace.downstream > pace.upstream + 0.05:
        return f"the consumers' CPU: {busy}."
    return f"the CPU on both sides: {busy}."


def _limited_from_outside(processors: ProcessorUse, busy: str) -> str:
    """The sentence on a run that had spare time, credit and buffers, and was still late."""
    taken = processors.taken_share
    if taken <= DISTURBED_SHARE:
        return f"nothing in the run: it had spare time and credit; {busy}."
    if _shares_cores(processors):
        return (
            f"too few cores: a TaskManager waited for one {taken:.0%} of the time because of other"
            f" processes of the run; {busy}."
        )
    return (
        f"other processes (or the host): a TaskManager waited for a CPU {taken:.0%} of the time"
        f" because of them; {busy}."
    )


def _stood_still(processors: ProcessorUse) -> str:
    """Which TaskManagers stood still and for how long; empty if none did."""
    stood_ns = processors.stood_still_ns
    if not stood_ns:
        return ""
    is_all = len(stood_ns) == len(processors.lacked_share)
    which = "its processes" if is_all else " and ".join(stood_ns)
    return f"{which} stood still for {human_duration(max(stood_ns.values()))}"


def warnings_of(
    scenario: Scenario,
    measured: Measured,
    reports: Sequence[Report],
    requested: RequestedRate | None,
    processors: ProcessorUse,
    pace: Pace,
) -> list[RunWarning]:
    found = []
    if requested is not None and (growing := requested.warning(pace.advice)) is not None:
        found.append(growing)
    late_ns = max(report.late_ns_max for report in reports)
    if not scenario.workload.is_max_rate and late_ns > SCHEDULE_MISSED_NS:
        found.append(
            RunWarning(
                "schedule-missed",
                f"a source emitted a record {human_duration(late_ns)} after its intended instant;"
                " latency counts that wait, the uncorrected figure does not."
                f" {pace.advice}",
                f"a source was up to {human_duration(late_ns)} late with a record",
            )
        )
    if pace.stood_still:
        found.append(
            RunWarning(
                STOOD_STILL,
                f"{pace.stood_still}: they were stopped (SIGSTOP, Ctrl-Z), frozen, or asleep with"
                " the whole machine. Throughput is too low and latency too high; run again.",
                f"{pace.stood_still}: stopped, frozen, or asleep with the machine",
            )
        )
    if (disturbed := _disturbed(processors, measured.latency_ns.p99)) is not None:
        found.append(disturbed)
    if measured.records < FEW_SAMPLES:
        found.append(
            RunWarning(
                "few-samples",
                f"too few records for p99: {measured.records} of at least {FEW_SAMPLES}; use a"
                " longer --duration or more --records.",
            )
        )
    return found


def given_up_warnings(
    load: LoadPlan,
    measured: Measured,
    reports: Sequence[Report],
    start: Start,
    pace: Pace,
) -> Sequence[RunWarning]:
    """The warning about records of a rate that were due and never sent, if there were any."""
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
        RunWarning(
            "given-up",
            f"{human_count(due - sent)} of {human_count(due)} records that were due had not been"
            f" sent {human_duration(drain_ns)} after the end and were dropped{others}."
            f" {pace.advice}",
            f"{human_count(due - sent)} of {human_count(due)} records were never sent",
        ),
    )


def _disturbed(processors: ProcessorUse, p99_ns: float | None) -> RunWarning | None:
    """The warning about a TaskManager that waited for a CPU, if that affects the figures."""
    taken = processors.taken_share
    if taken <= P99_DISTURBED_SHARE:
        return None
    task_managers, cores = len(processors.lacked_share), processors.cores or 0
    if _shares_cores(processors):
        return RunWarning(
            CORES_SHARED,
            f"{task_managers} TaskManagers share {counted(cores, 'core')}, and one"
            f" waited for a core {taken:.0%} of the time: throughput may be lower and latency"
            " higher than on separate machines; use fewer --task-managers, or more cores.",
            f"too few cores: a TaskManager waited {taken:.0%} of the time for one",
        )
    if taken > DISTURBED_SHARE:
        return RunWarning(
            DISTURBED,
            f"a TaskManager waited for a CPU {taken:.0%} of the time because of other processes"
            " (or the host): throughput may be too low and latency too high; run again on a quiet"
            " machine.",
            f"other processes: a TaskManager waited {taken:.0%} of the time for a CPU",
        )
    if p99_ns is not None and p99_ns >= P99_SAFE_NS:
        return None
    return RunWarning(
        P99_DISTURBED,
        f"a TaskManager waited for a CPU {taken:.1%} of the time because of other processes (or"
        " the host), enough to dominate p99; run again, or on a quiet machine.",
        f"p99 may be too high: {taken:.1%} of the time without a CPU",
    )


def _shares_cores(processors: ProcessorUse) -> bool:
    """Whether TaskManagers competed for cores, and took more from each other than the host did."""
    cores = processors.cores
    return (
        cores is not None
        and len(processors.lacked_share) > cores
        and processors.taken_share > (processors.host_share or 0.0)
    )
