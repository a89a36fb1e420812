"""Answers about runs: observations, predictions, advice and prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinknet.options import effective_flink_keys
from flinknet.predict.exchange import (
    has_own_timeout,
    is_max_rate,
    recorded_network,
    recorded_setting,
)
from flinknet.predict.grid import Grid
from flinknet.results import (
    Advice,
    Choice,
    ModelError,
    ReplayAnswer,
    RunDetails,
    TraceDescription,
    TraceLoss,
    TracePart,
    TradeOffPoint,
)
from flinknet.trace import file_index
from flinknet.trace.recordings import RunPlace

from .advise.advice import advice, withheld
from .advise.caveats import caveats, warnings_of
from .advise.judged import judged
from .advise.targets import Target
from .compared import ComparedRun, model_error
from .observe.checkpoints import since_trigger
from .observe.flink_metrics import flink_metrics
from .observe.measured import (
    latency_distribution,
    message_counts,
    over_time,
    regime_shares,
    replayed_channels,
    uncounted_loss,
)
from .observe.observed_run import ObservedRun
from .predicted import Predictions
from .predictions import ALONE
from .price import cpu_cost_of, priced, recorded_share
from .read import RecordedRun


@dataclass(frozen=True, slots=True)
class AdvisedRun:
    """The predictions of a run with ascending settings, their error, and advice.

    Attributes:
        recorded_share: share of the records of the predictions that were recorded; the others
            passed on local channels.
    """

    points: tuple[TradeOffPoint, ...]
    error: ModelError
    advice: Advice
    recorded_share: float = 1.0

    @property
    def choices(self) -> list[Choice]:
        """The setting chosen for the targets in each situation where settings differ."""
        situations = [each for each in self.advice.situations if not each.is_alike]
        return [each.choice for each in situations if each.choice is not None]


def advise(
    run: RecordedRun,
    compared: ComparedRun,
    predictions: Predictions,
    grid: Grid,
    targets: Sequence[Target],
) -> AdvisedRun:
    """Advice on a run, among the settings that the grid asks for."""
    settings, rows = zip(*predictions.of_run(run), strict=True)
    points = tuple(row.point for row in rows)
    asked = grid.asked(recorded_setting(run.manifest), is_max_rate=is_max_rate(run.manifest))
    recorded = next(row for row in rows if row.point.is_recorded)
    measured = compared.measured
    share = 1.0 if recorded.job == ALONE else recorded_share(run, measured)
    if measured.throughput_records_per_s is not None:
        records_per_s = measured.throughput_records_per_s / share
        measured = replace(measured, throughput_records_per_s=records_per_s)
    error = model_error(recorded.point, measured, is_from_between=run.manifest.is_from_between)
    found = advice(
        points,
        targets,
        error,
        asked=[place for place, each in enumerate(settings) if each in asked],
        why_not=withheld(error, points),
    )
    return AdvisedRun(points, error, found, share)


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
        edges = judged([observed[place] for place in places])
        for place, edge in zip(places, edges, strict=True):
            answers[place] = replace(
                answers[place],
                bottleneck=edge.bottleneck,
                is_bottleneck=edge.is_bottleneck,
                diagnosis=edge.diagnosis,
            )
    return answers


def _answer(
    observed: ObservedRun,
    compared: ComparedRun,
    advised: AdvisedRun,
    details: RunDetails | None,
) -> ReplayAnswer:
    flink = flink_metrics(observed.run, observed.measured)
    messages, cpu_cost = message_counts(observed), cpu_cost_of(observed)
    points = advised.points
    if observed.run.manifest.is_from_between:
        points = since_trigger(points, observed.measured.checkpoints)
    return ReplayAnswer(
        trace=_described(observed.run, uncounted_loss(observed)),
        observed=observed.measured,
        model_error=advised.error,
        trade_offs=priced(points, observed.measured, messages, cpu_cost, advised.recorded_share),
        advice=advised.advice,
        simulated=compared.simulated,
        messages=messages,
        channels=replayed_channels(observed),
        latency_distribution=latency_distribution(observed.rows),
        regimes=regime_shares(observed.rows),
        diagnosis=(),  # follows with those on the other edges of the job
        over_time=over_time(observed),
        remarks=caveats(observed, None if flink is None else flink.share),
        details=details,
        flink=flink,
        cpu_cost=cpu_cost,
        channels_left_out=observed.rows.channels_omitted,
    )


def _described(run: RecordedRun, losses: tuple[TraceLoss, ...]) -> TraceDescription:
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
        config=effective_flink_keys(recorded_network(run.manifest))
        if has_own_timeout(run.manifest)
        else run.manifest.flink_keys,
        is_max_rate=is_max_rate(run.manifest),
        events=events,
        channels=len(run.manifest.channels),
        measured_duration_ns=run.duration_ns,
        damaged_files=tuple(damaged),
        warnings=tuple(warnings_of(run)),
        edge_number=run.ends.number,
        edge=run.edge_name,
        origin=run.manifest.origin,
        part=TracePart(
            run.from_ns - whole_from_ns, run.to_ns - whole_from_ns, whole_to_ns - whole_from_ns
        ),
        recordings=run.described,
        losses=(*run.losses, *losses),
    )
