"""Predictions of a unit, computed in an executor: by the compiled model where it covers a window,
else message by message on the real core, and then of the first part only. A job of several
exchanges is simulated by `predict.job_run`, which has the compiled model alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import numpy as np

from flinknet.errors import ConfigError, SimulationError
from flinknet.options.what_if import Setting, columns_of
from flinknet.predict.exchange import BLOCKING_IS_NO_MODEL, is_blocking, is_max_rate
from flinknet.predict.fit.queued import contradiction
from flinknet.predict.job import RecordedJob
from flinknet.predict.job_run import BARRIERS_LEFT_OUT, leaves_barriers_out, simulate_job
from flinknet.predict.loading import load_edge, load_job
from flinknet.predict.outcome import LikelyRange, Outcome, joined
from flinknet.predict.recorded import RecordedExchange, awake_delays
from flinknet.results import TradeOffPoint
from flinknet.trace.index import Stamp, stamps_of
from flinknet.trace.recordings import Recording, open_recordings
from flinknet.units import NS_PER_MS, human_bytes, human_duration

from .edges import NOT_FROM_SOURCES, is_from_sources
from .plans import ALONE, Window, first_of, plan_of
from .predictions import (
    GROWS,
    NO_CHECKPOINT,
    NO_RUN,
    NOT_WHOLE_MS,
    POLLS,
    RANGES_OF_PHASES,
    SHORTER,
    SLEEPS,
    SLOW,
    WHOLE_JOB,
    AskedSetting,
    Prediction,
    PredictionUnit,
    point_of,
    units_of,
    without_latency,
)
from .read import RecordedRun

MAX_RATE_WINDOW_NS = 2_000_000_000
"""Length read of a run at the highest rate."""
RowsOf = Callable[[int, str | None], list[Prediction]]
"""Function that gives the rows of a candidate, by its place in the unit and the reason why it is
refused."""

SEVERAL_EXCHANGES = "records passed through several exchanges, and the model knows one at a time"
NO_RECORDS = "the trace holds no records to drive a simulation with"


def predictions_of(unit: PredictionUnit, *, ends_its_data: bool = False) -> Iterator[Prediction]:
    """The rows of a unit, those of each candidate together.

    Args:
        ends_its_data: producers of an exchange end with the part.
    """
    is_alone = unit.job == ALONE
    rows_of = _of_exchange(unit, ends_its_data=ends_its_data) if is_alone else _of_job(unit)
    for number in range(len(unit.candidates)):
        whys = (unit.part.why_refused(each) for each in unit.settings_of(number))
        why = next((each for each in whys if each is not None), None)
        try:
            yield from rows_of(number, why)
        except (SimulationError, ConfigError) as failure:
            yield from rows_of(number, str(failure))


def predict_here(
    run: RecordedRun, settings: Sequence[Setting], duration_ns: int
) -> list[Prediction]:
    """Predict some settings of an exchange in this process, without Spark.

    Args:
        duration_ns: how long records come, from the start of the measured part, until producers
            end. Costs are fitted to more of the trace, if there is more.
    """
    is_capped = is_max_rate(run.manifest)
    part = first_of(run, min(duration_ns, MAX_RATE_WINDOW_NS) if is_capped else duration_ns)
    (unit,) = units_of(plan_of(run, settings, part), shares=1)
    return list(predictions_of(unit, ends_its_data=not is_capped))


def stamps_at(place: tuple[Recording, ...]) -> tuple[Stamp, ...]:
    """When the files of a run were changed, as part of the key of cached results."""
    return stamps_of(open_recordings(place).files)


@lru_cache(maxsize=2)
def _loaded(
    load: Callable[..., Any],
    place: tuple[Recording, ...],
    windows: tuple[Window, ...],
    edges: int | tuple[int, ...] | None,
    _stamps: tuple[Stamp, ...],
) -> tuple[Any, ...]:
    """An exchange or a job in each window, loaded once in each process for all its settings."""
    return tuple(load(place, each.from_ns, each.to_ns, edges) for each in windows)


def _busiest(exchanges: Sequence[RecordedExchange]) -> RecordedExchange:
    """The window with most records, whose fit counts for all."""
    return max(exchanges, key=lambda each: each.records)


def _of_exchange(unit: PredictionUnit, *, ends_its_data: bool) -> RowsOf:
    manifest = open_recordings(unit.place).manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    place, edge = tuple(unit.place), unit.edges[0]
    loaded: tuple[RecordedExchange, ...] = _loaded(
        load_edge, place, tuple(unit.part.windows), edge, stamps_at(place)
    )
    exchanges, fit = list(loaded), _busiest(loaded)
    if ends_its_data:
        exchanges = [replace(each, ends_its_data=True) for each in exchanges]
    error = None
    if not is_from_sources(manifest, edge):
        error = NOT_FROM_SOURCES
    elif is_blocking(manifest):
        error = BLOCKING_IS_NO_MODEL
    elif edge is None and len({each.edge for each in manifest.channels}) > 1:
        error = SEVERAL_EXCHANGES
    elif not any(each.records for each in exchanges):
        error = NO_RECORDS
    why_no_latency = None if error else _contradiction(loaded, unit.part.core_ns)

    def rows(number: int, why: str | None) -> list[Prediction]:
        row, why = unpredicted(unit, number, fit), error or why
        if why is None:
            row = _simulated(row, exchanges, unit.settings[number], unit.part.core_ns)
            if why_no_latency is not None:
                row = replace(row, point=without_latency(row.point, why_no_latency))
        return [with_notes(row, unit.recorded[0], why)]

    return rows


def _simulated(
    row: Prediction, exchanges: Sequence[RecordedExchange], setting: Setting, core_ns: int
) -> Prediction:
    """The row with the outcome of the windows, and its range if something was not recorded."""
    from flinknet.predict.what_if import likely_around

    windows, fit = len(exchanges), _busiest(exchanges)
    exchanges, found = _simulated_windows(exchanges, setting, core_ns)
    simulated = joined(found)
    row = with_figures(row, simulated, fit, setting)
    if fit.unseen is not None and row.records:
        likely = likely_around(simulated, fit, setting)
        row = replace(row, point=_with_ends(row.point, likely, likely.in_words))
    if len(exchanges) > 1:
        if len(exchanges) < windows:
            row = _noted(row, f"of the first {len(exchanges)} of {windows} windows only: {SLOW}")
        simulated_ns = sum(each.duration_ns for each in exchanges)
        return replace(row, windows=len(exchanges), simulated_ns=simulated_ns)
    from_ns, to_ns = exchanges[0].measured_from_ns, exchanges[0].measured_to_ns
    return row if to_ns >= row.window_to_ns else of_the_first(row, from_ns, to_ns)


def _simulated_windows(
    exchanges: Sequence[RecordedExchange], setting: Setting, core_ns: int
) -> tuple[Sequence[RecordedExchange], list[Outcome]]:
    """The windows that are simulated, and the outcome of each: all of them if the compiled model
    covers them, else the first ones, or the first part of the first one.
    """
    from flinknet.predict import what_if

    if sum(each.duration_ns for each in exchanges) > core_ns:
        found = []
        for each in exchanges:
            outcome = what_if.simulate_compiled(each.under(setting), setting.network)
            if outcome is None:
                break
            found.append(outcome)
        else:
            return exchanges, found
        lengths_ns = np.cumsum([each.duration_ns for each in exchanges])
        count = int(np.searchsorted(lengths_ns, core_ns, side="right"))
        first = exchanges[0].up_to(exchanges[0].measured_from_ns + core_ns)
        exchanges = exchanges[:count] or [first]
    has_instants = all(each.has_instants for each in exchanges)  # else there are many simulations
    simulate = what_if.simulate if has_instants else what_if.simulate_quickly
    return exchanges, [simulate(each.under(setting), setting.network) for each in exchanges]


@lru_cache(maxsize=1)
def _contradiction(exchanges: tuple[RecordedExchange, ...], core_ns: int) -> str | None:
    """Why no latency of an exchange can be predicted, by its backlog and the prediction of the
    recorded setting; None if it can."""
    fit = _busiest(exchanges)
    if not fit.queued.is_worth_a_look:
        return None
    recorded = Setting(exchanges[0].network, exchanges[0].flow_control)
    try:
        _, found = _simulated_windows(exchanges, recorded, core_ns)
    except (SimulationError, ConfigError):
        return None
    simulated = joined(found)
    if simulated.latency_bounds is None:
        return None
    summaries = (simulated.latency, *simulated.latency_bounds)
    return contradiction(fit.queued, *(asdict(fit.delays.over(each)) for each in summaries))


def unpredicted(unit: PredictionUnit, place: int, fit: RecordedExchange) -> Prediction:
    """The row of a candidate of an exchange, without figures."""
    row = _row(unit, place, assumed=list(fit.notes))
    least_ns = (fit.queued.mean_ns or None) if row.point.is_recorded else None
    return replace(row, point=replace(row.point, mean_latency_at_least_ns=least_ns))


def _row(unit: PredictionUnit, place: int, edge: int = 0, **more: Any) -> Prediction:
    """A row without figures.

    Args:
        place: place of the candidate in the unit.
        edge: place of the edge among those of the job, or WHOLE_JOB.
        more: further fields.
    """
    settings = unit.settings_of(place)
    setting = settings[max(edge, 0)]
    return Prediction(
        run=NO_RUN if edge == WHOLE_JOB else unit.runs[edge],
        job=unit.job,
        edge=edge,
        candidate=unit.candidates[place],
        setting=AskedSetting(**columns_of(setting)),
        point=point_of(setting, is_recorded=settings == unit.recorded),
        window_to_ns=unit.part.to_ns,
        **more,
    )


def with_figures(
    row: Prediction, simulated: Outcome, exchange: RecordedExchange, setting: Setting
) -> Prediction:
    """The row with the outcome of a simulation and the delays of the machine."""
    delays = awake_delays(exchange, setting).and_waits(exchange.late_waits_ns(setting))
    seconds = simulated.duration_ns / 1e9
    notes = list(row.assumed)
    if setting.network.debloating_enabled and exchange.buffer_size_bytes is None:
        notes.append(GROWS.format(human_bytes(setting.network.starting_segment_size_bytes)))
    if simulated.checkpoints is not None and not simulated.checkpoints.triggered:
        notes.append(NO_CHECKPOINT.format(human_duration(simulated.duration_ns)))
    if exchange.starts_sleeping(setting):
        notes.append(SLEEPS)
    if exchange.stops_sleeping(setting):
        notes.append(POLLS)
    point = replace(
        row.point,
        throughput_records_per_s=simulated.throughput_records_per_s,
        latency_ns=delays.over(simulated.latency),
        backlog_buffers=simulated.backlog_buffers,
        buffers_per_s=simulated.buffers_per_s,
        credits_per_s=simulated.credits / seconds if seconds > 0 else None,
        memory_bytes=simulated.memory_bytes,
        method=simulated.method,
        notes=tuple(notes),
        checkpoints=simulated.checkpoints,
    )
    return replace(row, point=point, records=simulated.records, duration_ns=simulated.duration_ns)


def _with_ends(point: TradeOffPoint, likely: LikelyRange, *notes: str) -> TradeOffPoint:
    """The point with the ends of 90% intervals."""
    return replace(
        point,
        notes=(*point.notes, *notes),
        latency_low_ns=likely.low.latency_ns,
        latency_high_ns=likely.high.latency_ns,
        buffers_low_per_s=likely.low.buffers_per_s,
        buffers_high_per_s=likely.high.buffers_per_s,
    )


def of_the_first(row: Prediction, from_ns: int, to_ns: int) -> Prediction:
    """A row of the first part of a run only."""
    row = _noted(row, f"of the first {(to_ns - from_ns) / 1e9:.3g} s only: {SLOW}")
    return replace(row, window_to_ns=to_ns)


def _noted(row: Prediction, note: str) -> Prediction:
    return replace(row, point=replace(row.point, notes=(note, *row.point.notes)))


def with_notes(
    row: Prediction, recorded: Setting, why: str | None, *, is_timed: bool | None = None
) -> Prediction:
    """The row with the notes about its timeout, and why nothing is predicted."""
    point = row.point
    notes = list(point.notes if row.records is not None else row.assumed)
    timeout_ns = row.setting.buffer_timeout_ns
    recorded_ns = recorded.network.buffer_timeout_ns
    is_longer = recorded_ns < 0 or recorded_ns > timeout_ns
    if is_timed is None:
        is_timed = point.latency_low_ns is None and point.why_no_latency is None
    if timeout_ns >= 0 and is_longer and is_timed:
        notes.append(SHORTER)
    if timeout_ns > 0 and timeout_ns % NS_PER_MS and not point.is_recorded:
        notes.append(NOT_WHOLE_MS)
    if why is not None:
        notes.append(f"not predicted: {why}")
    return replace(row, point=replace(point, notes=tuple(notes)), why_unknown=why)


def _of_job(unit: PredictionUnit) -> RowsOf:
    """Rows of each candidate: the job, and its edges."""
    place = tuple(unit.place)
    edges = tuple(each or 0 for each in unit.edges)
    jobs: tuple[RecordedJob, ...] = _loaded(
        load_job, place, tuple(unit.part.windows), edges, stamps_at(place)
    )
    notes = list(dict.fromkeys(note for job in jobs for note in job.notes))
    simulated_ns = unit.part.simulated_ns if len(jobs) > 1 else None

    def rows(number: int, why: str | None) -> list[Prediction]:
        settings = unit.settings_of(number)
        more = {"windows": len(jobs), "simulated_ns": simulated_ns, "why_unknown": why}
        whole, *of_edges = (
            _row(unit, number, edge, **more) for edge in range(WHOLE_JOB, len(edges))
        )
        if why is not None:
            return [whole, *of_edges]
        outcome = joined([simulate_job(job, settings) for job in jobs])
        is_without = any(map(leaves_barriers_out, settings))
        assumed = [*notes, BARRIERS_LEFT_OUT] if is_without else notes
        found = [replace(_with_outcome(whole, outcome), assumed=assumed)]
        for place, (row, own) in enumerate(zip(of_edges, outcome.edges, strict=True)):
            row = _with_outcome(row, own)
            is_timed = all(job.edges[place].exchange.has_instants for job in jobs)
            found.append(with_notes(row, unit.recorded[place], row.why_unknown, is_timed=is_timed))
        return found

    return rows


def _with_outcome(row: Prediction, outcome: Outcome) -> Prediction:
    """The row of a job, or of an edge of one, with its outcome."""
    point = replace(
        row.point,
        throughput_records_per_s=outcome.throughput_records_per_s,
        buffers_per_s=outcome.buffers_per_s,
        memory_bytes=outcome.memory_bytes,
    )
    if outcome.why_unknown is not None:
        return replace(row, point=point, why_unknown=outcome.why_unknown)
    point = replace(point, latency_ns=outcome.latency.summary(), method=outcome.method)
    is_edge, likely = not outcome.edges, outcome.likely
    if likely is not None:
        point = _with_ends(point, likely, *([RANGES_OF_PHASES] if is_edge else []))
    since_source_ns = outcome.since_source.summary() if is_edge else None
    return replace(row, point=point, records=outcome.records, since_source_ns=since_source_ns)
