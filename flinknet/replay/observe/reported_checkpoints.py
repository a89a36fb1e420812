"""What is known of checkpoints besides their barriers: what the run counted itself, or Flink
reported while a tap listened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from flinknet.histogram import LogLinearHistogram
from flinknet.results import CheckpointSummary, LatencySummary, TradeOffPoint
from flinknet.trace.job_names import named_edges
from flinknet.trace.metrics import number_of
from flinknet.trace.recordings import checkpoints_within
from flinknet.units import NS_PER_MS, human_duration

from ..read import RecordedRun, result_of

COMPLETED, FAILED = "COMPLETED", "FAILED"
"""States of a checkpoint, as Flink has them."""

_NOT_IN_A_TRACE = (
    *("aborted", "start_delay_ns"),
    *("overtaken_bytes_mean", "overtaken_bytes_max", "processed_bytes_mean"),
)

BEFORE_PRODUCERS = (
    "start delays count from Flink's trigger: the predicted ones have {} for what comes before this"
    " edge, as recorded"
)

NOTICED_NS = 10_000_000_000
"""After its end a checkpoint is read about so late at most."""


def with_reported(summary: CheckpointSummary | None, run: RecordedRun) -> CheckpointSummary | None:
    """The summary with what Flink reported: times of the tasks that read the edge, bytes of the
    whole job; or with what a run of flinknet's own counted. As it is where nobody asked Flink, and
    for a part of a run.
    """
    if summary is None:
        return None
    if not run.manifest.is_from_between:
        return _counted(summary, run)
    job = run.manifest.scenario.get("job")
    ids = set(job.get("ids") or ()) if isinstance(job, Mapping) else set()
    lines = [
        each
        for each in checkpoints_within(run.place, run.from_ns, run.to_ns + NOTICED_NS)
        if each.get("job") in ids
    ]
    if not lines:
        return summary
    return _joined(summary, lines, _consumers_of(run))


def since_trigger(
    points: Sequence[TradeOffPoint], recorded: CheckpointSummary | None
) -> tuple[TradeOffPoint, ...]:
    """Predictions of a tap whose start delays count from the trigger, as what Flink reported does.

    What is simulated begins when the producers of an edge send a barrier. That the JobManager
    triggers it and that it comes to these producers takes as long as the recorded setting shows.
    """
    simulated = next((each.checkpoints for each in points if each.is_recorded), None)
    if recorded is None or simulated is None:
        return tuple(points)
    ends = recorded.start_delay_ns.p50, simulated.start_delay_ns.p50
    if ends[0] is None or ends[1] is None or ends[0] <= ends[1]:
        return tuple(points)
    before_ns = round(ends[0] - ends[1])
    note = BEFORE_PRODUCERS.format(human_duration(before_ns))
    return tuple(
        replace(
            each,
            checkpoints=replace(
                each.checkpoints, start_delay_ns=_later(each.checkpoints.start_delay_ns, before_ns)
            ),
            notes=(*each.notes, note),
        )
        if each.checkpoints is not None
        else each
        for each in points
    )


def _later(delays: LatencySummary, by_ns: int) -> LatencySummary:
    values = {each.name: getattr(delays, each.name) for each in fields(delays)}
    return LatencySummary(
        **{
            name: value if value is None or name == "count" else value + by_ns
            for name, value in values.items()
        }
    )


def _counted(summary: CheckpointSummary, run: RecordedRun) -> CheckpointSummary:
    measured = result_of(run).get("measured")
    stated = measured.get("checkpoints") if isinstance(measured, Mapping) else None
    if not isinstance(stated, Mapping) or run.edge is not None or run.is_asked_part:
        return summary
    try:
        counted = CheckpointSummary.from_dict(stated)
    except (TypeError, KeyError):  # of another release
        return summary
    return replace(summary, **{name: getattr(counted, name) for name in _NOT_IN_A_TRACE})


def _consumers_of(run: RecordedRun) -> str | None:
    """The vertex that reads the only edge of a run; None where that is not known."""
    edges = named_edges(run.manifest)
    numbers = {each.edge for each in run.manifest.channels}
    edge = edges.get(numbers.pop()) if len(numbers) == 1 else None
    if edge is None:
        return None
    vertices = run.manifest.scenario["job"]["vertices"]
    return next((each.get("id") for each in vertices if each["index"] == edge.target), None)


def _joined(
    summary: CheckpointSummary, lines: Iterable[Mapping[str, Any]], vertex: str | None
) -> CheckpointSummary:
    aborted, overtaken, processed = 0, list[float](), list[float]()
    delays, alignments = LogLinearHistogram(), LogLinearHistogram()
    for each in lines:
        aborted += each.get("status") == FAILED
        if each.get("status") != COMPLETED:
            continue
        overtaken += _numbers([each.get("persisted_bytes")])
        processed += _numbers([each.get("processed_bytes")])
        delays.add(_in_ns(each.get("start_delays_ms"), vertex))
        alignments.add(_in_ns(each.get("alignments_ms"), vertex))
    return replace(
        summary,
        aborted=aborted,
        start_delay_ns=delays.summary(),
        alignment_ns=alignments.summary() if alignments.count else summary.alignment_ns,
        overtaken_bytes_mean=_mean(overtaken),
        overtaken_bytes_max=round(max(overtaken)) if overtaken else None,
        processed_bytes_mean=_mean(processed),
    )


def _in_ns(by_vertex: Any, vertex: str | None) -> list[int]:
    values = by_vertex.get(vertex) if isinstance(by_vertex, Mapping) else None
    return [round(each * NS_PER_MS) for each in _numbers(values)]


def _numbers(values: Any) -> list[float]:
    found = (number_of(each) for each in (values if isinstance(values, list) else ()))
    return [each for each in found if each is not None and each >= 0]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
