"""The answers to a replay, from what was observed, predicted and advised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinknet.predict.exchange import is_blocking, is_max_rate
from flinknet.results import (
    Cause,
    ReplayAnswer,
    RunDetails,
    TraceDescription,
    TracePart,
    Verdict,
)
from flinknet.trace import file_index
from flinknet.trace.job_names import named_edges
from flinknet.trace.recordings import RunPlace

from .advise.between import bottleneck_between, judge_between
from .advise.bottleneck import bottleneck_of
from .advise.caveats import caveats, warnings_of
from .advise.channel_times import channel_times
from .advise.diagnose import diagnose, verdict_of_blocking
from .advise.edges import (
    PRESSED,
    ends_of,
    pressed_from_behind,
    upstream_of,
)
from .advise.task_use import job_use
from .observe.flink_metrics import flink_metrics
from .observe.observed import ObservedRun
from .observe.summaries import (
    latency_distribution,
    message_counts,
    over_time,
    regime_shares,
    replayed_channels,
)
from .predicted import ComparedRun
from .price import cpu_cost_of, priced
from .read import RecordedRun
from .trade_off import AdvisedRun


def answers_of(
    observed: Sequence[ObservedRun],
    compared: Sequence[ComparedRun],
    advised: Sequence[AdvisedRun],
    details: Sequence[RunDetails | None],
) -> list[ReplayAnswer]:
    """The answer about each run, in their order."""
    answers = [_answer(*each) for each in zip(observed, compared, advised, details, strict=True)]
    of_job: dict[tuple[RunPlace, int], list[int]] = {}
    for place, each in enumerate(observed):
        of_job.setdefault(each.run.job, []).append(place)
    for places in of_job.values():
        edges = [observed[place] for place in places]
        judge = _judged_between if edges[0].run.manifest.is_from_between else _judged
        judged = judge(edges, [answers[place] for place in places])
        for place, answer in zip(places, judged, strict=True):
            answers[place] = answer
    return answers


def _answer(
    observed: ObservedRun,
    compared: ComparedRun,
    advised: AdvisedRun,
    details: RunDetails | None,
) -> ReplayAnswer:
    flink = flink_metrics(observed.run, observed.measured)
    messages, cpu_cost = message_counts(observed), cpu_cost_of(observed)
    return ReplayAnswer(
        trace=_described(observed.run),
        observed=observed.measured,
        model_error=advised.error,
        trade_offs=priced(advised.points, observed.measured, messages, cpu_cost),
        advice=advised.advice,
        simulated=compared.simulated,
        messages=messages,
        channels=replayed_channels(observed),
        latency_distribution=latency_distribution(observed.rows),
        regimes=regime_shares(observed.rows),
        diagnosis=tuple(_diagnosis(observed)),
        over_time=over_time(observed),
        remarks=caveats(observed, None if flink is None else flink.share),
        details=details,
        flink=flink,
        cpu_cost=cpu_cost,
    )


def _described(run: RecordedRun) -> TraceDescription:
    damaged = []
    events = 0
    for file in run.files:
        index = file_index(file)
        events += index.events
        if not index.is_whole:
            damaged.append(file.title)
    whole_from_ns, whole_to_ns = run.whole_ns or (run.from_ns, run.to_ns)
    return TraceDescription(
        path=str(run.path),
        started_at=run.manifest.started_at,
        config=run.manifest.flink_keys,
        is_max_rate=is_max_rate(run.manifest),
        events=events,
        channels=len(run.manifest.channels),
        measured_duration_ns=run.duration_ns,
        damaged_files=tuple(damaged),
        warnings=tuple(warnings_of(run)),
        edge=_edge_name(run),
        origin=run.manifest.origin,
        part=TracePart(
            run.from_ns - whole_from_ns, run.to_ns - whole_from_ns, whole_to_ns - whole_from_ns
        ),
        recordings=run.described,
        losses=run.losses,
    )


def _edge_name(run: RecordedRun) -> str | None:
    """None where there is one exchange that has no name."""
    is_named = run.manifest.is_from_between and named_edges(run.manifest)
    return ends_of(run.manifest, run.edge).name if is_named or run.edge is not None else None


def _diagnosis(observed: ObservedRun) -> list[Verdict]:
    run = observed.run
    edge = ends_of(run.manifest, run.edge).name
    if run.manifest.is_from_between:
        return []  # follows with those on the other edges of the job
    if is_blocking(run.manifest):
        return [verdict_of_blocking(edge, _written_share(observed))]
    return diagnose(channel_times(observed))


def _written_share(observed: ObservedRun) -> float | None:
    """Share of the time that had passed when the first buffer was taken."""
    first_ns = min((row.from_ns for row in observed.rows.throughput if row.buffers), default=None)
    return None if first_ns is None else min(first_ns / observed.measured.duration_ns, 1.0)


def _judged(edges: Sequence[ObservedRun], answers: Sequence[ReplayAnswer]) -> list[ReplayAnswer]:
    """The answers about the edges of one run, each with what holds the job up, and where."""
    if any(is_blocking(edge.run.manifest) for edge in edges):
        return list(answers)
    bottleneck = bottleneck_of(job_use(edges))
    ends = [ends_of(edge.run.manifest, edge.run.edge) for edge in edges]
    is_held = bottleneck.cause not in (Cause.NONE, Cause.BUFFER_TIMEOUT)
    holding = [is_held and each.name == bottleneck.edge for each in ends]
    upstream = upstream_of(ends, ends[holding.index(True)]) if is_held else [False] * len(ends)
    return [
        replace(
            answer,
            bottleneck=bottleneck,
            is_bottleneck=is_holding,
            diagnosis=tuple(
                pressed_from_behind(each, bottleneck.edge or "")
                if is_upstream and each.kind in PRESSED
                else each
                for each in answer.diagnosis
            ),
        )
        for answer, is_holding, is_upstream in zip(answers, holding, upstream, strict=True)
    ]


def _judged_between(
    edges: Sequence[ObservedRun], answers: Sequence[ReplayAnswer]
) -> list[ReplayAnswer]:
    """The same of a run that was recorded between processes."""
    judged = judge_between(edges)
    bottleneck = bottleneck_between(judged)
    return [
        replace(
            answer,
            bottleneck=bottleneck,
            is_bottleneck=edge.is_bottleneck,
            diagnosis=tuple(edge.verdicts),
        )
        for answer, edge in zip(answers, judged, strict=True)
    ]
