"""The time of blocking exchanges: all records are written first, and then read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinknet.job.load.plan import LoadPlan
from flinknet.results import BlockingExchange, RunResult
from flinknet.results.ledger import EdgeTime, Ledger
from flinknet.results.verdict import verdict
from flinknet.trace.job_names import edges_of_load

from . import control_messages as messages
from .reports import Report


def with_stages(
    result: RunResult,
    load: LoadPlan,
    stage_begins_ns: Sequence[int],
    reports: Sequence[Report],
    start: messages.Start,
) -> RunResult:
    """Add the figures of each exchange to the result, and judge it as blocking.

    Args:
        stage_begins_ns: when each vertex but the first was deployed, its input being complete.
    """
    sent = [each for report in reports for each in report.producer_channels]
    consumed = [each for report in reports for each in report.consumer_channels]
    stored = [each for report in reports for each in report.stored]
    last_ns = max((each.last_measured_ns for each in consumed), default=0)
    turns_ns = [start.start_ns, *stage_begins_ns, last_ns]
    exchanges = []
    for index in range(len(stage_begins_ns)):
        records = sum(
            each.sent_records for each in sent if load.channels[each.channel].edge == index
        )
        write_ns = max(1, turns_ns[index + 1] - turns_ns[index])
        read_ns = max(1, turns_ns[index + 2] - turns_ns[index + 1])
        exchanges.append(
            BlockingExchange(
                records,
                write_ns,
                records / write_ns * 1e9,
                read_ns,
                records / read_ns * 1e9,
                sum(each.data_bytes for each in stored if each.edge == index),
                sum(each.stored_bytes for each in stored if each.edge == index),
                load.scenario.network.compression_codec,
            )
        )
    writing_ns = sum(each.write_duration_ns for each in exchanges[:1])
    total_ns = writing_ns + sum(each.read_duration_ns for each in exchanges)
    edge = edges_of_load(range(len(exchanges)), len(exchanges) - 1)[0]
    found = verdict(Ledger({}, [EdgeTime(0, 1, edge.name, written=writing_ns / total_ns)]))
    text = "" if found is None else f"{found.text}."
    return replace(result, blocking=tuple(exchanges), verdict=found, limited_by=text)
