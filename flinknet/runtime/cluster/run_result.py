"""Combines the reports of all TaskManagers into one RunResult: totals, channels, the limit of the
run, warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from flinknet import results
from flinknet.config import CREDIT, Scenario
from flinknet.core.probe import FlushReason
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.errors import RunFailedError
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.plan import LoadPlan
from flinknet.job.task_metrics import back_pressure_level
from flinknet.options import effective_flink_keys
from flinknet.options.link import show_link
from flinknet.results.ledger import EdgeTime, Ledger
from flinknet.results.verdict import verdict
from flinknet.trace.job_names import edges_of_load

from ..fill_meter import SAMPLES_MAX
from . import control_messages as messages
from .collected import Collected, backlog_of, latency_of
from .control_messages import Start
from .measured_ledger import ledger_of_load
from .reports import ConsumerChannelReport, ProducerChannelReport, Report
from .run_warnings import advice_on, never_sent_warning, rate_warning, warnings_of

NO_CHECKPOINTS = results.RunWarning(
    "no-checkpoints",
    "a blocking exchange has no checkpoints: its consumers begin when its producers have ended;"
    " leave --checkpoint-interval out, or use --partition-type pipelined-bounded",
)


def check_records(reports: Sequence[Report]) -> None:
    """Raises: RunFailedError with the counts of records that did not arrive once and in order."""
    sent = {
        each.channel: each.sent_records for report in reports for each in report.producer_channels
    }
    faults = []
    for report in reports:
        for channel in report.consumer_channels:
            # A loss that record numbers showed also appears in the totals.
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
    collected: Collected,
    start: Start,
    trace: str | None,
    buffering: results.Buffering | None = None,
    taken: results.Taken | None = None,
    checkpoints: results.CheckpointSummary | None = None,
) -> results.RunResult:
    """Combine the reports of every TaskManager into one result."""
    scenario, reports = load.scenario, collected.reports_in_order
    interval_ns = scenario.network.checkpoint_interval_ns
    consumers = sorted(
        (each for report in reports for each in report.consumer_channels),
        key=lambda each: each.channel,
    )
    producers = {each.channel: each for report in reports for each in report.producer_channels}
    last = [each for each in consumers if load.is_last(load.channels[each.channel])]
    latency = latency_of(each.latency for each in last)
    measured = _measured(scenario, reports, last, latency, start, checkpoints)
    within_ns = max((start.measured_to_ns or 0) - start.measured_from_ns, 0)
    within_ns = within_ns or measured.duration_ns
    processors = _processor_use(reports, taken)
    throughput = measured.throughput_records_per_s or 0.0
    warnings = (
        never_sent_warning(load, measured, reports, start),
        rate_warning(scenario, last, within_ns=within_ns, throughput=throughput),
    )
    behind = [each for each in warnings if each is not None]
    ledger = ledger_of_load(
        load, reports, measured, processors, within_ns=within_ns, is_behind=bool(behind)
    )
    found = verdict(ledger)
    advice = advice_on(found, processors, scenario.workload)
    local = [each for each in consumers if load.channels[each.channel].is_local]
    bytes_in_local = sum(each.bytes_in for each in local)
    return results.RunResult(
        config=dict(effective_flink_keys(scenario.network)),
        workload=describe_workload(scenario),
        measured=measured,
        channels=tuple(
            _channel(load, each, producers[each.channel], measured) for each in consumers
        ),
        limited_by="" if found is None else f"{found.text}.",
        warnings=(
            *warnings_of(scenario, measured, reports, behind, processors, advice),
            *collected.warnings(),
            *(() if checkpoints is not None or interval_ns is None else (NO_CHECKPOINTS,)),
        ),
        trace=trace,
        buffering=buffering,
        wiring=results.Wiring(
            local_channels=sum(each.is_local for each in load.channels),
            remote_channels=sum(not each.is_local for each in load.channels),
            connections=load.connections(),
            bytes_in_local=bytes_in_local,
            bytes_in_remote=sum(each.bytes_in for each in consumers) - bytes_in_local,
        ),
        debloating=tuple(
            results.DebloatedGate(
                name,
                scenario.network.debloating_target_ns,
                tuple(
                    replace(each, at_ns=each.at_ns - start.start_ns)
                    for each in samples[:: 1 + max(0, len(samples) - 1) // SAMPLES_MAX]
                ),
            )
            for report in reports
            for name, samples in report.debloating
        ),
        metrics=results.RunMetrics(
            {
                name: {**found, "backpressureLevel": back_pressure_level(found)}
                for report in reports
                for name, found in report.tasks.items()
            },
            {f"tm-{index}": report.memory for index, report in enumerate(reports)},
        ),
        processors=processors,
        latency_distribution=latency.distribution(),
        verdict=found,
        link_records_per_s=_link_records_per_s(load, measured),
    )


def _measured(
    scenario: Scenario,
    reports: Sequence[Report],
    last: Sequence[ConsumerChannelReport],
    latency: LogLinearHistogram,
    start: Start,
    checkpoints: results.CheckpointSummary | None,
) -> results.Measured:
    """The totals of a run; records count where the `last` tasks take them."""
    records = sum(each.measured_records for each in last)
    size_bytes = sum(each.measured_bytes for each in last)
    window_ns = (start.measured_to_ns or 0) - start.measured_from_ns
    taking_ns = max((each.last_measured_ns for each in last), default=0) - start.measured_from_ns
    duration_ns = max(1, window_ns, taking_ns if records else 0)
    is_max_rate = scenario.workload.is_max_rate
    throughput = results.sustained_per_s(
        records,
        duration_ns,
        max(window_ns, 0) or duration_ns,
        [each.taken_records_per_s for each in last],
        is_max_rate=is_max_rate,
    )
    uncorrected = latency if is_max_rate else latency_of(each.uncorrected for each in last)
    producers = [each for report in reports for each in report.producer_channels]
    reasons = [sum(report.reasons[i] for report in reports if report.reasons) for i in range(5)]
    return results.Measured(
        records=records,
        bytes=size_bytes,
        buffers=sum(report.buffers for report in reports),
        events=sum(report.events for report in reports),
        duration_ns=duration_ns,
        throughput_records_per_s=throughput,
        throughput_bytes_per_s=None if throughput is None else throughput * size_bytes / records,
        latency_ns=latency.summary(),
        latency_uncorrected_ns=uncorrected.summary(),
        backlog_buffers=backlog_of(producers),
        credits=results.CreditSummary(
            announced=sum(report.credit_announced for report in reports),
            messages=sum(report.credit_messages for report in reports),
            starved_ns=sum(each.starved_ns for each in producers),
        ),
        flushes=results.FlushCounts(
            full=reasons[FlushReason.FULL],
            timeout=reasons[FlushReason.FLUSH],
            event=reasons[FlushReason.EVENT] + reasons[FlushReason.END],
        ),
        checkpoints=checkpoints,
    )


def _processor_use(reports: Sequence[Report], taken: results.Taken | None) -> results.ProcessorUse:
    named = {f"tm-{index}": report for index, report in enumerate(reports)}
    cpu_shares = [each.cpu_share for each in reports if each.cpu_share is not None]
    return results.ProcessorUse(
        busy_share={name: each.busy_share for name, each in named.items()},
        lacked_share={name: each.stolen_share for name, each in named.items()},
        stood_still_ns={x: each.stood_still_ns for x, each in named.items() if each.stood_still_ns},
        cpu_cores=sum(cpu_shares) if len(cpu_shares) == len(reports) else None,
        **(asdict(taken) if taken is not None else {}),
    )


def describe_workload(scenario: Scenario) -> dict[str, Any]:
    """The workload as JSON-ready plain data, with the seed."""
    described: dict[str, Any] = scenario.to_dict()["workload"]
    described["slow_consumers"] = [dict(each) for each in described["slow_consumers"]]
    if scenario.workload.is_max_rate:
        described["rate_per_s"] = "max"
    return described | {
        "task_managers": scenario.task_managers,
        "placement": scenario.placement,
        "flow_control": scenario.flow_control,
        "link": None if scenario.link is None else show_link(scenario.link),
        "seed": scenario.seed,
    }


def _link_records_per_s(load: LoadPlan, measured: results.Measured) -> float | None:
    """Most records per second that the emulated link allows: the credit of a round trip, or the
    bandwidth between all TaskManagers; None without a limit."""
    scenario = load.scenario
    link, buffers = scenario.link, load.credit_buffers()
    if link is None or not measured.records or scenario.flow_control != CREDIT:
        return None
    bounds = []
    if link.rtt_ns and buffers is not None:
        bounds.append(buffers * scenario.network.segment_size_bytes / link.rtt_ns * 1e9)
    if link.bandwidth_bytes_per_s:
        pairs = {(x.producer_task_manager, x.consumer_task_manager) for x in load.channels}
        bounds.append(link.bandwidth_bytes_per_s * len(pairs))
    if not bounds:
        return None
    return min(bounds) / (measured.bytes / measured.records + OVERHEAD_BYTES)


def _channel(
    load: LoadPlan,
    consumer: ConsumerChannelReport,
    producer: ProducerChannelReport,
    of_all: results.Measured,
) -> results.ChannelMeasured:
    deployed = load.channels[consumer.channel]
    records = consumer.measured_records
    return results.ChannelMeasured(
        channel=consumer.channel,
        producer=deployed.producer,
        consumer=deployed.consumer,
        records=records,
        throughput_records_per_s=(of_all.throughput_records_per_s or 0.0) * records / of_all.records
        if records and of_all.records
        else None,
        latency_ns=latency_of([consumer.latency]).summary(),
        backlog_buffers=backlog_of([producer]),
        taken_records_per_s=consumer.taken_records_per_s,
        edge=deployed.edge,
        edge_number=deployed.edge + 1,
        is_local=deployed.is_local,
    )


def with_stages(
    result: results.RunResult,
    load: LoadPlan,
    stage_begins_ns: Sequence[int],
    reports: Sequence[Report],
    start: messages.Start,
) -> results.RunResult:
    """Add the figures of each exchange to the result, and judge it as blocking. Every vertex but
    the first was deployed at `stage_begins_ns`, its input being complete.
    """
    consumed = [each for report in reports for each in report.consumer_channels]
    last_ns = max((each.last_measured_ns for each in consumed), default=0)
    turns_ns = pairwise([start.start_ns, *stage_begins_ns, last_ns])
    stages_ns = pairwise(max(1, end_ns - begin_ns) for begin_ns, end_ns in turns_ns)
    sent = [each for report in reports for each in report.producer_channels]
    exchanges = []
    for index, (write_ns, read_ns) in enumerate(stages_ns):
        own = [each for each in sent if load.channels[each.channel].edge == index]
        records = sum(each.sent_records for each in own)
        stored = [each for report in reports for each in report.stored if each.edge == index]
        exchanges.append(
            results.BlockingExchange(
                *(records, write_ns, records / write_ns * 1e9, read_ns, records / read_ns * 1e9),
                sum(each.data_bytes for each in stored),
                sum(each.stored_bytes for each in stored),
                load.scenario.network.compression_codec,
            )
        )
    writing_ns = exchanges[0].write_duration_ns
    total_ns = writing_ns + sum(each.read_duration_ns for each in exchanges)
    edge = edges_of_load(range(len(exchanges)), len(exchanges) - 1)[0]
    found = verdict(Ledger({}, [EdgeTime(0, 1, edge.name, written=writing_ns / total_ns)]))
    text = "" if found is None else f"{found.text}."
    return replace(result, blocking=tuple(exchanges), verdict=found, limited_by=text)
